"""Rows whose count is below zero: which windows can be computed of them, which refuse them, and with what error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given

import evercurrent as ec
from evercurrent.core.data.clock import Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.windows.kinds import LastRows
from evercurrent.core.eventtime.windows.row_windows import layout_of, merge_overlapping
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.state.negative_counts import NeverBelowZero, counts_of_retracted
from evercurrent.views.dataframe.accepted_rows import accepted
from evercurrent.views.epochs.records import EpochInput
from harness import frame_of_entries, hold_to_contract, summed
from oracle import freeze
from spark.twins import WAYS, TwinEngine, TwinRunning, Way
from strategies import of_profile

NOON = datetime(2026, 1, 1, 12)
AT = NOON.replace(tzinfo=UTC)
COLUMNS = {"k": pl.String(), "v": pl.Int64(), "t": pl.Datetime("us")}
GAP = 10

Row = tuple[str, int, int]
"""Key, value, and event time in seconds after noon."""


def own_windows(rows: pl.DataFrame) -> pl.DataFrame:
    time = pl.col("t" if "t" in rows.columns else "pane_time")
    return rows.select(window_start=time, window_end=time + pl.duration(seconds=GAP))


BY_ROWS = {
    "sessions": ec.sessions("10s"),
    "count": ec.count_window(2),
    "last": ec.last_rows(2),
    "merging": ec.custom_windows(own_windows, merge_overlapping),
}
"""Windows that depend on the other rows of their key."""

ROW_BY_ROW = {
    "fixed": ec.fixed("10s"),
    "sliding": ec.sliding("10s", every="5s"),
    "calendar": ec.calendar("1d"),
    "own": ec.custom_windows(own_windows),
}
"""Windows that each row has by itself."""


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def frame(*entries: tuple[Row, int]) -> pl.DataFrame:
    return frame_of_entries(COLUMNS, [((key, value, at(time)), diff) for (key, value, time), diff in entries])


def plus(*rows: Row) -> pl.DataFrame:
    return frame(*((row, 1) for row in rows))


def minus(*rows: Row) -> pl.DataFrame:
    return frame(*((row, -1) for row in rows))


def total(windowed: Any) -> Any:
    return windowed.group_by("k").agg(n=pl.len(), v=pl.col("v").sum())


def sources(engine: ec.Engine, *names: str, **options: Any) -> list[ec.Source]:
    return [engine.source(name, COLUMNS, kind="diffs", event_time="t", **options) for name in names]


def shown(view: Any) -> list[tuple[Any, ...]]:
    """The rows of a view, times in seconds after noon."""
    rows = [
        [(cell - NOON) // timedelta(seconds=1) if isinstance(cell, datetime) else cell for cell in row]
        for row in view.read().iter_rows()
    ]
    return sorted(map(tuple, rows))


# What is refused where it is defined.

Made = Callable[[Any, Any], Any]

BELOW_ZERO: dict[str, tuple[Made, str]] = {
    "minus": (lambda a, b: a.minus(b), "minus or negate subtracts rows of source 'b'"),
    "negate": (lambda a, b: a.negate(), "subtracts rows of source 'a'"),
    "concat": (lambda a, b: a.concat(b.filter(pl.col("v") > 0).negate()), "of source 'b'"),
    "filter": (lambda a, b: a.minus(b).filter(pl.col("v") > 0), "rows of source 'b'"),
    "select": (lambda a, b: a.minus(b).with_columns(v=pl.col("v") + 1), "rows of source 'b'"),
    "map": (
        lambda a, b: a.minus(b).map_batches(lambda rows: rows).with_event_time("t"),
        "rows of source 'b'",
    ),
    "join, left side": (lambda a, b: a.minus(b).join(b.select("k").unique(), on="k"), "rows of source 'b'"),
    "join, right side": (
        lambda a, b: a.join(a.select("k").minus(b.select("k")), on="k"),
        "rows of .select k. of source 'b'",
    ),
    "left join": (
        lambda a, b: a.join(a.select("k").minus(b.select("k")), on="k", how="left"),
        "rows of .select k. of source 'b'",
    ),
    "semi join": (lambda a, b: a.negate().join(b, on="k", how="semi"), "rows of source 'a'"),
    "in order": (lambda a, b: a.minus(b).order_by_time(), "rows of source 'b'"),
    "late rows": (
        lambda a, b: a.window(ec.fixed("10s")).lateness("0s").late_rows(),
        "late rows of .window: fixed windows of 10s. of source 'a' may be retractions of rows that were in time",
    ),
}
"""Collections in which a row may stand less than zero times, and why."""


def two() -> list[ec.Source]:
    return sources(ec.Engine(), "a", "b", bounded=True)


@pytest.mark.parametrize("window", BY_ROWS.values(), ids=BY_ROWS)
@pytest.mark.parametrize(("made", "reason"), BELOW_ZERO.values(), ids=BELOW_ZERO)
def test_windows_that_are_made_of_rows_are_refused(window: Any, made: Made, reason: str) -> None:
    with pytest.raises(ec.PlanError, match=reason) as refused:
        total(made(*two()).window(window))
    message = str(refused.value)
    assert message.startswith("agg on (window: ")
    assert "a row may have a count below zero here" in message
    assert "Put .unique() before .window(...)" in message


def test_what_is_subtracted_behind_the_window_is_seen_too() -> None:
    a, b = two()
    windowed = a.window(ec.sessions("10s")).minus(b.window(ec.sessions("10s")))
    with pytest.raises(ec.PlanError, match="count below zero"):
        total(windowed)
    total(windowed.unique())


@pytest.mark.parametrize("stamp", ["earliest", "latest"])
def test_panes_cannot_be_dated_by_rows_that_are_not_there(stamp: Any) -> None:
    a, b = two()
    with pytest.raises(ec.PlanError, match=f"panes with timestamp='{stamp}' are dated by the rows"):
        total(a.minus(b).window(ec.fixed("10s"), timestamp=stamp))
    total(a.minus(b).unique().window(ec.fixed("10s"), timestamp=stamp))


NEVER_BELOW: dict[str, Made] = {
    "rows": lambda a, b: a.concat(b),
    "unique": lambda a, b: a.minus(b).unique(),
    "first rows": lambda a, b: a.minus(b).group_by("k").top_k(2, by="v"),
    "groups": lambda a, b: a.minus(b).group_by("k", "t").agg(v=pl.len()).with_event_time("t"),
    "panes": lambda a, b: total(a.minus(b).window(ec.fixed("10s"))),
    "semi join": lambda a, b: a.join(b.negate(), on="k", how="semi"),
    "anti join": lambda a, b: a.join(a.minus(b), on="k", how="anti"),
}
"""Collections in which no row ever stands less than zero times."""


@pytest.mark.parametrize("window", BY_ROWS.values(), ids=BY_ROWS)
@pytest.mark.parametrize("made", NEVER_BELOW.values(), ids=NEVER_BELOW)
def test_what_is_never_below_zero_has_all_windows(window: Any, made: Made) -> None:
    engine = ec.Engine()
    a, b = sources(engine, "a", "b")
    rows = made(a, b)
    view = engine.view("v", total(rows.window(window)))
    behind = engine.view("rows", rows)
    hold_to_contract(engine)
    engine.push("b", plus(("x", 1, 0)))
    engine.push("a", plus(("x", 1, 0), ("x", 2, 5), ("y", 8, 30)))
    engine.push("a", minus(("x", 2, 5)))
    assert all(count > 0 for count in summed(behind.deltas()).values())
    assert bool(view.read().height) == bool(behind.read().height)
    assert Counter(summed(view.deltas())) == Counter(map(cells, view.read().rows()))


def cells(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(freeze, row))


def test_late_rows_that_nobody_takes_back_have_all_windows() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS, event_time="t")
    late = rows.window(ec.fixed("10s")).lateness("0s").late_rows()
    view = engine.view("late", total(late.window(ec.sessions("10s"))))
    engine.push("rows", [("x", 1, at(0))], watermark=AT + timedelta(seconds=60))
    engine.push("rows", [("x", 2, at(5)), ("x", 3, at(8))])
    assert view.read().select("k", "n", "v").rows() == [("x", 2, 5)]


def test_late_rows_do_stand_less_than_zero_times() -> None:
    """Late rows can have a count below zero: here the row was in time and its retraction is late."""
    engine = ec.Engine()
    (a,) = sources(engine, "a")
    view = engine.view("late", a.window(ec.fixed("10s")).lateness("0s").late_rows())
    engine.push("a", plus(("x", 1, 3)), watermark=AT + timedelta(seconds=60))
    engine.push("a", minus(("x", 1, 3)))
    assert list(summed(view.deltas()).values()) == [-1]


# The ways out.


def the_difference(way: Callable[[Any, Any], Any]) -> list[tuple[Any, ...]]:
    engine = ec.Engine()
    a, b = sources(engine, "a", "b")
    view = engine.view("v", way(a, b))
    hold_to_contract(engine)
    rows = [("x", 1, 0), ("x", 2, 5), ("x", 2, 5), ("x", 4, 12), ("y", 8, 0)]
    engine.push("b", plus(("x", 4, 12), ("z", 9, 0)))
    engine.push("a", plus(*rows))
    engine.push("b", plus(("y", 8, 0)))
    engine.push("b", minus(("y", 8, 0)))
    return shown(view)


def test_each_row_once_is_a_way_out() -> None:
    found = the_difference(lambda a, b: total(a.minus(b).unique().window(ec.sessions("10s"))))
    assert found == [("x", 0, 15, 2, 3), ("y", 0, 10, 1, 8)]


def test_an_anti_join_is_a_way_out() -> None:
    found = the_difference(
        lambda a, b: total(a.join(b, on=["k", "v", "t"], how="anti").window(ec.sessions("10s")))
    )
    assert found == [("x", 0, 15, 3, 5), ("y", 0, 10, 1, 8)]


def test_counting_rows_is_a_way_out() -> None:
    def way(a: Any, b: Any) -> Any:
        counted = a.minus(b).group_by("k", "v", "t").agg(n=pl.len()).filter(pl.col("n") > 0)
        windowed = counted.with_event_time("t").window(ec.sessions("10s"))
        return windowed.group_by("k").agg(n=pl.col("n").sum(), v=(pl.col("v") * pl.col("n")).sum())

    assert the_difference(way) == [("x", 0, 15, 3, 5), ("y", 0, 10, 1, 8)]


# Windows of each row by itself add up, whatever the diffs are.


@pytest.mark.parametrize(
    "trigger", [None, ec.after_watermark(late=ec.each_row())], ids=["refined", "triggered"]
)
@pytest.mark.parametrize("window", ROW_BY_ROW.values(), ids=ROW_BY_ROW)
@of_profile(0.1)
@given(data=st.data())
def test_windows_of_each_row_by_itself_add_up(window: Any, trigger: Any, data: st.DataObject) -> None:
    """Windows over the difference of two sources hold the sums of both, the second negative, for each key and window whose count is not zero."""
    entries = st.tuples(st.tuples(st.sampled_from("xy"), st.integers(1, 3), st.integers(0, 24)), DIFFS)
    epochs = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.lists(entries, max_size=4)), max_size=6))
    engine = ec.Engine()
    a, b = sources(engine, "a", "b", trusted=True)

    def windowed(rows: Any) -> Any:
        return total(rows.window(window) if trigger is None else rows.window(window).trigger(trigger))

    view = engine.view("difference", windowed(a.minus(b)))
    hold_to_contract(engine)
    alone = ec.Engine()
    (c,) = sources(alone, "c", trusted=True)
    each = alone.view("each", c.window(window))
    for source, given_rows in epochs:
        engine.push(source, frame(*given_rows))
        alone.push("c", frame(*((row, diff if source == "a" else -diff) for row, diff in given_rows)))
    for source in "ab":
        engine.advance(source, ec.END_OF_TIME)
    expected: Counter[tuple[Any, ...]] = Counter()
    values: Counter[tuple[Any, ...]] = Counter()
    for (key, value, _, start, end), diff in summed(each.deltas()).items():
        expected[key, start, end] += diff
        values[key, start, end] += diff * value
    found = {(key, start, end): (n, v) for key, start, end, n, v in view.read().iter_rows()}
    assert found == {place: (n, values[place]) for place, n in expected.items() if n}


# A trusted source.

DIFFS = st.sampled_from([1, 1, 1, -1, -1, 2, -2])


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[list[tuple[Row, int]], int | None]]:
    """Rows with diffs of any sign, out of few rows, and a watermark now and then."""
    row = st.tuples(st.sampled_from("xy"), st.integers(1, 2), st.integers(0, 30))
    pool = draw(st.lists(row, min_size=1, max_size=6))
    given_rows = st.lists(st.tuples(st.sampled_from(pool), DIFFS), max_size=4)
    steps = draw(st.lists(st.tuples(given_rows, st.none() | st.integers(0, 8)), max_size=8))
    watermark, made = 0, []
    for entries, step in steps:
        watermark += step or 0
        made.append((entries, watermark if step else None))
    return made


def windowings(rows: Any) -> dict[str, Any]:
    """All windows that are made of rows, and sessions that close."""
    made = {name: total(rows.window(window)) for name, window in BY_ROWS.items()}
    closing = rows.window(ec.sessions("10s")).trigger(ec.after_watermark(late=ec.each_row())).lateness("5s")
    return {**made, "closing": total(closing)}


class Counts:
    """How often each row stands, and whether a batch would take one of them below zero."""

    def __init__(self, *, closes: bool) -> None:
        self.counts: Counter[Row] = Counter()
        self.watermark = -(10**6)
        self._closes = closes

    def takes_below_zero(self, entries: list[tuple[Row, int]]) -> bool:
        return any(diff < 0 for diff in self._after(entries).values())

    def push(self, entries: list[tuple[Row, int]], watermark: int | None) -> None:
        self.counts = self._after(entries)
        self.watermark = self.watermark if watermark is None else watermark

    def _after(self, entries: list[tuple[Row, int]]) -> Counter[Row]:
        after = Counter(self.counts)
        for row, diff in entries:
            if not (self._closes and row[2] + GAP + 5 <= self.watermark):
                after[row] += diff
        return after


@pytest.mark.parametrize("name", [*BY_ROWS, "closing"])
@of_profile(0.3)
@given(given_batches=batches())
@example(
    [
        ([(("x", 1, 6), 1), (("x", 1, 6), 1), (("x", 1, 6), -1), (("x", 1, 6), -1)], None),
        ([(("x", 1, 6), -1)], None),
    ]
)
def test_a_trusted_source_may_do_all_but_go_below_zero(
    name: str, given_batches: list[tuple[list[tuple[Row, int]], int | None]]
) -> None:
    """A batch that would go below zero is refused whole; all others give the deltas of a source whose retractions are checked."""
    views, engines = [], [ec.Engine(), ec.Engine()]
    for engine, trusted in zip(engines, (True, False), strict=True):
        (source,) = sources(engine, "rows", trusted=trusted)
        views.append(engine.view("v", windowings(source)[name]))
        hold_to_contract(engine)
    counts = Counts(closes=name == "closing")
    for entries, watermark in given_batches:
        moved = None if watermark is None else AT + timedelta(seconds=watermark)
        if counts.takes_below_zero(entries):
            with pytest.raises(ec.RetractionError, match="nothing has changed"):
                engines[0].push("rows", frame(*entries), watermark=moved)
            continue
        counts.push(entries, watermark)
        epochs = {engine.push("rows", frame(*entries), watermark=moved) for engine in engines}
        (epoch,) = epochs
        of_trusted, of_checked = (summed(view.deltas(since=epoch - 1)) for view in views)
        assert of_trusted == of_checked


def test_the_error_names_view_row_source_and_the_ways_out() -> None:
    engine = ec.Engine()
    (hits,) = sources(engine, "hits", trusted=True)
    view = engine.view("visits", total(hits.filter(pl.col("v") > 0).window(ec.sessions("10s"))))
    engine.push("hits", plus(("x", 1, 0)))
    with pytest.raises(ec.RetractionError) as refused:
        engine.push("hits", frame((("x", 2, 5), -2), (("y", 3, 6), -1), (("x", 4, 7), 1)))
    message = str(refused.value)
    assert message.startswith("view 'visits': the row {'k': ")
    assert "'window_start': datetime.datetime(2026, 1, 1, 12, 0, " in message
    assert "(2 such rows in this batch)" in message
    assert "Retractions are not checked at 'hits', declared with trusted=True" in message
    assert "leave out trusted=True" in message
    assert ".unique() before .window(...)" in message
    assert engine.epoch_number == 1
    assert shown(view) == [("x", 0, 10, 1, 1)]


def test_each_way_out_of_the_error_is_one() -> None:
    early = minus(("x", 2, 5))
    row = plus(("x", 2, 5), ("x", 4, 7))
    engine = ec.Engine()
    together, unique = sources(engine, "together", "unique", trusted=True)
    (checked,) = sources(engine, "checked")
    rows = {"together": together, "checked": checked, "unique": unique.unique()}
    views = {
        name: engine.view(f"sessions, {name}", total(of.window(ec.sessions("10s"))))
        for name, of in rows.items()
    }
    with engine.epoch():
        engine.push("together", early)
        engine.push("together", row)
    for name in ("checked", "unique"):
        engine.push(name, early)
        engine.push(name, row)
    assert shown(views["together"]) == [("x", 7, 17, 1, 4)]
    assert shown(views["unique"]) == [("x", 7, 17, 1, 4)]
    assert shown(views["checked"]) == [("x", 5, 17, 2, 6)]
    assert engine.ledger("checked").height == 1


def test_what_filters_and_joins_leave_of_a_trusted_source_counts() -> None:
    """A count below zero is refused where it reaches a window, also through a join, and accepted where a filter or a join drops the row."""
    engine = ec.Engine()
    (a,) = sources(engine, "a", trusted=True)
    (b,) = sources(engine, "b")
    joined = a.filter(pl.col("v") > 0).join(b.select("k").unique(), on="k")
    view = engine.view("v", total(joined.window(ec.last_rows(1))))
    engine.push("b", plus(("x", 1, 0)))
    engine.push("a", minus(("x", 0, 1), ("y", 1, 1)))
    with pytest.raises(ec.RetractionError, match=r"view 'v': the row \{'k': 'x'"):
        engine.push("a", minus(("x", 1, 1)))
    with pytest.raises(ec.RetractionError, match=r"view 'v': the row \{'k': 'y'"):
        engine.push("b", plus(("y", 1, 0)))
    engine.push("a", plus(("y", 1, 1), ("x", 3, 2)))
    engine.push("b", plus(("y", 1, 0)))
    assert shown(view) == [("x", 2, 2, 1, 3)]


def test_other_views_of_a_trusted_source_may_go_below_zero() -> None:
    engine = ec.Engine()
    (a,) = sources(engine, "a", trusted=True)
    view = engine.view("v", total(a.window(ec.fixed("10s"))))
    engine.push("a", minus(("x", 2, 5)))
    assert shown(view) == [("x", 0, 10, -1, -2)]
    engine.push("a", plus(("x", 2, 5)))
    assert shown(view) == []


@pytest.mark.parametrize("name", [*BY_ROWS, "closing"])
def test_what_was_there_before_a_restart_may_be_taken_back(name: str, tmp_path: Path) -> None:
    def opened() -> tuple[ec.Engine, Any]:
        engine = ec.Engine(checkpoint=tmp_path)
        (rows,) = sources(engine, "rows", trusted=True)
        return engine, engine.view("v", windowings(rows)[name])

    for _ in range(3):
        engine, _view = opened()
        engine.push("rows", plus(("x", 1, 0), ("x", 2, 5)))
        engine.close()
    engine, _view = opened()
    engine.push("rows", frame((("x", 2, 5), -3)))
    with pytest.raises(ec.RetractionError, match="would have the count -1"):
        engine.push("rows", minus(("x", 2, 5)))
    engine.push("rows", frame((("x", 1, 0), -3)))
    engine.close()
    with ec.Engine(checkpoint=tmp_path) as again:
        (rows,) = sources(again, "rows", trusted=True)
        assert shown(again.view("v", windowings(rows)[name])) == []


# In buckets.


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", [*BY_ROWS, "closing"])
def test_buckets_refuse_the_same_batch(name: str, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets refuse the batch that the engine refuses, with the same error, and agree with it again after the next batch."""
    monkeypatch.setattr(TwinEngine, "way", way)
    engine = TwinEngine()
    (rows,) = sources(engine, "rows", trusted=True)
    view = engine.view("v", windowings(rows)[name])
    engine.push("rows", plus(*((key, 1, time) for key in "xyz" for time in (0, 5, 30))))
    refused = frame((("x", 1, 5), -1), (("y", 1, 5), -2), (("z", 2, 5), 1))
    with pytest.raises(ec.RetractionError, match=r"view 'v': the row \{'k': 'y'"):
        engine.push("rows", refused)
    running, offered = engine._running, EpochInput()
    assert isinstance(running, TwinRunning)
    offered.add("rows", accepted(rows, refused), None)
    with pytest.raises(ec.RetractionError, match=r"view 'v': the row \{'k': 'y'"):
        running._follow(Now(running.epoch + 1, AT), offered)  # type: ignore[arg-type]
    engine.push("rows", frame((("x", 1, 5), -1), (("y", 1, 5), -1), (("z", 2, 5), 1)))
    engine.advance("rows", ec.END_OF_TIME)
    assert engine.compared == running.epoch + 1
    assert {row[0] for row in shown(view)} == {"x", "y", "z"}


