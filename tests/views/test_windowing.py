"""The four questions as calls: what they make of a collection, what is refused and why, and what ``why`` shows."""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.state.timers import Timers

NOON = datetime(2026, 1, 1, 12)
AT = NOON.replace(tzinfo=UTC)
WEST = timezone(timedelta(hours=-1))
COLUMNS = {"k": pl.String, "v": pl.Int64, "t": pl.Datetime("us")}


def rows_of(engine: ec.Engine, name: str = "rows", **options: object) -> ec.Source:
    return engine.source(name, COLUMNS, event_time="t", **options)  # type: ignore[arg-type]


@pytest.fixture
def engine() -> ec.Engine:
    return ec.Engine()


@pytest.fixture
def rows(engine: ec.Engine) -> ec.Source:
    return rows_of(engine)


def total(windowed: ec.Collection) -> ec.Collection:
    return windowed.group_by("k").agg(v=pl.col("v").sum())


def seconds(*after: float) -> list[datetime]:
    return [NOON + timedelta(seconds=second) for second in after]


REFUSED: dict[str, tuple[Callable[[ec.Source], object], str]] = {
    "no window": (lambda rows: rows.window("1m"), "is not a window; there are fixed"),  # type: ignore[arg-type]
    "no such timestamp": (
        lambda rows: rows.window(ec.fixed("1m"), timestamp="middle"),  # type: ignore[arg-type]
        "unknown timestamp='middle'",
    ),
    "no bounds to inherit": (lambda rows: rows.window(), "'window_start', 'window_end' is missing"),
    "no event time": (lambda rows: rows.drop("t").window(ec.fixed("1m")), "there is no event time"),
    "no trigger": (lambda rows: rows.window(ec.fixed("1m")).trigger("1m"), "is not a trigger"),  # type: ignore[arg-type]
    "two triggers": (
        lambda rows: rows.window(ec.fixed("1m")).trigger(ec.every("1m"), early=ec.every("1m")),
        "not both",
    ),
    "trigger column": (
        lambda rows: rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.punctuation("flush"))),
        "unknown column 'flush'",
    ),
    "trigger column type": (
        lambda rows: rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.punctuation("v"))),
        "needs a Boolean",
    ),
    "bytes of a time": (
        lambda rows: rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.after_bytes(9, "t"))),
        "bytes are counted of texts",
    ),
    "unknown mode": (lambda rows: rows.accumulate("adding"), "unknown mode 'adding'"),  # type: ignore[arg-type]
    "regrouping": (
        lambda rows: rows.accumulate("retracting", allow_regrouping=True),
        "goes with accumulating",
    ),
    "negative lateness": (lambda rows: rows.lateness("-1s"), "negative"),
    "global and watermark only": (
        lambda rows: total(rows.window(ec.global_window()).trigger(ec.repeat(ec.after_watermark()))),
        "does not end, so it would never fire",
    ),
    "finishing trigger": (
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.after_count(2))),
        r"finishes, .* never be in a pane; put it into repeat",
    ),
    "no late part": (
        lambda rows: total(
            rows.window(ec.fixed("1m")).trigger(ec.until(ec.every("1m"), ec.after_watermark())).lateness("1h")
        ),
        "give late=",
    ),
    "accumulating regrouped": (
        lambda rows: (
            total(rows.window(ec.fixed("1m")).accumulate("accumulating")).group_by("v").agg(pl.len())
        ),
        "count twice",
    ),
    "counted windows close": (
        lambda rows: total(rows.window(ec.count_window(2)).lateness("1m")),
        "depend on all rows of their key",
    ),
    "cut windows": (
        lambda rows: rows.window(ec.fixed("1m")).top_k(1, by="v"),
        "does not apply to rows in windows",
    ),
    "names of bounds": (
        lambda rows: rows.window(ec.fixed("1m")).group_by("k").agg(window_end=pl.len()),
        "'window_end'",
    ),
    "names of pane information": (
        lambda rows: rows.window(ec.fixed("1m")).with_pane_info().group_by("k").agg(timing=pl.len()),
        "'timing' is a column of the pane information",
    ),
    "nothing is late": (lambda rows: rows.window(ec.fixed("1m")).late_rows(), "no row is ever too late"),
    "event time of text": (lambda rows: rows.with_event_time("k"), "'k' is String"),
    "order without time": (lambda rows: rows.drop("t").order_by_time(), "no column of event time"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_where_it_is_declared(
    rows: ec.Source, make: Callable[[ec.Source], object], message: str
) -> None:
    with pytest.raises(ec.PlanError, match=message):
        make(rows)


def test_discarding_sessions_of_rows_that_may_go_are_refused(engine: ec.Engine) -> None:
    rows = rows_of(engine, kind="diffs")
    with pytest.raises(ec.PlanError, match="rows may be retracted here"):
        total(rows.window(ec.sessions("1m")).accumulate("discarding"))


def test_event_time_and_ingress_time_do_not_mix(engine: ec.Engine) -> None:
    """A034: mixing the time of arrival with event time is refused when it is declared."""
    both = rows_of(engine).concat(rows_of(engine, "arriving", watermark=ec.ingress_time()))
    with pytest.raises(ec.PlanError, match="'arriving' are dated by their arrival, those of 'rows'"):
        both.window(ec.fixed("1m"))


def test_a_select_keeps_the_windows(engine: ec.Engine, rows: ec.Source) -> None:
    """A012: windows are assigned anywhere before the grouping, operators in between leave them in place."""
    near = rows.window(ec.sessions("10s")).group_by("k").agg(v=pl.col("v").sum())
    windowed = rows.window(ec.sessions("10s")).filter(pl.col("v") > 0).select("k", "v").rename({"v": "w"})
    far = windowed.group_by("k").agg(v=pl.col("w").sum())
    views = engine.view("near", near), engine.view("far", far)
    engine.push("rows", {"k": ["a", "a", "a"], "v": [1, 2, 4], "t": seconds(0, 5, 60)})
    found = [view.read().sort("window_start").rows() for view in views]
    assert found[0] == found[1]
    assert [row[-1] for row in found[0]] == [3, 4]


def test_accumulating_panes_are_regrouped_by_who_insists(engine: ec.Engine, rows: ec.Source) -> None:
    panes = total(rows.window(ec.fixed("1m")).accumulate("accumulating", allow_regrouping=True))
    view = engine.view("twice", panes.group_by("k").agg(v=pl.col("v").sum()))
    for value in (1, 2):
        engine.push("rows", {"k": ["a"], "v": [value], "t": seconds(0)})
    assert view.read()["v"].to_list() == [1 + 3]


@pytest.mark.parametrize(
    ("reader", "mode", "fits"),
    [
        ("summing", "discarding", True),
        ("summing", "accumulating", False),
        ("summing", "retracting", True),
        ("overwriting", "discarding", False),
        ("overwriting", "accumulating", True),
        ("overwriting", "retracting", True),
        ("log", "discarding", True),
        ("log", "accumulating", False),
        ("log", "retracting", True),
        ("deltas", "accumulating", True),
    ],
)
def test_a147_readers_and_modes(
    engine: ec.Engine, rows: ec.Source, reader: str, mode: str, fits: bool
) -> None:
    """A147: the mode has to match the sink; a mismatch is named where it is declared."""
    view = engine.view("sums", total(rows.window(ec.fixed("1m")).accumulate(mode)))  # type: ignore[arg-type]
    if fits:
        emitted: list[pl.DataFrame] = []
        view.subscribe(emitted.append, reader=reader)  # type: ignore[arg-type]
        engine.push("rows", [("a", 1, NOON)])
        engine.advance("rows", NOON + timedelta(minutes=2))
        assert [frame["v"].to_list() for frame in emitted] == [[1]]
        return
    with pytest.raises(ec.PlanError, match=f"{mode} panes: .*declare the view with .accumulate"):
        view.subscribe(print, reader=reader)  # type: ignore[arg-type]


def test_a_log_of_accumulating_panes_with_their_information(engine: ec.Engine, rows: ec.Source) -> None:
    panes = rows.window(ec.fixed("1m")).accumulate("accumulating").with_pane_info()
    emitted: list[pl.DataFrame] = []
    engine.view("sums", total(panes)).subscribe(emitted.append, reader="log")
    with pytest.raises(ec.PlanError, match="unknown reader='file'"):
        engine.views["sums"].subscribe(print, reader="file")  # type: ignore[arg-type]
    engine.push("rows", [("a", 1, NOON)])
    engine.advance("rows", NOON + timedelta(minutes=2))
    assert [frame["v"].to_list() for frame in emitted] == [[1]]


def test_an_outer_join_of_streams_without_end_warns(engine: ec.Engine, rows: ec.Source) -> None:
    """A020: an unwindowed outer join grows with every row; inner joins, bounded input and joins by window do not warn."""
    other = rows_of(engine, "other")
    with pytest.warns(ec.GrowthWarning, match=r"'rows', 'other' does not end.*about \d+ bytes"):
        rows.join(other, on="k", how="left")
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        rows.join(other, on="k")
        rows.window(ec.fixed("1m")).join(
            other.window(ec.fixed("1m")), on=["k", "window_start", "window_end"], how="full"
        )
        bounded = rows_of(engine, "bounded", bounded=True)
        bounded.join(rows_of(engine, "bounded too", bounded=True), on="k", how="left")
        total(rows.window(ec.fixed("1m"))).join(total(other.window(ec.fixed("1m"))), on="k", how="left")
    assert not [each for each in raised if issubclass(each.category, ec.GrowthWarning)]


# Watermarks by hand


def test_a_watermark_by_hand_never_moves_back(engine: ec.Engine, rows: ec.Source) -> None:
    engine.view("rows", rows)
    engine.advance("rows", NOON)
    with pytest.raises(ec.InputError, match="cannot move back from 2026-01-01 12:00:00 UTC"):
        engine.advance("rows", NOON - timedelta(seconds=1))
    assert engine.epoch_number == 1
    with engine.epoch():
        engine.advance("rows", NOON)
        with pytest.raises(ec.InputError, match="within an epoch"):
            engine.advance("rows", NOON - timedelta(hours=1))
    assert engine.watermarks == {"rows": NOON.replace(tzinfo=UTC)}
    engine.advance("rows", ec.END_OF_TIME)
    assert engine.watermarks == {"rows": ec.END_OF_TIME}
    assert engine.views["rows"].watermark == ec.END_OF_TIME


def test_a_watermark_needs_event_time(engine: ec.Engine) -> None:
    engine.source("plain", {"v": pl.Int64})
    with pytest.raises(ec.InputError, match="'plain' has no event time"):
        engine.advance("plain", NOON)
    with pytest.raises(ec.PlanError, match="event_time="):
        engine.source("other", {"v": pl.Int64}, watermark=ec.ascending())


def test_a_null_event_time_goes_to_the_ledger(engine: ec.Engine, rows: ec.Source) -> None:
    view = engine.view("sums", total(rows.window(ec.fixed("1m"))))
    engine.push("rows", {"k": ["a", "b"], "v": [1, 2], "t": [NOON, None]})
    assert view.read()["k"].to_list() == ["a"]
    assert "'t' is null" in engine.ledger()["reason"][0]


# Late rows


def test_late_rows_are_in_the_ledger_and_can_be_read_and_replayed(engine: ec.Engine, rows: ec.Source) -> None:
    closing = rows.window(ec.fixed("1m")).lateness("30s")
    sums, late = engine.view("sums", total(closing)), engine.view("late", closing.late_rows())
    engine.push("rows", {"k": ["a"], "v": [1], "t": seconds(0)}, watermark=NOON + timedelta(seconds=89))
    engine.push("rows", {"k": ["a"], "v": [2], "t": seconds(59)})
    engine.advance("rows", NOON + timedelta(seconds=90))
    engine.push("rows", {"k": ["a"], "v": [4], "t": seconds(59)})
    assert sums.read()["v"].to_list() == [3]
    assert late.read()["v"].to_list() == [4]
    (entry,) = engine.ledger().to_dicts()
    assert entry["window_end"] == AT + timedelta(minutes=1)
    assert entry["watermark"] == AT + timedelta(seconds=90)
    assert "too late for view 'sums'" in entry["reason"]
    mended = engine.ledger("rows").select("k", "v", pl.col("t").dt.offset_by("1m"))
    engine.push("rows", mended)
    assert sorted(sums.read()["v"].to_list()) == [3, 4]


# Why


def test_why_shows_what_is_waited_for_and_who_holds_the_watermark(engine: ec.Engine) -> None:
    rows = rows_of(engine, watermark=ec.bounded_delay("10s"))
    waiting = rows.window(ec.fixed("1m")).trigger(
        early=ec.any_of(ec.at_period("1m"), ec.after_count(5)), late=ec.each_row()
    )
    view = engine.view("sums", total(waiting.lateness("1h")))
    engine.push("rows", {"k": ["a", "a", "b"], "v": [1, 2, 3], "t": seconds(1, 30, 2)}, at=AT)
    shown = view.why("a", NOON)
    assert shown.splitlines()[0] == "k a, window_start 2026-01-01 12:00:00, window_end 2026-01-01 12:01:00"
    for line in (
        "the window ends at 2026-01-01 12:01:00 UTC, and the watermark is at 2026-01-01 12:00:20 UTC, 40s before it",
        "for the watermark to reach 2026-01-01 12:01:00 UTC",
        "for processing time to reach 2026-01-01 12:01:00 UTC",
        "for 3 more rows: 2 of 5 are there",
        "the watermark of source 'rows' is at 2026-01-01 12:00:20 UTC",
        "it closes when the watermark reaches 2026-01-01 13:01:00 UTC",
    ):
        assert line in shown
    engine.push("rows", {"k": ["b"], "v": [3], "t": seconds(75)}, at=AT)
    assert "has emitted its on-time pane; nothing has changed" in view.why("a")
    assert "there is no open window of that key" in view.why("nobody")


def test_why_of_a_view_that_does_not_wait(engine: ec.Engine, rows: ec.Source) -> None:
    view, plain = engine.view("sums", total(rows.window(ec.fixed("1m")))), engine.view("plain", rows)
    assert "every epoch that brings rows emits its panes at once" in view.why()
    with pytest.raises(ec.InputError, match="is not grouped by windows"):
        plain.why()
    with pytest.raises(ec.InputError, match=r"declare it with \.trigger"):
        view.fire()


def test_why_of_one_window_over_all_time(engine: ec.Engine, rows: ec.Source) -> None:
    view = engine.view("sums", total(rows.trigger(ec.repeat(ec.after_count(3)))))
    engine.push("rows", {"k": ["a"], "v": [1], "t": seconds(1)})
    assert "for 2 more rows: 1 of 3 are there" in view.why("a")
    with pytest.raises(ec.InputError, match="one window covers all of time"):
        view.why(window=NOON)


@pytest.mark.parametrize(
    ("dtype", "known", "meant", "strange"),
    [
        (pl.Int64, 1, [1, 1.0], ["1", 1.5, True, NOON, [1]]),
        (pl.UInt8, 1, [1], [-1, 256, "1"]),
        (pl.Float32, 0.1, [0.1], ["0.1", True]),
        (pl.String, "1", ["1"], [1, 1.0, True, NOON, b"1"]),
        (pl.Enum(["a", "b"]), "a", ["a"], ["c", 0]),
        (pl.Boolean, True, [True], [1, "true"]),
        (pl.Date, NOON.date(), [NOON.date(), "2026-01-01", AT.replace(hour=0)], [NOON, AT, "1/1/2026", 0]),
        (pl.Datetime("us"), NOON, [NOON, AT, "2026-01-01T13:00+01:00"], ["noon", 0]),
        (pl.Datetime("us", "UTC"), AT, [AT, "2026-01-01T13:00+01:00"], [NOON, "noon", 0]),
    ],
)
def test_a_key_is_a_value_of_its_column(
    engine: ec.Engine, dtype: Any, known: object, meant: list[object], strange: list[object]
) -> None:
    rows = engine.source("rows", {"k": dtype, "t": pl.Datetime("us")}, event_time="t")
    windowed = rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.signal()))
    view = engine.view("counts", windowed.group_by("k").agg(n=pl.len()))
    engine.push("rows", pl.DataFrame({"k": pl.Series([known], dtype=dtype), "t": seconds(1)}))
    for key in meant:
        assert "k " in view.why(key), key
    for key in strange:
        argument = {"k": key} if isinstance(key, list) else key
        with pytest.raises(ec.InputError, match=r"view 'counts': k .* does not go with the column, which is"):
            view.why(argument)
        with pytest.raises(ec.InputError, match=r"view 'counts': k .* does not go with the column, which is"):
            view.fire(argument)
    assert view.read().is_empty()
    view.fire(known)
    assert view.read()["n"].to_list() == [1]


