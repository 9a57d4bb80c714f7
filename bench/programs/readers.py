"""The cost of an epoch while others read: the chain over 100,000 keys, and threads that take snapshots without pause.

Loaded first: every key once. Then 20 epochs that are not counted, then the measured ones, keys uniform over all.
Measured: each call of `push`, alone. The threads read one view, the histogram (small) or the counts by key (a row for
each key), and end when the last epoch is done; how many snapshots they took, and of how many epochs, is reported too. One
snapshot of before the last epochs, and the deltas since, are added up and compared with the view at the end.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

import numpy as np
import polars as pl

import evercurrent as ec
from bench.data import SCHEMA, keys_in_turn, random_rows
from bench.reply import send

WARMING, CHECKED = 20, 10


def main(view: str, readers: int, keys: int, epochs: int, rows: int) -> None:
    engine = ec.Engine()
    by_key = engine.source("rows", SCHEMA).group_by("key").agg(n=pl.len(), total=pl.col("value").sum())
    chosen = (
        by_key if view == "keys" else by_key.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum())
    )
    read = engine.view(view, chosen)
    for frame in keys_in_turn(keys, keys):
        engine.push("rows", frame)

    is_over = threading.Event()
    snapshot_counts, seen = [0] * readers, [0] * readers

    def follow(number: int) -> None:
        last = -1
        while not is_over.is_set():
            snapshot = read.snapshot()
            snapshot_counts[number] += 1
            seen[number] += snapshot.epoch != last
            last = snapshot.epoch

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    generator = np.random.default_rng(7)
    frames = [random_rows(generator, rows, keys) for _ in range(WARMING + epochs)]
    times: list[float] = []
    for number, frame in enumerate(frames):
        if number == len(frames) - CHECKED:
            snapshot = read.snapshot()
        started = time.perf_counter()
        engine.push("rows", frame)
        if number >= WARMING:
            times.append(time.perf_counter() - started)
    is_over.set()
    for thread in threads:
        thread.join()

    _check(read, snapshot)
    send(
        median_ms=statistics.median(times) * 1e3,
        mean_ms=statistics.fmean(times) * 1e3,
        snapshots=sum(snapshot_counts),
        epochs_seen=sum(seen) / max(1, readers) / len(frames),
    )


def _check(view: ec.View, snapshot: ec.Snapshot) -> None:
    changes = [delta.drop("_epoch") for delta in view.deltas(since=snapshot.epoch)]
    rows = pl.concat([snapshot.frame.with_columns(pl.lit(1, pl.Int64).alias("_diff")), *changes])
    summed = rows.group_by(snapshot.frame.columns).agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
    by = snapshot.frame.columns
    if not summed.drop("_diff").sort(by).equals(view.read().sort(by)):
        raise SystemExit(f"the snapshot of epoch {snapshot.epoch} and the deltas since are not the view")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", choices=("histogram", "keys"), required=True)
    parser.add_argument("--readers", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    options = parser.parse_args()
    main(options.view, options.readers, options.keys, options.epochs, options.rows)
