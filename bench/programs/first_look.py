"""The first look-ups into many rows that came and were never looked up: who waits for them to be sorted?

Loaded first, in epochs of 500,000 rows that nobody has to look up. Then small epochs, each of which looks some of these rows up: a row
of a dimension changes that they are joined with, or the greatest row of a key is retracted. Measured: each call of `push`, alone. Not
measured: making the frames, reading the view, which must equal one polars evaluation over all rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.reply import send

LOADING = 500_000
ROWS_OF_A_KEY = 10
LABELS = 1_000
SHAPES = ("join", "join by texts", "maximum")


def random_rows(generator: np.random.Generator, rows: int, keys: int, *, texts: bool) -> pl.DataFrame:
    """Return rows of random keys and amounts."""
    key = pl.Series("key", generator.integers(0, keys, rows))
    return pl.DataFrame(
        [as_texts(key) if texts else key, pl.Series("amount", generator.integers(0, 10**6, rows))]
    )


def as_texts(keys: pl.Series) -> pl.Series:
    """Return keys as texts that do not fit into a view of Arrow."""
    return keys.cast(pl.String) + "-customer"


def timed(engine: ec.Engine, source: str, rows: pl.DataFrame) -> float:
    """Push rows and return the milliseconds that it took."""
    started = time.perf_counter()
    engine.push(source, rows)
    return (time.perf_counter() - started) * 1e3


def joined(
    engine: ec.Engine, loaded: list[pl.DataFrame], epochs: int, keys: int, *, texts: bool
) -> tuple[list[float], list[float]]:
    """Load rows that are joined with a dimension, change a row of it with each epoch, and return the milliseconds of both."""
    kind = pl.String if texts else pl.Int64
    rows = engine.source("rows", {"key": kind, "amount": pl.Int64})
    dimension = engine.source("labels", {"key": kind, "label": pl.Int64}, kind="upsert", key="key")
    view = engine.view("view", rows.join(dimension, on="key").group_by("label").agg(pl.col("amount").sum()))
    key = pl.Series("key", np.arange(keys))
    labels = pl.DataFrame([as_texts(key) if texts else key, pl.Series("label", np.arange(keys) % LABELS)])
    engine.push("labels", labels)
    loading = [timed(engine, "rows", batch) for batch in loaded]
    looking = [
        timed(engine, "labels", labels[number : number + 1].with_columns(label=pl.lit(LABELS, pl.Int64)))
        for number in range(epochs)
    ]
    moved = labels.with_row_index("n").with_columns(
        label=pl.when(pl.col("n") < epochs).then(LABELS).otherwise("label")
    )
    truth = pl.concat(loaded).join(moved, on="key").group_by("label").agg(pl.col("amount").sum())
    assert_frame_equal(view.read(), truth, check_row_order=False)
    return loading, looking


def retracted(engine: ec.Engine, loaded: list[pl.DataFrame], epochs: int) -> tuple[list[float], list[float]]:
    """Load rows of which each key has a greatest one, retract one of these with each epoch, and return the milliseconds of both."""
    rows = engine.source("rows", {"key": pl.Int64, "amount": pl.Int64}, kind="diffs")
    view = engine.view("view", rows.group_by("key").agg(pl.col("amount").max()))
    loading = [timed(engine, "rows", batch.with_columns(_diff=pl.lit(1))) for batch in loaded]
    every = pl.concat(loaded)
    greatest = every.sort("amount", descending=True).unique("key", keep="first", maintain_order=True)[:epochs]
    looking = [
        timed(engine, "rows", greatest[number : number + 1].with_columns(_diff=pl.lit(-1)))
        for number in range(epochs)
    ]
    changes = pl.concat([every.with_columns(_diff=pl.lit(1)), greatest.with_columns(_diff=pl.lit(-1))])
    left = changes.group_by("key", "amount").agg(pl.col("_diff").sum()).filter(pl.col("_diff") > 0)
    assert_frame_equal(view.read(), left.group_by("key").agg(pl.col("amount").max()), check_row_order=False)
    return loading, looking


def main(shape: str, rows: int, epochs: int) -> None:
    generator, keys = np.random.default_rng(3), rows // ROWS_OF_A_KEY
    texts = shape == "join by texts"
    sizes = [min(LOADING, rows - begun) for begun in range(0, rows, LOADING)]
    loaded = [random_rows(generator, size, keys, texts=texts) for size in sizes]
    with ec.Engine() as engine:
        if shape == "maximum":
            loading, looking = retracted(engine, loaded, epochs)
        else:
            loading, looking = joined(engine, loaded, epochs, keys, texts=texts)
    usual = statistics.median(loading)
    send(
        loading_ms=usual,
        slowest_ms=max(looking),
        slowest_times_loading=max(looking) / usual,
        all_ms=sum(looking),
        median_ms=statistics.median(looking),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    main(options.shape, options.rows, options.epochs)
