"""Model, time and watermarks: capabilities of the seeds, each by its id in ``docs/features.md``, as users meet them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import permutations
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from eventtime.view_runs import ViewRun, cells, play, seen, ten_rows, total, when

# Model and primitives


WINDOWS = {"fixed": ec.fixed("2m"), "sessions": ec.sessions("1m")}
TRIGGERS = {"every minute": ec.every("1m"), "each row": ec.each_row()}
MODES = ("discarding", "retracting")
WHAT = {"sum": pl.col("v").sum(), "max": pl.col("v").max()}


def node_of_view(where: str, trigger: str, mode: Any, what: str) -> Any:
    """The plan node of a view with these four answers."""
    engine = ViewRun(
        lambda rows: (
            rows.window(WINDOWS[where])
            .trigger(TRIGGERS[trigger])
            .accumulate(mode)
            .group_by("k")
            .agg(v=WHAT[what])
        )
    ).engine
    return next(node for node in engine._plan.nodes.values() if hasattr(node.operation, "windowing"))


def four_answers(node: Any) -> dict[str, Any]:
    windowing = node.operation.windowing
    return {
        "where": windowing.window,
        "when": windowing.trigger,
        "how": windowing.mode,
        "what": node.operation.identity,
    }


@pytest.mark.parametrize(
    ("swapped", "other"),
    [
        ("where", ("sessions", "every minute", "discarding", "sum")),
        ("when", ("fixed", "each row", "discarding", "sum")),
        ("how", ("fixed", "every minute", "retracting", "sum")),
        ("what", ("fixed", "every minute", "discarding", "max")),
    ],
)
def test_a001_one_of_the_four_answers_is_swapped_and_the_others_stay(
    swapped: str, other: tuple[str, ...]
) -> None:
    one = four_answers(node_of_view("fixed", "every minute", "discarding", "sum"))
    changed = four_answers(node_of_view(*other))
    assert {name for name in one if one[name] != changed[name]} == {swapped}


def some_rows(count: int, seed: int = 1) -> list[tuple[str, int, int]]:
    """Rows of three keys, in no order of event time."""
    draw = random.Random(seed)
    return [(draw.choice("abc"), draw.randrange(10), draw.randrange(600)) for _ in range(count)]


def sums_of(rows: list[tuple[str, int, int]], size: int) -> list[tuple[Any, ...]]:
    """Sums by key and fixed window in plain Python."""
    sums: dict[tuple[str, int, int], int] = {}
    for key, value, at in rows:
        window = (key, at - at % size, at - at % size + size)
        sums[window] = sums.get(window, 0) + value
    return sorted((*window, value) for window, value in sums.items())


@pytest.mark.parametrize("size", [1, 7, 60], ids=["streaming", "micro-batches", "batch"])
@pytest.mark.parametrize("window", [ec.fixed("1m"), ec.sessions("5s")], ids=["fixed", "sessions"])
def test_a002_a_windowed_definition_runs_as_batch_micro_batch_and_stream(window: Any, size: int) -> None:
    def view_of(rows: ec.Collection) -> ec.Collection:
        return total(rows.window(window).trigger(early=ec.every("1m"), late=ec.each_row()))

    rows = some_rows(60)
    batch, run = ViewRun(view_of, bounded=True), ViewRun(view_of, bounded=True)
    batch.push(*rows, watermark=ec.END_OF_TIME)
    for start in range(0, len(rows), size):
        run.push(*rows[start : start + size], at=start)
    run.advance(ec.END_OF_TIME)
    assert run.held() == batch.held()
    assert run.held()


def test_a003_bounded_input_whose_watermark_goes_to_the_end_is_classic_batch() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.global_window()).trigger(ec.after_watermark()).lateness("0s")), bounded=True)  # fmt: skip
    for value, at, seen_at in ten_rows():
        assert run.push(("blue", value, at), at=seen_at) == []
    assert run.advance(ec.END_OF_TIME) == [("blue", 51, 1)]


def test_a004_a_micro_batch_emits_one_pane_per_window_that_it_changed() -> None:
    """Figure 11 of the paper: batches of a minute over windows of two."""
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("2m")).accumulate("accumulating")))
    panes = []
    for minute in range(6, 10):
        batch = [row for row in ten_rows() if (minute - 1) * 60 <= row[2] < minute * 60]
        panes.append([(start, v) for _, start, _, v, _ in run.push(*(("blue", v, t) for v, t, _ in batch))])
    assert panes == [[(0, 5), (120, 7)], [(120, 14), (240, 3)], [(120, 22), (360, 3)], [(0, 14), (360, 12)]]


def test_a005_a_deletion_after_the_pane_on_time_corrects_it() -> None:
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(late=ec.each_row()).lateness("1h")),
        kind="diffs",
    )
    assert run.push(("a", 5, 10, 1), ("a", 7, 20, 1)) == []
    assert run.advance(60) == [("a", 0, 60, 12, 1)]
    assert run.push(("a", 5, 10, -1)) == [("a", 0, 60, 7, 1), ("a", 0, 60, 12, -1)]
    assert run.push(("a", 7, 20, -1)) == [("a", 0, 60, 7, -1)]


def test_a006_the_windows_of_a_range_are_computed_anew_alone() -> None:
    rows = some_rows(80)
    whole, part = (ViewRun(lambda rows: total(rows.window(ec.fixed("1m")))) for _ in range(2))
    whole.push(*rows)
    part.push(*(row for row in rows if 120 <= row[2] < 300))
    assert part.held() == [row for row in whole.held() if 120 <= row[1] < 300] != []


def test_a010_key_value_event_time_and_window_are_visible_to_user_code() -> None:
    frames: list[pl.DataFrame] = []

    def look(rows: pl.DataFrame) -> pl.DataFrame:
        frames.append(rows)
        return rows

    run = ViewRun(lambda rows: rows.window(ec.sliding("2m", every="1m")).map_batches(look))
    run.push(("a", 5, 70))
    assert frames[-1].columns == ["k", "v", "t", "window_start", "window_end"]
    assert cells(frames[-1]) == [("a", 5, 70, 0, 120), ("a", 5, 70, 60, 180)]


def test_a013_sessions_merge_where_they_are_grouped_and_not_before() -> None:
    run = ViewRun(
        lambda rows: rows.window(ec.sessions("1m")), lambda rows: total(rows.window(ec.sessions("1m")))
    )
    run.push(("a", 1, 0), ("a", 2, 40))
    assert run.held(0) == [("a", 1, 0, 0, 60), ("a", 2, 40, 40, 100)]
    assert run.held(1) == [("a", 0, 100, 3)]


def minutes(clock: str) -> int:
    """Seconds past noon of a time of day without seconds."""
    return (int(clock[:2]) - 12) * 3600 + int(clock[3:]) * 60


def test_a014_group_by_key_and_window() -> None:
    """Figure 4 of the paper."""
    run = ViewRun(
        lambda rows: rows.window(ec.sessions("30m")).group_by("k").agg(pl.col("v").sort_by("t").implode())
    )
    rows = [("k1", 1, "13:02"), ("k2", 2, "13:14"), ("k1", 3, "13:57"), ("k1", 4, "13:20")]
    run.push(*((key, value, minutes(at)) for key, value, at in rows))
    assert run.held() == [
        ("k1", minutes("13:02"), minutes("13:50"), [1, 4]),
        ("k1", minutes("13:57"), minutes("14:27"), [3]),
        ("k2", minutes("13:14"), minutes("13:44"), [2]),
    ]


def test_a015_the_optimised_way_and_the_generic_one_emit_the_same() -> None:
    generic = ec.custom_windows(
        lambda rows: rows.select(window_start="t", window_end=pl.col("t") + timedelta(seconds=30)),
        merge=ec.merge_overlapping,
    )
    run = ViewRun(
        lambda rows: total(rows.window(ec.sessions("30s"))), lambda rows: total(rows.window(generic))
    )
    for row in some_rows(60):
        assert run.push(row) == run.emitted(1)
    assert run.held() == run.held(1) != []


def test_a016_a_composite_takes_the_windows_set_outside_of_it() -> None:
    def sum_integers_per_key(rows: ec.Collection) -> ec.Collection:
        return rows.select("k", "v").group_by("k").agg(pl.col("v").sum())

    run = ViewRun(
        lambda rows: rows.pipe(sum_integers_per_key),
        lambda rows: rows.window(ec.fixed("1m")).pipe(sum_integers_per_key),
    )
    rows = some_rows(40)
    run.push(*rows)
    assert run.held(1) == sums_of(rows, 60)
    assert run.held(0) == sorted(
        (k, sum(v for key, v, _ in rows if key == k)) for k in {row[0] for row in rows}
    )


def test_a018_windows_subtract_where_there_is_an_inverse_and_recompute_where_not() -> None:
    removed: list[int] = []

    def remove(state: int, values: pl.Series) -> int:
        removed.append(len(values))
        return state - int(values.sum())

    def summing(**more: Any) -> Any:
        return ec.aggregate(
            create=lambda: 0, add=lambda s, v: s + v.sum(), merge=lambda s, t: s + t, extract=lambda s: s,
            dtype=pl.Int64, **more,
        )  # fmt: skip

    run = ViewRun(
        lambda rows: (
            rows.window(ec.fixed("1m"))
            .group_by("k")
            .agg(
                inverse=summing(remove=remove)(pl.col("v")),
                anew=summing()(pl.col("v")),
                max=pl.col("v").max(),
            )
        ),
        kind="diffs",
    )
    run.push(("a", 5, 1, 1), ("a", 7, 2, 1))
    assert run.push(("a", 7, 2, -1)) == [("a", 0, 60, 5, 5, 5, 1), ("a", 0, 60, 12, 12, 7, -1)]
    assert removed == [1]


def test_a019_a_retraction_repeats_what_was_emitted_and_not_what_would_be_emitted_now() -> None:
    """The function gives another result at every call; a pane keeps what it has emitted."""
    calls = iter(range(100))
    dice = ec.aggregate(
        create=lambda: 0, add=lambda s, v: s, merge=lambda s, t: s, extract=lambda s: next(calls), dtype=pl.Int64
    )  # fmt: skip
    run = ViewRun(lambda rows: rows.window(ec.fixed("1m")).trigger(ec.each_row()).group_by("k").agg(v=dice(pl.col("v"))))  # fmt: skip
    standing: list[tuple[Any, ...]] = []
    for second in range(4):
        emitted = run.push(("a", 1, second))
        assert [row[:-1] for row in emitted if row[-1] < 0] == standing
        standing = [row[:-1] for row in emitted if row[-1] > 0]
        assert run.held() == standing
        assert len(standing) == 1


def test_a023_bounded_and_unbounded_input_run_through_the_same_operators() -> None:
    def operators(bounded: bool) -> list[str]:
        run = ViewRun(lambda rows: total(rows.window(ec.sessions("1m")).trigger(late=ec.each_row()).lateness("1h")), bounded=bounded)  # fmt: skip
        return [type(node.operator).__qualname__ for node in run.engine._current().circuit.nodes]

    assert operators(bounded=True) == operators(bounded=False)


# Time, timestamps, ordering


def test_a030_results_in_event_time_do_not_depend_on_anybodys_clock() -> None:
    rows, clocks = some_rows(30), list(range(30))
    found = []
    for seed in range(3):
        run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m"))))
        for row, at in zip(rows, clocks, strict=True):
            run.push(row, at=at)
        found.append(run.held())
        random.Random(seed).shuffle(clocks)
    assert found[0] == found[1] == found[2] == sums_of(rows, 60)


def test_a031_the_skew_of_the_watermark_is_known_for_every_epoch() -> None:
    run = ViewRun(lambda rows: rows, watermark=ec.bounded_delay("10s"))
    for at, seen_at in ((0, 5), (30, 60), (20, 61)):
        run.push(("a", 1, at), at=seen_at)
    log = run.engine.run_log
    marks = log.watermarks().join(log.epochs(), on="_epoch")
    skew = marks.sort("_epoch").select((pl.col("processing_time") - pl.col("watermark")).dt.total_seconds())
    assert skew.to_series().to_list() == [15, 40, 41]


def test_a033_event_time_or_ingress_time_is_one_setting_at_the_source() -> None:
    def held(watermark: Any) -> list[tuple[Any, ...]]:
        run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).trigger(late=ec.each_row())), watermark=watermark)  # fmt: skip
        for key, value, at, seen_at in [("a", 1, 10, 70), ("a", 2, 65, 75), ("a", 4, 50, 130)]:
            run.push((key, value, at), at=seen_at)
        run.advance(ec.END_OF_TIME, at=200)
        return run.held()

    assert held(ec.bounded_delay("10s")) == [("a", 0, 60, 5), ("a", 60, 120, 2)]
    assert held(ec.ingress_time()) == [("a", 60, 120, 3), ("a", 120, 180, 4)]


def test_a035_ingress_time_has_a_perfect_watermark() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s")), watermark=ec.ingress_time())  # fmt: skip
    for second in range(0, 300, 20):
        run.push(("a", 1, -5000), at=second)
    assert run.late() == []
    assert [row[-1] for row in run.held()] == [3, 3, 3, 3]


def test_a036_operators_keep_the_event_time_of_their_input() -> None:
    rows = some_rows(30)
    run = ViewRun(
        lambda rows: rows,
        lambda rows: rows.filter(pl.col("v") > 3),
        lambda rows: rows.with_columns(v=pl.col("v") * 2).rename({"v": "w"}).drop("w"),
        lambda rows: rows.with_columns(v=pl.int_ranges(0, pl.col("v") % 3)).explode("v"),
    )
    run.push(*rows)
    assert run.held(1) == sorted(row for row in rows if row[1] > 3)
    assert run.held(2) == sorted((key, at) for key, _, at in rows)
    copies = run.views[3].read().group_by("k", "t").len()
    assert set(cells(copies.select("k", "t"))) <= {(key, at) for key, _, at in rows}
    far = ViewRun(lambda rows: total(rows.filter(pl.col("v") > 3).with_columns(v=pl.col("v") * 2).window(ec.fixed("1m"))))  # fmt: skip
    far.push(*rows)
    assert far.held() == sums_of([(key, 2 * value, at) for key, value, at in rows if value > 3], 60)


def moved(seconds: int, strict: bool = False) -> Callable[[ec.Collection], ec.Collection]:
    """Sums of windows of a minute in a time that is moved."""
    shifted = (pl.col("t") + timedelta(seconds=seconds)).alias("t")
    return lambda rows: total(
        rows.with_event_time(shifted, strict=strict).window(ec.fixed("1m")).lateness("0s")
    )


def test_a037_a_row_moved_behind_the_watermark_is_late_or_an_error() -> None:
    run = ViewRun(moved(-60))
    run.push(("a", 1, 130), watermark=120)
    assert run.held() == [("a", 60, 120, 1)]
    assert run.push(("a", 2, 140)) == []
    assert run.engine.ledger().height == 1
    strict = ViewRun(moved(-60, strict=True))
    strict.push(("a", 1, 190), watermark=120)
    with pytest.raises(ec.InputError, match="watermark"):
        strict.push(("a", 2, 140))
    assert strict.engine.epoch_number == 1


def test_a038_event_time_is_changed_by_its_own_operator_alone() -> None:
    run = ViewRun(moved(3600))
    run.push(("a", 1, 0))
    assert run.held() == [("a", 3600, 3660, 1)]
    rows = ec.Engine().source("rows", {"v": pl.Int64, "t": pl.Datetime("us")}, event_time="t")
    with pytest.raises(ec.PlanError, match=r"no event time.*with_event_time"):
        rows.with_columns(t=pl.col("t").dt.offset_by("1h")).window(ec.fixed("1m"))


def test_a039_event_time_is_a_column_or_computed() -> None:
    run = ViewRun(
        lambda rows: total(rows.with_event_time("other").window(ec.fixed("1m"))),
        lambda rows: total(
            rows.with_event_time(pl.from_epoch("unix", time_unit="s").alias("made")).window(ec.fixed("1m"))
        ),
        columns={"other": pl.Datetime("us"), "unix": pl.Int64},
    )
    epoch = pl.Series([when(200)]).dt.epoch("s").item()
    run.push(("a", 1, 0, when(100), epoch))
    assert run.held(0) == [("a", 60, 120, 1)]
    assert run.held(1) == [("a", 180, 240, 1)]


def test_a040_rows_are_released_in_order_as_the_watermark_passes() -> None:
    run = ViewRun(lambda rows: rows.order_by_time(), watermark=ec.bounded_delay("30s"))
    released: list[int] = []
    for _, value, at in sorted(some_rows(50), key=lambda row: row[2] // 30):
        emitted = run.push(("a", value, at))
        times = [row[2] for row in emitted]
        watermark = run.view.watermark
        assert all(seen(time) < watermark for time in times)  # type: ignore[operator]
        released += sorted(times)
    run.advance(ec.END_OF_TIME)
    released += sorted(row[2] for row in run.emitted())
    assert released == sorted(released)
    assert len(released) == 50


@pytest.mark.parametrize("order", list(permutations([("a", 1, 5), ("a", 2, 20), ("a", 3, 40), ("a", 4, 59)])))
def test_a041_first_and_last_do_not_depend_on_arrival(order: Any) -> None:
    run = ViewRun(
        lambda rows: (
            rows.window(ec.fixed("1m")).group_by("k").agg(one=pl.col("v").first(), other=pl.col("v").last())
        )
    )
    for row in order:
        run.push(row)
    assert run.held() == [("a", 0, 60, 1, 4)]


@pytest.mark.parametrize("window", [ec.fixed("30s"), ec.sessions("15s")], ids=["fixed", "sessions"])
def test_a042_every_order_of_the_input_ends_in_the_same_state(window: Any) -> None:
    rows = [("a", 1, 0), ("a", 2, 10), ("a", 4, 24), ("b", 8, 5)]
    finals, ways = set(), set()
    for order in permutations(rows):
        run = ViewRun(lambda rows: total(rows.window(window)))
        ways.add(str([run.push(row) for row in order]))
        finals.add(str(run.held()))
    assert len(finals) == 1
    assert len(ways) > 1


# Watermarks


def test_a050_a_watermark_never_decreases() -> None:
    run = ViewRun(lambda rows: rows, watermark=ec.bounded_delay("10s"))
    seen_marks: list[Any] = []
    for row in some_rows(40):
        run.push(row)
        seen_marks.append(run.engine.watermarks["rows"])
    assert seen_marks == sorted(seen_marks)
    assert seen_marks[-1] == seen(max(row[2] for row in some_rows(40)) - 10)


def test_a051_a_late_row_is_an_error_if_the_watermark_is_perfect_and_handled_if_it_is_not() -> None:
    def view_of(rows: ec.Collection) -> ec.Collection:
        return total(rows.window(ec.fixed("1m")))

    perfect, heuristic = ViewRun(view_of, watermark=ec.perfect()), ViewRun(view_of, watermark=ec.ascending())
    for run in (perfect, heuristic):
        run.push(("a", 1, 50))
    with pytest.raises(ec.InputError, match="watermark"):
        perfect.push(("a", 2, 10))
    heuristic.push(("a", 2, 10))
    assert heuristic.held() == [("a", 0, 60, 3)]


def test_a052_one_slow_key_holds_all_back_and_an_early_trigger_relieves() -> None:
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s")),
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(early=ec.every("1m")).lateness("0s")),
        watermark=ec.by_partition("k", idle_after=None),
    )
    run.push(("slow", 1, 5), ("a", 2, 10), at=0)
    for minute in range(1, 5):
        assert run.push(("a", 2, 60 * minute), at=60 * minute) == []
    assert len(run.held(1)) >= 4
    assert ("a", 0, 60, 2, 1) in run.push(("slow", 1, 250), at=300)


def test_a053_with_a_fast_watermark_a_pane_is_emitted_too_soon_and_corrected() -> None:
    """Figure 12 of the paper: 5 on time, then 14."""
    panes = play(
        lambda rows: total(
            rows.window(ec.fixed("2m"))
            .trigger(late=ec.each_row())
            .accumulate("accumulating")
            .with_pane_info()
        )
    )
    first = [(pane[3], pane[6]) for _, pane in panes if pane[1] == 0]
    assert first == [(5, "ON_TIME"), (14, "LATE")]


def test_a055_of_two_inputs_the_earlier_watermark_counts() -> None:
    engine = ec.Engine()
    schema = {"k": pl.String, "v": pl.Int64, "t": pl.Datetime("us")}
    one, other = (engine.source(name, schema, event_time="t") for name in ("one", "other"))
    both = one.concat(other).window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s")
    view = engine.view("v", total(both))
    engine.push("one", [("a", 1, when(5))], watermark=seen(100))
    engine.push("other", [("a", 2, when(6))], watermark=seen(59))
    assert view.read().is_empty()
    assert view.watermark == seen(59)
    engine.advance("other", seen(61))
    assert view.watermark == seen(61)
    assert cells(view.read()) == [("a", 0, 60, 3)]


def test_a056_a_watermark_propagates_through_a_chain() -> None:
    engine = ec.Engine()
    step: Any = engine.source("rows", {"v": pl.Int64, "t": pl.Datetime("us")}, event_time="t", watermark=ec.ascending())  # fmt: skip
    views = []
    for number in range(5):
        step = engine.view(f"view {number}", step.with_columns(v=pl.col("v") + 1).filter(pl.col("v") > 0))
        views.append(step)
    last = step.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s")
    sums = engine.view("sums", last.group_by().agg(pl.col("v").sum()))
    engine.push("rows", [(1, when(59))])
    assert sums.read().is_empty()
    engine.push("rows", [(1, when(60))])
    assert {view.watermark for view in (*views, sums)} == {seen(60)}
    assert cells(sums.read()) == [(0, 60, 6)]


def test_a060_a_window_becomes_late_exactly_once() -> None:
    """A060: the state of a window flips from early to late when the watermark passes its end."""
    run = ViewRun(
        lambda rows: total(
            rows.window(ec.fixed("1m")).trigger(early=ec.each_row(), late=ec.each_row()).with_pane_info()
        )
    )
    timings = []
    for number, mark in enumerate([10, 59, 60, 61, 500]):
        emitted = run.push(("a", 1, number), watermark=mark)
        timings += [row[6] for row in emitted if row[-1] > 0]
    assert timings == ["EARLY", "EARLY", "ON_TIME", "LATE", "LATE"]


def test_e6_a_window_behind_the_watermark_is_not_late_without_late_rows() -> None:
    run = ViewRun(
        lambda rows: total(
            rows.window(ec.fixed("1m")).trigger(late=ec.every("1m"), always=True).with_pane_info()
        )
    )
    run.push(("a", 1, 0), at=0)
    emitted = run.advance(10_000, at=1)
    assert [row[6] for row in emitted] == ["ON_TIME"]
    assert run.advance(20_000, at=2) == []
    assert run.late() == []


def test_a061_the_watermark_moves_at_the_end_of_a_batch_and_not_within() -> None:
    """The row that moves the watermark stands before one that it would make late."""
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).lateness("0s")), watermark=ec.ascending())
    run.push(("a", 1, 500), ("a", 2, 10))
    assert run.held() == [("a", 0, 60, 2), ("a", 480, 540, 1)]
    assert run.push(("a", 4, 10)) == []
    assert run.late() == [("a", 4, 10)]


WATERMARKS: dict[str, Callable[[], Any]] = {
    "far too slow": lambda: ec.bounded_delay("1h"),
    "far too fast": lambda: ec.ascending(),
    "by a clock that is wrong": lambda: ec.behind_processing_time("1s"),
    "by a share of the rows": lambda: ec.percentile_watermark(0.5),
    "none": lambda: None,
}


@pytest.mark.parametrize("watermark", WATERMARKS.values(), ids=WATERMARKS)
def test_a063_a_wrong_watermark_changes_when_and_never_what(watermark: Callable[[], Any]) -> None:
    rows = some_rows(60, seed=3)
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(late=ec.each_row()).lateness("1d")),
        watermark=watermark(),
    )
    for number, row in enumerate(rows):
        run.push(row, at=10 * number)
    run.advance(ec.END_OF_TIME, at=7200)
    assert run.held() == sums_of(rows, 60)
