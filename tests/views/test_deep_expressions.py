"""Expressions of hundreds and thousands of terms: right, or refused by name, and never the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import PlanError
from evercurrent.views.expressions.deep_expressions import DEEPEST, levels

Deepen = Callable[[pl.Expr, int], pl.Expr]
DEEPER: dict[str, Deepen] = {
    "plus": lambda expr, _: expr + 1,
    "from the right": lambda expr, _: 1 + expr,
    "function": lambda expr, _: expr.abs(),
    "cast": lambda expr, _: expr.cast(pl.Int64),
    "alias": lambda expr, _: expr.alias("x"),
    "ternary": lambda expr, number: pl.when(pl.col("x") == -number).then(number).otherwise(expr),
}
COLUMNS = {"x": pl.Int64, "k": pl.Int64}


def deep(kind: str, count: int, expr: pl.Expr | None = None) -> pl.Expr:
    return reduce(DEEPER[kind], range(1, count + 1), pl.col("x") if expr is None else expr)


USES: dict[str, Callable[[ec.Source, pl.Expr], object]] = {
    "with_columns": lambda rows, expr: rows.with_columns(y=expr),
    "select": lambda rows, expr: rows.select("k", y=expr),
    "filter": lambda rows, expr: rows.filter(expr >= 0),
    "key": lambda rows, expr: rows.group_by(y=expr).agg(n=pl.len()),
    "several": lambda rows, expr: rows.with_columns((pl.col("x", "k") + expr).name.suffix("_more")),
    "sum": lambda rows, expr: rows.group_by("k").agg(y=expr.sum()),
    "over a sum": lambda rows, expr: rows.group_by("k").agg(y=expr.sum() + 1),
    "median": lambda rows, expr: rows.group_by("k").agg(y=expr.median()),
    "sorted": lambda rows, expr: rows.group_by("k").agg(y=pl.col("x").sort_by(expr).first()),
}


@pytest.mark.parametrize("kind", ["plus", "function", "ternary"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("count", [25, 290, 3_000])
def test_what_is_not_taken_is_refused_with_the_way_out(use: str, kind: str, count: int) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS)
    refused: PlanError | None = None
    try:
        USES[use](rows, deep(kind, count))
    except PlanError as error:
        refused = error
    if refused is None:
        assert count < DEEPEST
    else:
        assert count > 25
        assert "source 'rows': an expression nests" in str(refused)
        assert "with_columns(...)" in str(refused)


@pytest.mark.parametrize("kind", DEEPER)
def test_what_is_deep_is_computed(kind: str) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS)
    expr = deep(kind, 120)
    view = engine.view("v", rows.with_columns(y=expr).filter(expr >= -1))
    engine.push("rows", {"x": [3], "k": [1]})
    expected = pl.DataFrame({"x": [3], "k": [1]}).with_columns(y=expr)
    assert view.read().rows() == expected.rows()


def test_a_caller_that_is_deep_itself_declares_the_same() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS)

    def below(frames: int) -> ec.Collection:
        return below(frames - 1) if frames else rows.filter(deep("plus", 200) > 0)

    assert below(600).columns == ["x", "k"]


def test_many_conditions_stand_side_by_side() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS)
    view = engine.view("v", rows.filter(*(pl.col("x") != number for number in range(500))))
    engine.push("rows", {"x": [499, 500, None], "k": [1, 2, 3]})
    assert view.read().rows() == [(500, 2)]


def test_a_wide_expression_is_not_deep() -> None:
    wide = pl.sum_horizontal([pl.col("x") + number for number in range(500)])
    assert levels(wide) == 3
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", COLUMNS).select(y=wide))
    engine.push("rows", {"x": [1], "k": [1]})
    assert view.read().item() == reduce(add, range(1, 501))


BRANCH = pl.when(pl.col("x") > 1).then(49.0)
TAKEN_APART: dict[str, pl.Expr] = {
    "divided often": reduce(lambda expr, _: expr / BRANCH.otherwise(7.0), range(200), pl.col("x")),
    "divided by a deep one": pl.col("x")
    / reduce(lambda expr, _: BRANCH.otherwise(expr), range(280), pl.col("x")),
}


def test_a_division_by_what_may_be_nan_is_taken_apart() -> None:
    engine = ec.Engine()
    divided = engine.source("s", {"x": pl.Float64}).select(y=pl.col("x") / BRANCH.otherwise(float("nan")))
    view = engine.view("v", divided.filter(pl.col("y").is_not_nan() | pl.col("y").is_null()))
    engine.push("s", {"x": [98.0, 0.5, None]})
    assert sorted(view.read()["y"].fill_null(-1)) == [-1, 2]


@pytest.mark.parametrize("name", TAKEN_APART)
def test_what_cannot_be_taken_apart_is_refused_where_it_is_defined(name: str) -> None:
    engine = ec.Engine()
    rows = engine.source("s", {"x": pl.Float64, "k": pl.Int64})
    uses: tuple[Callable[[pl.Expr], object], ...] = (
        lambda expr: rows.with_columns(y=expr),
        lambda expr: rows.filter(expr > 0),
        lambda expr: rows.group_by("k").agg(y=expr.sum()),
    )
    for use in uses:
        with pytest.raises(PlanError, match=r"on source 's'"):
            use(TAKEN_APART[name])
    view = engine.view("v", rows.with_columns(y=pl.col("x") / 49))
    engine.push("s", {"x": [4.9], "k": [1]})
    assert view.read().height == 1
