"""Python values of a decimal column: each is the number that it names or is refused, whatever stands beside it."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec

SCHEMA = {"place": pl.Int64, "price": pl.Decimal(10, 2)}
EXACT = Context(prec=100)
ARABIC_ONE = "\N{ARABIC-INDIC DIGIT ONE}"

numbers = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**9),
    st.integers(-(10**10), 10**10).map(lambda number: number / 100),
    st.floats(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.integers(-(10**12), 10**12).map(lambda number: Decimal(number).scaleb(-4, EXACT)),
    st.integers(-(10**10), 10**10).map(lambda number: str(Decimal(number).scaleb(-2, EXACT))),
    st.floats(-1e6, 1e6).map(np.float64),
    st.floats(-1e6, 1e6, width=32).map(np.float32),
    st.integers(-(2**31), 2**31).map(np.int64),
    st.sampled_from(
        ["", "x", " 1", "1_0", "1e2", "1e999999999", "0e99", ".5", "5.", "NaN", ARABIC_ONE, True, np.True_]
    ),
)


def decimal_of(value: Any) -> Decimal | None:
    """Return the decimal that a value is, and None if it is none of two decimals and eight digits before them."""
    if isinstance(value, bool | np.bool_) or (
        isinstance(value, str) and value in ("", "x", " 1", "1_0", "NaN", ARABIC_ONE)
    ):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    if not number.is_finite() or (number and number.adjusted() >= 8):
        return None
    if number and number.adjusted() < -50:
        return None
    rounded = number.quantize(Decimal("0.01"), context=EXACT)
    return rounded if rounded == number else None


def forms(values: list[Any]) -> list[Any]:
    return [
        {"place": list(range(len(values))), "price": values},
        [{"place": place, "price": value} for place, value in enumerate(values)],
        list(enumerate(values)),
        (row for row in [{"price": value, "place": place} for place, value in enumerate(values)]),
    ]


@given(st.lists(numbers, max_size=6))
def test_each_value_is_taken_or_refused_by_itself(values: list[Any]) -> None:
    expected = {place: decimal_of(value) for place, value in enumerate(values) if value is not None}
    nulls = [place for place, value in enumerate(values) if value is None]
    taken = sorted((place, number) for place, number in expected.items() if number is not None)
    for rows in forms(values):
        engine = ec.Engine(on_bad_rows="ledger")
        source = engine.source("s", SCHEMA)
        view = engine.view("v", source)
        source.push(rows)
        kept = sorted(view.read().rows(), key=lambda row: row[0])
        assert [row for row in kept if row[1] is not None] == taken
        assert [place for place, number in kept if number is None] == nulls
        assert engine.ledger().height == len(values) - len(kept)


@given(st.lists(numbers, max_size=6))
def test_a_push_is_refused_if_one_of_its_values_is(values: list[Any]) -> None:
    fits = all(value is None or decimal_of(value) is not None for value in values)
    for rows in forms(values):
        engine = ec.Engine()
        source = engine.source("s", SCHEMA)
        view = engine.view("v", source)
        if fits:
            source.push(rows)
            assert view.read().height == len(values)
        else:
            with pytest.raises(ec.InputError, match=r"column 'price' holds .*(decimal|digits)"):
                source.push(rows)
            assert view.read().height == 0


def test_decimals_inside_of_others_are_judged_alike() -> None:
    kinds = {"many": pl.List(pl.Decimal(10, 2)), "one": pl.Struct({"x": pl.Decimal(10, 2)})}
    engine = ec.Engine()
    source = engine.source("s", kinds)
    view = engine.view("v", source)
    source.push([{"many": [1, 2.5, Decimal("3.50"), "4.25", None], "one": {"x": 0.1}}])
    ((many, one),) = view.read().rows()
    assert many == [Decimal(1), Decimal("2.5"), Decimal("3.5"), Decimal("4.25"), None]
    assert one == {"x": Decimal("0.1")}
    with pytest.raises(ec.InputError, match=r"column 'many' holds 2\.505, which has more than 2 decimals"):
        source.push([{"many": [1, 2.505], "one": None}])


def test_no_decimal_is_rounded_to_the_context_of_a_thread() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"x": pl.Decimal(38, 30)})
    view = engine.view("v", source)
    exact = Decimal("12345678." + "123456789" * 3 + "123")
    source.push({"x": [exact]})
    assert view.read().item() == exact
    with pytest.raises(ec.InputError, match="more than 30 decimals"):
        source.push({"x": [Decimal("1." + "0" * 31 + "1")]})
