"""How much faster are two executors of one core than one, for micro-batches that run in workers?

The driver has a core of its own only where there are three; on two it shares them, which the ratio pays for.
"""

from __future__ import annotations

import numpy as np

from bench import data
from bench.child import Program, interleave
from bench.figure import Figure, Settings, Target, judge, ratio
from bench.figures.spark_chain import faults, line_of
from bench.stream_data import write_stream

NAME = "spark-executors"
KEYS, ROWS, BATCHES = 100_000, 200_000, 12
WARMING = 4
ONE, TWO = "one executor of one core", "two executors of one core"
SPEED = Target("rows/s, two executors / one", "times", "at least", 1.6)


def measure(settings: Settings) -> Figure:
    rows, batches, warming = (20_000, 4, 1) if settings.quick else (ROWS, BATCHES, WARMING)
    settings.report(f"{NAME}: writing {rows * batches:,} rows")
    generator = np.random.default_rng(34)
    frames = (data.random_rows(generator, rows, KEYS) for _ in range(batches))
    stream = write_stream(settings.workspace / NAME, frames, KEYS)
    where = (str(stream.folder), str(warming), "--files", "1", "--executors")
    programs = [
        Program(ONE, "bench.programs.spark_chain", (*where, "1")),
        Program(TWO, "bench.programs.spark_chain", (*where, "2")),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong = [sentence for label, several in outcomes.items() for sentence in faults(label, several, stream)]
    lines = tuple(line_of(label, several, outcomes[TWO], rows) for label, several in outcomes.items())
    other = f"the target is about micro-batches of {ROWS:,} rows" if settings.quick else ""
    verdicts = (judge(SPEED, ratio(outcomes[ONE], outcomes[TWO], "median_ms"), other),)
    sizes = {"keys": KEYS, "batches": batches, "rows_per_batch": rows, "of_them_warming": warming}
    title = "the chain in executors, none of its stages in the driver, local-cluster"
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)
