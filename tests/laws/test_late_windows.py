"""Law: every pair of a row and a window is in a pane or in the ledger, and never in both."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime import simulator as sim
from eventtime.pipelines import COLUMNS, OURS, Both, Run, Setup, read_as, runs
from evercurrent.views.plan.nodes import BOUNDS
from oracle import freeze
from strategies import of_profile

SLIDING = ("sliding(10, 5)", "sliding(7, 3, 1)", "sliding(20, 1)", "sliding(4, 6)", "fixed(10)")
Pairs = Counter[tuple[Any, ...]]


def missed_by_rule(both: Both, epoch: Any) -> tuple[Pairs, Pairs]:
    """Of the rows of an epoch, with all windows that each misses: those that are nowhere, and those that are elsewhere."""
    pipeline, before, origin = both.simulator.pipeline, both.simulator.watermark, both.run.origin
    lost, elsewhere = Counter[Any](), Counter[Any]()
    rows = [(dict(zip(COLUMNS, row, strict=True)), diff) for row, diff in epoch.rows]
    for row, diff in sim.consolidated(rows).values():
        windows = pipeline.window.of(origin + row["at"])
        missed = [bounds for bounds in windows if both.simulator._is_closed(bounds[1], before)]
        cells = tuple(freeze(origin + row["at"] if name == "at" else row[name]) for name in COLUMNS)
        for bounds in missed:
            (lost if len(missed) == len(windows) else elsewhere)[*cells, bounds] += diff
    return lost, elsewhere


def missed_in_ledger(both: Both, epoch: int, *, elsewhere: bool) -> Pairs:
    """Return the rows that the ledger has of an epoch, each with a window that it missed."""
    pairs: Pairs = Counter()
    ledger = both.engine.ledger(each_window=True).filter(
        pl.col("_epoch") == epoch, pl.col("reason").str.contains("in the others") == elsewhere
    )
    for entry in ledger.to_dicts():
        row = json.loads(entry["row"])
        row["at"] = both.run.seconds(datetime.fromisoformat(row["at"]))
        bounds = tuple(both.run.seconds(entry[name]) for name in BOUNDS)
        pairs[(*(freeze(row[name]) for name in COLUMNS), bounds)] += entry["_diff"]
    return pairs


@of_profile(0.5, quick=30)
@given(
    window=st.sampled_from(SLIDING),
    lateness=st.sampled_from([0, 4]),
    data=st.data(),
)
def test_what_windows_a_row_missed_is_in_the_ledger(window: str, lateness: int, data: st.DataObject) -> None:
    run = data.draw(runs(window=window, lateness=lateness, mode="retracting", aggregates=("n", "sum")))
    both = Both(run)
    for epoch in run.epochs:
        lost, elsewhere = missed_by_rule(both, epoch)
        both.simulated(epoch)
        pushed = both.push(epoch)
        assert missed_in_ledger(both, pushed, elsewhere=False) == {k: n for k, n in lost.items() if n}
        assert missed_in_ledger(both, pushed, elsewhere=True) == {k: n for k, n in elsewhere.items() if n}


@of_profile(0.3)
@given(window=st.sampled_from(SLIDING), data=st.data())
def test_every_pair_of_a_row_and_a_window_is_in_a_pane_or_in_the_ledger(
    window: str, data: st.DataObject
) -> None:
    """Panes and refused pairs of the ledger add up to all pairs of a row and a window; so do panes and the rows of ``late_rows``."""
    run = data.draw(
        runs(
            window=window,
            lateness=4,
            mode="retracting",
            aggregates=("n",),
            info=False,
            always=False,
            ends=True,
        )
    )
    both = Both(run)
    source = both.engine.sources["a"]
    windowed = source.window(read_as(OURS, window)).lateness(timedelta(seconds=4))
    late = both.engine.view("each late", windowed.late_rows(each_window=True))
    for epoch in run.epochs:
        both.push(epoch)
    came, expected, refused = Counter[Any](), Counter[Any](), Counter[Any]()
    for epoch in run.epochs:
        for row, diff in epoch.rows:
            came[tuple(zip(COLUMNS, row, strict=True))] += diff
    for row, diff in came.items():
        for bounds in both.simulator.pipeline.window.of(run.origin + dict(row)["at"]):
            expected[bounds] += diff
    for entry in both.engine.ledger(each_window=True).to_dicts():
        refused[tuple(run.seconds(entry[name]) for name in BOUNDS)] += entry["_diff"]
    stood = Counter[Any]()
    for row in both.view.read().select("window_start", "window_end", "n").iter_rows():
        stood[tuple(map(run.seconds, row[:2]))] += row[2]
    assert late_pairs(run, late) == {bounds: n for bounds, n in refused.items() if n}
    stood.update(refused)
    assert {k: n for k, n in stood.items() if n} == {k: n for k, n in expected.items() if n}


def late_pairs(run: Run, view: ec.View) -> Pairs:
    """How many rows each window misses, by the deltas of a view of late rows."""
    found: Pairs = Counter()
    for *_, start, end, _, diff in view.deltas().frame().iter_rows():
        found[run.seconds(start), run.seconds(end)] += diff
    return Counter({bounds: n for bounds, n in found.items() if n})


AT = datetime(2026, 1, 1, 12)
HITS = {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}


def counting(**options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)
    hits = engine.source("hits", HITS, event_time="at")
    windowed = hits.window(ec.sliding("10m", every="5m")).lateness("0s")
    engine.view("late", windowed.late_rows())
    return engine, engine.view("sums", windowed.group_by("k").agg(v=pl.col("v").sum()))


def minute(number: float) -> datetime:
    return AT + timedelta(minutes=number)


def test_a_row_that_misses_a_window_is_in_the_other_and_in_the_ledger_and_is_not_pushed_again() -> None:
    engine, view = counting()
    engine.push("hits", [("a", 1, minute(1))], watermark=minute(7).replace(tzinfo=UTC))
    engine.push("hits", [("a", 2, minute(3)), ("a", 2, minute(3))])
    assert sorted(view.read().rows()) == [
        ("a", minute(-5), minute(5), 1),
        ("a", minute(0), minute(10), 5),
    ]
    (entry,) = engine.ledger().to_dicts()
    assert entry["reason"] == (
        "too late for view 'sums': some of its windows were closed, and it is in the others"
    )
    utc = [bound.replace(tzinfo=UTC) for bound in (minute(-5), minute(5))]
    assert [entry["window_start"], entry["window_end"]] == utc
    assert entry["_diff"] == 2
    assert json.loads(entry["row"])["v"] == 2
    assert engine.ledger("hits").is_empty()
    assert engine.views["late"].read().is_empty()


def test_a_row_that_misses_all_its_windows_is_pushed_again_once() -> None:
    engine, view = counting()
    engine.push("hits", [("a", 1, minute(1))], watermark=minute(60).replace(tzinfo=UTC))
    engine.push("hits", [("a", 2, minute(3))])
    (entry,) = engine.ledger().to_dicts()
    assert entry["reason"] == "too late for view 'sums': all of its windows were closed"
    assert entry["window_end"] == minute(10).replace(tzinfo=UTC)
    assert engine.ledger(each_window=True)["window_start"].to_list() == [
        minute(start).replace(tzinfo=UTC) for start in (-5, 0)
    ]
    assert engine.views["late"].read().select("k", "v").rows() == [("a", 2)]
    with pytest.raises(ec.InputError, match="each_window= would give a row once for each window"):
        engine.ledger("hits", each_window=True)
    mended = engine.ledger("hits").select("k", "v", pl.col("at").dt.offset_by("1h"))
    engine.push("hits", mended)
    assert view.read().filter(pl.col("window_end") > minute(60))["v"].to_list() == [2, 2]


def test_rows_whose_last_window_was_left_out_are_in_the_ledger_too() -> None:
    """A late row whose last window is filtered out is in the ledger with the window that is left."""
    engine = ec.Engine()
    hits = engine.source("hits", HITS, event_time="at")
    windowed = hits.window(ec.sliding("10m", every="5m")).lateness("0s")
    left = windowed.filter(pl.col("window_start") < minute(0))
    engine.view("sums", left.group_by("k").agg(v=pl.col("v").sum()))
    engine.advance("hits", minute(60).replace(tzinfo=UTC))
    engine.push("hits", [("a", 2, minute(3))])
    (entry,) = engine.ledger().to_dicts()
    assert entry["window_end"] == minute(5).replace(tzinfo=UTC)


def test_what_was_missed_is_still_there_in_an_engine_that_is_opened_again(tmp_path: Any) -> None:
    engine, _ = counting(checkpoint=tmp_path)
    with engine:
        engine.push("hits", [("a", 1, minute(1))], watermark=minute(7).replace(tzinfo=UTC))
        engine.push("hits", [("a", 2, minute(3))])
        before = engine.ledger()
    engine, _ = counting(checkpoint=tmp_path)
    with engine:
        assert engine.ledger().equals(before)
        assert engine.ledger("hits").is_empty()


@pytest.mark.parametrize("window", [ec.calendar("1mo"), ec.sessions("1m")], ids=["calendar", "sessions"])
def test_windows_of_which_a_row_has_one_are_reported_as_windows_too(window: Any) -> None:
    engine = ec.Engine()
    hits = engine.source("hits", HITS, event_time="at")
    engine.view("sums", hits.window(window).lateness("0s").group_by("k").agg(v=pl.col("v").sum()))
    engine.advance("hits", datetime(2027, 1, 1, tzinfo=UTC))
    engine.push("hits", [("a", 2, minute(3))])
    (entry,) = engine.ledger().to_dicts()
    assert engine.ledger(each_window=True).equals(engine.ledger())
    assert entry["window_end"] is not None
    assert engine.ledger("hits").height == 1


def test_windows_that_a_user_gives_to_a_row_are_pairs_of_their_own() -> None:
    """Several windows of a user's own are several rows: each is judged by its bounds."""
    engine = ec.Engine()
    columns = {
        **HITS,
        "windows": pl.List(pl.Struct({"window_start": pl.Datetime("us"), "window_end": pl.Datetime("us")})),
    }
    hits = engine.source("hits", columns, event_time="at")
    windowed = hits.explode("windows").unnest("windows").window().lateness("0s")
    view = engine.view("sums", windowed.group_by("k").agg(v=pl.col("v").sum()))
    engine.advance("hits", minute(7).replace(tzinfo=UTC))
    given_windows = [
        {"window_start": minute(start), "window_end": minute(end)} for start, end in ((0, 5), (0, 10), (2, 6))
    ]
    engine.push("hits", [{"k": "a", "v": 2, "at": minute(3), "windows": given_windows}])
    assert view.read()["window_end"].to_list() == [minute(10)]
    ends = sorted(engine.ledger()["window_end"])
    assert ends == [minute(5).replace(tzinfo=UTC), minute(6).replace(tzinfo=UTC)]


def test_setups_of_the_law_have_several_windows() -> None:
    assert len(Setup("sliding(20, 1)").pipeline().window.of(100)) == 20
