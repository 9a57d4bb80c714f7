"""Small epochs that touch all of a few groups: do they cost what the epochs have, or what the groups have?

Loaded first, in one epoch, in order of event time. Then epochs of ten rows, at the end of the event time, or of these rows and as many
earlier ones that come late. Measured: each call of `push`, or of `lookup` after it. At the end the view must equal one polars evaluation of
all rows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.reply import send

KEYS, ROWS_OF_AN_EPOCH, WARMING, COUNTED = 10, 10, 5, 5
COLUMNS = {"key": pl.Int64, "value": pl.Float64, "at": pl.Datetime("us")}
VALUE = pl.col("value")

AGGREGATES = {
    "median": VALUE.median(),
    "quantile, linear": VALUE.quantile(0.95, "linear"),
    "greatest": VALUE.max(),
    "skew": VALUE.skew(),
}
LOOKED_UP, IN_ORDER, LATE = "look-up of a median", "counted windows", "counted windows, late rows"
SHAPES = (*AGGREGATES, LOOKED_UP, IN_ORDER, LATE)


def random_rows(generator: np.random.Generator, rows: int, begun: int) -> pl.DataFrame:
    """Return rows of random keys and values, one a microsecond."""
    columns = {
        "key": generator.integers(0, KEYS, rows),
        "value": generator.normal(size=rows),
        "at": begun + np.arange(rows),
    }
    return pl.DataFrame(columns).cast({"at": pl.Datetime("us")})


def in_windows_of_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the sum of each five rows of a key, as ``count_window(5)`` has them."""
    rows = rows.sort("key", "at", "value").with_columns(window=pl.int_range(pl.len()).over("key") // COUNTED)
    return rows.group_by("key", "window").agg(VALUE.sum()).drop("window")


def milliseconds(work: Callable[[], object]) -> float:
    """Return the milliseconds that the work takes."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def main(shape: str, rows: int, epochs: int) -> None:
    generator = np.random.default_rng(3)
    is_counted = shape in (IN_ORDER, LATE)
    aggregate = VALUE.sum() if is_counted else AGGREGATES.get(shape, VALUE.median()).alias("value")
    engine = ec.Engine()
    source = engine.source("rows", COLUMNS, event_time="at")
    windowed = source.window(ec.count_window(COUNTED)) if is_counted else source
    view = engine.view("view", windowed.group_by("key").agg(aggregate))
    every = [random_rows(generator, rows, 0)]
    engine.push("rows", every[0])
    took = []
    for number in range(WARMING + epochs):
        batch = random_rows(generator, ROWS_OF_AN_EPOCH, rows + number * ROWS_OF_AN_EPOCH)
        if shape == LATE:
            batch = pl.concat([batch, random_rows(generator, ROWS_OF_AN_EPOCH, rows // 2)])
        every.append(batch)
        took.append(milliseconds(partial(engine.push, "rows", batch)))
        if shape == LOOKED_UP:
            took[-1] = milliseconds(partial(view.lookup, key=3))
    there = pl.concat(every)
    truth = in_windows_of_rows(there) if is_counted else there.group_by("key").agg(aggregate)
    assert_frame_equal(view.read().select("key", "value"), truth, check_row_order=False, rel_tol=1e-9)
    send(median_ms=statistics.median(took[WARMING:]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    main(options.shape, options.rows, options.epochs)
