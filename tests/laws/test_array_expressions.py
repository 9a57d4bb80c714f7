"""What is computed over arrays is what polars computes: every accepted expression, over numbers at the ends of Int64 too."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from evercurrent.core.data.columns.row_values import RowExpressions
from evercurrent.core.data.columns.whole_columns import IntColumn
from evercurrent.views.expressions.array_expressions import over_arrays
from evercurrent.views.expressions.elementwise import elementwise

ENDS = [0, 1, -1, 2, 3, 7, 10, -10, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1]
TYPES = pl.Schema({"a": pl.Int64(), "b": pl.Int64(), "t": pl.String(), "f": pl.Float64(), "u": pl.UInt32()})
Combination = Callable[[pl.Expr, pl.Expr], pl.Expr]

ARITHMETIC: list[Combination] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
]
DIVIDED: list[Combination] = [lambda x, y: x // y, lambda x, y: x % y]
COMPARED: list[Combination] = [
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x <= y,
    lambda x, y: x > y,
    lambda x, y: x >= y,
]


def polars_values(expr: pl.Expr, frame: pl.DataFrame) -> pl.Series:
    return RowExpressions([elementwise(expr).alias("made"), pl.col("a").alias("_diff")]).of(frame)["made"]


def require_same(expr: pl.Expr, frame: pl.DataFrame) -> None:
    array = over_arrays(expr, TYPES)
    assert array is not None, expr
    found = array.of({name: frame[name] for name in array.inputs})
    assert found is not None, expr
    ours, theirs = pl.Series("made", found), polars_values(expr, frame)
    assert ours.dtype == theirs.dtype, expr
    assert ours.equals(theirs, null_equal=True), (expr, frame["a"].to_list(), ours, theirs)
    for row in (0, frame.height - 1):
        alone = array.of({name: frame[name].slice(row, 1) for name in array.inputs})
        assert alone is not None, expr
        assert alone.tolist() == [found[row]], expr


def numbers() -> pl.DataFrame:
    pairs = list(itertools.product(ENDS, ENDS))
    return pl.DataFrame(
        {"a": [one for one, _ in pairs], "b": [other for _, other in pairs]},
        schema={"a": pl.Int64, "b": pl.Int64},
    )


@pytest.mark.parametrize("number", range(len(ARITHMETIC + COMPARED)))
def test_two_columns_give_what_polars_gives(number: int) -> None:
    require_same((ARITHMETIC + COMPARED)[number](pl.col("a"), pl.col("b")), numbers())


@pytest.mark.parametrize("constant", ENDS)
def test_a_column_and_a_constant_give_what_polars_gives(constant: int) -> None:
    frame = numbers()
    for combined in ARITHMETIC + COMPARED + (DIVIDED if constant > 0 else []):
        for literal in (pl.lit(constant, pl.Int64), pl.lit(constant)):
            if over_arrays(combined(pl.col("a"), literal), TYPES) is None:
                continue  # polars has another type for some constants without one.
            require_same(combined(pl.col("a"), literal), frame)
            if combined not in DIVIDED:
                require_same(combined(literal, pl.col("b")), frame)


def test_nested_expressions_give_what_polars_gives() -> None:
    generator, frame = random.Random(7), numbers()

    def number(depth: int) -> pl.Expr:
        if not depth or generator.random() < 0.2:
            return pl.col(generator.choice(["a", "b"]))
        if generator.random() < 0.3:
            return generator.choice(DIVIDED)(number(depth - 1), pl.lit(generator.choice([1, 3, 10, 1000])))
        other = number(depth - 1) if generator.random() < 0.7 else pl.lit(generator.choice([-5, 0, 1, 99]))
        return generator.choice(ARITHMETIC)(number(depth - 1), other)

    def mask(depth: int) -> pl.Expr:
        if not depth or generator.random() < 0.3:
            return generator.choice(COMPARED)(number(1), number(1))
        one, other = mask(depth - 1), mask(depth - 1)
        return one & other if generator.random() < 0.5 else one | other

    for _ in range(60):
        require_same(number(3), frame)
        require_same(mask(2), frame)


@pytest.mark.parametrize("name", TYPES)
def test_nulls_are_found_in_a_column_of_any_type(name: str) -> None:
    frame = pl.DataFrame(
        {
            "a": [1, None, 3],
            "b": [None, 2, 3],
            "t": ["x", None, ""],
            "f": [None, 0.0, 1.5],
            "u": [1, 2, None],
        },
        schema=TYPES,
    )
    for expr in (pl.col(name).is_null(), pl.col(name).is_not_null()):
        require_same(expr, frame)


@pytest.mark.parametrize(
    "expr",
    [
        pl.col("a") // pl.col("b"),
        pl.col("a") // 0,
        pl.col("a") % -3,
        pl.col("a") / 2,
        pl.col("f") + 1.0,
        pl.col("u") + 1,
        pl.col("a") + 1.5,
        pl.col("a") + pl.col("u"),
        pl.col("a") == pl.lit(2**63, pl.UInt64),
        pl.col("t") == "x",
        pl.lit(1) + pl.lit(2),
        pl.col("a").cast(pl.Int32),
        (pl.col("a") > 1) & True,
    ],
    ids=str,
)
def test_what_could_differ_is_left_to_polars(expr: pl.Expr) -> None:
    assert over_arrays(expr, TYPES) is None


def test_nulls_are_left_to_polars() -> None:
    array = over_arrays(pl.col("a") + 1, TYPES)
    assert array is not None
    assert array.of({"a": pl.Series([1, None])}) is None
    assert array.of({"a": IntColumn("a", np.array([1, 2]))}) is not None
