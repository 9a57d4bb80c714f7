"""How much faster are two executors of one core than one, for micro-batches that run in workers?

Micro-batches come in four partitions, as from a topic of Kafka; and, beside it, in one, whose rows one executor reads alone. The
driver has a core of its own only where there are three; on two it shares them, which the ratio pays for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench import data
from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Target, judge, ratio
from bench.figures.spark_chain import faults, line_of
from bench.stream_data import write_stream

NAME = "spark-executors"
KEYS, ROWS, BATCHES = 100_000, 200_000, 20
WARMING = 8
"""The Java of two executors takes twice as many micro-batches to compile what it runs often."""
ONE, TWO = "one executor of one core", "two executors of one core"
SPEED = Target("rows/s in four partitions, two executors / one", "times", "at least", 1.6)


def measure(settings: Settings) -> Figure:
    rows, batches, warming = (20_000, 4, 1) if settings.quick else (ROWS, BATCHES, WARMING)
    outcomes: dict[str, list[Outcome]] = {}
    lines: list[Line] = []
    wrong: list[str] = []
    for files in (4, 1):
        settings.report(f"{NAME}: writing {rows * batches:,} rows, {files} files a micro-batch")
        generator = np.random.default_rng(34)
        frames = (data.random_rows(generator, rows // files, KEYS) for _ in range(batches * files))
        stream = write_stream(settings.workspace / f"{NAME}-{files}", frames, KEYS)
        where = (str(stream.folder), str(warming), "--files", str(files), "--executors")
        one, two = (f"{files} partition{'s' * (files > 1)}, {label}" for label in (ONE, TWO))
        programs = [
            Program(one, "bench.programs.spark_chain", (*where, "1")),
            Program(two, "bench.programs.spark_chain", (*where, "2")),
        ]
        both = interleave(programs, settings.runs, settings.timeout, settings.report)
        expected = replace(stream, files=batches)
        wrong += [
            sentence for label, several in both.items() for sentence in faults(label, several, expected)
        ]
        lines += [line_of(label, several, both[two], rows) for label, several in both.items()]
        outcomes |= both
    one, two = list(outcomes)[:2]
    other = f"the target is about micro-batches of {ROWS:,} rows" if settings.quick else ""
    verdicts = (judge(SPEED, ratio(outcomes[one], outcomes[two], "median_ms"), other),)
    sizes = {"keys": KEYS, "batches": batches, "rows_per_batch": rows, "of_them_warming": warming}
    title = "the chain in executors, none of its stages in the driver, local-cluster"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)
