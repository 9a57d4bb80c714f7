"""A circuit whose states were written and read again goes on as if nothing had happened, byte by byte."""

from __future__ import annotations

import gc
import weakref
from datetime import datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from driven import Driven, Step, as_columns, frame_bytes, given_back, plan_of, steps_in, steps_of, value_bytes
from eventtime.pipelines import COLUMNS, Run, runs
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, UnknownClock
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.watermarks.custom import Custom
from evercurrent.core.eventtime.watermarks.kinds import BoundedDelay, ByHand
from evercurrent.core.eventtime.watermarks.reorder import Buffer
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock
from evercurrent.core.eventtime.windows.holds import HeldWatermark
from evercurrent.core.operators.arrange import Arrange, Materialize
from evercurrent.core.operators.source_rows import CheckRetractions
from evercurrent.core.state.ledger import Ledger, Refused
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, run_of_rows
from evercurrent.core.state.snapshot import NOTHING, Saved
from evercurrent.core.state.spine import Spine
from evercurrent.core.state.timers import Timers
from evercurrent.views.plan.plan import Plan
from harness import Running
from oracle import TooLargeError
from strategies import Case, cases, of_profile

WAITING = (Arrange, Materialize, CheckRetractions)
"""Operators in whose states rows wait, until somebody looks them up, reads or saves them."""

# Random programs and pipelines


def moved_over(driven: Driven) -> Driven:
    """A fresh circuit with the states of this one, as they come back from files."""
    fresh = Driven(driven.plan, driven.number)
    assert len(fresh.states) == len(driven.states)
    for state, old in zip(fresh.states, driven.states, strict=True):
        given_back(state, as_columns(old, old.saved()))
        assert state.entries == old.entries
    return fresh


def assert_goes_on(plan: Plan, steps: list[Step], stops: set[int]) -> None:
    """Undisturbed, and with all states taken over to a fresh circuit before some of the epochs."""
    plain, moved = Driven(plan), Driven(plan)
    for number, step in enumerate(steps):
        if number in stops:
            moved = moved_over(moved)
        clocks = zip(plain.compiled.clocks.values(), moved.compiled.clocks.values(), strict=True)
        assert all(one.describe(0) == other.describe(0) for one, other in clocks)
        ours, theirs = plain.step(step), moved.step(step)
        for node, one, other in zip(plain.circuit.nodes, ours, theirs, strict=True):
            assert frame_bytes(one) == frame_bytes(other), (
                f"epoch {number + 1}, node {node.name}:\n{one}\n{other}"
            )
    for one, other in zip(plain.contents(), moved.contents(), strict=True):
        assert value_bytes(one) == value_bytes(other)
    assert sizes(plain) == sizes(moved)
    assert [refused.frame.rows() for refused in plain.compiled.ledger.refused] == [
        refused.frame.rows() for refused in moved.compiled.ledger.refused
    ]


def sizes(driven: Driven) -> list[int]:
    """How many entries the states have. Equal rows that wait are brought together when they are saved: they are merged here."""
    waits = [node for node in driven.circuit.nodes if isinstance(node.operator, WAITING)]
    sorted_late = {id(state) for node in waits for state in node.states}
    return [
        len(state.merged()) if isinstance(state, Spine) and id(state) in sorted_late else state.entries
        for state in driven.states
    ]


STOPS = st.sets(st.integers(0, 6), min_size=1)


