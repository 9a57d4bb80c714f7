"""A149: what windows remember is gone when they close, and what an epoch costs follows what it touches."""

from __future__ import annotations

import random
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
import evercurrent.core.state.lookup as reading_module
from eventtime.pipelines import OURS, Both, Epoch, Run, Setup, read_as, runs
from evercurrent.core.operators.source_rows import Append
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.spine import Spine
from harness import circuit_of
from strategies import of_profile

INF = float("inf")


def left_over(both: Both) -> dict[str, int]:
    """Entries of states, without the contents of views and what sources keep of their rows."""
    found: dict[str, int] = {}
    for node in circuit_of(both.engine).nodes:
        is_of_source = node.name == "a" and not isinstance(node.operator, Append)
        if is_of_source or node.name.startswith("keep "):
            continue
        for state in node.states:
            entries = len(state.merged()) if isinstance(state, Spine) else state.entries
            if entries and not isinstance(state, Ledger):
                found[f"{node.name}: {type(state).__name__}"] = entries
    return found


def close_all(both: Both) -> None:
    """Advance to the end of time, and by an epoch more, as the panes that were emitted last are purged in the next one."""
    both.push(Epoch([], INF, 1000))
    both.push(Epoch(at=1001))


@of_profile(0.4)
@given(run=runs(lateness=4, ends=False))
def test_with_a_lateness_nothing_is_left_when_all_windows_are_closed(run: Run) -> None:
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    close_all(both)
    assert left_over(both) == {}


@of_profile(0.2)
@given(run=runs(lateness=0, ends=False, window="fixed(10)"))
def test_what_is_behind_the_watermark_and_the_lateness_is_gone(run: Run) -> None:
    """Long before the end: whatever is remembered is of windows that are open."""
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    if run.setup.delay is None:
        both.push(Epoch([], 1000, 1000))
        both.push(Epoch(at=1001))
        assert left_over(both) == {}


@pytest.mark.parametrize("window", ["sessions(5)", "merging(5)", "at_most(5, 2)", "by_size(3)"])
def test_a_long_run_holds_no_more_than_what_is_open(window: str) -> None:
    """An entry that stays behind in every fourth epoch is found: open windows have some sixty."""
    setup = Setup(
        window,
        "after_watermark(early=at_period(10), late=after_count(1))",
        lateness=10,
        delay=3,
        appends=True,
    )
    both = Both(Run(setup, []))
    draw, sizes = random.Random(3), []
    for number in range(180):
        rows = [((f"k{draw.randrange(5)}", 4 * number + draw.randrange(4), 1, 1, False), 1) for _ in range(5)]
        both.push(Epoch(rows, None, 4 * number))
        sizes.append(sum(left_over(both).values()))
    assert max(sizes[90:]) <= 1.25 * max(sizes[20:90])


# Work

START = datetime(2024, 1, 1, tzinfo=UTC)
SMALL, LARGE = 2**11, 2**15
PIPELINES = {
    "fixed, early and late": ("fixed(60)", "after_watermark(early=at_period(10), late=after_count(1))", "retracting"),
    "fixed, every epoch": ("fixed(60)", None, "retracting"),
    "fixed, counted, discarding": ("fixed(60)", "repeat(after_count(2))", "discarding"),
    "sliding, accumulating": ("sliding(60, 30)", "repeat(after_count(2))", "accumulating"),
    "sessions, every epoch": ("sessions(60)", None, "retracting"),
    "sessions, early and late": ("sessions(60)", "after_watermark(early=at_period(10), late=after_count(1))", "retracting"),
    "merged by a user, every epoch": ("merging(60)", None, "retracting"),
    "merged by a user, early and late": ("merging(60)", "after_watermark(early=at_period(10), late=after_count(1))", "retracting"),
}  # fmt: skip


class Loaded:
    """Many open windows: one for each key."""

    def __init__(self, window: str, trigger: str | None, mode: Any, size: int) -> None:
        self.size = size
        self.engine = ec.Engine()
        source = self.engine.source(
            "a", {"k": pl.Int64, "at": pl.Datetime("us"), "v": pl.Int64}, event_time="at"
        )
        windowed = source.window(read_as(OURS, window)).lateness("1h").accumulate(mode)
        if trigger is not None:
            windowed = windowed.trigger(read_as(OURS, trigger))
        self.engine.view("v", windowed.group_by("k").agg(n=pl.len(), most=pl.col("v").max()))
        self.clock = 0
        self.draw = random.Random(5)
        keys = list(range(size))
        self.draw.shuffle(keys)
        for start in range(0, size, 1024):
            self.push(keys[start : start + 1024])
        self.engine.tick(at=self.at())

    def at(self) -> datetime:
        self.clock += 11
        return START + timedelta(seconds=self.clock)

    def push(self, keys: list[int]) -> None:
        instants = [START.replace(tzinfo=None) + timedelta(seconds=self.draw.randrange(20)) for _ in keys]
        self.engine.push(
            "a", {"k": keys, "at": instants, "v": [self.draw.randrange(9) for _ in keys]}, at=self.at()
        )

    def touched(self) -> int:
        return sum(state.touched for state in circuit_of(self.engine).states if hasattr(state, "touched"))


def work_of(loaded: Loaded, expanded: list[int]) -> tuple[float, float]:
    """Return the work of an epoch of ten rows and the next one, which emits them: what the states touched, and what they read."""
    work, reads = [], []
    for _ in range(12):
        before = loaded.touched(), sum(expanded)
        loaded.push([loaded.draw.randrange(loaded.size) for _ in range(10)])
        loaded.engine.tick(at=loaded.at())
        work.append(loaded.touched() - before[0])
        reads.append(sum(expanded) - before[1])
    return statistics.median(work), statistics.median(reads)


@pytest.mark.parametrize("name", PIPELINES)
def test_an_epoch_costs_the_same_over_sixteen_times_the_windows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expanded: list[int] = []
    original = reading_module.expand  # type: ignore[attr-defined]

    def counting(lower: Any, upper: Any) -> Any:
        expanded.append(int((upper - lower).sum()))
        return original(lower, upper)

    monkeypatch.setattr(reading_module, "expand", counting)
    small, large = (work_of(Loaded(*PIPELINES[name], size), expanded) for size in (SMALL, LARGE))
    assert small[0] > 0
    assert large[0] <= 2 * small[0] + 200, f"counters {small[0]} -> {large[0]}"
    assert large[1] <= 2 * small[1] + 200, f"entries read {small[1]} -> {large[1]}"


def test_nothing_is_touched_in_an_epoch_in_which_nothing_is_due() -> None:
    for window, trigger, mode in PIPELINES.values():
        loaded = Loaded(window, trigger, mode, 64)
        loaded.engine.tick(at=loaded.at())
        before = loaded.touched(), [state.entries for state in circuit_of(loaded.engine).states]
        loaded.engine.tick(at=loaded.at())
        assert (loaded.touched(), [state.entries for state in circuit_of(loaded.engine).states]) == before
