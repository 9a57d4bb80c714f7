"""What does an epoch cost that touches one of many views? Pushes of one row, with so many views and with one.

`sources`: each view is a count and sum by key of a source of its own, and the row is for one of them. `filters`: all views
are over one source, each behind a filter of its own, and the row passes one of the filters, each of which compares a column with one value.
Both engines are in one process and take turns, so the quotient is of the same minute. First 50 epochs of each that are not
counted. Measured: each call of `push`, alone. Not measured: declaring, the first epoch. At the end all views are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time

import polars as pl

import evercurrent as ec
from bench.reply import send

WARMING = 50
COLUMNS = {"k": pl.Int64, "x": pl.Int64}


def declared(kind: str, views: int) -> ec.Engine:
    """An engine with so many views, the first of which is over the source ``s0``."""
    engine = ec.Engine()
    rows = engine.source("s0", COLUMNS, kind="diffs")
    for number in range(views):
        if kind == "sources" and number:
            rows = engine.source(f"s{number}", COLUMNS, kind="diffs")
        chosen: ec.Collection = rows if kind == "sources" else rows.filter(pl.col("k") == number)
        engine.view(f"v{number}", chosen.group_by("k").agg(n=pl.len(), total=pl.col("x").sum()))
    return engine


def main(kind: str, views: int, epochs: int) -> None:
    started = time.perf_counter()
    many, one = declared(kind, views), declared(kind, 1)
    declaring = time.perf_counter() - started
    durations: dict[int, list[float]] = {0: [], 1: []}
    for number in range(WARMING + epochs):
        for place, engine in enumerate((many, one)):
            started = time.perf_counter()
            engine.push("s0", {"k": [0], "x": [number]})
            durations[place].append(time.perf_counter() - started)
    expected = [(0, WARMING + epochs, sum(range(WARMING + epochs)))]
    assert one.views["v0"].read().rows() == many.views["v0"].read().rows() == expected
    assert all(not view.read().height for name, view in many.views.items() if name != "v0")
    medians = [statistics.median(durations[place][WARMING:]) for place in (0, 1)]
    send(
        many_ms=medians[0] * 1e3,
        one_ms=medians[1] * 1e3,
        quotient=medians[0] / medians[1],
        declaring_s=declaring,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("sources", "filters"), required=True)
    parser.add_argument("--views", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    options = parser.parse_args()
    main(options.kind, options.views, options.epochs)