@pytest.mark.parametrize("window", ["1/1/2026", 0, True, (NOON, "later")])
def test_a_window_is_requested_by_its_time(engine: ec.Engine, rows: ec.Source, window: object) -> None:
    view = engine.view("sums", total(rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.signal()))))
    engine.push("rows", {"k": ["a"], "v": [1], "t": seconds(1)})
    with pytest.raises(
        ec.InputError, match=r"view 'sums': window_(start|end) .* does not go with the column"
    ):
        view.why(window=window)


def test_a_plan_shows_when_windows_fire_and_close(engine: ec.Engine, rows: ec.Source) -> None:
    """E7: the lateness, and what else decides when panes come, stands in the plan."""
    windowed = rows.window(ec.fixed("1m")).trigger(early=ec.every("10s"), late=ec.each_row())
    engine.view("sums", total(windowed.lateness("1h30m")))
    engine.push("rows", {"k": ["a"], "v": [1], "t": [NOON]}, at=AT + timedelta(seconds=5), watermark=NOON)
    plan = engine.explain()
    assert "after_watermark(early=every 10s, late=each row); retracting; close 1h30m after their end" in plan
    assert "watermark of rows: 2026-01-01 12:00:00 UTC, 5s behind processing time" in plan


def test_windows_stay_in_place_in_a_join(engine: ec.Engine, rows: ec.Source) -> None:
    """A012: a join between the windows and the grouping changes nothing about the windows."""
    names = engine.source("names", {"k": pl.String, "name": pl.String})
    joined = rows.window(ec.fixed("1m")).join(names, on="k")
    view = engine.view("sums", joined.group_by("name").agg(v=pl.col("v").sum()))
    engine.push("names", {"k": ["a", "b"], "name": ["A", "A"]})
    engine.push("rows", {"k": ["a", "b", "a"], "v": [1, 2, 4], "t": seconds(0, 1, 61)})
    assert view.read().sort("window_start").select("name", "window_start", "v").rows() == [
        ("A", NOON, 3),
        ("A", NOON + timedelta(minutes=1), 4),
    ]


