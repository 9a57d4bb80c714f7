"""Windows that a user's function merges, with allowed lateness: they close, and their rows are purged, as sessions are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime.both import check
from eventtime.pipelines import MERGING, Both, Run, runs
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.eventtime.sessions.sessions import Sessions
from evercurrent.core.eventtime.windows.merging import MergeWindows
from harness import circuit_of
from strategies import of_profile

LATENESS = st.sampled_from([0, 4, 20])


@pytest.mark.parametrize("window", [*MERGING, "at_most(8, 1)", "at_most(8, 3)"])
@of_profile(0.3, quick=25)
@given(data=st.data(), lateness=LATENESS, appends=st.booleans())
def test_a088_panes_and_late_rows_of_merging_windows_are_those_of_the_simulator(
    window: str, data: st.DataObject, lateness: int, appends: bool
) -> None:
    run: Run = data.draw(runs(window=window, lateness=lateness, appends=appends))
    check(run)


COUNTING = (
    "repeat(after_count(1))",
    "repeat(after_count(3))",
    "after_watermark(early=after_count(4), late=after_count(3))",
    "repeat(any_of(after_bytes(4), at_period(10)))",
)


@of_profile(0.6, quick=40)
@given(
    data=st.data(), trigger=st.sampled_from(COUNTING), window=st.sampled_from(MERGING), appends=st.booleans()
)
def test_windows_that_merge_and_split_with_triggers_that_count(
    data: st.DataObject, trigger: str, window: str, appends: bool
) -> None:
    """One key and little else, so that everything touches everything."""
    run = runs(
        window=window,
        mode="retracting",
        trigger=trigger,
        lateness=4,
        keys=(),
        aggregates=("n",),
        delay=None,
        always=False,
        info=False,
        appends=appends,
    )
    check(data.draw(run))


def kept_rows(engine: ec.Engine) -> int:
    """How many rows of merging windows are kept."""
    for node in circuit_of(engine).nodes:
        operator = node.operator.operator if isinstance(node.operator, Checked) else node.operator
        if isinstance(operator, Sessions | MergeWindows):
            spine = operator._rows if isinstance(operator, MergeWindows) else operator._rows.spine
            return int(spine.merged().sums.get("_diff", pl.Series([0]).to_numpy()).sum())
    raise AssertionError("no windows are merged")


@of_profile(0.4, quick=30)
@given(run=st.data(), lateness=LATENESS)
def test_a088_panes_ledger_and_kept_rows_are_those_of_sessions(run: Any, lateness: int) -> None:
    """For a merge that does what sessions do."""
    theirs: Run = run.draw(runs(window="sessions(5)", lateness=lateness))
    ours = replace(theirs, setup=replace(theirs.setup, window="merging(5)"))
    sessions, merging = Both(theirs), Both(ours)
    for epoch in theirs.epochs:
        number = sessions.push(epoch)
        assert merging.push(epoch) == number
        columns = theirs.setup.columns
        assert merging.delta(merging.view, number, columns) == sessions.delta(sessions.view, number, columns)
        assert merging.engine.ledger().equals(sessions.engine.ledger())
        assert kept_rows(merging.engine) == kept_rows(sessions.engine)


# What a function may not do

AT = datetime(2026, 1, 1)
Function = Callable[[pl.DataFrame], pl.DataFrame]


def minutes(start: float, end: float | None = None) -> Any:
    moment = AT + timedelta(minutes=start)
    return moment if end is None else (moment, AT + timedelta(minutes=end))


def spans(merge: Function, lateness: str = "0s", mode: str = "retracting") -> tuple[ec.Engine, ec.View]:
    """Rows that bring their own windows, merged by this function."""
    engine = ec.Engine()
    columns = {"k": pl.String, "from": pl.Datetime("us"), "to": pl.Datetime("us")}
    rows = engine.source("rows", columns, event_time="from")
    window = ec.custom_windows(lambda rows: rows.select(window_start="from", window_end="to"), merge)
    windowed = rows.window(window).accumulate(mode).lateness(lateness)
    return engine, engine.view("counts", windowed.group_by("k").agg(n=pl.len()))


def refused(engine: ec.Engine, rows: list[Any], until: float | None = None) -> str:
    """The message with which an epoch is refused, which has changed nothing."""
    before = (
        [frame.rows() for frame in engine.views["counts"].deltas()],
        engine.ledger().rows(),
        engine.watermarks,
    )
    watermark = None if until is None else minutes(until).replace(tzinfo=UTC)
    with pytest.raises(ec.InputError) as error:
        engine.push("rows", rows, watermark=watermark)
    after = (
        [frame.rows() for frame in engine.views["counts"].deltas()],
        engine.ledger().rows(),
        engine.watermarks,
    )
    assert before == after
    return str(error.value)


def push(engine: ec.Engine, rows: list[Any], until: float | None = None) -> None:
    engine.push("rows", rows, watermark=None if until is None else minutes(until).replace(tzinfo=UTC))


def test_a_window_that_does_not_contain_those_merged_into_it_is_refused() -> None:
    def first_minute(windows: pl.DataFrame) -> pl.DataFrame:
        return windows.with_columns(window_end=pl.col("window_start") + timedelta(minutes=1))

    engine, view = spans(first_minute)
    push(engine, [("a", *minutes(0, 1))])
    message = refused(engine, [("b", *minutes(3, 5))])
    assert message == (
        "view 'counts': merge: the function gave the row {'k': 'b', 'window_start': datetime.datetime(2026, 1, 1, 0, 3),"
        " 'window_end': datetime.datetime(2026, 1, 1, 0, 5)} the window from 2026-01-01 00:03:00 UTC to 2026-01-01 00:04:00 UTC,"
        " which does not contain the row's own; nothing has changed. With .lateness(...) whether a row is too late follows"
        " from its own window: return windows that contain those that are merged into them, as evercurrent.merge_overlapping"
        " does, or leave out .lateness(...): then every row is kept"
    )
    assert view.read()["n"].to_list() == [1]


def test_two_windows_of_a_key_with_one_start_are_refused() -> None:
    engine, _ = spans(lambda windows: windows)
    message = refused(engine, [("a", *minutes(0, 1)), ("a", *minutes(0, 2)), ("b", *minutes(0, 3))])
    assert "'k': 'a'" in message
    assert "with the same start" in message
    assert "merge the two, or start them at different instants" in message
    push(engine, [("a", *minutes(0, 1)), ("a", *minutes(1, 2)), ("b", *minutes(0, 3))])


def test_windows_that_depend_on_those_that_ended_before_them_are_refused_when_these_close() -> None:
    def since_the_first(windows: pl.DataFrame) -> pl.DataFrame:
        """The second window of a key, and all after it, begin with the end of the first."""
        first_end = pl.col("window_end").first().over("k")
        start = pl.min_horizontal("window_start", first_end)
        is_first = pl.col("window_start") == pl.col("window_start").first().over("k")
        return windows.with_columns(
            window_start=pl.when(is_first).then("window_start").otherwise(start),
            window_end=pl.when(is_first).then("window_end").otherwise(pl.col("window_end").max().over("k")),
        )

    engine, view = spans(since_the_first)
    push(engine, [("a", *minutes(0, 2)), ("a", *minutes(5, 9)), ("b", *minutes(5, 9))], 1)
    message = refused(engine, [], 3)
    assert "'window_start': datetime.datetime(2026, 1, 1, 0, 5)" in message
    assert "the window from 2026-01-01 00:02:00 UTC to 2026-01-01 00:09:00 UTC" in message
    assert "once the closed windows of that key are gone from 2026-01-01 00:05:00 UTC" in message
    assert "that do not depend on those that ended before them" in message
    assert view.read().height == 3


def test_a_window_that_discards_its_rows_cannot_be_split() -> None:
    def pairs(windows: pl.DataFrame) -> pl.DataFrame:
        part = ["k", (pl.int_range(pl.len()).over("k") // 2).alias("part")]
        return windows.with_columns(
            pl.col("window_start").min().over(part), pl.col("window_end").max().over(part)
        )

    engine, view = spans(pairs, mode="discarding")
    push(engine, [("a", *minutes(1, 2)), ("a", *minutes(2, 3))])
    message = refused(engine, [("a", *minutes(0, 1))])
    assert "discarding panes do not keep their rows" in message
    assert ".accumulate('retracting')" in message
    push(engine, [("a", *minutes(3, 4))])
    assert sorted(view.read()["n"].to_list()) == [1, 2]
    kept, panes = spans(pairs)
    push(kept, [("a", *minutes(1, 2)), ("a", *minutes(2, 3))])
    push(kept, [("a", *minutes(0, 1))])
    assert sorted(panes.read().select("window_start", "n").rows()) == [(minutes(0), 2), (minutes(2), 1)]


def test_a_row_is_late_by_its_own_window_whatever_it_would_be_merged_into() -> None:
    """The rule of sessions: otherwise a row would be late or not depending on rows beside it."""
    engine, view = spans(ec.merge_overlapping, lateness="2m")
    push(engine, [("a", *minutes(0, 2)), ("a", *minutes(1, 9))], 4)
    push(engine, [("a", *minutes(0, 3)), ("a", *minutes(0, 2))])
    assert view.read().select("window_start", "window_end", "n").rows() == [(*minutes(0, 9), 3)]
    (entry,) = engine.ledger().to_dicts()
    assert entry["reason"] == "too late for view 'counts': its window was closed"
    assert entry["window_end"] == minutes(2).replace(tzinfo=UTC)
    assert kept_rows(engine) == 3
    push(engine, [], 11)
    assert kept_rows(engine) == 0
    assert view.read().select("window_start", "window_end", "n").rows() == [(*minutes(0, 9), 3)]
    push(engine, [("a", *minutes(8, 10))])
    assert view.read().select("window_start", "window_end", "n").rows() == [
        (*minutes(0, 9), 3),
        (*minutes(8, 10), 1),
    ]
