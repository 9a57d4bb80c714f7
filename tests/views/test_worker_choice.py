"""``Engine(workers=n)`` uses threads for plans that gain by them: those with windows that merge; it may change at any epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.circuit.circuit import Circuit

ROWS = 10_000
NOON = datetime(2026, 1, 1, 12)
RULE = Circuit.__dict__["gains_by_buckets"]
"""As it is before the first test runs, which has it replaced."""

COLUMNS = {"k": pl.Int64, "t": pl.Datetime("us")}

Declare = Callable[[ec.Source], ec.Collection]


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only plans that gain are evaluated by threads, as it is outside of tests."""
    monkeypatch.setattr(Circuit, "gains_by_buckets", RULE)


def rows() -> pl.DataFrame:
    return pl.DataFrame({"k": range(ROWS), "t": [NOON] * ROWS}, schema=COLUMNS)


def _own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("evercurrent-worker")]


def counted(source: ec.Source) -> ec.Collection:
    return source.group_by("k").agg(n=pl.len())


def joined(source: ec.Source) -> ec.Collection:
    return source.join(counted(source), on="k")


def in_sessions(source: ec.Source) -> ec.Collection:
    return source.window(ec.sessions("1m")).group_by("k").agg(n=pl.len())


def merged(source: ec.Source) -> ec.Collection:
    own = ec.custom_windows(
        lambda frame: frame.select(window_start="t", window_end=pl.col("t").dt.offset_by("1m")),
        ec.merge_overlapping,
    )
    return source.window(own).lateness("1m").group_by("k").agg(n=pl.len())


def sliding(source: ec.Source) -> ec.Collection:
    return source.window(ec.sliding("5m", every="1m")).group_by("k").agg(n=pl.len())


@pytest.mark.parametrize(
    ("declare", "gains"),
    [(counted, False), (joined, False), (sliding, False), (in_sessions, True), (merged, True)],
)
def test_threads_are_used_where_windows_merge(declare: Declare, gains: bool) -> None:
    before = len(_own_threads())
    with ec.Engine(workers=2) as engine:
        view = engine.view("v", declare(engine.source("s", COLUMNS, event_time="t")))
        engine.push("s", rows())
        assert (len(_own_threads()) > before) == gains
        assert view.read()["k"].n_unique() == ROWS
    assert len(_own_threads()) == before


@pytest.mark.parametrize("is_durable", [False, True])
def test_windows_that_merge_come_and_go(is_durable: bool, tmp_path: Path) -> None:
    where = {"checkpoint": tmp_path / "c"} if is_durable else {}
    with ec.Engine(workers=2, **where) as engine:
        source = engine.source("s", COLUMNS, event_time="t", retained=True)
        counts = engine.view("counts", counted(source))
        for epoch in range(1, 10):
            if epoch == 4:
                engine.view("sessions", in_sessions(source))
            if epoch == 7:
                engine.drop_view("sessions")
            engine.push("s", rows())
            assert bool(_own_threads()) == (epoch >= 4)
            assert counts.read()["n"].unique().to_list() == [epoch]
            if 4 <= epoch < 7:
                assert engine.views["sessions"].read()["n"].unique().to_list() == [epoch]


def test_a_checkpoint_of_threads_is_opened_without_them(tmp_path: Path) -> None:
    for epoch, workers in enumerate((2, 1, 2, 3), start=1):
        with ec.Engine(workers=workers, checkpoint=tmp_path) as engine:
            source = engine.source("s", COLUMNS, event_time="t")
            views = [engine.view("counts", counted(source)), engine.view("sessions", in_sessions(source))]
            engine.push("s", rows())
            assert [view.read()["n"].unique().to_list() for view in views] == [[epoch], [epoch]]
