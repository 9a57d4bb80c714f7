"""What is saved is taken up in one epoch, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.engine.retaken import retake

SALES = {"shop": pl.String, "price": pl.Int64}


def declared(engine: ec.Engine) -> ec.Engine:
    sales = engine.source("sales", SALES, retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.view("sizes", totals.group_by("total").agg(shops=pl.len()))
    engine.view("gone", sales.filter(pl.col("price") > 3))
    return engine


def edited(more: Callable[[ec.Collection], ec.Collection] = lambda sales: sales) -> ec.Engine:
    """Return an engine in which two views compute something else, one is new, one is gone, and so is a source new."""
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=True)
    items = engine.source("items", {"item": pl.Int64})
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum() * 2))
    engine.view("sizes", totals.group_by("total").agg(shops=pl.len(), first=pl.col("shop").min()))
    engine.view("more", more(totals))
    engine.view("items", items)
    return engine


@pytest.mark.parametrize("durable", [False, True])
def test_all_changes_are_one_epoch(durable: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path} if durable else {}
    with declared(ec.Engine(record=True, **options)) as engine:
        engine.push("sales", {"shop": ["north", "south"], "price": [3, 4]})
        deltas: list[pl.DataFrame] = []
        engine.views["totals"].subscribe(deltas.append)
        sentence = retake(engine, edited())
        assert sentence == "source items, more, items new; totals, sizes replaced; gone dropped"
        assert [frame["_epoch"].unique().to_list() for frame in deltas] == [[2]]
        engine.sources["items"].push({"item": [1]})
        engine.push("sales", {"shop": ["north"], "price": [1]})
        assert sorted(engine.views["sizes"].read().rows()) == [(8, 2, "north")]
        assert engine.views["items"].read().rows() == [(1,)]
        assert engine.prove()
        assert retake(engine, edited()) == "nothing computes anything else"
    if durable:
        again = ec.Engine(checkpoint=tmp_path)
        sales = again.source("sales", SALES, retained=True)
        items = again.source("items", {"item": pl.Int64})
        totals = again.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum() * 2))
        again.view("sizes", totals.group_by("total").agg(shops=pl.len(), first=pl.col("shop").min()))
        again.view("more", totals)
        again.view("items", items)
        with again:
            assert sorted(again.views["sizes"].read().rows()) == [(8, 2, "north")]


def test_if_one_view_cannot_be_filled_nothing_has_changed() -> None:
    engine = declared(ec.Engine(record=True))
    engine.push("sales", {"shop": ["north", "south"], "price": [3, 4]})
    views, rows = dict(engine.views), {name: view.read().rows() for name, view in engine.views.items()}

    def failing(totals: ec.Collection) -> ec.Collection:
        return totals.with_columns(bad=pl.col("shop").str.to_integer(strict=True))

    with pytest.raises(ec.EvercurrentError):
        retake(engine, edited(failing))
    assert dict(engine.views) == views
    assert all(engine.views[name] is view for name, view in views.items())
    assert list(engine.sources) == ["sales"]
    assert {name: view.read().rows() for name, view in engine.views.items()} == rows
    assert engine.push("sales", {"shop": ["north"], "price": [1]}) == 2
    assert engine.prove()
    assert retake(engine, edited()) == "source items, more, items new; totals, sizes replaced; gone dropped"
    assert engine.prove()


def test_an_open_subscription_keeps_all_as_it_was() -> None:
    engine = declared(ec.Engine())
    engine.push("sales", {"shop": ["north"], "price": [5]})
    engine.views["gone"].subscribe(lambda delta: None)
    views = dict(engine.views)
    with pytest.raises(ec.PlanError, match="'gone': 1 open subscription to it"):
        retake(engine, edited())
    assert all(engine.views[name] is view for name, view in views.items())
    assert engine.views["totals"].read().rows() == [("north", 5)]


def test_a_view_that_is_being_filled_is_completed_before() -> None:
    engine = declared(ec.Engine())
    engine.push("sales", {"shop": ["north"], "price": [5]})
    totals = engine.views["totals"]
    view = engine.view("more", totals.group_by("shop").agg(n=pl.len()), background=True)
    assert "more" in retake(engine, edited())
    assert engine.views["more"] is not view
    assert engine.views["more"].read().rows() == [("north", 10)]
