"""One operator is kept current over epochs, and compared with one polars evaluation of all rows and one after each epoch.

All three run in one process and use all cores. They have the same input: if the source retracts rows, polars evaluates over
added and retracted rows with their diffs: counts and sums with these as factors, all else over the rows whose diffs add up to
more than zero. It does not check that a retracted row is there, as the engine does. The same evaluation over nothing but the rows
that are left, which somebody else has found, is measured as well. Measured are each `push`, the read of the view at the end, the most memory
that the process had until then beyond its imports, pushed rows included, the
evaluation of all rows with polars (the floor; the median of three), and the same evaluation after each epoch over the
rows that are there then. Declaring the views and pushing the rows that are there before are not measured. At the end the
view must equal the evaluation.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench import memory
from bench.reply import send

KEYS = 100_000
GROUPS = 1_000
RETRACTED = 10
"""If rows are retracted, an epoch retracts one earlier row for this many new ones."""

COLUMNS: Mapping[str, Any] = {
    "key": pl.Int64, "other": pl.Int64, "text": pl.String, "group": pl.Int64, "value": pl.Int64, "amount": pl.Float64,
    "at": pl.Datetime("us"),
}  # fmt: skip

Declared = Callable[[ec.Collection, ec.Collection], ec.Collection]
Evaluated = Callable[[pl.LazyFrame, pl.LazyFrame], pl.LazyFrame]


@dataclass(frozen=True)
class Operator:
    """An operator to measure, as two functions of the rows and of the dimension: the declared view and polars' evaluation."""

    declared: Declared
    evaluated: Evaluated
    of_changes: Evaluated | None = None
    """If rows are retracted: polars' evaluation over rows that were added and retracted, with their diffs."""
    unit: str = "groupings"
    timed: bool = False
    """Whether the rows have event time and a watermark."""

    @property
    def retracting(self) -> bool:
        """Return whether rows are retracted."""
        return self.of_changes is not None


def alike(
    function: Callable[[Any, Any], Any], *, of_changes: Evaluated | None = None, unit: str = "groupings"
) -> Operator:
    """Return an operator that is written in the same way for both."""
    return Operator(function, function, of_changes, unit)


def aggregated(
    *aggregates: pl.Expr,
    by: Sequence[str] = ("key",),
    more: Mapping[str, pl.Expr] | None = None,
    of_changes: Evaluated | None = None,
) -> Operator:
    """Return a grouping by key columns, of rows with ``more`` columns, made of those that there are."""
    return alike(
        lambda rows, _: (rows.with_columns(**more) if more else rows).group_by(*by).agg(*aggregates),
        of_changes=of_changes,
    )


def net_rows(changes: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows that are left of rows that were added and retracted, with how often each is; here, once."""
    return changes.group_by(*COLUMNS).agg(DIFF.sum()).filter(DIFF > 0)


def left_of(changes: pl.LazyFrame, *sums: pl.Expr) -> pl.LazyFrame:
    """Return the number of rows that are left of each key, and these sums."""
    return changes.group_by("key").agg(*sums, n=DIFF.sum()).filter(pl.col("n") > 0)


def first_of_groups(rows: pl.LazyFrame, _: pl.LazyFrame) -> pl.LazyFrame:
    """Return the three greatest rows of each group."""
    return rows.sort("value", "at", descending=True).group_by("group", maintain_order=True).head(3)


def in_windows(rows: pl.LazyFrame, _: pl.LazyFrame) -> pl.LazyFrame:
    """Return the number of rows of each group in each minute."""
    start = pl.col("at").dt.truncate("1m")
    bounds = start.alias("window_start"), (start + pl.duration(minutes=1)).alias("window_end")
    return rows.with_columns(*bounds).group_by("group", "window_start", "window_end").agg(n=pl.len())


def in_sliding_windows(rows: pl.LazyFrame, _: pl.LazyFrame) -> pl.LazyFrame:
    """Return the number of rows of each group in the five minutes that begin with each minute."""
    last = pl.col("at").dt.truncate("1m")
    start = pl.concat_list([last - pl.duration(minutes=minutes) for minutes in range(5)])
    return (
        rows.select("group", window_start=start)
        .explode("window_start")
        .group_by("group", "window_start")
        .agg(n=pl.len())
        .with_columns(window_end=pl.col("window_start") + pl.duration(minutes=5))
    )


def in_sessions(rows: pl.LazyFrame, _: pl.LazyFrame) -> pl.LazyFrame:
    """Return the number of rows in each session of a key."""
    gap = pl.duration(seconds=30)
    begins = (pl.col("at").diff() >= gap).fill_null(True).cum_sum().over("key")
    return (
        rows.sort("key", "at")
        .with_columns(session=begins)
        .group_by("key", "session")
        .agg(window_start=pl.col("at").min(), window_end=pl.col("at").max() + gap, n=pl.len())
        .drop("session")
    )


def own_windows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the window of each row before any are merged, as sessions have it."""
    return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(seconds=30))


