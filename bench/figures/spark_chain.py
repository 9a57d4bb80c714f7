"""How fast is the two-stage retracting chain in Spark's micro-batches, beside Spark's own aggregation?

Ours keeps count and sum by key and the histogram of the counts, with retractions; Spark's own does the first of the two
and retracts nothing. Both get the same files in the same session. RocksDB is what Spark recommends for state and is
judged; the provider that keeps all state on the heap is shown.
"""

from __future__ import annotations

import numpy as np

from bench import data
from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.stream_data import StreamInput, write_stream

NAME = "spark-chain"
KEYS, ROWS, BATCHES = 100_000, 200_000, 20
WARMING = 5
OURS = "evercurrent, two stages with retractions"
ROCKSDB = "Spark groupBy().agg(), one stage, RocksDB"
HDFS = "Spark groupBy().agg(), one stage, HDFS-backed"
SPEED = Target("rows/s, evercurrent / Spark with RocksDB", "times", "at least", 3.0)


def measure(settings: Settings) -> Figure:
    rows, batches, warming = (20_000, 6, 2) if settings.quick else (ROWS, BATCHES, WARMING)
    settings.report(f"{NAME}: writing {rows * batches:,} rows")
    generator = np.random.default_rng(31)
    frames = (data.random_rows(generator, rows, KEYS) for _ in range(batches))
    stream = write_stream(settings.workspace / NAME, frames, KEYS)
    where = (str(stream.folder), str(warming))
    programs = [
        Program(OURS, "bench.programs.spark_chain", where),
        Program(ROCKSDB, "bench.peers.spark_native", ("rocksdb", *where)),
        Program(HDFS, "bench.peers.spark_native", ("hdfs", *where)),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong = [sentence for label, several in outcomes.items() for sentence in faults(label, several, stream)]
    lines = tuple(line_of(label, several, outcomes[OURS], rows) for label, several in outcomes.items())
    other = f"the target is about micro-batches of {ROWS:,} rows" if settings.quick else ""
    verdicts = (judge(SPEED, ratio(outcomes[ROCKSDB], outcomes[OURS], "median_ms"), other),)
    sizes = {"keys": KEYS, "batches": batches, "rows_per_batch": rows, "of_them_warming": warming}
    title = "count and sum by key, then the histogram of the counts, in Spark's micro-batches on two cores"
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)


def faults(label: str, several: list[Outcome], stream: StreamInput) -> list[str]:
    """What a contender got wrong, compared with the truth that numpy counted while the files were written."""
    sentences = [f"{label}: {reason}"] if (reason := failure(several)) else []
    for number, outcome in enumerate(several):
        if outcome.failure:
            continue
        if outcome.reply.get("histogram", stream.truth) != stream.truth:
            sentences.append(f"{label}, run {number + 1}: the histogram is wrong")
        if outcome.reply.get("rows", stream.rows) != stream.rows:
            sentences.append(f"{label}, run {number + 1}: {outcome.reply['rows']:,} rows of {stream.rows:,}")
        if outcome.reply["batches"] != stream.files:
            sentences.append(
                f"{label}, run {number + 1}: {outcome.reply['batches']} batches of {stream.files} files"
            )
    return sentences


def line_of(label: str, several: list[Outcome], ours: list[Outcome], rows: int) -> Line:
    """The median micro-batch of a contender, with its rows per second."""
    if reason := failure(several):
        return Line(label, "ms", None, note=f"failed: {reason}")
    middle, all_of_it = spread(several, "median_ms"), spread(several, "seconds")
    note = ""
    if middle and all_of_it:
        note = f"{rows / middle.median * 1e3:,.0f} rows/s; the whole query {all_of_it.median:.1f} s"
    return Line(
        f"{label}, median batch", "ms", middle, {"/ evercurrent": ratio(several, ours, "median_ms")}, note
    )