@of_profile(0.5, quick=25)
@given(case=cases(max_epochs=4), stops=STOPS)
def test_any_program_goes_on_from_what_was_saved(case: Case, stops: set[int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    assert_goes_on(Running(case, is_checked=False).engine._plan, steps_of(case), stops)


@of_profile(0.5, quick=25)
@given(run=runs(), stops=STOPS)
def test_any_windowed_pipeline_goes_on_from_what_was_saved(run: Run, stops: set[int]) -> None:
    assert_goes_on(plan_of(run), steps_in(run), stops)


# Kinds of watermarks, ordering, what holds a watermark


def latest(state: Any, rows: pl.DataFrame, at: datetime) -> tuple[Any, datetime | None]:
    """A user's watermark, which counts its calls: every third one moves it."""
    state = {"calls": state["calls"] + 1, "seen": [*state["seen"], *rows["v"].drop_nulls().to_list()][-3:]}
    return state, rows["at"].max() if state["calls"] % 3 == 0 else None  # type: ignore[return-value]


WATERMARKS = {
    "perfect": (lambda: ec.perfect(), True),
    "percentile": (lambda: ec.percentile_watermark(0.8, window=7), False),
    "punctuated": (lambda: ec.punctuated("flag"), False),
    "by partition": (lambda: ec.by_partition("k", idle_after="3s", at_least=2), False),
    "behind": (lambda: ec.behind_processing_time("2s"), False),
    "limited": (lambda: ec.bounded_delay("1s", future_limit="4s"), False),
    "by function": (lambda: ec.custom_watermark(latest, state={"calls": 0, "seen": []}), False),
}


def batches(*, is_ordered: bool, seed: int = 3) -> list[Step]:
    draw, steps = np.random.default_rng(seed), []
    for number in range(12):
        size = int(draw.integers(0, 9))
        times = number * 3_000_000 + draw.integers(0, 8_000_000, size)
        if is_ordered:
            times = np.sort(number * 3_000_000 + draw.integers(0, 3_000_000, size))
        frame = pl.DataFrame(
            {
                "k": pl.Series(draw.choice(["a", "b", "c"], size), dtype=pl.String),
                "at": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")),
                "v": pl.Series(draw.integers(0, 5, size), dtype=pl.Int64),
                "size": pl.Series(np.ones(size), dtype=pl.Int64),
                "flag": pl.Series(draw.random(size) < 0.3, dtype=pl.Boolean),
                DIFF: pl.Series(np.ones(size), dtype=pl.Int64),
            }
        )
        steps.append(Step({"a": frame}, at=number * 3_000_000))
    return steps


@pytest.mark.parametrize("name", WATERMARKS)
def test_every_kind_of_watermark_goes_on(name: str) -> None:
    made, is_ordered = WATERMARKS[name]
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, event_time="at", watermark=made())
    windows = source.window(ec.fixed("5s")).lateness("2s").group_by("k").agg(n=pl.len())
    again = windows.window(ec.fixed("10s")).lateness("0s").group_by("k").agg(m=pl.col("n").sum())
    engine.view("counts", windows)
    engine.view("again", again)
    engine.view("sorted", source.order_by_time().group_by("k").agg(n=pl.len(), last=pl.col("v").max()))
    assert_goes_on(engine._plan, batches(is_ordered=is_ordered), {0, 1, 3, 4, 8, 11})


@pytest.mark.filterwarnings("ignore::evercurrent.GrowthWarning")
def test_what_is_summed_up_goes_on() -> None:
    """Inverted and recomputed aggregates of a user, top k, counted windows, upserts, refused rows."""
    total = ec.aggregate(
        create=lambda: 0,
        add=lambda s, v: s + int(v.sum() or 0),
        remove=lambda s, v: s - int(v.sum() or 0),
        merge=lambda s, t: s + t,
        extract=lambda s: s,
        dtype=pl.Int64(),
    )
    engine = ec.Engine()
    rows = engine.source("a", COLUMNS, event_time="at", watermark=ec.bounded_delay("3s"))
    table = engine.source("b", {"k": pl.String(), "w": pl.Int64()}, kind="upsert", key="k")
    engine.view(
        "sums", rows.group_by("k").agg(t=total(pl.col("v")), u=pl.col("v").n_unique(), m=pl.col("v").median())
    )
    engine.view("top", rows.group_by("k").top_k(2, by="v"))
    engine.view("joined", rows.join(table, on="k", how="full"))
    engine.view("counted", rows.window(ec.count_window(3)).group_by("k").agg(n=pl.len()))
    steps = []
    for number, step in enumerate(batches(is_ordered=False)):
        changes = pl.DataFrame(
            {"k": ["abcd"[number % 4], "z"], "w": [number, 0], DIFF: pl.Series([1, -1], dtype=pl.Int64)}
        )
        steps.append(Step({**step.rows, "b": changes}, at=step.at))
    assert_goes_on(engine._plan, steps, {1, 2, 5, 9})


# One state at a time


def test_nothing_is_an_empty_state() -> None:
    held, clock = HeldWatermark(UnknownClock()), SourceClock("a", BoundedDelay())
    held.stage(5)
    held.commit()
    for state in (Spine(Layout()), Timers(), Buffer(), Ledger(9), held, clock):
        state.restore(NOTHING)
        assert state.entries == 0
    assert (held.now, held.held_at) == (START_OF_TIME, END_OF_TIME)
    assert clock.now == START_OF_TIME


def keyed(*values: int) -> Keys:
    return KeyColumns.of(["k"]).words(pl.DataFrame({"k": pl.Series(values, dtype=pl.Int64)}))


def run_of(*values: int, diff: int = 1) -> Any:
    layout = Layout(pl.Schema({"k": pl.Int64()}), by_row=True)
    frame = pl.DataFrame({"k": pl.Series(values, dtype=pl.Int64)}).with_columns(
        pl.lit(diff, pl.Int64).alias(DIFF)
    )
    return run_of_rows(layout, KeyColumns.of(["k"]), frame)


def test_what_is_staged_is_saved_and_forgotten_with_the_epoch() -> None:
    spine = Spine(Layout(pl.Schema({"k": pl.Int64()}), by_row=True))
    spine.stage(run_of(1, 2))
    spine.commit()
    before = spine.saved()
    spine.stage(run_of(3))
    spine.waste(2)
    staged = spine.saved()
    assert sum(map(len, staged.pieces)) == 3
    assert staged.facts["wasted"] == 2
    spine.discard()
    assert spine.saved().pieces == before.pieces
    spine.restore(staged)
    assert spine.entries == 3
    assert spine.saved().facts == staged.facts


def test_restoring_forgets_what_was_staged() -> None:
    spine = Spine(Layout(pl.Schema({"k": pl.Int64()}), by_row=True))
    spine.stage(run_of(1))
    spine.restore(NOTHING)
    assert not len(spine.delta)
    spine.commit()
    assert spine.entries == 0
    timers = Timers()
    timers.set(np.array([5]), keyed(1))
    timers.restore(NOTHING)
    timers.commit()
    assert timers.entries == 0


def test_totals_that_nobody_kept_are_added_up() -> None:
    """A spine that is restored without its totals computes them, and drops all entries when their sum is zero."""
    spine = Spine(Layout(pl.Schema({"k": pl.Int64()}), by_row=True))
    spine.restore(Saved((run_of(*range(1000)),), {}))
    assert spine.saved().facts["totals"] == {DIFF: 1000}
    spine.stage(run_of(*range(1000), diff=-1))
    spine.commit()
    assert spine.entries == 0


def test_pieces_are_the_same_objects_until_they_change_and_can_be_referred_to_weakly() -> None:
    spine = Spine(Layout(pl.Schema({"k": pl.Int64()}), by_row=True))
    spine.stage(run_of(*range(1000)))
    spine.commit()
    (large,) = spine.saved().pieces
    spine.stage(run_of(5000))
    spine.commit()
    assert spine.saved().pieces[0] is large
    found = weakref.WeakKeyDictionary(dict.fromkeys(spine.saved().pieces, 1))
    assert len(found) == 2
    del large
    spine.restore(NOTHING)
    spine.commit()
    gc.collect()
    assert len(found) == 0


def test_timers_that_are_handed_out_one_by_one_are_not_written_again_each_time() -> None:
    timers = Timers()
    timers.set(np.arange(10_000), keyed(*range(10_000)))
    timers.commit()
    seen = set()
    for now in range(0, 9_000, 10):
        timers.due(now)
        timers.commit()
        saved = timers.saved()
        seen.update(map(id, saved.pieces))
        fresh = Timers()
        given_back(fresh, as_columns(timers, saved))
        assert (fresh.entries, fresh.first) == (timers.entries, timers.first) == (10_000 - now - 1, now + 1)
    assert len(seen) < 8


def test_a_buffer_that_is_emptied_bit_by_bit_is_not_written_again_each_time() -> None:
    buffer, seen = Buffer(), set()
    frame = pl.DataFrame({"x": range(5_000), DIFF: pl.Series([1, -1] * 2500, dtype=pl.Int64)})
    buffer.exchange(np.arange(5_000), frame, -1)
    buffer.commit()
    for until in range(10, 4_500, 10):
        fresh = Buffer()
        given_back(fresh, as_columns(buffer, buffer.saved()))
        seen.update(map(id, buffer.saved().pieces))
        empty = frame.clear()
        ours, theirs = (one.exchange(np.zeros(0, np.int64), empty, until) for one in (buffer, fresh))
        assert ours is not None
        assert theirs is not None
        assert ours[1].equals(theirs[1])
        buffer.commit()
        fresh.commit()
        assert (fresh.entries, fresh.first) == (buffer.entries, buffer.first) == (5_000 - until, until)
    assert len(seen) < 8


def test_the_ledger_keeps_what_a_commit_would_leave() -> None:
    ledger = Ledger(5)
    for number in range(4):
        frame = pl.DataFrame({"x": [number, None], "epoch": ["a", "b"], DIFF: [1, 2]})
        ledger.stage(Refused(number + 1, "a", f"because {number}", frame, None if number % 2 else number))  # type: ignore[arg-type]
        saved = ledger.saved()
        fresh = Ledger(5)
        given_back(fresh, as_columns(ledger, saved))
        ledger.commit()
        assert (fresh.entries, fresh.forgotten) == (ledger.entries, ledger.forgotten)
        for ours, theirs in zip(ledger.refused, fresh.refused, strict=True):
            assert (ours.epoch, ours.source, ours.reason, ours.watermark) == (
                theirs.epoch, theirs.source, theirs.reason, theirs.watermark,
            )  # fmt: skip
            assert ours.frame.equals(theirs.frame)
    assert ledger.forgotten == 4


@pytest.mark.parametrize(
    "state", [(1, 2), {1: 2}, {"at": datetime(2026, 1, 1)}, float("inf"), [np.int64(3)], {"a": {1}}]
)
def test_a_watermark_state_of_plain_values_comes_back_with_its_type(state: Any) -> None:
    again = SourceClock("orders", Custom(latest, None))
    again.restore(SourceClock("orders", Custom(latest, state)).saved())
    assert repr(again.saved()) == repr(SourceClock("orders", Custom(latest, state)).saved())
    (kept, _) = again._committed.memory
    assert (type(kept), kept) == (type(state), state)


@pytest.mark.parametrize("state", [object(), [object()], {"a": {1: latest}}], ids=range(3))
def test_a_watermark_state_that_cannot_be_kept_is_refused_by_name(state: Any) -> None:
    clock = SourceClock("orders", Custom(latest, state))
    with pytest.raises(InputError, match=r"source 'orders'.*Keep plain values in the state: numbers, text"):
        clock.saved()


def test_a_pinned_clock_holds_the_bounds_it_was_pinned_to() -> None:
    clock = SourceClock("a", ByHand())
    clock.pin(3, 7)
    held = HeldWatermark(clock)
    held.stage(5)
    assert (clock.before, clock.now, held.before, held.now, held.held_at) == (3, 7, START_OF_TIME, 5, 5)
    held.pin(4, 6)
    assert (held.before, held.now) == (4, 6)
    held.commit()
    assert held.saved().facts == {"committed": 5, "held_at": 5}
    held.pin(8, 9)
    assert (held.before, held.now) == (8, 9)