def test_rows_in_different_windows_are_not_put_together(engine: ec.Engine, rows: ec.Source) -> None:
    other = rows_of(engine, "other")
    same = rows.window(ec.fixed("1m")).concat(other.window(ec.fixed("1m")))
    assert "window_start" in total(same).columns
    with pytest.raises(ec.PlanError, match="has other windows, triggers or lateness"):
        rows.window(ec.fixed("1m")).concat(other.window(ec.fixed("1m")).lateness("1m"))


def test_panes_in_sliding_windows_are_late_when_their_last_window_is_closed(
    engine: ec.Engine, rows: ec.Source
) -> None:
    """The time of a pane stays its own when it is put into windows of another kind."""
    minutes = total(rows.window(ec.fixed("1m")))
    sliding = minutes.window(ec.sliding("3m", every="1m")).lateness("0s")
    view = engine.view("sums", sliding.group_by().agg(v=pl.col("v").sum()))
    engine.push("rows", {"k": ["a"], "v": [1], "t": seconds(0)}, watermark=NOON + timedelta(minutes=2))
    engine.push("rows", {"k": ["b"], "v": [2], "t": seconds(30)})
    assert engine.ledger("rows").is_empty()
    missed = engine.ledger()
    assert missed["reason"].str.ends_with("some of its windows were closed, and it is in the others").all()
    assert missed["window_start"].to_list() == [AT - timedelta(minutes=2), AT - timedelta(minutes=1)]
    assert view.read().sort("window_start")["v"].to_list() == [1, 1, 3]


