"""What does a micro-batch of one row cost, beside the least that Spark takes for any micro-batch?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from bench import data
from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.figures.spark_chain import faults
from bench.stream_data import write_stream

NAME = "spark-one-row"
KEYS, BATCHES = 100_000, 100
WARMING = 21
"""The first micro-batch brings all keys; the next twenty warm up."""
OURS = "evercurrent, two stages with retractions"
COLLECT = "foreachBatch that only collects"
COST = Target("evercurrent / only collecting, median of one row", "times", "at most", 1.15)


def measure(settings: Settings) -> Figure:
    batches = 20 if settings.quick else BATCHES
    stream = write_stream(settings.workspace / NAME, _frames(WARMING + batches), KEYS)
    where = (str(stream.folder), str(WARMING))
    programs = [
        Program(OURS, "bench.programs.spark_chain", where),
        Program(COLLECT, "bench.peers.spark_collect", where),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong = [sentence for label, several in outcomes.items() for sentence in faults(label, several, stream)]
    lines = tuple(_line(label, several, outcomes[COLLECT]) for label, several in outcomes.items())
    other = f"the target is about {BATCHES} micro-batches" if settings.quick else ""
    verdicts = (judge(COST, ratio(outcomes[OURS], outcomes[COLLECT], "median_ms"), other),)
    sizes = {"keys": KEYS, "batches": batches, "rows_per_batch": 1}
    title = "one row per micro-batch through the chain"
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)


def _frames(ones: int) -> Iterator[pl.DataFrame]:
    yield from data.keys_in_turn(KEYS, KEYS)
    generator = np.random.default_rng(32)
    for _ in range(ones - 1):
        yield data.random_rows(generator, 1, KEYS)


def _line(label: str, several: list[Outcome], least: list[Outcome]) -> Line:
    if reason := failure(several):
        return Line(label, "ms", None, note=f"failed: {reason}")
    slowest = spread(several, "greatest_ms")
    note = f"slowest {slowest.median:.0f} ms" if slowest else ""
    ratios = {"/ only collecting": ratio(several, least, "median_ms")}
    return Line(f"{label}, median batch", "ms", spread(several, "median_ms"), ratios, note)
