"""Peak memory of count and sum by integer key.

Every key comes once, in scattered order, in epochs of 500,000 rows made one at a time; engine and view have
their defaults, so the deltas that the engine retains count too. Measured: the greatest resident memory of
the process up to the end of the last push, less what was resident before the first. Not measured: reading
the view as one frame, which happens afterwards, to check it.
"""

from __future__ import annotations

import argparse
import time

import polars as pl

import evercurrent as ec
from bench.data import SCHEMA, keys_in_turn
from bench.memory import peak, resident
from bench.reply import send


def main(keys: int, rows: int) -> None:
    engine = ec.Engine()
    source = engine.source("rows", SCHEMA)
    by_key = engine.view("by_key", source.group_by("key").agg(n=pl.len(), total=pl.col("value").sum()))

    pushed = 0
    before = resident()
    started = time.perf_counter()
    for frame in keys_in_turn(keys, rows):
        engine.push("rows", frame)
        pushed += int(frame["value"].sum())
    seconds = time.perf_counter() - started
    most = peak()

    contents = by_key.read()
    totals = (contents.height, contents["key"].n_unique(), contents["n"].sum(), contents["total"].sum())
    if totals != (keys, keys, keys, pushed):
        raise SystemExit(f"the view holds {totals}; expected {(keys, keys, keys, pushed)}")
    send(
        bytes_per_key=(most - before) / keys,
        before_mib=before / 2**20,
        peak_mib=most / 2**20,
        seconds=seconds,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    options = parser.parse_args()
    main(options.keys, options.rows)