def merge_as_sessions(windows: pl.DataFrame) -> pl.DataFrame:
    """Merge as sessions do, by a function that the engine cannot look into."""
    return ec.merge_overlapping(windows)


VALUE, AMOUNT, DIFF = pl.col("value"), pl.col("amount"), pl.col("_diff")
MORE = {
    "name": VALUE.cast(pl.String),
    "price": AMOUNT.cast(pl.Decimal(18, 2)),
    "region": "region " + (pl.col("group") % 20).cast(pl.String),
}
"""Texts and decimals, which both make of numbers; a column that nobody reads is made by neither."""

COUNT, SUM, MEAN = pl.len().alias("n"), AMOUNT.sum().alias("total"), AMOUNT.mean().alias("mean")

OPERATORS: dict[str, Operator] = {
    "count": aggregated(COUNT),
    "sum of integers": aggregated(VALUE.sum()),
    "sum of floats": aggregated(SUM),
    "mean": aggregated(MEAN),
    "std": aggregated(AMOUNT.std()),
    "max of integers": aggregated(VALUE.max()),
    "max of floats": aggregated(AMOUNT.max()),
    "max of texts": aggregated(pl.col("name").max(), more=MORE),
    "max of decimals": aggregated(pl.col("price").max(), more=MORE),
    "last text": aggregated(pl.col("name").sort_by("at", "name").last(), more=MORE),
    "count by few texts": aggregated(COUNT, by=("region",), more=MORE),
    "first by": Operator(
        lambda rows, _: rows.group_by("key").agg(VALUE.sort_by("at", "value").first()),
        lambda rows, _: rows.group_by("key").agg(VALUE.sort_by("at", "value").first()),
    ),
    "median": aggregated(AMOUNT.median()),
    "median of few groups": aggregated(AMOUNT.median(), by=("other",)),
    "quantile": aggregated(AMOUNT.quantile(0.9).alias("high")),
    "n_unique": aggregated(VALUE.n_unique()),
    "count by text": aggregated(COUNT, by=("text",)),
    "count by two columns": aggregated(COUNT, by=("group", "other")),
    "distinct": alike(lambda rows, _: rows.select("key", "other").unique()),
    "filter and columns": alike(
        lambda rows, _: rows.filter(pl.col("value") % 2 == 0).with_columns(twice=AMOUNT * 2), unit="rows"
    ),
    "inner join": alike(lambda rows, other: rows.join(other, on="key"), unit="joins"),
    "left join": alike(lambda rows, other: rows.join(other, on="key", how="left"), unit="joins"),
    "right join": alike(lambda rows, other: other.join(rows, on="key", how="right"), unit="joins"),
    "full join": alike(lambda rows, other: rows.join(other, on="key", how="full"), unit="joins"),
    "semi join": alike(lambda rows, other: rows.join(other, on="key", how="semi"), unit="joins"),
    "anti join": alike(lambda rows, other: rows.join(other, on="key", how="anti"), unit="joins"),
    "inner join, grouped": alike(
        lambda rows, other: rows.join(other, on="key").group_by("label").agg(COUNT, VALUE.sum()), unit="joins"
    ),
    "semi join, grouped": alike(
        lambda rows, other: rows.join(other, on="key", how="semi").group_by("group").agg(COUNT), unit="joins"
    ),
    "top 10": alike(lambda rows, _: rows.top_k(10, by=["value", "key", "at"])),
    "top 3 of groups": Operator(
        lambda rows, _: rows.group_by("group").top_k(3, by=["value", "at"]), first_of_groups
    ),
    "chain": alike(
        lambda rows, _: rows.group_by("key").agg(COUNT, VALUE.sum()).group_by("n").agg(
            keys=pl.len(), total=VALUE.sum()
        )
    ),
    "chain, rich": alike(
        lambda rows, _: rows.group_by("text").agg(COUNT, SUM, MEAN, AMOUNT.max().alias("most")).group_by("n").agg(
            keys=pl.len(), total=pl.col("total").sum(), most=pl.col("most").max()
        )
    ),
    "fixed windows": Operator(
        lambda rows, _: rows.window(ec.fixed("1m")).group_by("group").agg(COUNT), in_windows, timed=True
    ),
    "sliding windows": Operator(
        lambda rows, _: rows.window(ec.sliding("5m", every="1m")).group_by("group").agg(COUNT),
        in_sliding_windows,
        timed=True,
    ),
    "sessions": Operator(
        lambda rows, _: rows.window(ec.sessions("30s")).group_by("key").agg(COUNT), in_sessions, timed=True
    ),
    "sessions that close": Operator(
        lambda rows, _: rows.window(ec.sessions("30s")).lateness("1m").group_by("key").agg(COUNT),
        in_sessions,
        timed=True,
    ),
    "merged windows that close": Operator(
        lambda rows, _: rows.window(ec.custom_windows(own_windows, merge_as_sessions))
        .lateness("1m")
        .group_by("key")
        .agg(COUNT),
        in_sessions,
        timed=True,
    ),
    "retracting count": aggregated(COUNT, of_changes=lambda changes, _: left_of(changes)),
    "retracting sum of floats": aggregated(
        SUM, of_changes=lambda changes, _: left_of(changes, (AMOUNT * DIFF).sum().alias("total")).drop("n")
    ),
    "retracting max": aggregated(
        AMOUNT.max(), of_changes=lambda changes, _: net_rows(changes).group_by("key").agg(AMOUNT.max())
    ),
    "retracting, kept": alike(
        lambda rows, _: rows.filter(VALUE % 2 == 0),
        of_changes=lambda changes, _: net_rows(changes.filter(VALUE % 2 == 0)).drop("_diff"),
        unit="rows",
    ),
    "retracting chain": alike(
        lambda rows, _: rows.group_by("key").agg(COUNT, VALUE.sum()).group_by("n").agg(
            keys=pl.len(), total=VALUE.sum()
        ),
        of_changes=lambda changes, _: left_of(changes, (VALUE * DIFF).sum()).group_by("n").agg(
            keys=pl.len(), total=VALUE.sum()
        ),
    ),
}  # fmt: skip


