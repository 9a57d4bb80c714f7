"""A checkpoint in buckets, as a query in Spark writes it, is forked at any retained epoch while its writer goes on."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from eventtime.pipelines import Both, Run, runs
from evercurrent.views.store import LocalStore
from evercurrent.views.testing import pipeline
from harness import Running, contents, frame_of_entries, summed
from oracle import TooLargeError
from spark.offered import Offering
from spark.twins import WAYS, TwinEngine, TwinRunning, Way
from strategies import Case, cases, of_profile


def folder_of(engine: ec.Engine) -> str:
    """The checkpoint of the twin in buckets."""
    assert isinstance(engine._running, TwinRunning)
    return str(engine._running._folder.name)


@of_profile(0.1, quick=12)
@given(case=cases(trusted=False), at=st.integers(0, 4), way=st.sampled_from(WAYS))
def test_random_views(case: Case, at: int, way: Way) -> None:
    at = min(at, len(case.epochs))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ec, "Engine", TwinEngine)
        TwinEngine.way = way
        try:
            case.expected()
        except TooLargeError:
            assume(False)
        origin = Running(case, is_checked=False)
        truth = Running(case, is_checked=False).engine.fork()
        for epoch in case.epochs:
            origin.push(epoch)
        fork = origin.engine.fork(folder_of(origin.engine), epoch=at)
        for number, epoch in enumerate(case.epochs):
            frames = {
                name: frame_of_entries(columns, epoch.get(name, []))
                for name, columns in case.program.sources.items()
            }
            for engine in (truth, *([fork] if number >= at else [])):
                with engine.epoch():
                    for name, frame in frames.items():
                        engine.push(name, frame)
            if number >= at:
                for name, view in truth.views.items():
                    assert contents(fork.views[name]) == contents(view), name
                    since = truth.epoch_number - 1
                    assert summed(fork.views[name].deltas(since)) == summed(view.deltas(since)), name


@of_profile(0.1, quick=12)
@given(run=runs(), at=st.integers(1, 4), way=st.sampled_from(WAYS))
def test_random_windows(run: Run, at: int, way: Way) -> None:
    """Watermarks, also those that windows hold back, timers and open windows are those of all buckets."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ec, "Engine", TwinEngine)
        patched.setattr(pipeline, "Engine", TwinEngine)
        TwinEngine.way = way
        both = Both(run)
        for epoch in run.epochs[:at]:
            both.push(epoch)
        fork, origin = both.engine.fork(folder_of(both.engine)), both.engine
        assert not fork.compare(origin)
        for epoch in run.epochs[at:]:
            both.engine, both.view = origin, origin.views["panes"]
            since = both.push(epoch) - 1
            both.engine, both.view = fork, fork.views["panes"]
            both.push(epoch)
            for name, view in origin.views.items():
                assert summed(fork.views[name].deltas(since)) == summed(view.deltas(since)), name
        assert not fork.compare(origin)


def shops() -> ec.Engine:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.view("best", totals.top_k(1, by="total"))
    return engine


def test_it_is_proved_and_looked_into_while_its_writer_goes_on(tmp_path: Path) -> None:
    writer = Offering(shops().declared, LocalStore(tmp_path), buckets=3)
    for number, price in enumerate((1, 20, 3)):
        writer.offer(number, {"sales": pl.DataFrame({"shop": ["north", "south"], "price": [price, 4]})})
    engine = shops()
    assert engine.prove(checkpoint=tmp_path)
    earlier, now = engine.fork(tmp_path, epoch=1), engine.fork(tmp_path)
    assert sorted(now.compare(earlier)["totals"].rows()) == [
        ("north", 1, -1),
        ("north", 24, 1),
        ("south", 4, -1),
        ("south", 12, 1),
    ]
    lineage = now.views["best"].lineage({"shop": "north"})
    assert sorted(lineage["sales"]["price"]) == [1, 3, 20]
    assert writer.offer(3, {"sales": pl.DataFrame({"shop": ["west"], "price": [1]})})
    assert now.views["totals"].read().height == 2
