"""A group's value is a function of its own rows: whatever stands in other groups, buckets and epochs.

Magnitudes from 5e-324 to 1.797e308, infinities and NaN are mixed over the groups; every aggregate of each group is
held to that of an engine which has this group alone, bit for bit, and the variance to fractions as well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

import evercurrent as ec
from evercurrent.core.data.delta import Delta
from row_cells import bits
from spark.twins import TwinEngine, Way

LARGEST = 1.7976931348623157e308
FLOATS = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-200, 1e-154, 1.0, -1.0, 3.7, 49.0, 1e16, 1e100, 1e154, -1.4e154, 1e155, 1e200, LARGEST,
          -LARGEST, math.inf, -math.inf, math.nan, None]  # fmt: skip
VALUES: dict[pl.DataType, list[Any]] = {
    pl.Float64(): FLOATS,
    pl.Float32(): [0.0, -0.0, 1.401298464324817e-45, 1.0, -2.5, 16777216.0, 3.4028234663852886e38, math.inf, math.nan, None],
    pl.Decimal(20, 4): [*map(Decimal, ("0.0000", "-1.2501", "5.0000", "9999999999999999.9999", "0.0001")), None],
    pl.Int8(): [-128, 127, 0, 1, None],
    pl.Int16(): [-(2**15), 2**15 - 1, 0, 49, None],
    pl.Int32(): [-(2**26), 2**26 - 1, 0, 49, None],
    pl.Int64(): [-(2**58), 2**57, 0, 49, None],
    pl.UInt8(): [255, 0, 1, None],
    pl.UInt32(): [2**27 - 1, 0, 49, None],
    pl.UInt64(): [2**58, 0, 49, None],
    pl.Boolean(): [True, False, None],
}  # fmt: skip
"""Of whole numbers as large as 24 of them add up to: a sum that does not fit its type is refused."""

QUICK = os.environ.get("EVERCURRENT_TEST_PROFILE", "quick") == "quick"
ALIKE = (pl.Int16(), pl.Int32(), pl.UInt8(), pl.UInt32(), pl.Int8())
"""Types that have a like among the others: for the long profile."""

X, B = pl.col("x"), pl.col("b")
AGGREGATES: dict[str, pl.Expr] = {
    "len": pl.len(), "count": X.count(), "nulls": X.null_count(), "has_nulls": X.has_nulls(), "sum": X.sum(), "mean": X.mean(),
    "var": X.var(), "var0": X.var(ddof=0), "std": X.std(), "std2": X.std(ddof=2), "any": (X > 0).any(), "all": (X > 0).all(),
    "n_unique": X.n_unique(), "min": X.min(), "max": X.max(), "first": X.sort().first(), "last": X.sort_by("b").last(),
    "max_by": X.max_by("b"), "min_by": X.min_by("b"), "get": X.get(B.arg_max()), "median": X.median(), "quantile": X.quantile(0.3, "linear"),
    "implode": X.implode(), "product": X.product(), "mode": X.drop_nulls().mode().implode(), "skew": X.skew(), "kurtosis": X.kurtosis(),
    "of_quotient": (X / 49).sum(), "share": X.sum() / pl.len(), "quotient": X.sum() / 49, "whole": X.sum() // 0.3, "rest": X.mean() % 0.7,
    "power": 0.1 ** pl.len(), "branch": X.sum() / pl.when(pl.len() > 1).then(49.0).otherwise(7.0), "where": X.filter(B > 1).sum(),
    "of_filtered": (X.filter(B > 1).sort() / 49).implode(), "of_mean": ((X - X.mean()) / 49).sort().implode(), "top": X.top_k(2).implode(),
    "skew_where": X.filter(B > 1).skew(), "kurtosis_of_known": X.drop_nulls().kurtosis(), "skew_of_top": X.top_k(3).skew(),
    "squares_where": (X.filter(B > 1) * X.filter(B > 1)).sum(), "above": (X.filter(X.median() < X) / 49).std(), "zeroth": X.sort().get(0),
    "of_branch": (X / pl.when(B > 1).then(49.0).otherwise(7.0)).sum(), "branch_of_rows": (X.sort() / pl.when(X.max() > 5).then(49.0).otherwise(7.0)).implode(),
}  # fmt: skip

Rows = Sequence[tuple[int, int, int]]
"""A group, the place of a value, and what it is ordered by."""


@cache
def aggregates(dtype: pl.DataType) -> dict[str, pl.Expr]:
    """Those that there are for this type."""
    found = {}
    for name, aggregate in AGGREGATES.items():
        try:
            rows = ec.Engine().source("a", {"k": pl.Int64, "x": dtype, "b": pl.Int64})
            rows.group_by("k").agg(aggregate.alias(name))
        except ec.PlanError:
            continue
        found[name] = aggregate
    return found


def view_of(engine: ec.Engine, dtype: pl.DataType) -> ec.View:
    """All aggregates of this type by group."""
    rows = engine.source("a", {"k": pl.Int64, "x": dtype, "b": pl.Int64}, kind="diffs", trusted=True)
    return engine.view("v", rows.group_by("k").agg(**aggregates(dtype)))


def frame(dtype: pl.DataType, rows: Rows, sign: int) -> pl.DataFrame:
    values = VALUES[dtype]
    return pl.DataFrame(
        [
            pl.Series("k", [k for k, _, _ in rows], pl.Int64),
            pl.Series("x", [values[place % len(values)] for _, place, _ in rows], dtype),
            pl.Series("b", [b for _, _, b in rows], pl.Int64),
            pl.Series("_diff", [sign] * len(rows), pl.Int64),
        ]
    )


def groups_of(view: ec.View) -> dict[int, dict[str, str]]:
    """The values of each group, by name, bit for bit."""
    read = view.read()
    columns = {name: bits(read[name]) for name in read.columns if name != "k"}
    return {key: {name: some[place] for name, some in columns.items()} for place, key in enumerate(read["k"])}


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 3)), max_size=12)


@pytest.mark.parametrize("dtype", [dtype for dtype in VALUES if not (QUICK and dtype in ALIKE)], ids=str)
@given(kept=ROWS, gone=ROWS)
@settings(max_examples=3 if QUICK else settings().max_examples // 40)
def test_a_group_is_what_it_is_alone(dtype: pl.DataType, kept: Rows, gone: Rows) -> None:
    engine = ec.Engine()
    view = view_of(engine, dtype)
    half = len(kept) // 2
    for rows, sign in ((kept[:half], 1), (gone, 1), (kept[half:], 1), (gone, -1)):
        engine.push("a", frame(dtype, rows, sign))
    expected = {}
    for key in {key for key, _, _ in kept}:
        alone = ec.Engine()
        own = view_of(alone, dtype)
        alone.push("a", frame(dtype, [row for row in kept if row[0] == key], 1))
        expected |= groups_of(own)
    assert groups_of(view) == expected
    deltas = pl.concat(
        [
            view.read().with_columns(_diff=pl.lit(-1, pl.Int64)),
            *(each.drop("_epoch") for each in view.deltas()),
        ]
    )
    assert not len(Delta(deltas).consolidate())


@pytest.mark.parametrize("name", ["std", "var", "sum", "mean", "quotient", "median"])
def test_buckets_give_what_one_gives(name: str) -> None:
    class Buckets(TwinEngine):
        way = Way(buckets=3, parts=2)

    engine = Buckets()
    rows = engine.source("a", {"k": pl.Int64, "x": pl.Float64, "b": pl.Int64}, kind="diffs", trusted=True)
    engine.view(name, rows.group_by("k").agg(v=AGGREGATES[name]))
    values = [(k, place, 0) for place in range(len(FLOATS)) for k in (place % 5, 7 + place % 2)]
    engine.push("a", frame(pl.Float64(), values, 1))
    engine.push("a", frame(pl.Float64(), values[5:9], -1))
    engine.push("a", frame(pl.Float64(), values[:5], -1))
    assert engine.compared


def test_one_large_row_leaves_the_spread_of_other_groups_alone() -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"k": pl.String, "x": pl.Float64})
    view = engine.view("v", rows.group_by("k").agg(std=pl.col("x").std(), var=pl.col("x").var()))
    engine.push("a", pl.DataFrame({"k": ["a", "a", "b", "b"], "x": [1.0, 3.0, LARGEST, 1.0]}))
    read = {row["k"]: (row["std"], row["var"]) for row in view.read().iter_rows(named=True)}
    assert read["a"] == (math.sqrt(2.0), 2.0)
    assert math.isclose(read["b"][0], LARGEST / math.sqrt(2.0), rel_tol=1e-15)
    assert read["b"][1] == math.inf


def rounded(exact: Fraction) -> Fraction:
    """The nearest number of 53 bits, whatever its exponent."""
    if not exact:
        return exact
    power = Fraction(2) ** (exact.numerator.bit_length() - exact.denominator.bit_length())
    return Fraction(float(exact / power)) * power


def variance(values: Sequence[float]) -> float:
    """n * (sum of squares) - (sum)^2, rounded once, divided, rounded again."""
    n, exact = len(values), [Fraction(value) for value in values]
    above = n * sum((value**2 for value in exact), Fraction(0)) - sum(exact, Fraction(0)) ** 2
    try:
        return float(rounded(rounded(above) / (n * (n - 1))))
    except OverflowError:
        return math.inf


@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=5),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=settings().max_examples // 5)
def test_the_variance_is_that_of_fractions(groups: list[list[float]]) -> None:
    engine = ec.Engine()
    view = engine.view(
        "v", engine.source("a", {"k": pl.Int64, "x": pl.Float64}).group_by("k").agg(v=pl.col("x").var())
    )
    engine.push("a", [(key, value) for key, values in enumerate(groups) for value in values])
    assert view.read().sort("k")["v"].to_list() == [variance(values) for values in groups]
