"""Taking away the rows that a lineage names takes away the row."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from evercurrent.views.inspection.tracing import indexes, scans
from evercurrent.views.inspection.tracing.sorted_ahead import SortedAhead
from harness import contents
from oracle import Bag, freeze
from retained_case import declared, engine_after
from strategies import Case, cases, of_profile

OTHERWISE = re.compile(
    r"anti|minus|left'|full|right'|top_k|bottom_k|limit|unique\(\[|negate|group_by\(\)|map_batches"
)
"""Calls by which a row may come back when other rows go, and those that are not followed."""


WITH_OTHERS = re.compile(r"anti|minus|left'|full|right'|negate|map_batches")
"""Calls whose rows depend on rows that are not there, and those that are not followed."""

IN_SEVERAL = re.compile(r"concat|unpivot|explode|join")
"""Calls by which a row may be in several groups: of those that are not named, alone, it makes groups of another size."""


@of_profile(0.6, quick=40)
@given(case=cases(trusted=False, max_lines=3))
def test_the_rows_that_it_comes_from_are_enough_for_a_row(case: Case) -> None:
    text = " ".join(case.program.lines)
    assume(not WITH_OTHERS.search(text))
    assume(text.count("group_by") <= 1 or not IN_SEVERAL.search(text))
    engine = engine_after(case)
    for name, view in engine.views.items():
        for row in view.read().head(3).rows():
            found = view.lineage(row)
            alone = declared(case)
            with alone.epoch():
                for source, rows in found.items():
                    alone.push(source, rows)
            assert tuple(map(freeze, row)) in contents(alone.views[name]).counts, (name, row, found)


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


WINDOWS = {
    "fixed": ec.fixed("10s"),
    "sliding": ec.sliding("10s", every="4s"),
    "sessions": ec.sessions("5s"),
    "days": ec.calendar("1d"),
    "all": None,
}
HITS = {"k": pl.String, "n": pl.Int64, "at": pl.Datetime("us")}
START = datetime(2026, 1, 1)

hits = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.integers(0, 60)), max_size=8
)


def windowed(kind: str, *, keyed: bool, trigger: bool) -> ec.Engine:
    engine = ec.Engine()
    source = engine.source(
        "hits", HITS, kind="diffs", event_time="at", watermark=ec.bounded_delay("10s"), retained=True
    )
    rows = source.filter(pl.col("n") > 0)
    rows = rows if WINDOWS[kind] is None else rows.window(WINDOWS[kind])
    if trigger and WINDOWS[kind] is not None:
        rows = rows.trigger(ec.after_watermark(late=ec.every_epoch()))
    grouped = rows.group_by(*(["k"] if keyed else [])).agg(n=pl.len(), most=pl.col("n").max())
    panes = engine.view("panes", grouped)
    engine.view("sizes", panes.group_by("n").agg(windows=pl.len()))
    return engine


def push_hits(engine: ec.Engine, entries: list[tuple[Any, ...]]) -> None:
    frame = pl.DataFrame(
        [(k, n, START + timedelta(seconds=second), 1) for k, n, second in entries],
        {**HITS, "_diff": pl.Int64}, orient="row",
    )  # fmt: skip
    engine.push("hits", frame, at="2026-01-01T12:00:00Z")


@of_profile(0.6, quick=15)
@given(
    kind=st.sampled_from(sorted(WINDOWS)),
    keyed=st.booleans(),
    trigger=st.booleans(),
    epochs=st.lists(hits, min_size=1, max_size=4),
)
def test_windows_and_sessions(kind: str, keyed: bool, trigger: bool, epochs: list[Any]) -> None:
    assume(keyed or kind != "all")
    engine = windowed(kind, keyed=keyed, trigger=trigger)
    for entries in epochs:
        push_hits(engine, entries)
    engine.advance("hits", ec.END_OF_TIME, at="2026-01-01T12:00:00Z")
    for name, view in engine.views.items():
        if kind == "sliding" and name == "sizes":
            continue  # A row is in several windows: in those that are not named, alone, it makes windows of another size.
        for row in view.read().head(2).rows():
            found = view.lineage(row)["hits"]
            assert found["at"].is_sorted(descending=True)
            alone = windowed(kind, keyed=keyed, trigger=trigger)
            alone.push("hits", found, at="2026-01-01T12:00:00Z")
            alone.advance("hits", ec.END_OF_TIME, at="2026-01-01T12:00:00Z")
            assert tuple(map(freeze, row)) in contents(alone.views[name]).counts, (row, found)
            without = engine.fork()
            without.push("hits", found.with_columns(-pl.col("_diff")), at="2026-01-01T12:00:00Z")
            assert tuple(map(freeze, row)) not in contents(without.views[name]).counts, (row, found)


@of_profile(0.3, quick=20)
@given(case=cases(trusted=False, max_lines=3))
def test_it_is_the_same_where_parts_are_scanned(case: Case) -> None:
    """As large ones are, by numbers or by fingerprints, until a thread has sorted them; here none does, and then one does at any time."""
    engine = engine_after(case)
    rows = [(name, row) for name, view in engine.views.items() for row in view.read().head(3).rows()]
    results = []
    for scanned_from, passes, sorts in ((1 << 62, 0, True), (1, 1 << 62, False), (1, 0, False), (1, 1, True)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(indexes, "SCANNED_FROM", scanned_from)
            patched.setattr(indexes, "SCANS", 1)
            patched.setattr(scans, "PASSES", passes)
            if not sorts:
                patched.setattr(SortedAhead, "begin", lambda *_: None)
            fork = engine.fork()
            results.append([lineage_of(fork, name, row) for name, row in rows])
    assert all(result == results[0] for result in results)


def lineage_of(engine: ec.Engine, view: str, row: Any) -> Any:
    """Its rows by source, or why there are none."""
    try:
        found = engine.views[view].lineage(row)
    except ec.InputError as refused:
        return str(refused)
    return {source: Bag.of(rows) for source, rows in found.items()}


def test_a_look_up_costs_what_it_finds() -> None:
    """Not what the states hold: rows are sorted once, and those of a later epoch when they have come."""
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "item": pl.Int64, "price": pl.Int64}, retained=True)
    items = engine.view("items", sales.group_by("shop", "item").agg(n=pl.len(), total=pl.col("price").sum()))
    shops = engine.view("shops", items.group_by("shop").agg(items=pl.len(), total=pl.col("total").sum()))
    sizes = engine.view("sizes", shops.group_by("items", "total").agg(shops=pl.len()))
    size = 100_000
    numbers = pl.int_range(size, eager=True)
    engine.push("sales", {"shop": numbers // 20, "item": numbers % 7, "price": numbers % 100})
    own = engine._indexes
    assert sizes.lineage({"items": 7, "total": 190})["sales"].height == 1000
    first = own.indexed
    assert first >= size
    touched = own.touched
    found = shops.lineage({"shop": 17})
    assert found["sales"].height == 20
    assert own.indexed == first
    assert own.touched - touched <= 2 * (20 + 7 + 1)
    touched = own.touched
    engine.push("sales", {"shop": [17, 18], "item": [100, 200], "price": [1, 2]})
    assert shops.lineage({"shop": 17})["sales"].height == 21
    assert own.indexed - first <= 2 * (2 + 2 + 4)
    assert own.touched - touched <= 60


def test_a_look_up_after_reads_and_epochs_costs_what_they_added() -> None:
    """Readers merge the runs of the views that they read: rows that were looked up before are not sorted again for that."""
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, retained=True)
    shops = engine.view("shops", sales.group_by("shop").agg(total=pl.col("price").sum()))
    totals = engine.view("totals", shops.group_by("total").agg(shops=pl.len()))
    numbers = pl.int_range(20_000, eager=True)
    for start in range(0, 20_000, 1000):
        engine.push("sales", {"shop": numbers[start : start + 1000], "price": numbers[start : start + 1000]})
    assert totals.lineage({"total": 7})["sales"].rows() == [(7, 7, 1)]
    for epoch in range(1, 5):
        shops.read()
        totals.read()
        indexed = engine._indexes.indexed
        engine.push("sales", {"shop": [7, epoch * 100], "price": [100_000, 100_000]})
        found = totals.lineage({"total": 7 + epoch * 100_000})["sales"]
        assert found["_diff"].sum() == 1 + epoch
        assert engine._indexes.indexed - indexed <= 50


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
