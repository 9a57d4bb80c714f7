"""Lineages, histories, reasons and proofs where stages meet: windows of windows, null keys, lists, negation, later definitions."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.inspection.tracing.indexes import Span
from evercurrent.views.inspection.tracing.stages import span_above

START = datetime(2026, 1, 1)
AT = "2026-01-01T12:00:00Z"


def second(number: int) -> datetime:
    return START + timedelta(seconds=number)


@pytest.fixture(scope="module", params=["fixed", "sliding", "sessions"])
def panes(request: pytest.FixtureRequest) -> ec.Engine:
    """Return an engine with windows that wait, windows of their panes, and groups of their panes."""
    windows = {
        "fixed": ec.fixed("10s"),
        "sliding": ec.sliding("10s", every="5s"),
        "sessions": ec.sessions("5s"),
    }
    engine = ec.Engine(record=True)
    columns = {"k": pl.String, "n": pl.Int64, "at": pl.Datetime("us")}
    hits = engine.source("hits", columns, event_time="at", watermark=ec.bounded_delay("5s"), retained=True)
    windowed = hits.window(windows[request.param]).trigger(ec.after_watermark(late=ec.every_epoch()))
    sums = engine.view("sums", windowed.lateness("20s").group_by("k").agg(s=pl.col("n").sum()))
    engine.view("minutes", sums.window(ec.fixed("1m")).group_by().agg(t=pl.col("s").sum(), n=pl.len()))
    engine.view("most", sums.group_by("k").agg(most=pl.col("s").max()))
    engine.view("sizes", sums.group_by("s").agg(keys=pl.len()))
    for rows in (
        [("a", 1, 0), ("a", 2, 3), ("b", 1, 4), (None, 5, 7)],
        [("a", 3, 20)],
        [("a", 9, 70)],
        [("c", 1, 1)],
    ):
        engine.push("hits", [(k, n, second(at)) for k, n, at in rows], at=AT)
    return engine


def test_windows_of_windows_are_followed_to_the_source(panes: ec.Engine) -> None:
    minutes = panes.views["minutes"]
    row = minutes.read().row(0, named=True)
    for values in (row, {"t": row["t"]}, {"window_start": row["window_start"]}):
        found = minutes.lineage(values)["hits"]
        assert set(found["k"]) == {"a", "b", None}
        assert found["at"].max() == second(20)
        assert "has it:" in minutes.why(values)


def test_groups_of_panes_are_proved(panes: ec.Engine) -> None:
    proofs = panes.prove()
    assert proofs
    assert set(proofs) == {"sums", "minutes", "most", "sizes"}
    assert not proofs.refused
    assert panes.prove(sample=0.5)


def test_a_group_of_panes_goes_by_its_own_key(panes: ec.Engine) -> None:
    assert panes.views["sizes"].why(77).startswith("view 'sizes' has no row with s 77")
    assert "made of" in panes.views["sizes"].why(int(panes.views["sizes"].read()["s"][0]))


def test_windows_are_looked_up_by_any_of_their_columns(panes: ec.Engine) -> None:
    sums = panes.views["sums"]
    assert sums.why({"s": 99}).startswith("view 'sums' has no row with s 99")
    assert sums.why({"window_end": second(10_000)}).startswith("view 'sums' has no row with window_end")
    row = sums.read().select("k", "window_start", "window_end").row(0, named=True)
    for values in (
        row,
        {name: row[name] for name in ("k", "window_start")},
        {"window_start": row["window_start"]},
    ):
        assert "view 'sums' has it" in sums.why(values)
    waiting = sums.why({"k": "a", "window_start": second(70)})
    assert waiting == sums.why("a", second(70))
    assert "It waits" in waiting


def test_the_span_of_panes_is_one_of_their_bounds() -> None:
    """So that windows of windows read the panes of a stretch of time and not all of them."""
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at", retained=True)
    panes = engine.view("panes", hits.window(ec.fixed("10s")).group_by("k").agg(n=pl.len()))
    moved = panes.with_event_time((pl.col("window_end") + pl.duration(days=1)).alias("pane_time"))
    again = panes.window(ec.fixed("1m"))

    def of_panes(place: int) -> Span | None:
        span: Span | None = Span("pane_time", 0, 5, 9)
        while place != panes._place:
            node = engine._plan[place]
            (place,) = node.inputs
            span = span_above(node, engine._plan[place], pl.DataFrame(), span)
        return span

    assert of_panes(again._place) == Span("window_end", -1, 5, 9)
    assert of_panes(moved._place) is None


@pytest.fixture(scope="module")
def orders() -> ec.Engine:
    engine = ec.Engine(record=True)
    columns = {
        "id": pl.Int64,
        "tags": pl.List(pl.String),
        "st": pl.Struct({"a": pl.Int64}),
        "at": pl.Datetime("us"),
    }
    rows = engine.source("rows", columns, retained=True)
    engine.view("exploded", rows.select("id", "tags").explode("tags"))
    engine.view("unnested", rows.select("id", "st").unnest("st"))
    engine.view("days", rows.group_by(day=pl.col("at").dt.date()).agg(n=pl.len()))
    engine.view("self", rows.select("id").join(rows.select("id", "at"), on="id"))
    ids = rows.select("id")
    engine.view("minus", ids.minus(rows.filter(pl.col("id") == 2).select("id")))
    engine.view("negated", ids.negate())
    data = {
        "id": [1, 2, None],
        "tags": [["a"], [], ["b"]],
        "st": [{"a": 1}, {"a": 2}, None],
        "at": [START] * 3,
    }
    engine.push("rows", pl.DataFrame(data, columns), at=AT)
    return engine


REASONS: list[tuple[str, dict[str, Any], str]] = [
    ("exploded", {"id": 2}, "explode tags makes no row of 1 row of (select id, tags):\n  id 2, tags []"),
    ("unnested", {"id": 1, "a": 7}, "view 'unnested' has 1 row with id 1, not with a 7:\n  id 1, a 1"),
    ("self", {"id": None}, "its key is null, which matches nothing (id)"),
    ("minus", {"id": 2}, "the counts of it add up to none in minus: (select id) +1, (negate) -1"),
    ("negated", {"id": 1}, "(select id) has it, and negate makes -1 of its count"),
]


@pytest.mark.parametrize(("view", "values", "reason"), REASONS, ids=[view for view, _, _ in REASONS])
def test_the_stage_that_decides_is_named(
    orders: ec.Engine, view: str, values: dict[str, Any], reason: str
) -> None:
    assert reason in orders.views[view].why(values)


def test_a_source_that_two_stages_come_to_is_named_once(orders: ec.Engine) -> None:
    assert orders.views["minus"].why({"id": 9}).count("source 'rows' has no row with id 9") == 1


def test_a_datetime_is_no_date(orders: ec.Engine) -> None:
    days = orders.views["days"]
    assert "has it" in days.why({"day": date(2026, 1, 1)})
    for method in (days.why, days.lineage, days.history):
        with pytest.raises(ec.InputError, match="does not go with the column, which is Date"):
            method({"day": datetime(2026, 1, 1, 5)})


def test_what_a_definition_has_changed_is_not_put_down_to_time() -> None:
    engine = ec.Engine(record=True)
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
    engine.view("shops", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", [("north", 3)], at=AT)
    engine.view("shops", sales.group_by("shop").agg(total=pl.col("price").sum() * 2), replace=True)
    engine.view("later", sales.group_by("shop").agg(n=pl.len()))
    engine.push("sales", [("north", 1)], at=AT)
    reasons = ["", "no rows of it came: the view was declared or replaced in this epoch, and filled", ""]
    assert [change.why for change in engine.views["shops"].history("north")] == reasons
    assert [change.why for change in engine.views["later"].history("north")] == reasons[1:]


def test_a_look_up_reads_what_it_finds() -> None:
    """Windows of windows read the panes of their stretch of time, and a missing row reads no side of a join as a whole."""
    engine = ec.Engine()
    columns = {"k": pl.Int64, "at": pl.Datetime("us")}
    hits = engine.source("hits", columns, event_time="at", retained=True)
    who = engine.source("who", {"k": pl.Int64, "name": pl.Int64}, kind="upsert", key="k")
    panes = engine.view("panes", hits.window(ec.fixed("10s")).group_by("k").agg(n=pl.len()))
    minutes = engine.view("minutes", panes.window(ec.fixed("1m")).group_by().agg(n=pl.col("n").sum()))
    named = engine.view("named", hits.join(who, on="k", how="left"))
    names = engine.view("names", named.group_by("name").agg(n=pl.len()))
    size = 20_000
    numbers = pl.int_range(size, eager=True)
    engine.push("who", {"k": numbers, "name": numbers // 10})
    engine.push("hits", pl.DataFrame({"k": numbers, "at": (numbers * 1_000_000).cast(pl.Datetime("us"))}))
    indexes = engine._indexes
    for read in (
        lambda: minutes.lineage({"window_start": datetime(1970, 1, 1)}),
        lambda: names.why({"name": -1}),
    ):
        read()
        touched, indexed = indexes.touched, indexes.indexed
        read()
        assert indexes.indexed == indexed
        assert indexes.touched - touched <= 1000


def test_a_view_that_was_declared_later_has_its_history_after_a_restart(tmp_path: Path) -> None:
    def declared(engine: ec.Engine, by: str) -> ec.View:
        sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        return engine.view("shops", sales.group_by(by).agg(n=pl.len()), replace=True)

    with ec.Engine(record=True, checkpoint=tmp_path) as engine:
        declared(engine, "price")
        engine.push("sales", [("north", 3)], at=AT)
        declared(engine, "shop")
        engine.push("sales", [("north", 1)], at=AT)
        history = engine.views["shops"].history("north").frame()
    with ec.Engine(record=True, checkpoint=tmp_path) as engine:
        view = declared(engine, "shop")
        assert view.history("north").frame().equals(history)
        assert history["_epoch"].to_list() == [2, 3, 3]


def test_the_newest_rows_of_a_source_without_event_time_are_those_of_the_last_epochs() -> None:
    for recorded in (True, False):
        engine = ec.Engine(record=recorded)
        columns = {"k": pl.String, "n": pl.Int64, "l": pl.List(pl.Int64)}
        rows = engine.source("rows", columns, kind="diffs", retained=True)
        total = engine.view("total", rows.group_by("k").agg(t=pl.col("n").sum()))
        for n in (5, 9, 2, None, 7, 5):
            engine.push("rows", [("a", n, [n])])
        engine.push("rows", pl.DataFrame({"k": ["a"], "n": [2], "l": [[2]], "_diff": [-1]}))
        newest = total.lineage({"k": "a"}, limit=2)
        if recorded:
            assert newest["rows"]["n"].to_list() == [5, 7]
            assert not newest.remarks
        else:
            (remark,) = newest.remarks
            assert "source 'rows' has not kept when its rows came" in remark
            assert "the first 2 of 4" in remark
            assert remark in str(newest)
        assert not total.lineage({"k": "a"}).remarks
