"""A process that pushes numbered batches and writes two sinks until it is killed: ``python doomed_writer.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import evercurrent as ec

FOLDER = Path(sys.argv[1])

with ec.Engine(checkpoint=FOLDER / "checkpoint") as engine:
    numbers = engine.source("numbers", {"n": pl.Int64})
    sums = engine.view("sums", numbers.group_by(rest=pl.col("n") % 7).agg(sum=pl.col("n").sum()))
    table = sums.to_sql(f"sqlite:///{FOLDER}/sums.db", "sums")
    feed = sums.to_parquet(FOLDER / "feed")
    start = engine.positions.get("numbers", 0)
    print("ready", flush=True)
    for batch in range(start + 1, start + 1001):
        numbers.push({"n": range(batch, batch + 5)}, position=batch)
        if sys.argv[2:] == ["once"]:
            break
    table.join()
    feed.join()
    print(engine.epoch_number, sorted(sums.read().rows()), flush=True)
