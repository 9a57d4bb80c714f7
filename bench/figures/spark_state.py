"""Does the cost of a micro-batch follow what it touches, or the size of the state?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from bench import data
from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.figures.spark_chain import faults
from bench.stream_data import write_stream

NAME = "spark-state"
SMALL, LARGE = 100_000, 20_000_000
ROWS, BATCHES = 10_000, 60
LOADING = 1_000_000
WARMING = 10
MEDIANS = Target("large / small state, median batch", "times", "at most", 1.2)


def measure(settings: Settings) -> Figure:
    large = 1_000_000 if settings.quick else LARGE
    batches = 20 if settings.quick else BATCHES
    streams = {}
    programs = []
    for keys in (SMALL, large):
        settings.report(f"{NAME}: writing {keys:,} keys")
        label = f"{keys:,} keys"
        streams[label] = write_stream(settings.workspace / NAME / str(keys), _frames(keys, batches), keys)
        warming = streams[label].files - batches
        programs.append(
            Program(label, "bench.programs.spark_chain", (str(streams[label].folder), str(warming)))
        )
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    few, many = outcomes.values()
    lines: list[Line] = []
    wrong: list[str] = []
    for label, several in outcomes.items():
        wrong += faults(label, several, streams[label])
        if reason := failure(several):
            lines.append(Line(label, "ms", None, note=f"failed: {reason}"))
            continue
        slowest = spread(several, "greatest_ms")
        note = f"slowest {slowest.median:.0f} ms" if slowest else ""
        for field, word in (("median_ms", "median"), ("mean_ms", "mean")):
            ratios = {"/ small state": ratio(several, few, field)}
            lines.append(Line(f"{label}, {word} batch", "ms", spread(several, field), ratios, note))
    other = f"the target is about {LARGE:,} keys" if settings.quick else ""
    verdicts = (judge(MEDIANS, ratio(many, few, "median_ms"), other),)
    sizes = {"small": SMALL, "large": large, "batches": batches, "rows_per_batch": ROWS}
    title = "small micro-batches through the chain, over states of two sizes"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)


def _frames(keys: int, batches: int) -> Iterator[pl.DataFrame]:
    yield from data.keys_in_turn(keys, LOADING)
    generator = np.random.default_rng(33)
    for _ in range(WARMING + batches):
        yield data.random_rows(generator, ROWS, keys)
