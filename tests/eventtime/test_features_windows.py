"""Windows and the time of their panes: capabilities of the seeds, each by its id in ``docs/features.md``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from eventtime.view_runs import Row, ViewRun, cells, clock, play, ten_rows, total

# The ten rows and the kinds of windows


def sums(panes: Sequence[tuple[float, Row]]) -> list[int]:
    """The values of panes that were added, in order."""
    return [pane[-2] for _, pane in panes if pane[-1] > 0]


def all_ten(window: Any) -> list[Row]:
    """The sums of the ten rows in these windows."""
    run = ViewRun(lambda rows: total(rows.window(window)))
    run.push(*(("blue", value, at) for value, at, _ in ten_rows()))
    return run.held()


def test_a070_the_global_window_has_one_pane_per_key_at_the_end() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.global_window()).trigger(ec.after_watermark()).lateness("0s")), bounded=True)  # fmt: skip
    assert run.push(("a", 1, 0), ("b", 2, 5)) == []
    assert run.push(("a", 4, 9999)) == []
    assert run.advance(ec.END_OF_TIME) == [("a", 5, 1), ("b", 2, 1)]


def test_a071_fixed_windows_of_two_minutes() -> None:
    found = all_ten(ec.fixed("2m"))
    assert found == [
        ("blue", 0, 120, 14),
        ("blue", 120, 240, 22),
        ("blue", 240, 360, 3),
        ("blue", 360, 480, 12),
    ]


def test_a072_sliding_windows_hold_a_row_once_per_period() -> None:
    run = ViewRun(lambda rows: rows.window(ec.sliding("2m", every="1m")).drop("v"))
    run.push(("k", 1, 0), ("k", 2, 60))
    windows = [(-60, 60), (0, 120), (0, 120), (60, 180)]
    assert sorted(row[2:] for row in run.held()) == windows
    assert all_ten(ec.sliding("2m", every="2m")) == all_ten(ec.fixed("2m"))


def test_a073_a_session_ends_a_gap_after_its_last_row() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.sessions("30m"))))
    run.push(("k1", 1, 3720), ("k2", 2, 4440), ("k1", 4, 4800), ("k1", 8, 7020))
    assert run.held() == [("k1", 3720, 6600, 5), ("k1", 7020, 8820, 8), ("k2", 4440, 6240, 2)]


@pytest.mark.parametrize(("apart", "count"), [(59, 1), (60, 2), (61, 2)])
def test_a074_rows_a_gap_apart_are_two_sessions_and_none_is_shorter(apart: int, count: int) -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.sessions("1m"))))
    run.push(("a", 1, 0), ("a", 2, apart))
    held = run.held()
    assert len(held) == count
    assert all(end - start >= 60 for _, start, end, _ in held)


def sessions_with(*rows: Row) -> ViewRun:
    """Sessions of a minute that hold these rows."""
    run = ViewRun(lambda rows: total(rows.window(ec.sessions("1m"))))
    run.push(*rows)
    return run


def test_a075_a_row_inside_a_session_leaves_the_window() -> None:
    run = sessions_with(("a", 1, 0), ("a", 2, 50))
    assert run.push(("a", 4, 20)) == [("a", 0, 110, 3, -1), ("a", 0, 110, 7, 1)]
    assert run.push(("a", 0, 30)) == []


@pytest.mark.parametrize(("at", "window"), [(100, (50, 160)), (10, (10, 110))], ids=["later", "earlier"])
def test_a076_a_row_extends_a_session_and_takes_the_old_one_back(at: int, window: tuple[int, int]) -> None:
    run = sessions_with(("a", 1, 50))
    assert sorted(run.push(("a", 2, at))) == sorted([("a", 50, 110, 1, -1), ("a", *window, 3, 1)])


def test_a077_a_row_between_two_sessions_takes_both_back() -> None:
    run = sessions_with(("a", 7, 0), ("a", 10, 100))
    assert run.push(("a", 8, 50)) == [("a", 0, 60, 7, -1), ("a", 0, 160, 25, 1), ("a", 100, 160, 10, -1)]


def test_a078_a_row_far_from_all_is_a_new_session() -> None:
    assert sessions_with(("a", 1, 0)).push(("a", 2, 60)) == [("a", 60, 120, 2, 1)]


def test_a079_the_worked_run_of_sessions() -> None:
    """5; 7; 10; 8 joins to 25; 9 joins to 39; then 12. Everything replaced is retracted."""
    panes = play(lambda rows: total(rows.window(ec.sessions("1m"))), curve=None)
    values = [pane[-2] * pane[-1] for _, pane in panes]
    assert sum(values) == 51
    standing: dict[Row, int] = {}
    for _, pane in panes:
        standing[pane[:-1]] = standing.get(pane[:-1], 0) + pane[-1]
    assert sorted(pane[-1] for pane, count in standing.items() if count) == [12, 39]
    by_time: dict[float, list[int]] = {}
    for (at, _), value in zip(panes, values, strict=True):
        by_time.setdefault(at, []).append(value)
    assert sorted(by_time[clock("12:07:06")]) == [-10, -7, 25]
    assert sorted(by_time[clock("12:08:19")]) == [-25, -5, 39]


def test_a080_with_a_known_id_sessions_are_a_plain_group_by() -> None:
    rows = [("a", 1, 0, 1), ("a", 2, 30, 1), ("a", 4, 200, 2), ("b", 8, 10, 3), ("a", 16, 230, 2)]
    run = ViewRun(
        lambda rows: total(rows.window(ec.sessions("1m"))),
        lambda rows: rows.group_by("k", "id").agg(pl.col("v").sum()),
        columns={"id": pl.Int64},
    )
    for row in rows:
        run.push(row)
    assert sorted((k, v) for k, *_, v in run.held(0)) == sorted((k, v) for k, _, v in run.held(1))


def test_a081_windows_may_differ_from_key_to_key() -> None:
    run = sessions_with(("a", 1, 0), ("b", 2, 30), ("a", 4, 40), ("b", 8, 200))
    assert run.held() == [("a", 0, 100, 5), ("b", 30, 90, 2), ("b", 200, 260, 8)]


def shifted() -> ViewRun:
    """A row a second for each of twenty keys in turn, windows of a minute shifted by key."""
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m", shifted_by_key=True))),
        lambda rows: rows.group_by("k").agg(pl.col("v").sum()),
    )
    run.push(*((f"key {n % 20}", n % 7, n) for n in range(2000)))
    return run


def test_a082_fixed_windows_shifted_by_key_spread_their_closing() -> None:
    run = shifted()
    starts = run.view.read().select("k", phase=pl.col("window_start").dt.epoch("us") % 60_000_000)
    phases = starts.unique().rows()
    assert len(phases) == len(dict(phases)) == len(set(dict(phases).values())) == 20
    sums = {key: sum(v for k, _, _, v in run.held() if k == key) for key, _ in phases}
    assert sorted(sums.items()) == run.held(1)


def test_a082_the_shift_is_the_same_in_another_process() -> None:
    program = "from eventtime.test_features_windows import shifted; print(shifted().held())"
    path = os.pathsep.join(str(Path(__file__).resolve().parents[up] / of) for up, of in ((2, "src"), (1, "")))
    command = [sys.executable, "-c", program]
    other = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert other.stdout.strip() == str(shifted().held())


def test_a083_every_two_rows_of_all_time_give_five_panes() -> None:
    """Figure 9 of the paper."""
    panes = play(
        lambda rows: total(
            rows.window(ec.global_window()).trigger(ec.repeat(ec.after_count(2))).accumulate("discarding")
        )
    )
    values = [value for value, _, _ in ten_rows()]
    assert sums(panes) == [sum(values[n : n + 2]) for n in range(0, 10, 2)]


def test_a084_the_last_rows_of_a_key() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.last_rows(3))))
    rows = [("a", 1, 0), ("a", 2, 10), ("a", 4, 20), ("a", 8, 30), ("b", 1, 0)]
    for row in rows:
        run.push(row)
    assert [(k, v) for k, *_, v in run.held()] == [("a", 14), ("b", 1)]
    run.push(("a", 16, 15))
    assert [(k, v) for k, *_, v in run.held()] == [("a", 28), ("b", 1)]


def test_a085_windows_of_processing_time_by_a_trigger() -> None:
    """Figure 8 of the paper, figure 14 of Streaming 102."""
    panes = play(lambda rows: total(rows.window(ec.global_window()).trigger(ec.every("2m")).accumulate("discarding")))  # fmt: skip
    assert sums(panes) == [12, 21, 18]


def ingress_sums(order: str = "FIRST_ORDER") -> list[int]:
    """The ten rows in windows of the time at which they arrive."""
    return sums(
        play(
            lambda rows: total(rows.window(ec.fixed("2m")).trigger(ec.after_watermark()).lateness("0s")),
            rows=ten_rows(order),
            curve=None,
            until="12:12:00",
            watermark=ec.ingress_time(),
        )
    )


def test_a086_e2_windows_of_processing_time_by_ingress_time() -> None:
    assert ingress_sums() == [12, 21, 18]
    other = ingress_sums("SECOND_ORDER")
    assert other != [12, 21, 18]
    assert sum(other) == 51


def test_a087_in_a_chain_panes_of_a_trigger_move_on_and_windows_stay() -> None:
    """What a row gives in the first stage at the end of a period is in the next one in the second stage."""
    by_trigger = ViewRun(
        lambda rows: (
            total(rows.window(ec.global_window()).trigger(ec.every("1m")).accumulate("discarding"))
            .window(ec.global_window())
            .trigger(ec.every("1m"))
            .accumulate("discarding")
            .group_by()
            .agg(pl.col("v").sum())
        )
    )
    by_trigger.push(("a", 1, 0), at=30)
    assert by_trigger.tick(60) == []
    assert by_trigger.tick(120) == [(1, 1)]

    def first(rows: ec.Collection) -> ec.Collection:
        return total(rows.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s"))

    by_window = ViewRun(
        lambda rows: (
            first(rows)
            .window(ec.fixed("1m"))
            .trigger(ec.after_watermark())
            .lateness("0s")
            .group_by()
            .agg(pl.col("v").sum())
        ),
        watermark=ec.ingress_time(),
    )
    by_window.push(("a", 1, 0), at=30)
    by_window.tick(60)
    by_window.tick(120)
    assert [row[:3] for row in by_window.held()] == [(0, 60, 1)]


def test_a088_auctions_end_when_their_time_is_up() -> None:
    """Windows by the data: an auction lasts as long as its opening row sets; bids fall into it."""

    def assign(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(window_start="t", window_end=pl.col("t") + pl.duration(seconds="lasts"))

    def merge(windows: pl.DataFrame) -> pl.DataFrame:
        """Bids (of one second) fall into the window that was open before them and do not extend it."""
        opened = windows.with_columns(
            open=pl.col("window_end") - pl.col("window_start") > timedelta(seconds=1)
        )
        number = pl.col("open").cum_sum().over("k")
        bounds = [
            pl.col(name).first().over("k", number).alias(name) for name in ("window_start", "window_end")
        ]
        return opened.select(*bounds)

    run = ViewRun(
        lambda rows: rows.window(ec.custom_windows(assign, merge)).group_by("k").agg(pl.col("v").max()),
        columns={"lasts": pl.Int64},
    )
    run.push(("vase", 100, 0, 60), ("vase", 120, 30, 1))
    run.push(("vase", 150, 59, 1), ("lamp", 5, 10, 30))
    assert run.held() == [("lamp", 10, 40, 5), ("vase", 0, 60, 150)]


@pytest.mark.parametrize("stamp", ["end", "start"])
def test_a089_windows_of_one_size_one_after_the_other_keep_a_row_together(stamp: Any) -> None:
    run = ViewRun(
        lambda rows: (
            total(rows.window(ec.fixed("5s"), timestamp=stamp))
            .window(ec.fixed("5s"))
            .group_by()
            .agg(pl.col("v").sum())
        )
    )
    run.push(("a", 1, 0), ("b", 2, 4), ("a", 4, 5))
    assert run.held() == [(0, 5, 3), (5, 10, 4)]


def test_a090_without_a_window_of_its_own_a_view_has_those_upstream() -> None:
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m"))).window().group_by().agg(pl.col("v").max()),
        lambda rows: (
            total(rows.window(ec.fixed("1m"))).group_by("window_start", "window_end").agg(pl.col("v").max())
        ),
    )
    run.push(("a", 1, 0), ("a", 2, 5), ("b", 2, 10), ("b", 8, 70))
    assert run.held(0) == run.held(1) == [(0, 60, 3), (60, 120, 8)]


def test_a091_windows_with_a_key_and_without() -> None:
    run = ViewRun(
        lambda rows: total(rows.window(ec.fixed("1m"))),
        lambda rows: rows.window(ec.fixed("1m")).group_by().agg(pl.col("v").sum()),
    )
    run.push(("a", 1, 0), ("b", 2, 5), ("a", 4, 65))
    assert run.held(0) == [("a", 0, 60, 1), ("a", 60, 120, 4), ("b", 0, 60, 2)]
    assert run.held(1) == [(0, 60, 3), (60, 120, 4)]


def test_a092_windows_of_a_number_of_rows() -> None:
    run = ViewRun(lambda rows: total(rows.window(ec.count_window(2))))
    run.push(("a", 1, 0), ("a", 2, 10), ("a", 4, 20), ("b", 8, 0))
    assert [(k, start, v) for k, start, _, v in run.held()] == [("a", 0, 3), ("a", 20, 4), ("b", 0, 8)]


# The event time of a pane


def dated(stamp: Any, *rows: Row, watermark: float) -> list[Row]:
    """Where panes of a window of a minute are in windows of a second."""
    run = ViewRun(
        lambda rows: (
            total(rows.window(ec.fixed("1m"), timestamp=stamp).trigger(ec.repeat(ec.after_watermark())))
            .window(ec.fixed("1s"))
            .group_by()
            .agg(pl.col("v").sum())
        )
    )
    run.push(*rows, watermark=watermark)
    return run.held()


ROWS = (("a", 1, 10), ("a", 2, 30))


def test_a100_e3_a_pane_is_dated_by_the_end_of_its_window_less_a_microsecond() -> None:
    assert dated("end", *ROWS, watermark=75) == [(59, 60, 3)]
    assert all_ten_chained() == all_ten(ec.fixed("2m"))


def all_ten_chained() -> list[Row]:
    """The ten rows through two equal windows, one after the other."""
    run = ViewRun(
        lambda rows: (
            total(rows.window(ec.fixed("2m"))).window(ec.fixed("2m")).group_by("k").agg(pl.col("v").sum())
        )
    )
    run.push(*(("blue", value, at) for value, at, _ in ten_rows()))
    return run.held()


def test_a101_by_the_start_of_its_window() -> None:
    assert dated("start", *ROWS, watermark=75) == [(0, 1, 3)]


def test_a102_by_its_latest_row() -> None:
    assert dated("latest", *ROWS, watermark=75) == [(30, 31, 3)]


def test_a103_by_its_earliest_row() -> None:
    assert dated("earliest", *ROWS, watermark=75) == [(10, 11, 3)]


def test_a104_by_the_watermark_when_it_is_emitted() -> None:
    assert dated("watermark", *ROWS, watermark=75) == [(75, 76, 3)]


@pytest.mark.parametrize(("stamp", "held_at"), [("end", 59), ("start", 0), ("earliest", 10), ("latest", 10)])
def test_a105_a_watermark_is_held_back_to_what_a_pane_will_be_dated(stamp: Any, held_at: int) -> None:
    """A pane that is still to come is not late downstream, however far the source is."""
    run = ViewRun(
        lambda rows: (
            total(
                rows.window(ec.fixed("1m"), timestamp=stamp).trigger(
                    ec.repeat(ec.all_of(ec.after_watermark(), ec.signal()))
                )
            )
            .window(ec.fixed("1s"))
            .lateness("0s")
            .group_by()
            .agg(pl.col("v").sum())
        ),
        lambda rows: total(
            rows.window(ec.fixed("1m"), timestamp=stamp).trigger(
                ec.repeat(ec.all_of(ec.after_watermark(), ec.signal()))
            )
        ),
    )
    run.push(("a", 1, 10), watermark=50)
    assert run.advance(500) == []
    run.views[1].fire()
    assert run.held() == [(held_at, held_at + 1, 1)]
    assert cells(run.engine.ledger()) == []
