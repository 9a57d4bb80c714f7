"""Signals: which windows ``view.fire(...)`` reaches, by the mode in which panes relate."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

import evercurrent as ec


@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
@pytest.mark.parametrize("window", [ec.fixed("10m"), ec.sessions("10m")], ids=str)
@pytest.mark.parametrize("ticks", [False, True], ids=["at once", "later"])
def test_a_signal_reaches_a_window_that_has_emitted_its_last_pane(
    mode: Literal["discarding", "accumulating", "retracting"], window: ec.Window, ticks: bool
) -> None:
    """A signal that came after the rows of a pane were discarded was lost, and a key was awaited for ever."""
    at = datetime(2026, 1, 1)
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at")
    trigger = ec.sequence(ec.after_count(1), ec.signal(), ec.each_row())
    panes = hits.window(window).trigger(trigger).accumulate(mode).group_by("k").agg(n=pl.len())
    view = engine.view("panes", panes)
    engine.push("hits", [("a", at), ("b", at)])
    if ticks:
        engine.tick()  # The rows of a discarding session that were emitted are purged in the epoch after that.
    view.fire("a", at)
    engine.push("hits", [("a", at), ("b", at)])
    emitted = [
        row
        for delta in view.deltas(since=1)
        for row in delta.filter(pl.col("_diff") > 0).select("k", "n").rows()
    ]
    assert emitted == [("a", 1 if mode == "discarding" else 2)]


def test_a_signal_emits_an_empty_discarding_pane_if_panes_are_always_emitted() -> None:
    """The window holds a row and nothing that came since, so that its pane has no rows, as at other triggers."""
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at")
    panes = hits.window(ec.fixed("10m")).trigger(ec.repeat(ec.signal()), always=True).accumulate("discarding")
    view = engine.view("panes", panes.group_by("k").agg(n=pl.len()))
    engine.push("hits", [("a", datetime(2026, 1, 1))])
    view.fire("a")
    view.fire("a")
    assert view.read().sort("n")["n"].to_list() == [0, 1]


@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
@pytest.mark.parametrize("key", [None, "a"], ids=str)
@pytest.mark.parametrize("window", [None, datetime(2026, 1, 1)], ids=["all", "one"])
@pytest.mark.parametrize("info", [False, True], ids=["bare", "info"])
def test_a_signal_reaches_a_window_that_lost_all_its_rows_before_its_first_pane(
    mode: Literal["discarding", "accumulating", "retracting"],
    key: str | None,
    window: datetime | None,
    info: bool,
) -> None:
    """``fire()`` reached it, and ``fire("a")`` did not: its key was kept nowhere, so that the signal did not count."""
    at = datetime(2026, 1, 1)
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at", kind="diffs")
    trigger = ec.repeat(ec.all_of(ec.signal(), ec.after_count(3)))
    panes = hits.window(ec.fixed("10m")).trigger(trigger).accumulate(mode)
    panes = panes.with_pane_info() if info else panes
    view = engine.view("panes", panes.group_by("k").agg(n=pl.len()))
    engine.push("hits", [("a", at, 1)])
    engine.push("hits", [("a", at, -1)])
    view.fire(key, window)
    assert view.why("a").startswith("there is no open window of that key")
    engine.push("hits", [("a", at, 1)])
    assert view.read().select("k", "n").rows() == [("a", 1)]


@pytest.mark.parametrize("window", [ec.fixed("10m"), ec.sessions("10m"), ec.global_window()], ids=str)
@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
def test_signals_over_restarts_and_by_workers_are_those_of_an_undisturbed_engine(
    window: ec.Window, mode: Literal["discarding", "accumulating", "retracting"], tmp_path: Path
) -> None:
    """Before each epoch one engine is opened again: windows that lost or discarded their rows can still be named."""
    at, has_diffs = datetime(2026, 1, 1), mode != "discarding" or window != ec.sessions("10m")

    def declared(**options: Any) -> tuple[ec.Engine, ec.View]:
        engine = ec.Engine(**options)
        columns = {"k": pl.String, "at": pl.Datetime("us")}
        hits = engine.source("hits", columns, event_time="at", kind="diffs" if has_diffs else "append")
        trigger = ec.repeat(ec.all_of(ec.signal(), ec.after_count(2)))
        panes = hits.window(window).trigger(trigger).accumulate(mode).with_pane_info()
        return engine, engine.view("panes", panes.group_by("k").agg(n=pl.len()))

    def run(engine: ec.Engine, view: ec.View, number: int) -> None:
        now = at.replace(tzinfo=UTC) + timedelta(minutes=number)
        if number % 2:
            view.fire("ab"[number // 2 % 2], at=now)
            return
        goes = has_diffs and number % 8 == 2
        rows = [(key, at, -1 if goes else 1) if has_diffs else (key, at) for key in "ab"]
        engine.push("hits", rows, at=now)

    undisturbed, by_workers = declared(), declared(workers=2)
    for number in range(12):
        run(*undisturbed, number)
        run(*by_workers, number)
        engine, view = declared(checkpoint=tmp_path)
        run(engine, view, number)
        engine.close()
    engine, view = declared(checkpoint=tmp_path)
    deltas = [sorted(delta.rows(), key=repr) for delta in undisturbed[1].deltas()]
    assert len(deltas) > 1
    for other in (view, by_workers[1]):
        assert [sorted(delta.rows(), key=repr) for delta in other.deltas()] == deltas
    engine.close()
    by_workers[0].close()


def test_a_signal_in_an_epoch_block_is_refused() -> None:
    """It ran an epoch of its own before that of the block, so that the rows pushed before it in the block were not in its panes."""
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String})
    view = engine.view("panes", hits.trigger(ec.repeat(ec.signal())).group_by("k").agg(n=pl.len()))
    engine.push("hits", [("a",)])
    with engine.epoch():
        engine.push("hits", [("a",)])
        with pytest.raises(ec.InputError, match="'panes': fire is an epoch of its own"):
            view.fire("a")
    assert (engine.epoch_number, view.read().rows()) == (2, [])
    view.fire("a")
    assert view.read().rows() == [("a", 2)]


def test_a_signal_reaches_a_session_that_moves_in_the_epoch_of_the_signal() -> None:
    """A pane upstream that was due by then came with it and moved the start of the session, and the signal was lost."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at")
    counts = hits.window(ec.fixed("2s")).trigger(ec.repeat(ec.after_processing_time("10s")))
    panes = counts.group_by("k").agg(n=pl.len())
    visits = panes.window(ec.sessions("5s")).trigger(ec.repeat(ec.signal())).group_by("n").agg(panes=pl.len())
    view = engine.view("visits", visits)
    engine.push("hits", [("a", at + timedelta(seconds=8))], at=at)
    engine.tick(at=at + timedelta(seconds=10))
    engine.push("hits", [("a", at + timedelta(seconds=6))], at=at + timedelta(seconds=11))
    view.fire(at=at + timedelta(seconds=30))
    assert view.read()["panes"].to_list() == [2]


def test_of_two_equal_last_panes_that_a_session_has_one_stands() -> None:
    """A session that was part of another one has its pane there and one of its own, which differ only in when they were emitted."""
    begin, hour = datetime(2026, 1, 1), datetime(2026, 1, 2, tzinfo=UTC)
    engine = ec.Engine()
    hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at", kind="diffs")
    panes = hits.window(ec.sessions("10s")).trigger(ec.repeat(ec.signal())).accumulate("retracting")
    view = engine.view("panes", panes.with_pane_info().group_by("k").agg(n=pl.len()))

    def push(*rows: tuple[int, int]) -> None:
        engine.push("hits", [("a", begin + timedelta(seconds=at), diff) for at, diff in rows])

    push((20, 1))
    view.fire(at=hour)
    push((4, 1), (12, 1))  # The session of 20 is part of that of 4, and its pane goes with it.
    push((12, -1))  # It is a session of its own again, whose pane is still with that of 4.
    view.fire("a", begin + timedelta(seconds=20), at=hour + timedelta(hours=1))
    push((12, 1))
    push((4, -1), (12, -1))
    view.fire(at=hour + timedelta(hours=2))
    assert view.read().select("window_start", "n").rows() == [(begin + timedelta(seconds=20), 1)]
