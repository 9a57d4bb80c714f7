"""A process that pushes numbered batches and writes two sinks until it is killed."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import evercurrent as ec
from forked import Send


def write(folder: Path, every: int, most: int, send: Send) -> None:
    """Push batches from where the last process stopped; those that it has lost come again with other rows."""
    with ec.Engine(checkpoint=ec.Checkpoint(folder / "checkpoint", every=every)) as engine:
        numbers = engine.source("numbers", {"n": pl.Int64})
        sums = engine.view("sums", numbers.group_by(rest=pl.col("n") % 7).agg(sum=pl.col("n").sum()))
        table = sums.to_sql(f"sqlite:///{folder}/sums.db", "sums")
        feed = sums.to_parquet(folder / "feed")
        start = engine.positions.get("numbers", 0)
        send("ready")
        for batch in range(start + 1, start + 1 + most):
            numbers.push({"n": range(start + batch, start + batch + 5)}, position=batch)
        table.join()
        feed.join()
        send((engine.epoch_number, sorted(sums.read().rows())))
