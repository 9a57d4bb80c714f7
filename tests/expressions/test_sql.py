"""What ``pl.sql_expr`` makes stands in views, row by row and in groups, and gives what polars gives."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.data.errors import PlanError
from evercurrent.views.expressions import predicate, row_expressions
from expressions.catalogue import SQL_OF_A_ROW, SQL_OF_ROWS, sql

ROWS = pl.DataFrame(
    {
        "a": [1, 2, None, -3, 2],
        "b": [2, 2, 5, None, 1],
        "f": [0.5, 1.0, None, -0.25, 0.75],
        "s": ["a", "ab,c", None, "", "Zeta"],
        "t": ["x", None, "y", "z", ""],
        "d": [datetime(2024, 2, 29, 12), None, datetime(1999, 12, 31, 23, 59), datetime(2024, 1, 1), datetime(2030, 6, 1)],
        "l": [[1, 2], None, [], [None, 3], [2]],
        "k": ["p", "p", "q", "q", "q"],
    }
)  # fmt: skip


def made(text: str) -> pl.Expr:
    try:
        expr = pl.sql_expr(text)
        ROWS.select(expr)
    except pl.exceptions.PolarsError as error:
        pytest.skip(f"this polars has no such SQL: {str(error).splitlines()[0]}")
    return expr


@pytest.mark.parametrize("text", sql(SQL_OF_A_ROW))
def test_of_a_row(text: str) -> None:
    expr = made(text).alias("out")
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", ROWS.schema, kind="diffs").select("s", "k", out=expr))
    whole = ROWS.select("s", "k", expr)
    for place in range(ROWS.height):
        engine.push("rows", ROWS.slice(place, 1).with_columns(_diff=1))
    assert_frame_equal(view.read(), whole, check_row_order=False)
    engine.push("rows", {**ROWS.to_dict(as_series=False), "_diff": [-1] * ROWS.height})
    assert view.read().is_empty(), "a retraction takes back what the row gave"


@pytest.mark.parametrize(
    "text", ["a * 2 > 3", "a IN (1, 2)", "s LIKE 'a%' AND b < 5", "f > 0.6 OR s IS NULL"]
)
def test_as_a_condition(text: str) -> None:
    condition = made(text)
    found = predicate("view 'v'", ROWS.schema, condition)
    assert_frame_equal(ROWS.filter(found.expr), ROWS.filter(condition))


@pytest.mark.parametrize("text", sql(SQL_OF_ROWS))
def test_of_rows(text: str) -> None:
    expr = made(text).alias("out")
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", ROWS.schema).group_by("k").agg(expr))
    engine.push("rows", ROWS[:2])
    engine.push("rows", ROWS[2:])
    expected = ROWS.group_by("k").agg(expr).cast({"out": view.schema["out"]})
    assert_frame_equal(view.read(), expected, check_row_order=False)


def test_a_query_within_an_expression_is_refused_with_the_way_out() -> None:
    expr = made("a IN (SELECT 1)")
    with pytest.raises(PlanError, match=r"view 'v'.*query within.*join"):
        row_expressions("view 'v'", ROWS.schema, expr)