def test_bounds_that_are_given_are_in_microseconds_and_there(engine: ec.Engine) -> None:
    coarse = {"window_start": pl.Datetime("ms"), "window_end": pl.Datetime("ms")}
    with pytest.raises(ec.PlanError, match=r"'window_start' is Datetime.*'ms'.*cast it"):
        engine.source("coarse", coarse).window()
    fine = dict.fromkeys(coarse, pl.Datetime("us"))
    engine.view("counts", engine.source("fine", fine).window().group_by().agg(n=pl.len()))
    with pytest.raises(ec.InputError, match="'window_end' is null in 1 row"):
        engine.push("fine", {"window_start": [NOON], "window_end": [None]})


@pytest.mark.parametrize("stamp", ["earliest", "latest", "watermark"])
def test_panes_of_all_time_are_dated(engine: ec.Engine, rows: ec.Source, stamp: str) -> None:
    panes = total(rows.window(ec.global_window(), timestamp=stamp).trigger(ec.each_row()))  # type: ignore[arg-type]
    view = engine.view("counts", panes.window(ec.fixed("1m")).group_by("k").agg(n=pl.len()))
    engine.push("rows", {"k": ["a"], "v": [1], "t": [NOON]}, watermark=NOON)
    assert view.read().rows() == [("a", NOON, NOON + timedelta(minutes=1), 1)]


