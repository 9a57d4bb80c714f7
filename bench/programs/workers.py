"""The chain with several workers: large epochs, in memory, so that nothing but the engine uses the cores.

Loaded first: every key once. Then 3 epochs that are not counted, then the measured ones, keys uniform over all. With
`--text` keys are texts, which are hashed; otherwise they are integers that lie close together, which are counted.
Measured: the calls of `push`, by the clock and by the processor time of all threads. Afterwards the view is compared with
polars' evaluation of all rows.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl

import evercurrent as ec
from bench.data import SCHEMA, keys_in_turn, random_rows
from bench.reply import send

WARMING = 3


def main(workers: int, keys: int, epochs: int, rows: int, *, text: bool) -> None:
    generator = np.random.default_rng(7)
    frames = [
        *keys_in_turn(keys, keys),
        *(random_rows(generator, rows, keys) for _ in range(WARMING + epochs)),
    ]
    if text:
        named = pl.format("customer {}", pl.col("key")).alias("key")
        frames = [frame.with_columns(named) for frame in frames]
    engine = ec.Engine(workers=workers)
    source = engine.source("rows", {**SCHEMA, "key": pl.String if text else pl.Int64})
    by_key = source.group_by("key").agg(n=pl.len(), total=pl.col("value").sum())
    view = engine.view("histogram", by_key.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum()))
    for frame in frames[:-epochs]:
        engine.push("rows", frame)
    started, used = time.perf_counter(), time.process_time()
    for frame in frames[-epochs:]:
        engine.push("rows", frame)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    counted = pl.concat(frames).group_by("key").agg(n=pl.len(), total=pl.col("value").sum())
    truth = counted.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum())
    columns = ["n", "keys", "total"]
    if sorted(view.read().select(columns).rows()) != sorted(truth.select(columns).rows()):
        raise SystemExit("the histogram is wrong")
    send(ms=seconds / epochs * 1e3, processor_ms=processor / epochs * 1e3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    main(options.workers, options.keys, options.epochs, options.rows, text=options.text)
