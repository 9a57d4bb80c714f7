"""A program that takes an epoch of many rows through buckets, as a worker and a driver do, and prints what that took.

    python -m spark.large_epoch ROWS [PART_BYTES]

Prints the bytes of the rows, and by how many bytes the memory of the process has grown at most. Rows come in chunks.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import polars as pl

import evercurrent as ec
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, versions
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import Instant, TaskResult
from evercurrent.views.store import store_at
from spark.test_soak import resident
from spark.twins import Elsewhere

CHUNK = 50_000
PART_BYTES = 1 << 20
BUCKETS = 2


def declare(engine: ec.Engine) -> None:
    """Rows that cannot be combined: a join, and the greatest value of each key."""
    rows = engine.source("rows", {"key": pl.Int64, "x": pl.Int64, "y": pl.Int64})
    names = engine.source("names", {"key": pl.Int64, "name": pl.String})
    engine.view("named", rows.join(names, on="key"))
    engine.view("highest", rows.group_by("key").agg(x=pl.col("x").max()))


def chunk_of(number: int) -> pl.DataFrame:
    """The rows of a chunk, with their diffs."""
    draw = np.random.default_rng(number)
    keys = draw.integers(0, 1 << 40, CHUNK)
    return pl.DataFrame({"key": keys, "x": keys % 97, "y": keys % 13, "_diff": np.ones(CHUNK, np.int64)})


class Peak(threading.Thread):
    """The most memory of this process that is its own, seen every few milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.most = resident(0)
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.005):
            self.most = max(self.most, resident(0))


def main(rows: int, part_bytes: int) -> tuple[int, int]:
    """The bytes of the rows, and the growth."""
    engine = ec.Engine()
    declare(engine)
    plan = engine.declared
    with tempfile.TemporaryDirectory() as folder:
        pieces = Pieces.of(store_at(Path(folder)))
        runner = StageRunner(plan, pieces, BUCKETS, inline_rows=0)
        runner.parts.most_bytes = part_bytes
        epochs = Epochs(
            plan, CommitLog(pieces.store), pieces, buckets=BUCKETS, driver_rows=-1, inline_rows=0,
            writer=new_writer(), versions=versions(), executors=Elsewhere(runner, attempts=1),
        )  # fmt: skip
        size = 0

        def arrive(instant: Instant) -> list[TaskResult]:
            nonlocal size
            results = []
            for number in range(rows // CHUNK):
                chunk = chunk_of(number)
                size += int(chunk.estimated_size())
                results.append(runner.arrive(instant, number, {"rows": chunk}))
            return results

        peak = Peak()
        peak.start()
        epochs.step(arrive, 1, {}, {})
        peak.ended.set()
        peak.join()
    return size, peak.most - peak.first


if __name__ == "__main__":
    print(*main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PART_BYTES))
