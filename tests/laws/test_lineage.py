"""Taking away the rows that a lineage names takes away the row."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from harness import contents
from oracle import freeze
from retained_case import engine_after
from strategies import Case, cases, of_profile

OTHERWISE = re.compile(
    r"anti|minus|left'|full|right'|top_k|bottom_k|limit|negate|unpivot|group_by\(\)|map_batches"
)
"""Calls by which a row may come back when other rows go, and those that are not followed."""


@of_profile(0.6, quick=60)
@given(case=cases(trusted=False, max_lines=3))
def test_without_the_rows_that_it_comes_from_a_row_is_gone(case: Case) -> None:
    text = " ".join(case.program.lines)
    assume(not OTHERWISE.search(text) and text.count("group_by") <= 1)
    engine = engine_after(case)
    for name, view in engine.views.items():
        for row in view.read().head(3).rows():
            found = view.lineage(row)
            assert found, (name, row)
            fork = engine.fork()
            with fork.epoch():
                for source, rows in found.items():
                    fork.push(source, rows.with_columns(-pl.col("_diff")))
            assert tuple(map(freeze, row)) not in contents(fork.views[name]).counts, (name, row, found)


def started() -> ec.Engine:
    engine = ec.Engine()
    orders = engine.source("orders", {"shop": pl.String, "item": pl.Int64}, kind="diffs", retained=True)
    items = engine.source("items", {"item": pl.Int64, "price": pl.Int64}, retained=True)
    priced = engine.view(
        "priced", orders.join(items, on="item", how="left").with_columns(double=pl.col("price") * 2)
    )
    totals = engine.view("totals", priced.group_by("shop").agg(total=pl.col("price").sum()))
    engine.view("sizes", totals.group_by("total").agg(shops=pl.len()))
    engine.view("sold", items.join(orders, on="item", how="semi"))
    engine.view("unsold", items.join(orders, on="item", how="anti"))
    engine.view("dearest", items.top_k(1, by="price"))
    engine.view("both", orders.select("item").concat(items.select("item")).unique())
    engine.push("items", {"item": [1, 2, 3], "price": [10, 20, 30]})
    engine.push("orders", {"shop": ["north", "north", "south", "west"], "item": [1, 2, 3, 9]})
    engine.push("orders", {"shop": ["north"], "item": [1]})
    return engine


CASES: list[tuple[str, Any, dict[str, list[tuple[Any, ...]]]]] = [
    ("priced", {"shop": "south"}, {"orders": [("south", 3, 1)], "items": [(3, 30, 1)]}),
    ("priced", ("west", 9, None, None), {"orders": [("west", 9, 1)]}),
    (
        "totals",
        {"shop": "north"},
        {"orders": [("north", 1, 2), ("north", 2, 1)], "items": [(1, 10, 1), (2, 20, 1)]},
    ),
    ("sizes", {"total": 30}, {"orders": [("south", 3, 1)], "items": [(3, 30, 1)]}),
    ("sold", {"item": 1}, {"items": [(1, 10, 1)], "orders": [("north", 1, 2)]}),
    ("dearest", {"item": 3}, {"items": [(3, 30, 1)]}),
    ("both", {"item": 9}, {"orders": [("west", 9, 1)]}),
    ("both", {"item": 2}, {"orders": [("north", 2, 1)], "items": [(2, 20, 1)]}),
]


@pytest.mark.parametrize(("view", "row", "expected"), CASES)
def test_rows_are_followed_through_each_call(view: str, row: Any, expected: Any) -> None:
    found = started().views[view].lineage(row)
    assert {name: sorted(rows.rows()) for name, rows in found.items()} == expected


def test_what_is_not_there_or_not_followed_is_refused() -> None:
    engine = started()
    with pytest.raises(ec.InputError, match=r"view 'totals': it has no row with {'shop': 'east'}"):
        engine.views["totals"].lineage({"shop": "east"})
    for row in ({"place": "north"}, {}, "north", ("north",)):
        with pytest.raises(ec.InputError, match="give a dictionary with columns of the view"):
            engine.views["totals"].lineage(row)
    mapped = engine.view("mapped", engine.sources["orders"].map_batches(lambda rows: rows))
    with pytest.raises(ec.InputError, match=r"'mapped': where a row comes from is not known: .*map_batches"):
        mapped.lineage({"item": 1})
    assert engine.views["totals"].lineage({"shop": "north"}, limit=1)["orders"].height == 1
