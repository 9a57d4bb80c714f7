"""Refinement and lateness: capabilities of the seeds, each by its id in ``docs/features.md``, as users meet them."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from eventtime.view_runs import Row, ViewRun, clock, play, ten_rows, total

EARLY_AND_LATE = {"early": ec.every("1m"), "late": ec.each_row()}
EXTRA = (6, clock("12:00:53"), clock("12:06:39"))
"""The row that Streaming 102 adds to show allowed lateness."""


def second_window(mode: Any) -> list[int]:
    """The values of the panes of [12:02, 12:04) for the ten rows, with the sign of their diff; the old one before the new."""
    panes = play(lambda rows: total(rows.window(ec.fixed("2m")).trigger(**EARLY_AND_LATE).accumulate(mode)))
    return [
        value * diff
        for _, (_, start, _, value, diff) in sorted(panes, key=lambda pane: (pane[0], pane[1][-1]))
        if start == 120
    ]


def test_a140_discarding_panes_add_up_to_the_total() -> None:
    assert second_window("discarding") == [7, 7, 8]


def test_a141_the_last_accumulating_pane_is_the_total() -> None:
    assert second_window("accumulating") == [7, 14, 22]


def test_a142_e1_retracting_panes_take_the_last_one_back() -> None:
    """All sums but that of accumulating panes (43, where Streaming 102 prints 51) are the total."""
    values = second_window("retracting")
    assert values == [7, -7, 14, -14, 22]
    assert sum(values) == sum(second_window("discarding")) == 22
    assert sum(second_window("accumulating")) == 43


def test_a143_nothing_is_taken_back_if_nothing_has_changed() -> None:
    run = ViewRun(lambda rows: rows.window(ec.fixed("1m")).group_by("k").agg(pl.col("v").max()))
    assert run.push(("a", 5, 0)) == [("a", 0, 60, 5, 1)]
    assert run.push(("a", 4, 1)) == []
    assert run.push(("a", 6, 1)) == [("a", 0, 60, 5, -1), ("a", 0, 60, 6, 1)]


def test_a144_a_later_stage_that_groups_anew_loses_what_left_a_group() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m"))).group_by("v").agg(windows=pl.len()))
    assert run.push(("a", 5, 0)) == [(5, 1, 1)]
    assert run.push(("a", 2, 1), ("b", 5, 0)) == [(7, 1, 1)]
    assert run.push(("b", 2, 1)) == [(5, 1, -1), (7, 1, -1), (7, 2, 1)]


def test_a145_one_value_replaces_several_when_windows_merge() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.sessions("1m")).trigger(ec.each_row())))
    run.push(("a", 7, 0), ("a", 10, 100))
    emitted = run.push(("a", 8, 50))
    assert emitted == [("a", 0, 60, 7, -1), ("a", 0, 160, 25, 1), ("a", 100, 160, 10, -1)]


def test_a146_what_is_kept_grows_from_discarding_to_retracting() -> None:
    """Accumulating panes too keep what they have emitted, to emit nothing where nothing has changed."""

    def kept(mode: Any) -> int:
        run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).trigger(ec.each_row()).accumulate(mode)))
        run.push(*((f"key {n}", n, n) for n in range(1000)))
        run.tick(1)
        return run.entries

    assert kept("discarding") < kept("accumulating") <= kept("retracting")


def test_e5_there_are_three_modes_and_no_other() -> None:
    with pytest.raises(ec.PlanError, match="'discarding', 'accumulating', 'retracting'"):
        ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).accumulate("accumulating and discarding")))


FITS = {
    "summing": {"discarding", "retracting"},
    "overwriting": {"accumulating", "retracting"},
    "log": {"discarding", "retracting"},
}


@pytest.mark.parametrize("reader", FITS)
@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
def test_a147_the_mode_has_to_match_what_the_reader_does(mode: Any, reader: Any) -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).accumulate(mode)))
    if mode in FITS[reader]:
        run.view.subscribe(print, reader=reader)
        return
    with pytest.raises(ec.PlanError, match=mode):
        run.view.subscribe(print, reader=reader)


def test_a148_within_the_allowed_lateness_a_row_is_taken_in_and_beyond_it_refused() -> None:
    """Figure 8 of Streaming 102: the extra 6 gives 11, the 9 comes too late."""

    def view_of(rows: Any) -> ec.Collection:
        return total(
            rows.window(ec.fixed("2m")).trigger(**EARLY_AND_LATE).lateness("1m").accumulate("accumulating")
        )

    panes = play(view_of, rows=[*ten_rows(), EXTRA])
    assert [pane[3] for _, pane in panes if pane[1] == 0] == [5, 11]


def test_a148_what_was_refused_is_in_the_ledger() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("2m")).lateness("1m")))
    run.push(("blue", 5, 26), watermark=120)
    run.push(("blue", 6, 53), watermark=240)
    run.push(("blue", 9, 85))
    assert run.held() == [("blue", 0, 120, 11)]
    assert run.late() == [("blue", 9, 85)]


@pytest.mark.parametrize("mode", ["discarding", "accumulating", "retracting"])
@pytest.mark.parametrize("window", [ec.fixed("1m"), ec.sessions("1m")], ids=["fixed", "sessions"])
def test_a149_state_is_gone_exactly_when_the_watermark_is_past_end_and_lateness(
    window: Any, mode: Any
) -> None:
    run = ViewRun(
        lambda rows: total(
            rows.window(window)
            .trigger(early=ec.every("1m"), late=ec.each_row())
            .lateness("30s")
            .accumulate(mode)
        )
    )
    run.push(*((f"key {n}", 1, 0) for n in range(100)))
    assert run.push(("key 0", 1, 0), watermark=60) != []
    run.tick(60)
    run.advance(89)
    assert run.entries >= 100
    run.advance(90)
    assert run.entries == 0
    assert run.push(("key 0", 1, 0)) == []
    assert run.late() == [("key 0", 1, 0)]


def test_a150_e7_no_lateness_closes_nothing_and_with_none_allowed_a_window_closes_on_time() -> None:
    """Our ruling; the founding texts take zero where no lateness is given."""
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m"))),
        lambda rows: total(rows.window(ec.fixed("1m")).lateness("0s")),
    )
    run.push(("a", 1, 0), watermark=60)
    run.push(("a", 2, 1), watermark=86400)
    run.push(("a", 4, 2))
    assert run.held(0) == [("a", 0, 60, 7)]
    assert run.held(1) == [("a", 0, 60, 1)]


def test_a150_a_perfect_watermark_needs_no_lateness() -> None:
    draw, now = random.Random(5), 0
    run = ViewRun(lambda rows: total(rows.window(ec.fixed("1m")).lateness("0s")), watermark=ec.perfect())
    for _ in range(50):
        now += draw.randrange(20)
        run.push(("a", 1, now))
    assert run.late() == []
    assert sum(row[-1] for row in run.held()) == 50


def test_a151_a_total_over_few_keys_needs_no_horizon(recwarn: pytest.WarningsRecorder) -> None:
    run = ViewRun(lambda rows: rows.group_by("k").agg(pl.col("v").sum()), watermark=ec.ascending())
    sizes = []
    for second in range(300):
        run.push(("abc"[second % 3], 1, second * 60))
        sizes.append(run.entries)
    assert run.held() == [("a", 100), ("b", 100), ("c", 100)]
    assert max(sizes) <= 40
    # Others may be of what an earlier test has left open, whenever Python finds it.
    assert not [each for each in recwarn if issubclass(each.category, ec.GrowthWarning)]


def test_a152_late_rows_fire_at_once_or_together() -> None:
    def values_with(late: Any) -> list[list[int]]:
        run = ViewRun(
            lambda rows: total(rows.window(ec.fixed("1m")).trigger(late=late).accumulate("accumulating"))
        )
        run.push(("a", 1, 0), watermark=60, at=0)
        steps = [run.push(("a", 2, 1), at=10), run.push(("a", 4, 1), at=20), run.tick(60)]
        return [[row[-2] for row in panes] for panes in steps]

    assert values_with(ec.each_row()) == [[3], [7], []]
    assert values_with(ec.every("1m")) == [[], [], [7]]


def test_a153_each_view_has_a_horizon_of_its_own() -> None:
    horizons = {"settlement": "24h", "counters": "5m", "live": "90s"}
    run = ViewRun(
        *(
            lambda rows, horizon=horizon: total(rows.window(ec.fixed("1m")).lateness(horizon))
            for horizon in horizons.values()
        )
    )
    run.push(("a", 1, 0), watermark=60)
    for number, watermark in enumerate((60 + 89, 60 + 90, 60 + 300, 60 + 86_400), 1):
        run.advance(watermark)
        run.push(("a", 10**number, 0))
    counted = dict(zip(horizons, (run.held(n)[0][-1] for n in range(3)), strict=True))
    assert counted == {"settlement": 1111, "counters": 111, "live": 11}


def unpopular(rows: Any, window: Any) -> Any:
    """Ads that are seen in short sessions only: length of sessions, the longest of each ad, ads by that."""
    visits = rows.window(window).group_by("k", "ad").agg(seen=pl.len())
    longest = visits.group_by("ad").agg(longest=pl.col("seen").max())
    return longest.group_by("longest").agg(ads=pl.len())


def test_a154_what_is_taken_back_flows_through_three_groupings() -> None:
    draw = random.Random(7)
    rows: list[Row] = [
        (f"user {draw.randrange(3)}", 1, draw.randrange(1200), f"ad {draw.randrange(5)}") for _ in range(60)
    ]
    run = ViewRun(lambda rows: unpopular(rows, ec.sessions("1m")), columns={"ad": pl.String})
    for number, row in enumerate(rows, 1):
        run.push(row)
        assert run.held() == by_hand(rows[:number])


def by_hand(rows: list[Row]) -> list[Row]:
    """The same in plain Python."""
    times: dict[tuple[str, str], list[int]] = {}
    for user, _, at, ad in rows:
        times.setdefault((user, ad), []).append(at)
    longest: dict[str, int] = {}
    for (_, ad), seen in times.items():
        count, last = 0, None
        for at in sorted(seen):
            count = count + 1 if last is not None and at - last < 60 else 1
            last = at
            longest[ad] = max(longest.get(ad, 0), count)
    found = list(longest.values())
    return sorted((length, found.count(length)) for length in set(found))