def test_a_pane_dated_by_a_watermark_that_is_no_time_has_that_of_its_window(
    engine: ec.Engine, rows: ec.Source
) -> None:
    windowed = rows.window(ec.fixed("1m"), timestamp="watermark").trigger(
        early=ec.each_row(), late=ec.each_row()
    )
    view = engine.view("chained", total(windowed).window(ec.fixed("1m")).group_by("k").agg(n=pl.len()))
    engine.push("rows", {"k": ["a"], "v": [1], "t": [NOON]})
    assert view.read().rows() == [("a", NOON, NOON + timedelta(minutes=1), 1)]
    engine.advance("rows", ec.END_OF_TIME)


def test_windows_that_wait_cost_no_epoch_that_does_not_touch_them(engine: ec.Engine, rows: ec.Source) -> None:
    """Law 5: 2,000 windows that wait for a timer, and hold the watermark, add neither work nor timers to the epochs of one other row."""
    waiting = (
        rows.window(ec.fixed("1m")).trigger(ec.every("1h")).lateness("10d").group_by("k").agg(n=pl.len())
    )
    engine.view(
        "chained", waiting.window(ec.fixed("1m")).trigger(late=ec.each_row()).group_by("n").agg(m=pl.len())
    )
    keys = [str(number) for number in range(2_000)]
    engine.push("rows", {"k": keys, "v": [1] * 2_000, "t": [NOON] * 2_000}, at=AT)
    engine.advance("rows", NOON + timedelta(hours=1), at=AT)
    compiled = engine._current()
    trackers = list(compiled.trackers.values())
    before = [tracker.spine.touched for tracker in trackers]
    entries = [state.entries for tracker in trackers for state in tracker.states]
    for _ in range(20):
        engine.push("rows", {"k": ["0"], "v": [1], "t": [NOON]}, at=AT)
    touched = [tracker.spine.touched - then for tracker, then in zip(trackers, before, strict=True)]
    assert max(touched) < 40 * 20
    after = [state.entries for tracker in trackers for state in tracker.states]
    assert all(now <= then + 25 for then, now in zip(entries, after, strict=True))


