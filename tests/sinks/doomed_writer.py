"""A process that pushes numbered batches and writes two sinks until it is killed: ``python doomed_writer.py FOLDER EVERY``."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import evercurrent as ec


def write(folder: Path, every: int, most: int) -> None:
    """Push batches from where the last process stopped; those that it has lost come again with other rows."""
    with ec.Engine(checkpoint=ec.Checkpoint(folder / "checkpoint", every=every)) as engine:
        numbers = engine.source("numbers", {"n": pl.Int64})
        sums = engine.view("sums", numbers.group_by(rest=pl.col("n") % 7).agg(sum=pl.col("n").sum()))
        table = sums.to_sql(f"sqlite:///{folder}/sums.db", "sums")
        feed = sums.to_parquet(folder / "feed")
        start = engine.positions.get("numbers", 0)
        print("ready", flush=True)
        for batch in range(start + 1, start + 1 + most):
            numbers.push({"n": range(start + batch, start + batch + 5)}, position=batch)
        table.join()
        feed.join()
        print(engine.epoch_number, sorted(sums.read().rows()), flush=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), 1 if sys.argv[3:] == ["once"] else 1000)
