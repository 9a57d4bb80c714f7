"""The fixed cost of an epoch: one row at a time through three chained groupings.

The groupings: count and sum by key; then, by that count, how many keys there are and the largest sum; then,
by tens of that count, how many counts there are and the most keys of any (the last two keep a maximum,
which a retraction can lower). Loaded first in one epoch: five times as many rows as keys. Then 100 epochs
that are not counted, then the measured ones. Measured: each call of `push`, alone. Not measured: making the
frame, loading, reading. At the end the view is compared with one polars evaluation over all rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.data import SCHEMA, random_rows
from bench.reply import send

WARMING = 100
BY_KEY = {"n": pl.len(), "total": pl.col("value").sum()}
BY_COUNT = {"keys": pl.len(), "largest": pl.col("total").max()}
BY_TENS = {"counts": pl.len(), "most": pl.col("keys").max()}
TENS = pl.col("n") // 10


def main(keys: int, epochs: int) -> None:
    engine = ec.Engine()
    source = engine.source("rows", SCHEMA)
    by_count = source.group_by("key").agg(**BY_KEY).group_by("n").agg(**BY_COUNT)
    tens = engine.view("tens", by_count.group_by(tens=TENS).agg(**BY_TENS))

    generator = np.random.default_rng(11)
    frames = [random_rows(generator, 5 * keys, keys)]
    frames += [random_rows(generator, 1, keys) for _ in range(WARMING + epochs)]
    taken: list[float] = []
    for frame in frames:
        started = time.perf_counter()
        engine.push("rows", frame)
        taken.append(time.perf_counter() - started)
    measured = sorted(taken[1 + WARMING :])

    once = pl.concat(frames).group_by("key").agg(**BY_KEY).group_by("n").agg(**BY_COUNT)
    expected = once.group_by(tens=TENS).agg(**BY_TENS)
    assert_frame_equal(tens.read(), expected, check_row_order=False, check_dtypes=False)
    send(
        median_ms=statistics.median(measured) * 1e3,
        mean_ms=statistics.fmean(measured) * 1e3,
        p99_ms=measured[int(len(measured) * 0.99)] * 1e3,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    asked = parser.parse_args()
    main(asked.keys, asked.epochs)
