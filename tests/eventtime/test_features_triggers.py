"""Triggers: capabilities of the seeds, each by its id in ``docs/features.md``, as users meet them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from eventtime.view_runs import Row, ViewRun, cells, clock, play, seen, ten_rows, total, when

FLAG = {"flag": pl.Boolean}


def triggered(trigger: Any, *, mode: Any = "accumulating", window: Any = None, **options: Any) -> ViewRun:
    """Sums in windows of a minute that this trigger fires."""
    return ViewRun(
        lambda rows: total(rows.window(window or ec.fixed("1m")).trigger(trigger).accumulate(mode)), **options
    )


def values(rows: list[Row]) -> list[int]:
    """The last column before the diff."""
    return [row[-2] for row in rows]


def test_a110_the_default_of_the_paper_fires_on_time_and_then_for_late_rows() -> None:
    """Figure 12 of the paper: repeat(after_watermark()) gives 5 on time and then 14."""
    panes = play(
        lambda rows: total(
            rows.window(ec.fixed("2m")).trigger(ec.repeat(ec.after_watermark())).accumulate("accumulating")
        )
    )
    found = [(at, pane[3]) for at, pane in panes if pane[1] == 0]
    assert found == [(clock("12:06:00"), 5), (clock("12:08:19"), 14)]


def test_a111_a_period_of_processing_time_whatever_comes() -> None:
    run = triggered(ec.every("1m"))
    fired = []
    for second in range(0, 240, 20):
        rows = [("a", 1, 0)] * (second % 7) if second < 120 else []
        fired.append((second, values(run.push(*rows, at=second))))
    assert [(second, panes) for second, panes in fired if panes] == [(60, [15]), (120, [20])]


def test_a111_periods_are_aligned() -> None:
    for aligned, due in ((None, 60), (seen(25), 25)):
        run = triggered(ec.every("1m", aligned_to=aligned))
        run.push(("a", 1, 0), at=10)
        assert run.tick(due - 1) == []
        assert values(run.tick(due)) == [1]


def test_a112_a_number_of_rows() -> None:
    run = triggered(ec.repeat(ec.after_count(2)), mode="discarding")
    fired = [values(run.push(("a", value, 0))) for value in (1, 2, 4, 8, 16)]
    assert fired == [[], [3], [], [12], []]


def test_a113_a_number_of_bytes() -> None:
    run = triggered(ec.repeat(ec.after_bytes(10, "text")), columns={"text": pl.String})
    assert run.push(("a", 1, 0, "seven b")) == []
    assert values(run.push(("a", 2, 0, "ten"))) == [3]


def test_a114_a_punctuation_in_the_data() -> None:
    run = triggered(ec.repeat(ec.punctuation("flag")), columns=FLAG)
    assert run.push(("a", 1, 0, False)) == []
    assert values(run.push(("a", 2, 0, True))) == [3]


def test_a115_a_pattern() -> None:
    run = triggered(ec.repeat(ec.pattern("start", "stop")), columns={"start": pl.Boolean, "stop": pl.Boolean})
    assert run.push(("a", 1, 0, False, True)) == []
    assert run.push(("a", 2, 0, True, False)) == []
    assert run.push(("a", 4, 0, False, False)) == []
    assert values(run.push(("a", 8, 0, False, True))) == [15]


def test_a116_a_share_of_the_rows_ends_a_batch_before_its_stragglers() -> None:
    run = ViewRun(
        lambda rows: (
            rows.window(ec.fixed("1m"))
            .trigger(ec.repeat(ec.after_percentile(0.9)))
            .accumulate("accumulating")
            .group_by()
            .agg(n=pl.len())
        ),
        watermark=ec.bounded_delay("1h"),
    )
    emitted = [row for second in range(65) for row in run.push(("a", 1, second)) if row[0] == 0]
    assert [n for *_, n, _ in emitted][:1] == [60]
    assert values(run.push(("a", 1, 5))) == [61]


def test_a117_all_of_several() -> None:
    run = triggered(ec.repeat(ec.all_of(ec.after_watermark(), ec.punctuation("flag"))), columns=FLAG)
    assert run.push(("a", 1, 0, False), watermark=60) == []
    assert values(run.push(("a", 2, 0, True))) == [3]
    other = triggered(ec.repeat(ec.all_of(ec.after_watermark(), ec.punctuation("flag"))), columns=FLAG)
    assert other.push(("a", 1, 0, True)) == []
    assert values(other.advance(60)) == [1]


def test_a118_any_of_several() -> None:
    trigger = ec.repeat(ec.any_of(ec.after_watermark(), ec.punctuation("flag")))
    by_flag, by_watermark = triggered(trigger, columns=FLAG), triggered(trigger, columns=FLAG)
    assert by_flag.push(("a", 1, 0, False)) == []
    assert values(by_flag.push(("a", 2, 0, True))) == [3]
    by_watermark.push(("a", 1, 0, False))
    assert values(by_watermark.advance(60)) == [1]


def test_a119_repeat_goes_on_for_ever() -> None:
    run = triggered(ec.repeat(ec.after_count(1)), mode="discarding")
    assert [values(run.push(("a", n, 0))) for n in range(1, 50)] == [[n] for n in range(1, 50)]


def test_a120_one_after_the_other() -> None:
    run = triggered(ec.sequence(ec.after_count(3), ec.after_watermark(), ec.each_row()))
    fired = [values(run.push(("a", 1, 0), watermark=mark)) for mark in (10, 20, 30, 40, 60, 70)]
    assert fired == [[], [], [3], [], [5], [6]]


def test_a121_until_ends_the_part_before_it() -> None:
    run = ViewRun(
        lambda rows: total(
            rows.window(ec.fixed("1m"))
            .trigger(ec.until(ec.every("10s"), ec.after_watermark()))
            .lateness("0s")
            .with_pane_info()
        )
    )
    run.push(("a", 1, 0), at=1)
    assert [row[6] for row in run.tick(10)] == ["EARLY"]
    run.push(("a", 2, 0), at=11)
    assert [row[6] for row in run.advance(60, at=12) if row[-1] > 0] == ["ON_TIME"]
    assert run.tick(20) == run.tick(30) == []


def test_a122_the_shorthand_equals_the_composed_form() -> None:
    composed = ec.sequence(ec.until(ec.every("1m"), ec.after_watermark()), ec.each_row())
    ways: list[Any] = [
        lambda rows: rows.trigger(early=ec.every("1m"), late=ec.each_row()),
        lambda rows: rows.trigger(ec.after_watermark(early=ec.every("1m"), late=ec.each_row())),
        lambda rows: rows.trigger(composed),
    ]

    def panes_of(way: Any, window: Any) -> list[tuple[float, Row]]:
        return play(lambda rows: total(way(rows.window(window))))

    for window in (ec.fixed("2m"), ec.sessions("1m")):
        one, other, third = (panes_of(way, window) for way in ways)
        assert one == other == third != []


def test_a123_a_trigger_of_ones_own() -> None:
    """Four hooks: rows, watermark and processing time; here it fires five seconds after the first row, or at its end."""

    def wake(frame: pl.DataFrame) -> pl.DataFrame:
        due = pl.col("processing_time") + 5_000_000
        return frame.with_columns(wake_at=pl.when(pl.col("wake_at") == 0).then(due).otherwise("wake_at"))

    own = ec.custom_trigger(
        state=["wake_at"],
        on_rows=wake,
        should_fire=lambda frame: (
            (frame["wake_at"] > 0)
            & ((frame["wake_at"] <= frame["processing_time"]) | (frame["watermark"] >= frame["end"]))
        ),
        on_fire=lambda frame: frame.with_columns(wake_at=pl.lit(0)),
        on_merge=lambda frame: frame,
    )
    run = triggered(ec.repeat(own))
    run.push(("a", 1, 0), at=0)
    assert run.tick(4) == []
    assert values(run.tick(5)) == [1]
    assert run.push(("a", 2, 0), at=6) == []
    composed = triggered(ec.repeat(ec.any_of(own, ec.after_count(2))))
    assert composed.push(("a", 1, 0), at=0) == []
    assert values(composed.push(("a", 2, 0), at=1)) == [3]


def test_a124_firing_from_outside() -> None:
    run = triggered(ec.repeat(ec.signal()))
    run.push(("a", 1, 0), ("a", 2, 70), ("b", 4, 0))
    run.view.fire("a", when(0))
    assert run.emitted() == [("a", 0, 60, 1, 1)]
    run.view.fire()
    assert values(run.emitted()) == [2, 4]


def unusually_many() -> Any:
    """Return a trigger of a user that fires once, when there are five rows."""
    return ec.custom_trigger(
        state=["fired", "seen"],
        on_rows=lambda frame: frame.with_columns(seen=pl.col("seen") + pl.col("rows")),
        should_fire=lambda frame: (frame["seen"] >= 5) != (frame["fired"] > 0),
        on_fire=lambda frame: frame.with_columns(fired=pl.lit(1)),
        name="unusually many",
    )


def test_a125_anomalies_are_reported_as_soon_as_there_is_confidence_and_differs_are_multiplexed() -> None:
    """The trigger fires once when there are unusually many rows, and beside it by a mark in the data."""
    run = triggered(ec.repeat(ec.any_of(unusually_many(), ec.punctuation("flag"))), columns=FLAG)
    fired = [values(run.push(("a", 1, 0, False))) for _ in range(6)]
    assert fired[:4] == [[]] * 4
    assert fired[4] == [5]
    quiet = triggered(ec.repeat(ec.any_of(unusually_many(), ec.punctuation("flag"))), columns=FLAG)
    assert values(quiet.push(("a", 1, 0, True))) == [1]


def test_a126_all_of_time_without_end_and_only_the_watermark_is_refused() -> None:
    def view_of(rows: Any) -> ec.Collection:
        return total(rows.window(ec.global_window()).trigger(ec.repeat(ec.after_watermark())))

    with pytest.raises(ec.PlanError, match="does not end, so it would never fire"):
        ViewRun(view_of)
    run = ViewRun(view_of, bounded=True)
    run.push(("a", 1, 0))
    assert run.advance(ec.END_OF_TIME) == [("a", 1, 1)]


def test_a127_time_early_and_rows_late() -> None:
    run = triggered(ec.after_watermark(early=ec.every("10s"), late=ec.after_count(1)))
    assert run.push(("a", 1, 0), at=1) == []
    assert values(run.tick(10)) == [1]
    assert run.push(("a", 2, 0), at=11) == []
    assert values(run.advance(60, at=12)) == [3]
    assert values(run.push(("a", 4, 0), at=13)) == [7]
    assert run.tick(20) == []


def test_a128_counts_are_per_window_or_per_key_and_window() -> None:
    pair = ec.repeat(ec.after_count(2))
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m")).trigger(pair)),
        lambda rows: rows.window(ec.fixed("1m")).trigger(pair).group_by().agg(v=pl.col("v").sum()),
    )
    run.push(("a", 1, 0), ("b", 2, 0), ("a", 4, 70))
    assert run.held(0) == []
    assert run.held(1) == [(0, 60, 3)]
    assert values(run.push(("a", 8, 5))) == [9]


def test_a129_a_window_that_has_not_changed_emits_nothing_unless_its_trigger_fires_always() -> None:
    def run_of(always: bool) -> ViewRun:
        return ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.every("1m"), always=always).accumulate("accumulating")))  # fmt: skip

    silent, always = run_of(False), run_of(True)
    for run in (silent, always):
        run.push(("a", 1, 0), at=0)
        assert values(run.tick(60)) == [1]
        run.push(("a", 0, 0), at=61)
    assert silent.tick(120) == []
    assert values(always.tick(120)) == [1]
    assert values(always.tick(180)) == [1]


def recorded() -> bytes:
    """The deltas of a run as bytes."""
    run = triggered(ec.every("1m"), mode="retracting")
    for second in range(0, 400, 7):
        run.push(("a", second % 5, second), ("b", 1, second // 2), at=second + 0.5)
    return run.view.deltas().frame().write_ipc(None).getvalue()


def test_a130_time_triggers_go_by_the_recorded_time_of_batches() -> None:
    assert recorded() == recorded()
    late = triggered(ec.every("1m"))
    assert late.push(("a", 1, 0), at=10) == []
    assert values(late.push(at=3600)) == [1]


def test_a131_batches_wider_than_a_period_fire_once_each_and_lose_nothing() -> None:
    run = triggered(ec.every("1s"), mode="discarding")
    fired = [values(run.push(("a", n, 0), at=10 * n)) for n in range(1, 5)]
    assert sum(sum(panes) for panes in fired) + sum(values(run.tick(1000))) == 1 + 2 + 3 + 4
    assert max(map(len, fired)) == 1


def test_a132_a_window_that_has_fired_for_the_last_time_is_purged() -> None:
    """A window without allowed lateness closes when its watermark trigger fires, and its state is purged."""
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s").with_pane_info()))  # fmt: skip
    run.push(*((f"key {n}", 1, n) for n in range(50)))
    full = run.entries
    (*_, is_last, _, _, _), *rest = run.advance(60)
    assert len(rest) == 49
    assert is_last
    run.tick(1)
    assert run.entries <= full - 100
    assert run.push(("key 1", 1, 1)) == []
    assert run.late() == [("key 1", 1, 1)]


def three_modes() -> dict[str, Any]:
    """One program, three answers to when and how."""

    def windowed(rows: Any) -> Any:
        return rows.window(ec.fixed("1m"))

    both = {"early": ec.every("10s"), "late": ec.each_row()}
    return {
        "batch": lambda rows: windowed(rows).trigger(ec.after_watermark()).lateness("0s"),
        "totals": lambda rows: windowed(rows).trigger(**both).lateness("5m").accumulate("accumulating"),
        "changes": lambda rows: windowed(rows).trigger(ec.each_row()).lateness("5m").accumulate("discarding"),
    }


def test_a133_e4_one_program_in_three_modes() -> None:
    """One pane at the close; a total every ten seconds, at the close and for late rows; each row a change."""
    modes = three_modes()
    run = ViewRun(
        *(lambda rows, mode=mode: total(mode(rows).with_pane_info()) for mode in modes.values()), columns={}
    )
    amounts = [(4285, 2), (4838, 12), (9000, 23), (3000, 34), (1285, 41), (5000, 55)]
    for amount, second in amounts:
        run.push(("shop", amount, second), at=second)
        if second < 50:
            run.tick(second // 10 * 10 + 10)
    run.advance(60, at=56)
    run.push(("shop", 115, 58), at=90)
    deltas = {name: run.views[n].deltas().frame() for n, name in enumerate(modes)}
    panes = {
        name: frame.filter(pl.col("_diff") > 0).select("v", "timing").rows() for name, frame in deltas.items()
    }
    totals = [4285, 9123, 18123, 21123, 22408]
    assert panes["batch"] == [(27408, "ON_TIME")]
    assert panes["totals"] == [*((total, "EARLY") for total in totals), (27408, "ON_TIME"), (27523, "LATE")]
    assert panes["changes"] == [*((amount, "EARLY") for amount, _ in amounts), (115, "LATE")]
    assert cells(run.engine.ledger("rows").select("v")) == [(115,)]


def test_a134_early_panes_do_not_wait_for_the_watermark() -> None:
    """Figure 13 of the paper: the second window emits 7, 14 and 22."""
    panes = play(
        lambda rows: total(
            rows.window(ec.fixed("2m"))
            .trigger(early=ec.every("1m"), late=ec.each_row())
            .accumulate("accumulating")
        )
    )
    found = [(at, pane[3]) for at, pane in panes if pane[1] == 120]
    assert found == [(clock("12:06:00"), 7), (clock("12:07:00"), 14), (clock("12:07:30"), 22)]


@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
def test_a135_the_size_of_batches_trades_when_for_cost_and_changes_no_total(mode: Any) -> None:
    finals = set()
    rows = [("blue", value, at) for value, at, _ in ten_rows()]
    for size in range(1, 11):
        run = ViewRun(
            lambda rows: total(
                rows.window(ec.fixed("2m"))
                .trigger(early=ec.after_count(2), late=ec.each_row())
                .accumulate(mode)
            )
        )
        panes = [run.push(*rows[start : start + size]) for start in range(0, 10, size)]
        panes.append(run.advance(ec.END_OF_TIME))
        final: dict[int, int] = {}
        for _, start, _, value, diff in (
            row for rows in panes for row in sorted(rows, key=lambda row: row[-1])
        ):
            before = 0 if mode == "accumulating" else final.get(start, 0)
            final[start] = before + value * diff
        finals.add(str(sorted(final.items())))
    assert finals == {str([(0, 14), (120, 22), (240, 3), (360, 12)])}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_window_whose_rows_are_all_retracted_is_fired_by_its_key(workers: int) -> None:
    """A window that has emitted can be fired by its key after its rows are retracted and merged away, and then retracts its pane."""
    engine = ec.Engine(workers=workers)
    rows = engine.source("rows", {"k": pl.String, "at": pl.Datetime("us")}, kind="diffs", event_time="at")
    windows = rows.window(ec.fixed("10s")).trigger(ec.repeat(ec.signal())).accumulate("retracting")
    view = engine.view("counts", windows.group_by("k").agg(n=pl.len()))
    begin = datetime(2026, 1, 1)
    for key, diff in [("b", 1), ("a", 1)]:
        engine.push("rows", {"k": [key], "at": [begin], "_diff": [diff]})
    view.fire("a")
    assert view.read()["k"].to_list() == ["a"]
    for key, diff in [("a", -1), *((other, 1) for other in "cdefgh")]:
        engine.push("rows", {"k": [key], "at": [begin], "_diff": [diff]})
    assert view.why("a").startswith("k a, window_start 2026-01-01 00:00:00")
    view.fire("a")
    assert not view.read().height


def test_windows_that_emit_at_every_epoch_and_close_have_no_panes_to_look_into() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "at": pl.Datetime("us")}, kind="diffs", event_time="at")
    windows = rows.window(ec.fixed("10s")).lateness("5s")
    view = engine.view("counts", windows.group_by("k").agg(n=pl.len()))
    engine.push("rows", {"k": ["a"], "at": [datetime(2026, 1, 1)]})
    assert view.why("a").startswith("k a, window_start 2026-01-01 00:00:00")
    view.fire("a")
    assert view.read()["k"].to_list() == ["a"]
