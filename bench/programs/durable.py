"""What durability costs: epochs of 10,000 rows through the chain, in memory or with a checkpoint.

Loaded first: every key once, in one epoch. Then 20 epochs that are not counted, then the measured ones, keys uniform over all.
Measured: each call of `push`, alone; with a checkpoint at every epoch it returns when its input, or a commit, is on disk. Not measured: making the
frames, loading, reading. At the end the view is compared with one polars evaluation over all rows, and, with a
checkpoint, so is that of another engine that starts from it. The checkpoint is left for whoever has made the folder: some
file systems are slow to make files where many were deleted a moment ago, as they would be for the next program.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.data import SCHEMA, keys_in_turn, random_rows
from bench.reply import send

WARMING = 20
BY_KEY = {"n": pl.len(), "total": pl.col("value").sum()}
BY_COUNT = {"keys": pl.len(), "total": pl.col("total").sum()}


def declared(**settings: Any) -> tuple[ec.Engine, ec.View]:
    """An engine with the chain, and its last view."""
    engine = ec.Engine(**settings)
    by_key = engine.source("rows", SCHEMA).group_by("key").agg(**BY_KEY)
    return engine, engine.view("histogram", by_key.group_by("n").agg(**BY_COUNT))


def sync_milliseconds(folder: Path) -> float:
    """What it costs here to write a block and have it on disk: the median of twenty. The ground under every epoch."""
    durations = []
    for number in range(20):
        started = time.perf_counter()
        with (folder / f"sync-{number}").open("wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        durations.append(time.perf_counter() - started)
    return statistics.median(durations) * 1e3


def main(folder: Path, keys: int, epochs: int, rows: int, every: int | None) -> None:
    generator = np.random.default_rng(7)
    frames = list(keys_in_turn(keys, keys))
    frames += [random_rows(generator, rows, keys) for _ in range(WARMING + epochs)]
    place = Path(tempfile.mkdtemp(dir=folder))
    syncing = sync_milliseconds(place)
    checkpoint = ec.Checkpoint(place / "checkpoint", every=every) if every else None
    engine, histogram = declared(checkpoint=checkpoint)
    durations: list[float] = []
    for frame in frames:
        started = time.perf_counter()
        engine.push("rows", frame)
        durations.append(time.perf_counter() - started)
    truth = pl.concat(frames).group_by("key").agg(**BY_KEY).group_by("n").agg(**BY_COUNT)
    check(histogram, truth)
    engine.close()
    if checkpoint:
        again, histogram = declared(checkpoint=checkpoint)
        check(histogram, truth)
        again.close()
    written = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    measured = durations[1 + WARMING :]
    send(
        median_ms=statistics.median(measured) * 1e3,
        mean_ms=statistics.fmean(measured) * 1e3,
        greatest_ms=max(measured) * 1e3,
        sync_ms=syncing,
        bytes=written,
    )


def check(histogram: ec.View, truth: pl.DataFrame) -> None:
    """The view is what one evaluation over all rows gives."""
    assert_frame_equal(
        histogram.read(), truth, check_row_order=False, check_column_order=False, check_dtypes=False
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--every", type=int, help="Checkpoint(every=N); without it there is none.")
    options = parser.parse_args()
    main(options.folder, options.keys, options.epochs, options.rows, options.every)