def test_a_session_that_grows_keeps_one_timer(engine: ec.Engine, rows: ec.Source) -> None:
    growing = rows.window(ec.sessions("1m")).trigger(late=ec.each_row()).lateness("1h")
    engine.view("sums", total(growing))
    for second in range(0, 600, 10):
        engine.push("rows", {"k": ["a"], "v": [1], "t": seconds(second)})
    (tracker,) = engine._current().trackers.values()
    assert max(state.entries for state in tracker.states if isinstance(state, Timers)) == 1


def test_answers_that_no_grouping_follows_are_refused(engine: ec.Engine, rows: ec.Source) -> None:
    windowed = rows.window(ec.fixed("1m"))
    engine.view("in windows", windowed)
    for number, unused in enumerate((windowed.lateness("1m"), total(windowed).trigger(ec.every("1m")))):
        with pytest.raises(ec.PlanError, match="none follows; put them before"):
            engine.view(f"unused {number}", unused)
    with pytest.raises(ec.PlanError, match="no trigger is given"):
        windowed.trigger()


def test_an_upsert_without_event_time_leaves_the_row_that_is_there(engine: ec.Engine) -> None:
    source = engine.source("latest", COLUMNS, kind="upsert", key="k", event_time="t")
    view = engine.view("rows", source)
    engine.push("latest", [("a", 7, NOON)])
    engine.push("latest", [("a", 8, None)])
    assert view.read()["v"].to_list() == [7]
    engine.push("latest", {"k": ["a"], "_diff": [-1]})
    assert view.read().is_empty()
    assert engine.ledger("latest")["v"].to_list() == [8]


