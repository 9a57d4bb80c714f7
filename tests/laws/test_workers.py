"""However many workers evaluate epochs, and whoever has made the checkpoint: views are those of one circuit."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from eventtime.pipelines import Both, Run, runs
from evercurrent.views.partitioned import workers
from evercurrent.views.testing import pipeline
from harness import Running, frame_of_entries
from laws.test_sequences import changes, cuts, engine_of
from oracle import TooLargeError
from strategies import Case, Entries, cases, of_profile
from worker_twins import SHIFTS, Shift, WorkerTwin


@pytest.fixture(autouse=True)
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine that a test makes has a twin, whose smallest epochs are evaluated in threads."""
    monkeypatch.setattr(ec, "Engine", WorkerTwin)
    monkeypatch.setattr(pipeline, "Engine", WorkerTwin)
    monkeypatch.setattr(workers, "FEW_ROWS", 0)


@of_profile(0.3)
@given(case=cases(trusted=False), shift=st.sampled_from(SHIFTS))
def test_random_views(case: Case, shift: Shift) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    WorkerTwin.shift = shift
    running = Running(case, is_checked=False).push_all()
    assert isinstance(running.engine, WorkerTwin)
    assert running.engine.compared == len(case.epochs) + 1


@of_profile(0.3)
@given(run=runs(), shift=st.sampled_from(SHIFTS))
def test_random_windows(run: Run, shift: Shift) -> None:
    WorkerTwin.shift = shift
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    assert isinstance(both.engine, WorkerTwin)
    assert both.engine.compared == len(run.epochs) + 1


@of_profile(0.1)
@given(given_changes=changes(), seed=st.integers(0, 2**32), shift=st.sampled_from(SHIFTS))
def test_random_sequences(
    given_changes: tuple[dict[str, pl.DataType], list[str], Entries], seed: int, shift: Shift
) -> None:
    WorkerTwin.shift = shift
    columns, sequence, entries = given_changes
    batches = cuts(entries, seed)[-1]
    engine = engine_of(columns, sequence)
    for batch in batches:
        engine.push("a", frame_of_entries(columns, batch))
    assert isinstance(engine, WorkerTwin)
    assert engine.compared == (len(batches) + 1 if batches else 0)


@pytest.mark.parametrize("kind", ["diffs", "upsert"])
@pytest.mark.parametrize(
    "early", [ec.after_percentile(0.9), ec.pattern("begins", "ends")], ids=["share", "pattern"]
)
def test_a_trigger_that_goes_by_the_order_of_rows_sees_them_as_they_came(
    kind: Literal["diffs", "upsert"], early: ec.Trigger
) -> None:
    WorkerTwin.shift = Shift((3,))
    engine = ec.Engine()
    columns = {
        "key": pl.Int64,
        "row": pl.Int64,
        "begins": pl.Boolean,
        "ends": pl.Boolean,
        "at": pl.Datetime("us"),
    }
    rows = engine.source(
        "rows", columns, kind=kind, key="row" if kind == "upsert" else None,
        event_time="at", watermark=ec.bounded_delay("1h"),
    )  # fmt: skip
    windows = rows.window(ec.fixed("10s")).trigger(early=early, late=ec.each_row())
    engine.view("counts", windows.group_by("key").agg(n=pl.len()))
    begin = datetime(2026, 1, 1)
    for batch in range(4):
        numbers = range(20 * batch, 20 * batch + 20)
        engine.push(
            "rows",
            [(n % 7, n, n * n % 11 < 5, n % 3 == 0, begin + timedelta(seconds=n)) for n in numbers],
        )
    assert isinstance(engine, WorkerTwin)
    assert engine.compared == 5
