"""Loops, brackets, pickling and names of other systems: each is answered with what to write instead."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import evercurrent as ec


def shop() -> tuple[ec.Engine, ec.Source, ec.View]:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    view = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    sales.push({"shop": ["north"], "price": [3]})
    return engine, sales, view


@pytest.mark.parametrize(
    ("refused", "remedy"),
    [
        (lambda engine, sales, view: pickle.dumps(engine), "view.read()"),
        (lambda engine, sales, view: copy.copy(engine), "declare the views by the same function"),
        (lambda engine, sales, view: copy.deepcopy(engine), "threads"),
        (lambda engine, sales, view: pickle.dumps(view), "view.read() or view.snapshot()"),
        (lambda engine, sales, view: pickle.dumps(sales), "source 'sales' cannot be pickled"),
        (lambda engine, sales, view: list(view), "view.read().iter_rows(named=True)"),
        (lambda engine, sales, view: list(sales), "engine.view(name, collection)"),
        (lambda engine, sales, view: list(sales.select("shop")), "a collection is not iterated"),
        (lambda engine, sales, view: "north" in view, "view.lookup(key)"),
        (lambda engine, sales, view: view["total"], "view.read()['total']"),
        (lambda engine, sales, view: view["totla"], "its columns are shop, total"),
        (lambda engine, sales, view: view[0], "its rows have no order"),
        (lambda engine, sales, view: sales[["shop", "price"]], ".select(['shop', 'price'])"),
        (lambda engine, sales, view: sales[pl.col("price") > 3], ".filter(...)"),
        (lambda engine, sales, view: sales.group_by("shop")["price"].sum(), ".agg(pl.col('price').sum())"),
        (lambda engine, sales, view: list(sales.group_by("shop")), "engine.view(name, grouped.agg(...))"),
        (lambda engine, sales, view: engine["totals"], "engine.views['totals']"),
        (lambda engine, sales, view: list(engine), "dictionaries by name"),
    ],
)
def test_operators_of_tables_are_refused_with_the_way_out(refused: Callable[..., Any], remedy: str) -> None:
    engine, sales, view = shop()
    with pytest.raises(TypeError, match=re.escape(remedy)):
        refused(engine, sales, view)
    assert view.read().rows() == [("north", 3)]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("totals", "engine.views['totals']"),
        ("create_table", "engine.source(name, schema)"),
        ("insert", "engine.push(source, rows)"),
        ("start", "nothing is to be started"),
        ("stop", "engine.close()"),
        ("groupBy", "engine.sources[name]"),
        ("head", "engine.views[name].read()"),
        ("nonsense", "no attribute 'nonsense'"),
    ],
)
def test_names_of_other_systems_on_an_engine(name: str, remedy: str) -> None:
    engine, _, _ = shop()
    with pytest.raises(AttributeError, match=re.escape(remedy)):
        getattr(engine, name)


def test_what_is_sent_to_another_process_can_be_pickled() -> None:
    _, _, view = shop()
    assert pickle.loads(pickle.dumps(view.read())).equals(view.read())
    assert pickle.loads(pickle.dumps(view.snapshot())).epoch == 1


def test_other_libraries_take_a_view_as_before() -> None:
    _, _, view = shop()
    assert pl.DataFrame(view).rows() == [("north", 3)]
    assert len(view) == 1


def test_a_closed_watch_gets_nothing_more() -> None:
    engine, sales, _ = shop()
    first: list[int] = []
    second: list[int] = []
    watch = engine.watch(lambda event: first.append(event.epoch))
    engine.watch(lambda event: second.append(event.epoch))
    sales.push({"shop": ["north"], "price": [3]})
    assert watch.is_open
    watch.close()
    watch.close()
    assert not watch.is_open
    assert repr(watch) == "Watch(closed)"
    sales.push({"shop": ["north"], "price": [3]})
    assert (first, second) == ([2], [2, 3])
    with engine.watch(lambda event: first.append(-event.epoch)):
        sales.push({"shop": ["north"], "price": [3]})
    sales.push({"shop": ["north"], "price": [3]})
    assert first == [2, -4]


def test_a_watch_can_be_closed_from_within_a_watcher() -> None:
    engine, sales, _ = shop()
    seen: list[int] = []
    watches: list[Any] = []
    watches.append(engine.watch(lambda event: watches[1].close()))
    watches.append(engine.watch(lambda event: seen.append(event.epoch)))
    sales.push({"shop": ["north"], "price": [3]})
    assert seen == []


def test_an_aggregate_of_pandas_is_refused_and_no_constant_list() -> None:
    _, sales, _ = shop()
    with pytest.raises(ec.PlanError, match=re.escape("write total=pl.col('price').sum()")):
        sales.group_by("shop").agg(total=("price", "sum"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        {"shop": "south", "at": "2026-01-01"},
        ({"shop": "south", "at": "2026-01-01"} for _ in range(1)),
        iter([("south", "2026-01-01")]),
    ],
    ids=["a row", "a generator", "an iterator"],
)
def test_a_row_and_rows_that_are_generated_are_pushed_as_a_list_of_rows_is(data: Any) -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String, "at": pl.Date})
    view = engine.view("now", sales)
    sales.push(data)
    assert [(row[0], str(row[1])) for row in view.read().rows()] == [("south", "2026-01-01")]


@pytest.mark.parametrize(("name", "remedy"), [("view", "ec.Engine()"), ("connect", "ec.Engine()")])
def test_names_of_an_engine_on_the_package(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(remedy)):
        getattr(ec, name)
