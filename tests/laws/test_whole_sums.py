"""Sums, means and variances of whole numbers and decimals are those of fractions, up to the limits of every type.

A sum that does not fit the type of its column refuses the epoch, which then changes nothing; none wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

import evercurrent as ec
from evercurrent.core.operators.group.aggregate_states import RecomputedState

MOST = 10**38 - 1
WHOLE: dict[pl.DataType, tuple[int, int]] = {
    pl.Int64(): (-(2**63), 2**63 - 1),
    pl.UInt64(): (0, 2**64 - 1),
    pl.Int128(): (-(2**127), 2**127 - 1),
    pl.UInt128(): (0, 2**128 - 1),
    pl.Decimal(38, 0): (-MOST, MOST),
    pl.Decimal(38, 2): (-MOST, MOST),
}
"""The least and the greatest of each type, in its units."""

Rows = Sequence[tuple[int, int]]


def cell(dtype: pl.DataType, units: int) -> Any:
    if not isinstance(dtype, pl.Decimal):
        return units
    digits = tuple(int(digit) for digit in str(abs(units)))
    return Decimal((int(units < 0), digits, -dtype.scale))


def epochs(dtype: pl.DataType) -> st.SearchStrategy[list[Rows]]:
    """Values at the limits of a type and next to its quarters, each as many times as its diff."""
    low, high = WHOLE[dtype]
    near = st.sampled_from(
        [
            low,
            low + 1,
            low // 2,
            low // 2 - 1,
            -1,
            0,
            1,
            2,
            high // 4,
            high // 2,
            high // 2 + 1,
            high - 1,
            high,
        ]
    )
    value = (near | st.integers(low, high)).filter(lambda number: low <= number <= high)
    return st.lists(st.lists(st.tuples(value, st.integers(-2, 2)), min_size=1, max_size=4), max_size=6)


def frame(dtype: pl.DataType, rows: Rows) -> pl.DataFrame:
    values = pl.Series("x", [cell(dtype, units) for units, _ in rows], dtype)
    return pl.DataFrame([values, pl.Series("_diff", [diff for _, diff in rows], pl.Int64)])


def close(value: float | None, exact: Fraction | None) -> bool:
    """Whether a float is an exact number but for its roundings, of which there are a few."""
    if value is None or exact is None:
        return value is None and exact is None
    return abs(Fraction(value) - exact) <= abs(exact) * Fraction(1, 2**50)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_they_are_those_of_fractions_or_refused(dtype: pl.DataType, data: st.DataObject) -> None:
    engine = ec.Engine()
    source = engine.source("a", {"x": dtype}, kind="diffs", trusted=True)
    x = pl.col("x")
    engine.view("sum", source.group_by().agg(n=pl.len(), sum=x.sum()))
    engine.view("rest", source.group_by().agg(mean=x.mean(), var=x.var(ddof=0)))
    (low, high), held = WHOLE[dtype], dict.fromkeys((0,), 0)
    scale = dtype.scale if isinstance(dtype, pl.Decimal) else 0
    for rows in data.draw(epochs(dtype)):
        after = dict(held)
        for units, diff in rows:
            after[units] = after.get(units, 0) + diff
        if any(count < 0 for count in after.values()):
            continue
        total = sum(units * count for units, count in after.items())
        if low <= total <= high:
            engine.push("a", frame(dtype, rows))
            held = after
        else:
            with pytest.raises(ec.ArithmeticRefusedError, match=r"'sum'.* does not fit"):
                engine.push("a", frame(dtype, rows))
        n = sum(held.values())
        total = sum(units * count for units, count in held.items())
        assert engine.views["sum"].read().rows() == [(n, cell(dtype, total))]
        ((mean, variance),) = engine.views["rest"].read().rows()
        squares = sum(units**2 * count for units, count in held.items())
        assert close(mean, Fraction(total, n * 10**scale) if n else None)
        spread = Fraction(n * squares - total**2, n**2 * 100**scale) if n else None
        assert close(variance, spread if n > 0 else None)


def test_a_product_that_panics_in_polars_is_refused_where_it_is_defined() -> None:
    source = ec.Engine().source("a", {"k": pl.Int64, "x": pl.UInt128})
    with pytest.raises(ec.PlanError, match="polars cannot compute the product of UInt128"):
        source.group_by("k").agg(product=pl.col("x").product())


def test_what_panics_is_an_error_of_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ec.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Int64})
    engine.view("products", source.group_by("k").agg(product=pl.col("x").product()))
    with monkeypatch.context() as patches:
        patches.setattr(RecomputedState, "_values", panic)
        with pytest.raises(ec.InputError, match="view 'products': column 'product': the aggregate raised"):
            engine.push("a", {"k": [1], "x": [3]})
    assert engine.epoch_number == 0
    assert engine.push("a", {"k": [], "x": []}) == 1


def panic(*_: Any) -> NoReturn:
    raise pl.exceptions.PanicException("not implemented")


def test_a_sum_of_the_widest_type_is_not_sent_to_a_narrower_one() -> None:
    engine = ec.Engine()
    engine.view("v", engine.source("a", {"x": pl.Int128}).group_by().agg(s=pl.col("x").sum()))
    with pytest.raises(
        ec.ArithmeticRefusedError, match=r"does not fit Int128; there is no wider type.*Float64"
    ):
        engine.push("a", {"x": [2**127 - 1, 1]})
