"""How deep may a plan be? A chain of so many nodes, each a column computed or a filter.

Measured: declaring it, the first epoch with the compilation of the circuit, and the median of 20 one-row epochs that go
through all of it. At the end the view is compared with what the chain does to the rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

import polars as pl

import evercurrent as ec
from bench.reply import send

EPOCHS = 20


def main(nodes: int) -> None:
    engine = ec.Engine()
    started = time.perf_counter()
    rows: ec.Collection = engine.source("rows", {"x": pl.Int64})
    for number in range(nodes):
        rows = rows.filter(pl.col("x") >= -number) if number % 2 else rows.with_columns(x=pl.col("x") + 1)
    view = engine.view("v", rows)
    declaring = time.perf_counter() - started
    durations = []
    for number in range(1 + EPOCHS):
        started = time.perf_counter()
        engine.push("rows", {"x": [number]})
        durations.append(time.perf_counter() - started)
    expected = [number + (nodes + 1) // 2 for number in range(1 + EPOCHS)]
    assert sorted(view.read()["x"]) == expected
    send(declaring_s=declaring, first_s=durations[0], later_s=statistics.median(durations[1:]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    main(parser.parse_args().nodes)
