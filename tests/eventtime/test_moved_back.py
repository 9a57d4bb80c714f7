"""Sessions that move and move back before they emit again: their last pane is equal, so nothing is emitted."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import polars as pl
import pytest

import evercurrent as ec

START = datetime(2026, 1, 1)
Mode = Literal["accumulating", "retracting"]


def run(
    mode: Mode, *epochs: list[tuple[int, int]], trigger: ec.Trigger, latest: bool = False
) -> list[list[tuple[object, ...]]]:
    """Push rows at these seconds with these diffs, each epoch a minute after the one before; return the deltas of panes."""
    engine = ec.Engine()
    hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", kind="diffs")
    panes = hits.window(ec.sessions("10s")).trigger(trigger).accumulate(mode).with_pane_info()
    view = engine.view("panes", panes.group_by().agg(n=pl.len()))
    view = engine.view("latest", view.latest()) if latest else view
    for number, rows in enumerate(epochs):
        frame = [(START + timedelta(seconds=second), diff) for second, diff in rows]
        engine.push("hits", frame, at=START.replace(tzinfo=UTC) + timedelta(minutes=number))
    starts = pl.col("window_start").dt.second()
    columns = ("pane_index", "n", "_epoch", "_diff")
    return [sorted(delta.select(starts, *columns).rows()) for delta in view.deltas()]


@pytest.mark.parametrize("mode", ["accumulating", "retracting"])
def test_a_session_that_has_moved_back_does_not_emit_its_pane_again(mode: Mode) -> None:
    """It was emitted once more, and retracted with other pane information: an accumulating log had it twice."""
    trigger = ec.repeat(ec.after_count(2))
    emitted = run(mode, [(9, 1), (9, 1)], [(5, 1)], [(5, -1)], trigger=trigger)
    assert emitted == [[(9, 0, 2, 1, 1)]]


@pytest.mark.parametrize("mode", ["accumulating", "retracting"])
def test_of_several_panes_the_equal_one_stands_and_the_others_are_retracted(mode: Mode) -> None:
    """The first session has merged with the second, and is what it was when that one's rows are gone.

    latest() retracts the others, too, where accumulating panes are emitted and none of them replaces these.
    """
    trigger = ec.repeat(ec.after_count(2))
    deltas = run(
        mode,
        [(0, 1), (0, 1), (15, 1), (15, 1)],
        [(8, 1)],
        [(8, -1), (15, -1), (15, -1)],
        trigger=trigger,
        latest=True,
    )
    assert deltas == [[(0, 0, 2, 1, 1), (15, 0, 2, 1, 1)], [(15, 0, 2, 3, -1)]]


def test_a_session_that_moved_back_retracts_its_pane_when_its_rows_are_gone() -> None:
    """The pane that stands is kept by the window as it is now."""
    trigger = ec.repeat(ec.after_count(2))
    deltas = run("retracting", [(9, 1), (9, 1)], [(5, 1)], [(5, -1)], [(9, -1), (9, -1)], trigger=trigger)
    assert deltas == [[(9, 0, 2, 1, 1)], [(9, 0, 2, 4, -1)]]
