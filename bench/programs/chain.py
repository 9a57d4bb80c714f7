"""evercurrent on the chain: count and sum by key, then the histogram of the counts; every file is one epoch.

Measured: from the making of the engine to the view as a frame, reading the files with polars included: a
thread reads one file ahead (how long epochs waited for it is reported as `waiting`). A subscriber receives
the delta of every epoch. Not measured: start of the process, imports, and the check that follows: the deltas
are added up epoch by epoch, and the harness compares each sum with the truth after that file.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import polars as pl

import evercurrent as ec
from bench.changes import Changes
from bench.data import SCHEMA
from bench.reply import Histogram, send


def added_up(deltas: list[pl.DataFrame], last: int) -> tuple[list[Histogram], int]:
    """The histogram after each epoch up to the last, from the deltas alone, and the number of changes."""
    changes = Changes()
    steps: list[Histogram] = []
    by_epoch = {int(delta["_epoch"][0]): delta for delta in deltas}
    for epoch in range(1, last + 1):
        if epoch in by_epoch:
            for row in by_epoch[epoch].select("n", "keys", "total", "_diff").rows():
                changes.add(*row)
        steps.append(changes.histogram())
    return steps, changes.count


def main(folder: Path) -> None:
    deltas: list[pl.DataFrame] = []
    waiting = 0.0
    started = time.perf_counter()
    engine = ec.Engine()
    rows = engine.source("rows", SCHEMA)
    by_key = rows.group_by("key").agg(n=pl.len(), total=pl.col("value").sum())
    histogram = engine.view("histogram", by_key.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum()))
    histogram.subscribe(deltas.append)
    files = sorted(folder.glob("*.csv"))
    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(pl.read_csv, files[0], schema=SCHEMA)
        for following in [*files[1:], None]:
            began = time.perf_counter()
            batch = ahead.result()
            waiting += time.perf_counter() - began
            if following is not None:
                ahead = reader.submit(pl.read_csv, following, schema=SCHEMA)
            engine.push("rows", batch)
    contents = histogram.read()
    seconds = time.perf_counter() - started

    steps, count = added_up(deltas, engine.epoch_number)
    send(
        seconds=seconds,
        waiting=waiting,
        histogram=[list(row) for row in contents.select("n", "keys", "total").sort("n").rows()],
        steps=steps,
        changes=count,
        epochs=engine.epoch_number,
        version=version("evercurrent"),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