def test_rows_with_and_without_event_time_are_not_windowed_together(
    engine: ec.Engine, rows: ec.Source
) -> None:
    untimed = engine.source("untimed", COLUMNS)
    with pytest.raises(ec.PlanError, match="there is no event time"):
        rows.concat(untimed).window(ec.fixed("1m"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", 1, 1767268800)], "holds the number 1767268800"),
        ({"k": ["a"], "v": [1], "t": [1767268800]}, "holds the number"),
        ([("a", 1, datetime.max.replace(tzinfo=WEST))], "is beyond the years 1 to 9999 in UTC"),
        ([("a", 1.5, NOON)], "column 'v'"),
        ([("a", 1), ("a", 1, NOON)], "different numbers of values|a row has"),
    ],
)
def test_python_values_are_not_taken_for_others(
    engine: ec.Engine, rows: ec.Source, data: list[tuple[object, ...]], message: str
) -> None:
    with pytest.raises(ec.InputError, match=message):
        engine.push("rows", data)


def test_bytes_in_the_ledger_are_hexadecimal(engine: ec.Engine) -> None:
    engine.source("raw", {"b": pl.Binary, "t": pl.Datetime("us")}, event_time="t")
    engine.push("raw", {"b": [b"\x01\xff"], "t": [None]})
    assert "01ff" in engine.ledger()["row"][0]


