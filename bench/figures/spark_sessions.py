"""How fast are sessions with retractions in Spark's micro-batches, beside sessions written by hand on Spark's state?"""

from __future__ import annotations

import polars as pl

from bench import event_data
from bench.child import Program, interleave
from bench.event_data import DISORDER, GAP
from bench.figure import Figure, Settings, Target, judge, ratio
from bench.figures.spark_chain import faults, line_of
from bench.stream_data import StreamInput, write_files

NAME = "spark-sessions"
ROWS, KEYS, BATCHES = 100_000, 20_000, 10
WARMING = 4
"""Spark's Java compiles in these what it runs often: ours take three quarters of the time then, those by hand nearly the same."""
OURS = "evercurrent, then the histogram of their pages"
APPLY, TRANSFORM = "by hand, applyInPandasWithState", "by hand, transformWithStateInPandas"
OVER_APPLY = Target("rows/s, evercurrent / applyInPandasWithState", "times", "at least", 20)
OVER_TRANSFORM = Target("rows/s, evercurrent / transformWithStateInPandas", "times", "at least", 20)


def measure(settings: Settings) -> Figure:
    rows, keys = (4_000, 800) if settings.quick else (ROWS, KEYS)
    settings.report(f"{NAME}: writing {rows * BATCHES:,} rows")
    hits = event_data.write_sessions(settings.workspace / f"{NAME}-csv", rows * BATCHES, keys, BATCHES)
    folder = settings.workspace / NAME
    frames = (pl.read_csv(file, schema=event_data.HITS) for file in sorted(hits.folder.glob("*.csv")))
    files = write_files(folder, frames)
    stream = StreamInput(folder, files, rows * BATCHES, hits.truth[-1])
    where = (str(folder), str(WARMING), str(GAP))
    programs = [
        Program(OURS, "bench.programs.spark_sessions", where),
        Program(APPLY, "bench.peers.spark_sessions", ("apply", *where)),
        Program(TRANSFORM, "bench.peers.spark_sessions", ("transform", *where)),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong = [sentence for label, several in outcomes.items() for sentence in faults(label, several, stream)]
    lines = tuple(line_of(label, several, outcomes[OURS], rows) for label, several in outcomes.items())
    other = f"the target is about micro-batches of {ROWS:,} rows" if settings.quick else ""
    verdicts = (
        judge(OVER_APPLY, ratio(outcomes[APPLY], outcomes[OURS], "median_ms"), other),
        judge(OVER_TRANSFORM, ratio(outcomes[TRANSFORM], outcomes[OURS], "median_ms"), other),
    )
    sizes = {
        "keys": keys, "batches": BATCHES, "rows_per_batch": rows, "of_them_warming": WARMING,
        "gap_seconds": GAP, "sessions": hits.sessions,
    }  # fmt: skip
    title = f"sessions of hits up to {DISORDER} s out of order, with retractions, in Spark's micro-batches on two cores"
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)
