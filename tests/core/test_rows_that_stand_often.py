"""Aggregates that look at each row refuse an epoch in which rows stand so often that memory would end."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import evercurrent as ec

OFTEN = 2**30

LOOKING_AT_EACH_ROW: dict[str, Callable[[], pl.Expr]] = {
    "median": lambda: pl.col("x").median(),
    "quantile": lambda: pl.col("x").quantile(0.9),
    "mode": lambda: pl.col("x").mode().max(),
    "skew": lambda: pl.col("x").skew(),
    "implode": lambda: pl.col("x").implode(),
}


def engine_of(aggregate: pl.Expr) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "x": pl.Int64}, kind="diffs")
    return engine, engine.view("by_key", rows.group_by("k").agg(y=aggregate))


@pytest.mark.parametrize("name", LOOKING_AT_EACH_ROW)
def test_it_names_view_column_and_numbers_and_nothing_has_changed(name: str) -> None:
    engine, view = engine_of(LOOKING_AT_EACH_ROW[name]())
    few = pl.DataFrame({"k": ["a", "a"], "x": [1, 4], "_diff": [2, 1]})
    engine.push("rows", few)
    before = view.read()
    with pytest.raises(
        ec.InputError, match=r"by_key.*'y'.*1,073,741,826 times.*use an aggregate that works on counts"
    ) as found:
        engine.push("rows", pl.DataFrame({"k": ["a"], "x": [1], "_diff": [OFTEN - 1]}))
    assert "nothing has changed" in str(found.value)
    assert view.read().equals(before)
    engine.push("rows", few.with_columns(-pl.col("_diff")))
    assert not view.read().height


@pytest.mark.parametrize("name", ["len", "sum", "mean", "std", "min", "max", "n_unique"])
def test_those_that_count_take_them(name: str) -> None:
    engine, view = engine_of(pl.len() if name == "len" else getattr(pl.col("x"), name)())
    engine.push("rows", pl.DataFrame({"k": ["a"], "x": [3], "_diff": [2**20]}))
    expected = {"len": 2**20, "sum": 3 * 2**20, "mean": 3.0, "std": 0.0, "min": 3, "max": 3, "n_unique": 1}
    assert view.read()["y"].item() == expected[name]
