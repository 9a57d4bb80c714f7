"""The same views in buckets: what the embedded engine emits, epoch by epoch, without Spark around it."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from eventtime.pipelines import Both, Run, runs
from evercurrent.core.state import combined_rows, first_rows
from evercurrent.views.testing import pipeline
from harness import Running, frame_of_entries
from laws.test_sequences import changes, cuts, engine_of
from oracle import TooLargeError
from spark.twins import WAYS, TwinEngine, Way
from strategies import Case, Entries, cases, of_profile


@pytest.fixture(autouse=True)
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine that a test makes has a twin in buckets, where few rows are combined, too."""
    monkeypatch.setattr(combined_rows, "FEW", 0)
    monkeypatch.setattr(first_rows, "FEW", 0)
    monkeypatch.setattr(ec, "Engine", TwinEngine)
    monkeypatch.setattr(pipeline, "Engine", TwinEngine)


@of_profile(0.3, quick=12)
@given(case=cases(trusted=False), way=st.sampled_from(WAYS))
def test_random_views(case: Case, way: Way) -> None:
    """A007 in buckets: stages of stages of stages."""
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    TwinEngine.way = way
    running = Running(case, is_checked=False).push_all()
    assert isinstance(running.engine, TwinEngine)
    assert running.engine.compared == len(case.epochs) + 1


@of_profile(0.3, quick=12)
@given(run=runs(), way=st.sampled_from(WAYS))
def test_random_windows(run: Run, way: Way) -> None:
    """Of every epoch the twin asserts that both emit the same; here that it was run."""
    TwinEngine.way = way
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    assert isinstance(both.engine, TwinEngine)
    assert both.engine.compared == len(run.epochs) + 1


@of_profile(0.1, quick=10)
@given(given_changes=changes(), seed=st.integers(0, 2**32), way=st.sampled_from(WAYS))
def test_random_sequences(
    given_changes: tuple[dict[str, pl.DataType], list[str], Entries], seed: int, way: Way
) -> None:
    TwinEngine.way = way
    columns, sequence, entries = given_changes
    batches = cuts(entries, seed)[-1]
    engine = engine_of(columns, sequence)
    for batch in batches:
        engine.push("a", frame_of_entries(columns, batch))
    assert isinstance(engine, TwinEngine)
    assert engine.compared == (len(batches) + 1 if batches else 0)