# What it costs.


@pytest.mark.parametrize("descending", [False, True])
def test_a_row_that_is_taken_back_is_searched_for_not_scanned_for(descending: bool) -> None:
    schema = pl.Schema({**COLUMNS, "window_start": COLUMNS["t"], "window_end": COLUMNS["t"]})
    layout = layout_of(LastRows(3) if descending else ec.count_window(3), schema)
    arrange = Arrange(schema, ["k"], layout)
    times = NOON + pl.Series(np.arange(10_000) * 10**6).cast(pl.Duration("us"))
    rows = pl.DataFrame({"k": ["x"] * 10_000, "v": [1] * 10_000, "t": times}, schema_overrides=COLUMNS)
    rows = rows.with_columns(window_start="t", window_end="t", _diff=pl.lit(1, pl.Int64))
    now = Now(1, AT)  # type: ignore[arg-type]
    for part in rows.iter_slices(2_500):
        arrange.step(now, Delta(part))
        arrange.spine.commit()
    gone = rows[[0, 4_711, 9_999]].with_columns(_diff=pl.lit(-1, pl.Int64))
    twice = rows[[4_712]].with_columns(_diff=pl.lit(-2, pl.Int64))
    arrange.step(now, Delta(pl.concat([gone, twice])))
    before = arrange.spine.touched
    found, counts = counts_of_retracted(arrange.spine)
    assert arrange.spine.touched - before <= 4
    assert dict(zip(found["t"], counts.tolist(), strict=True)) == {
        at(0): 0,
        at(4_711): 0,
        at(9_999): 0,
        at(4_712): -1,
    }
    with pytest.raises(ec.RetractionError, match=r"'t': datetime.datetime\(2026, 1, 1, 13, 18, 32\)"):
        NeverBelowZero("view 'v'", ("rows",), ("k", "t")).require(found, counts)
