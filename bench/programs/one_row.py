"""The fixed cost of an epoch: one row at a time through three chained groupings.

The groupings: count and sum by key; then, by that count, how many keys there are and the largest sum, or the sum of
sums; then, by tens of that count, how many counts there are and the most keys of any, or all keys. (The maxima are
such that a retraction can lower them.) Loaded first in one epoch: five times as many rows as keys. Then 100 epochs
that are not counted, then the measured ones. Measured: each call of `push`, alone. Not measured: making the
frame, loading, reading. At the end the view is compared with one polars evaluation over all rows.

With `--busy` as many other processes as the machine has cores count without end while the epochs are measured: what
hands small work to another thread then waits for a core each time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.data import SCHEMA, random_rows
from bench.reply import send

WARMING = 100
BY_KEY = {"n": pl.len(), "total": pl.col("value").sum()}
BY_COUNT = {
    "sums": {"keys": pl.len(), "all": pl.col("total").sum()},
    "maxima": {"keys": pl.len(), "all": pl.col("total").max()},
}
BY_TENS = {
    "sums": {"counts": pl.len(), "most": pl.col("keys").sum()},
    "maxima": {"counts": pl.len(), "most": pl.col("keys").max()},
}
TENS = pl.col("n") // 10


@contextmanager
def busy_cores(busy: bool) -> Iterator[None]:
    """Keep every core busy with another process within the block."""
    count = (os.cpu_count() or 1) if busy else 0
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main(kind: str, keys: int, epochs: int, busy: bool) -> None:
    engine = ec.Engine()
    source = engine.source("rows", SCHEMA)
    by_count = source.group_by("key").agg(**BY_KEY).group_by("n").agg(**BY_COUNT[kind])
    tens = engine.view("tens", by_count.group_by(tens=TENS).agg(**BY_TENS[kind]))

    generator = np.random.default_rng(11)
    frames = [random_rows(generator, 5 * keys, keys)]
    frames += [random_rows(generator, 1, keys) for _ in range(WARMING + epochs)]
    durations: list[float] = []

    def push(frame: pl.DataFrame) -> None:
        started = time.perf_counter()
        engine.push("rows", frame)
        durations.append(time.perf_counter() - started)

    for frame in frames[: 1 + WARMING]:
        push(frame)
    with busy_cores(busy):
        for frame in frames[1 + WARMING :]:
            push(frame)
    measured = sorted(durations[1 + WARMING :])

    once = pl.concat(frames).group_by("key").agg(**BY_KEY).group_by("n").agg(**BY_COUNT[kind])
    expected = once.group_by(tens=TENS).agg(**BY_TENS[kind])
    assert_frame_equal(tens.read(), expected, check_row_order=False, check_dtypes=False)
    send(
        median_ms=statistics.median(measured) * 1e3,
        mean_ms=statistics.fmean(measured) * 1e3,
        p99_ms=measured[int(len(measured) * 0.99)] * 1e3,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=tuple(BY_COUNT))
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--busy", action="store_true", help="while all cores of the machine are busy")
    options = parser.parse_args()
    main(options.kind, options.keys, options.epochs, options.busy)
