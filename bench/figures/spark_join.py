"""How fast is a join of two streams in Spark's micro-batches, beside Spark's own, which takes nothing back?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from bench import data
from bench.child import Program, interleave
from bench.figure import Figure, Settings, Target, judge, ratio
from bench.figures.spark_chain import faults, line_of
from bench.stream_data import StreamInput, write_files

NAME = "spark-join"
KEYS, ROWS, BATCHES = 1_000_000, 100_000, 10
WARMING = 3
OURS, ROCKSDB = "evercurrent", "Spark's join of two streams, RocksDB"
SPEED = Target("rows/s, evercurrent / Spark with RocksDB", "times", "at least", 1.0)


def measure(settings: Settings) -> Figure:
    rows, batches, warming = (5_000, 4, 1) if settings.quick else (ROWS, BATCHES, WARMING)
    settings.report(f"{NAME}: writing {2 * rows * batches:,} rows")
    sides: dict[str, list[pl.DataFrame]] = {}
    for seed, side in enumerate(("left", "right")):
        sides[side] = list(_frames(seed, rows, batches))
        write_files(settings.workspace / NAME / side, sides[side])
    stream = StreamInput(settings.workspace / NAME, batches, 2 * rows * batches, [_truth(sides)])
    where = (str(stream.folder), str(warming))
    programs = [
        Program(OURS, "bench.programs.spark_join", where),
        Program(ROCKSDB, "bench.peers.spark_join", where),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong = [sentence for label, several in outcomes.items() for sentence in faults(label, several, stream)]
    lines = tuple(line_of(label, several, outcomes[OURS], 2 * rows) for label, several in outcomes.items())
    other = f"the target is about micro-batches of {ROWS:,} rows a side" if settings.quick else ""
    verdicts = (judge(SPEED, ratio(outcomes[ROCKSDB], outcomes[OURS], "median_ms"), other),)
    sizes = {"keys": KEYS, "batches": batches, "rows_per_batch_and_side": rows, "of_them_warming": warming}
    title = "an inner join of two streams by key, all rows kept, in Spark's micro-batches on two cores"
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)


def _frames(seed: int, rows: int, batches: int) -> Iterator[pl.DataFrame]:
    generator = np.random.default_rng(60 + seed)
    for _ in range(batches):
        yield data.random_rows(generator, rows, KEYS)


def _truth(sides: dict[str, list[pl.DataFrame]]) -> list[int]:
    """The number of pairs, and the sum of the products of their values, counted by key with numpy."""
    counts, sums = [], []
    for frames in sides.values():
        rows = pl.concat(frames)
        key = rows["key"].to_numpy()
        counts.append(np.bincount(key, minlength=KEYS))
        sums.append(np.bincount(key, weights=rows["value"].to_numpy(), minlength=KEYS).astype(np.int64))
    return [int((counts[0] * counts[1]).sum()), int((sums[0] * sums[1]).sum()), 0]
