"""Signals: which windows ``view.fire(...)`` reaches, by the mode in which panes relate."""

from datetime import datetime
from typing import Literal

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
