"""An expression that polars cannot compute of the declared types is refused where it is declared, before any rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

VALUES: dict[str, tuple[Any, Any]] = {
    "integer": (pl.Int64, 2),
    "wide": (pl.UInt128, 2),
    "float": (pl.Float64, 1.5),
    "decimal": (pl.Decimal(10, 2), Decimal("1.25")),
    "fraction": (pl.Decimal(38, 38), Decimal("0.5")),
    "text": (pl.String, "7"),
    "flag": (pl.Boolean, True),
    "day": (pl.Date, date(2026, 1, 31)),
    "zoned": (pl.Datetime("ms", "Europe/Berlin"), None),
    "span": (pl.Duration("us"), timedelta(days=1)),
    "list": (pl.List(pl.Int64), [1, 2]),
    "texts": (pl.List(pl.String), ["a"]),
    "array": (pl.Array(pl.Int64, 2), [1, 2]),
    "nested": (pl.Array(pl.List(pl.Int64), 2), [[1], [2]]),
    "struct": (pl.Struct({"a": pl.Int64, "b": pl.String}), {"a": 1, "b": "x"}),
    "bytes": (pl.Binary, b"x"),
    "enum": (pl.Enum(["x", "y"]), "x"),
    "category": (pl.Categorical, "x"),
    "nothing": (pl.Null, None),
}
TYPES = {name: dtype for name, (dtype, _) in VALUES.items()}
ROW = pl.DataFrame({name: pl.Series([value], dtype=dtype) for name, (dtype, value) in VALUES.items()})

OF_ROWS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "text of it": lambda x: x.cast(pl.String),
    "day of it": lambda x: x.cast(pl.Date),
    "root": lambda x: x.sqrt(),
    "greater than a number": lambda x: x > 1,
    "equal to a text": lambda x: x == "a",
    "greater than a column": lambda x: x > pl.col("text"),
    "or another column": lambda x: pl.coalesce(x, pl.col("integer")),
    "as text beside another": lambda x: pl.concat_str(x, "text"),
    "in capitals": lambda x: x.str.to_uppercase(),
    "itself by itself": lambda x: x / x,
    "sum of elements": lambda x: x.list.sum(),
}
OF_GROUPS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "product": lambda x: x.product(),
    "product of some": lambda x: x.filter(pl.col("flag")).product(),
    "joined": lambda x: x.str.join("-"),
    "count of some": lambda x: x.filter(x > 1).len(),
    "sum of texts": lambda x: x.cast(pl.String).n_unique(),
}
OF_THEIR_VALUES = "overflow|conversion from"


def is_refused_at_once(declare: Callable[[ec.Source], ec.Collection]) -> bool:
    """Whether a view is refused where it is declared; if not, a row does, if at all, because of its values."""
    engine = ec.Engine()
    try:
        view = engine.view("v", declare(engine.source("rows", TYPES)))
    except ec.PlanError:
        return True
    try:
        engine.push("rows", ROW)
    except ec.InputError as error:
        if not re.search(OF_THEIR_VALUES, str(error)):
            raise
    view.read()
    return False


@pytest.mark.parametrize("function", OF_ROWS)
def test_functions_of_rows(function: str) -> None:
    refused = {
        name: [
            is_refused_at_once(lambda rows, name=name: rows.with_columns(z=OF_ROWS[function](pl.col(name)))),
            is_refused_at_once(
                lambda rows, name=name: rows.filter(OF_ROWS[function](pl.col(name)).is_null())
            ),
        ]
        for name in TYPES
    }
    assert all(one == other for one, other in refused.values()), refused
    assert any(one for one, _ in refused.values())
    assert not all(one for one, _ in refused.values())


@pytest.mark.parametrize("function", OF_GROUPS)
def test_aggregates(function: str, capfd: pytest.CaptureFixture[str]) -> None:
    refused = {
        name: is_refused_at_once(
            lambda rows, name=name: rows.group_by("integer").agg(z=OF_GROUPS[function](pl.col(name)))
        )
        for name in TYPES
    }
    assert any(refused.values())
    assert not all(refused.values())
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("column", ["wide", "fraction"])
def test_a_product_that_polars_cannot_compute_is_refused_with_the_way_out(column: str) -> None:
    rows = ec.Engine().source("rows", TYPES)
    with pytest.raises(
        ec.PlanError, match=rf"{column}.*product.*cannot compute the product of .*; cast the column to"
    ):
        rows.group_by("text").agg(p=pl.col(column).product())
    _ = rows.group_by("text").agg(p=pl.col(column).cast(pl.Float64).product())


def test_all_columns_of_a_type_are_refused_by_one_of_them() -> None:
    rows = ec.Engine().source("rows", {**{f"c{at}": pl.Int64 for at in range(50)}, "l": pl.List(pl.Int64)})
    with pytest.raises(ec.PlanError, match="cannot cast List"):
        rows.select(pl.all().cast(pl.String))
    _ = rows.select(pl.exclude("l").cast(pl.String))


def test_a_function_of_python_is_not_called_with_values_that_no_row_has() -> None:
    values: list[object] = []

    def function(value: int) -> int:
        values.append(value)
        return value

    engine = ec.Engine()
    rows = engine.source("rows", {"x": pl.Int64})
    with pytest.raises(ec.PlanError):
        rows.with_columns(y=pl.col("x").map_elements(function, return_dtype=pl.Int64))
    assert values == []


def test_an_expression_that_reads_a_column_twice_is_named_with_its_row() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"x": pl.Decimal(38, 38)})
    engine.view("v", rows.with_columns(y=pl.col("x") / pl.col("x")))
    with pytest.raises(ec.InputError, match=r'overflow .* in col\("x"\) / col\("x"\), for the row'):
        engine.push("rows", {"x": [Decimal("0.5")]})
