"""The cost of a small epoch over a large state: the chain, loaded with many keys, then pushed a little each.

Loaded first, in epochs of 500,000 rows: every key once, in scattered order. Then 20 epochs that are not
counted, then the measured ones, keys uniform over all. Measured: each call of `push`, alone. Not measured:
making the frames, loading (reported beside), reading the view. Merges of runs fall into the mean and mostly
not into the median: both are reported. With `--checkpoint` the engine has one, in the folder for temporary files, and every epoch
is on disk when `push` returns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import evercurrent as ec
from bench.data import SCHEMA, keys_in_turn, random_rows
from bench.reply import send

LOADING = 500_000
WARMING = 20


def main(keys: int, epochs: int, rows: int, folder: Path | None) -> None:
    engine = ec.Engine(checkpoint=None if folder is None else ec.Checkpoint(folder / "checkpoint"))
    source = engine.source("rows", SCHEMA)
    by_key = source.group_by("key").agg(n=pl.len(), total=pl.col("value").sum())
    histogram = engine.view("histogram", by_key.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum()))

    loading = time.perf_counter()
    for frame in keys_in_turn(keys, LOADING):
        engine.push("rows", frame)
    loading = time.perf_counter() - loading

    generator = np.random.default_rng(7)
    durations: list[float] = []
    for number in range(WARMING + epochs):
        frame = random_rows(generator, rows, keys)
        started = time.perf_counter()
        engine.push("rows", frame)
        if number >= WARMING:
            durations.append(time.perf_counter() - started)

    counted = histogram.read().select(pl.col("n").cast(pl.Int64).dot(pl.col("keys").cast(pl.Int64))).item()
    expected = keys + (WARMING + epochs) * rows
    if counted != expected:
        raise SystemExit(f"the histogram counts {counted} rows; {expected} were pushed")
    engine.close()
    median, greatest = statistics.median(durations), max(durations)
    send(
        median_ms=median * 1e3,
        mean_ms=statistics.fmean(durations) * 1e3,
        greatest_ms=greatest * 1e3,
        greatest_times_median=greatest / median,
        loading_seconds=loading,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--checkpoint", action="store_true", help="with a checkpoint")
    options = parser.parse_args()
    if options.checkpoint:
        with tempfile.TemporaryDirectory() as temporary:
            main(options.keys, options.epochs, options.rows, Path(temporary))
    else:
        main(options.keys, options.epochs, options.rows, None)