def drawn(generator: np.random.Generator, rows: int, begun: int) -> pl.DataFrame:
    """Return random rows, a thousand per second of event time."""
    keys = generator.integers(0, KEYS, rows)
    return pl.DataFrame(
        {
            "key": keys,
            "other": generator.integers(0, 10, rows),
            "text": pl.Series(keys).cast(pl.String) + "-customer",
            "group": generator.integers(0, GROUPS, rows),
            "value": generator.integers(0, 1_000_000, rows),
            "amount": generator.normal(100, 20, rows).round(2),
            "at": (begun + np.arange(rows)) * 1_000,
        },
        schema=dict(COLUMNS),
    )


@dataclass
class Rows:
    """The batches as they are pushed, and the rows that are there after each."""

    batches: list[pl.DataFrame]
    there: list[pl.DataFrame]


def made_rows(loaded: int, epochs: int, rows: int, *, retracting: bool) -> Rows:
    """Return random rows: those that are there before, if any, and those of each epoch."""
    generator = np.random.default_rng(7)
    sizes = ([loaded] if loaded else []) + [rows] * epochs
    begins = [sum(sizes[:index]) for index in range(len(sizes))]
    if not retracting:
        every = pl.concat(
            [drawn(generator, size, begun) for size, begun in zip(sizes, begins, strict=True)], rechunk=True
        )
        batches = [every.slice(begun, size) for size, begun in zip(sizes, begins, strict=True)]
        return Rows(batches, [every.head(begun + size) for size, begun in zip(sizes, begins, strict=True)])
    rows_of_epochs = Rows([], [])
    there = pl.DataFrame(schema=dict(COLUMNS))
    for size, begun in zip(sizes, begins, strict=True):
        new = drawn(generator, size, begun)
        gone = generator.choice(there.height, min(there.height, size // RETRACTED), replace=False)
        batch = [new.with_columns(_diff=pl.lit(1)), there[np.sort(gone)].with_columns(_diff=pl.lit(-1))]
        rows_of_epochs.batches.append(pl.concat(batch, rechunk=True))
        stays = np.ones(there.height, np.bool_)
        stays[gone] = False
        there = pl.concat([there.filter(pl.Series(stays)), new], rechunk=True)
        rows_of_epochs.there.append(there)
    return rows_of_epochs


def so_far(batches: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return all rows that were pushed until each of the batches, this one included."""
    every = pl.concat(batches, rechunk=True)
    return [every.head(rows) for rows in np.cumsum([batch.height for batch in batches]).tolist()]


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds that the work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(name: str, loaded: int, epochs: int, rows: int, workers: int) -> None:
    operator = OPERATORS[name]
    at_first = memory.resident()
    rows_of_epochs = made_rows(loaded, epochs, rows, retracting=operator.retracting)
    other = pl.DataFrame({"key": np.arange(KEYS), "label": np.arange(KEYS) % GROUPS})
    engine = ec.Engine(workers=workers)
    source = engine.source(
        "rows",
        dict(COLUMNS),
        kind="diffs" if operator.retracting else "append",
        event_time="at" if operator.timed else None,
        watermark=ec.bounded_delay("10s") if operator.timed else None,
    )
    dimension = engine.source("other", {"key": pl.Int64, "label": pl.Int64})
    view = engine.view("view", operator.declared(source, dimension))
    engine.push("other", other)
    before = 1 if loaded else 0
    memory.forget_peak()
    for batch in rows_of_epochs.batches[:before]:
        engine.push("rows", batch)
    pushes = [seconds_of(partial(engine.push, "rows", batch)) for batch in rows_of_epochs.batches[before:]]
    reading = seconds_of(view.read)
    peak = memory.peak() - at_first

    def measured(by: Evaluated, inputs: list[pl.DataFrame]) -> tuple[float, float]:
        """Return the seconds of one evaluation of all input, and of one after each epoch."""

        def evaluated(rows: pl.DataFrame) -> pl.DataFrame:
            return by(rows.lazy(), other.lazy()).collect()

        floor = statistics.median(seconds_of(lambda: evaluated(inputs[-1])) for _ in range(3))
        recomputing = sum(seconds_of(partial(evaluated, each)) for each in inputs[before:])
        truth = evaluated(inputs[-1])
        assert_frame_equal(
            view.read().select(truth.columns), truth, check_row_order=False, check_dtypes=False, rel_tol=1e-9
        )
        return floor, recomputing

    net_floor, net_recomputing = measured(operator.evaluated, rows_of_epochs.there)
    floor, recomputing = (
        (net_floor, net_recomputing)
        if operator.of_changes is None
        else measured(operator.of_changes, so_far(rows_of_epochs.batches))
    )
    send(
        pushing_s=sum(pushes), slowest_s=max(pushes), reading_s=reading, floor_s=floor, recomputing_s=recomputing,
        ns_a_row=sum(pushes) / (epochs * rows) * 1e9, times_floor=sum(pushes) / floor,
        read_times_floor=(sum(pushes) + reading) / floor, gain=recomputing / sum(pushes),
        times_net_floor=sum(pushes) / net_floor, net_gain=net_recomputing / sum(pushes),
        peak_times_rows=peak / sum(batch.estimated_size() for batch in rows_of_epochs.batches),
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operator", choices=OPERATORS, required=True)
    parser.add_argument("--loaded", type=int, default=0, help="rows that are pushed before, in one epoch")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000, help="rows in each epoch")
    parser.add_argument("--workers", type=int, default=1, help="of the engine")
    options = parser.parse_args()
    main(options.operator, options.loaded, options.epochs, options.rows, options.workers)