@pytest.mark.parametrize("stamp", ["earliest", "latest", "watermark"])
def test_the_column_that_dates_panes_is_no_other_one(engine: ec.Engine, stamp: Any) -> None:
    """A key or an aggregate with the name of the column that dates panes is refused."""
    dated = engine.source("dated", {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
    windows = dated.window(ec.fixed("1h"), timestamp=stamp)
    message = f"'at' is the column that dates panes, by timestamp='{stamp}'; give your key or aggregate another name"
    for declare in (
        lambda: windows.group_by("at").len(),
        lambda: windows.group_by("k").agg(at=pl.col("v").sum()),
    ):
        with pytest.raises(ec.PlanError, match=message):
            declare()
    with pytest.raises(ec.PlanError, match="'at' is"):
        windows.group_by("k").agg(pl.col("at").max())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("has_inverse", [True, False])
def test_a_users_aggregate_of_sessions_whose_ends_move_without_rows(workers: int, has_inverse: bool) -> None:
    """A user's aggregate of discarding sessions equals the sum of polars, also where sessions merge whose rows were emitted and discarded."""
    add = ec.aggregate(
        create=lambda: 0,
        add=lambda total, values: total + sum(values.to_list()),
        merge=lambda one, other: one + other,
        extract=lambda total: total,
        remove=(lambda total, values: total - sum(values.to_list())) if has_inverse else None,
        dtype=pl.Int64,
    )
    engine = ec.Engine(workers=workers)
    rows = engine.source("sums", {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
    sessions = rows.window(ec.sessions("3m")).trigger(ec.each_row()).accumulate("discarding")
    panes = engine.view("panes", sessions.group_by("k").agg(own=add(pl.col("v")), sum=pl.col("v").sum()))
    minutes = [7, 5, 6, 4, 8, 20, 3, 22, 21]
    for number, minute in enumerate(minutes):
        at = datetime(2026, 1, 1, 12, minute)
        engine.push("sums", {"k": ["abc"[number % 3]], "v": [number + 1], "at": [at]})
    emitted = panes.read().sort("sum")
    assert emitted["own"].to_list() == emitted["sum"].to_list() == [*range(1, len(minutes) + 1)]


BOUND_TYPES = {"window_start": pl.Datetime("us"), "window_end": pl.Datetime("us")}


@pytest.mark.parametrize(
    "window", [ec.fixed("1m"), ec.sessions("1m"), ec.calendar("1d"), ec.count_window(2)], ids=str
)
def test_columns_of_rows_with_the_names_of_bounds_are_refused(engine: ec.Engine, window: ec.Window) -> None:
    columns = {"k": pl.String, "window_end": pl.Int64, "t": pl.Datetime("us")}
    fares = engine.source("fares", columns, event_time="t")
    expected = (
        r"window on source 'fares': 'window_end' would appear twice, as a column and as a bound of windows; "
        r"rename the column before: .rename\(\{'window_end': ...\}\)"
    )
    with pytest.raises(ec.PlanError, match=expected):
        fares.window(window)
    computed = fares.drop("window_end").with_columns(window_start="t", window_end="t")
    with pytest.raises(ec.PlanError, match=r"'window_start' and 'window_end' would appear twice"):
        computed.window(window)
    renamed = fares.rename({"window_end": "last"}).window(window).group_by("k").agg(most=pl.col("last").max())
    view = engine.view("most", renamed)
    engine.push("fares", [("a", 7, NOON)])
    assert view.read()["most"].to_list() == [7]


def test_panes_of_another_engine_are_put_into_windows_as_those_of_one(
    engine: ec.Engine, rows: ec.Source
) -> None:
    minutes = engine.view("minutes", total(rows.window(ec.fixed("1m"))))
    other = ec.Engine()
    panes = other.source("panes", dict(minutes.schema), kind="diffs", event_time="window_start")
    hours = [
        each.view("hours", counts.window(ec.fixed("1h")).group_by("k").agg(pl.col("v").sum()))
        for each, counts in ((engine, minutes), (other, panes))
    ]
    minutes.subscribe(lambda delta: panes.push(delta.drop("_epoch")))
    for number in range(5):
        engine.push("rows", [("ab"[number % 2], number, NOON + timedelta(minutes=25 * number))])
    one, two = (view.read().sort("k", "window_start") for view in hours)
    assert one.height > 2
    assert_frame_equal(one, two)


def test_bounds_of_windows_are_replaced_by_those_of_later_windows(engine: ec.Engine, rows: ec.Source) -> None:
    given = engine.source("given", {"n": pl.Int64, **BOUND_TYPES})
    counts = engine.view("counts", total(rows.window(ec.fixed("1m"))))
    hours = engine.view("hours", counts.window(ec.fixed("1h")).group_by("k").agg(pl.col("v").sum()))
    again = rows.window(ec.fixed("1m")).window(ec.fixed("1h"))
    twice = engine.view("twice", again.group_by("k").agg(pl.col("v").sum()))
    kept = engine.view("kept", given.window().group_by().agg(pl.col("n").sum()))
    whole = engine.view("whole", given.window(ec.global_window()).group_by().agg(pl.col("window_end").max()))
    engine.push("rows", {"k": ["a", "a"], "v": [1, 2], "t": [NOON, NOON + timedelta(minutes=5)]})
    engine.push("given", [(4, NOON, NOON + timedelta(minutes=5))])
    assert hours.read().rows() == twice.read().rows() == [("a", NOON, NOON + timedelta(hours=1), 3)]
    assert kept.read().rows() == [(NOON, NOON + timedelta(minutes=5), 4)]
    assert whole.read().rows() == [(NOON + timedelta(minutes=5),)]
