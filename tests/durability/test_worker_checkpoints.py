"""A checkpoint does not record how many workers made it: any number goes on from it, and what fails has changed nothing."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from children import in_child
from durability.every_operator import EVERY_OPERATOR
from durability.observing import state
from durability.test_options import crash
from durability.test_restart import HISTORY
from durability.timed import Timed
from eventtime.pipelines import Both, Run, Setup, runs
from evercurrent.views.partitioned import workers
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, InjectedError
from oracle import TooLargeError
from strategies import Case, cases, of_profile
from thinned import steps_of

Start = Callable[..., Any]
"""Makes an engine with its views: something that has ``engine`` and ``push``."""

IN_TURN = (2, 1, 3, 1, 2, 2)


@pytest.fixture(autouse=True)
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest epochs are evaluated in threads."""
    monkeypatch.setattr(workers, "FEW_ROWS", 0)


def seen(engine: ec.Engine) -> dict[str, Any]:
    """All that can be seen, without the order of rows."""
    found = state(engine)
    found["why"] = {name: sorted(lines.splitlines()) for name, lines in found["why"].items()}
    found["held"] = {name: rows_of(view.read()) for name, view in engine.views.items()}
    found["ledger"] = sorted(found["ledger"], key=repr)
    found["deltas"] = {name: [*map(rows_of, view.deltas())] for name, view in engine.views.items()}
    return found


def rows_of(frame: pl.DataFrame) -> list[str]:
    return sorted(map(repr, frame.rows()))


def unlike(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The parts in which two engines differ."""
    return {part: (one[part], other[part]) for part in one if one[part] != other[part]}


def check_in_turn(start: Start, epochs: Sequence[Any], path: Path, **options: Any) -> None:
    """One engine runs through; on a checkpoint each epoch has an engine with another number of workers."""
    steady = start()
    for number, (epoch, several) in enumerate(zip(epochs, itertools.cycle(IN_TURN), strict=False), 1):
        steady.push(epoch)
        restarted = start(checkpoint=ec.Checkpoint(path, **options), workers=several)
        with restarted.engine:
            restarted.push(epoch)
            assert unlike(seen(steady.engine), seen(restarted.engine)) == {}, f"after epoch {number}"


@pytest.mark.parametrize("several", [2, 3])
def test_every_operator(several: int, tmp_path: Path) -> None:
    check_in_turn(lambda **o: Timed(EVERY_OPERATOR, **o), EVERY_OPERATOR.epochs, tmp_path / "in turn")
    steady = Timed(EVERY_OPERATOR)
    working = Timed(EVERY_OPERATOR, checkpoint=tmp_path / "one", workers=several)
    for epoch in EVERY_OPERATOR.epochs:
        steady.push(epoch)
        working.push(epoch)
        assert unlike(seen(steady.engine), seen(working.engine)) == {}
    for name, view in working.engine.views.items():
        for epoch in (1, 3):
            working.engine.checkpoint()
            assert view.read(epoch).height == sum(
                delta["_diff"].sum() for delta in steady.engine.views[name].deltas() if delta["_epoch"][0] <= epoch
            ), name  # fmt: skip


@of_profile(0.05)
@given(case=cases(max_lines=3))
def test_any_program(case: Case) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    with TemporaryDirectory() as folder:
        check_in_turn(lambda **o: Timed(case, **o), case.epochs, Path(folder))


@of_profile(0.1)
@given(run=runs(max_epochs=5))
def test_any_pipeline_of_windows(run: Run) -> None:
    with TemporaryDirectory() as folder:
        check_in_turn(lambda **o: Both(run, **o), run.epochs, Path(folder))


@pytest.mark.parametrize(
    "setup",
    [
        Setup("sessions(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "max", "distinct")),
        Setup("merging(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "max", "distinct")),
        Setup("fixed(10)", "repeat(all_of(after_count(2), after_watermark()))", mode="discarding", lateness=9),
        Setup("sliding(10, 5)", "repeat(any_of(punctuation(), after_bytes(2)))", mode="accumulating", lateness=0, always=True),
    ],
    ids=lambda setup: f"{setup.window}, {setup.trigger}, {setup.mode}",
)  # fmt: skip
def test_timers_sessions_panes_and_lateness(setup: Setup, tmp_path: Path) -> None:
    run = Run(setup, HISTORY)
    check_in_turn(lambda **o: Both(run, **o), run.epochs, tmp_path)


@pytest.mark.parametrize("every", [1, 3])
def test_after_a_crash_another_number_of_workers_goes_on(every: int, tmp_path: Path) -> None:
    """Epochs of which only the input is on disk are evaluated again."""
    case = EVERY_OPERATOR
    steady, left = Timed(case), Timed(case, checkpoint=ec.Checkpoint(tmp_path, every=every), workers=2)
    for epoch in case.epochs:
        steady.push(epoch)
        left.push(epoch)
    crash(left.engine)
    again = Timed(case, checkpoint=ec.Checkpoint(tmp_path, every=every), workers=3)
    with again.engine:
        for epoch in case.epochs[again.engine.epoch_number :]:
            again.push(epoch)
        assert unlike(seen(steady.engine), seen(again.engine)) == {}


@pytest.mark.parametrize("every", [1, 2])
def test_where_the_store_fails_nothing_has_changed(every: int, tmp_path: Path) -> None:
    """A fault at every operation of the store, while two workers are at it; see ``steps_of``."""
    case, failures = EVERY_OPERATOR, 0
    steady = Timed(case)
    for epoch in case.epochs:
        steady.push(epoch)
    expected = seen(steady.engine)

    def fail_at(n: int | None) -> FailingStore:
        nonlocal failures
        store = FailingStore(LocalStore(tmp_path / str(n)), n, "torn")
        while True:
            with suppress(InjectedError):
                running = Timed(case, numbered=True, checkpoint=ec.Checkpoint(store, every=every), workers=2)  # type: ignore[arg-type]
                before = seen(running.engine)
                break
        for number, epoch in enumerate(case.epochs, 1):
            try:
                running.push(epoch, number)
            except InjectedError:
                failures += 1
                assert unlike(before, seen(running.engine)) == {}, f"operation {n}: {store.done[-1]}"
                running.push(epoch, number)
            before = seen(running.engine)
        assert unlike(expected, before) == {}, f"operation {n}"
        with suppress(InjectedError):
            running.engine.close()
        shutil.rmtree(tmp_path / str(n))
        return store

    done = fail_at(None).done
    for n in steps_of(done, every=3):
        assert fail_at(n).has_failed
    assert failures > 2
    assert len(done) > 10


# What a program may do, and what it may not


def chain(*, is_mapped: bool = True, **options: Any) -> tuple[ec.Engine, Any]:
    """Without a function of the user's own, a small epoch uses no threads of polars, which a child would not have."""
    engine = ec.Engine(**options)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64})
    mapped = rows.map_batches(lambda frame: frame) if is_mapped else rows
    by_key = mapped.group_by("k").agg(n=pl.len(), total=pl.col("v").sum())
    return engine, engine.view("sizes", by_key.group_by("n").agg(pl.col("total").sum()))


ROWS = {"k": list(range(100)) * 2, "v": list(range(200))}


def test_a_function_that_raises_in_a_worker_has_changed_nothing() -> None:
    engine = ec.Engine(workers=2)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64})
    fails = False

    def careful(frame: pl.DataFrame) -> pl.DataFrame:
        if fails and (frame["v"] == 150).any():
            raise ValueError("not this one")
        return frame

    by_key = rows.map_batches(careful).group_by("k").agg(pl.col("v").sum())
    view = engine.view("sums", by_key.group_by("v").agg(n=pl.len()))
    engine.push("rows", ROWS)
    before, fails = rows_of(view.read()), True
    with pytest.raises(ec.InputError, match="not this one"):
        engine.push("rows", ROWS)
    assert (rows_of(view.read()), engine.epoch_number) == (before, 1)
    fails = False
    engine.push("rows", ROWS)
    assert view.read().select(total=pl.col("v") * pl.col("n"))["total"].sum() == 2 * sum(ROWS["v"])


def test_a_function_that_pushes_is_refused_in_every_thread() -> None:
    """It would wait for a turn that its own epoch has."""
    engine = ec.Engine(workers=2)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64})

    def pushing(frame: pl.DataFrame) -> pl.DataFrame:
        if len(frame) and (frame["v"] == 199).any():
            engine.push("rows", ROWS)
        return frame

    engine.view("sums", rows.map_batches(pushing).group_by("k").agg(pl.col("v").sum()))
    with pytest.raises(ec.InputError, match="cannot push; push from a subscriber"):
        engine.push("rows", ROWS)
    assert engine.epoch_number == 0


def test_an_interrupt_waits_for_the_other_workers_and_has_changed_nothing() -> None:
    engine = ec.Engine(workers=2)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64})
    is_slow, ended, begun = False, [], threading.Event()

    def slow(frame: pl.DataFrame) -> pl.DataFrame:
        if is_slow and len(frame) and threading.current_thread() is threading.main_thread():
            assert begun.wait(10), "on a busy machine the other one may begin later"
            signal.raise_signal(signal.SIGINT)
        elif is_slow and len(frame):
            begun.set()
            time.sleep(0.2)
            ended.append(len(frame))
        return frame

    view = engine.view("sums", rows.map_batches(slow).group_by("k").agg(pl.col("v").sum()))
    engine.push("rows", ROWS)
    before, is_slow = rows_of(view.read()), True
    with pytest.raises(KeyboardInterrupt):
        engine.push("rows", ROWS)
    assert ended == [100]
    is_slow = False
    assert (rows_of(view.read()), engine.push("rows", ROWS)) == (before, 2)
    assert view.read()["v"].sum() == 2 * sum(ROWS["v"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_made_by_fork_has_threads_of_its_own() -> None:
    engine, view = chain(is_mapped=False, workers=2)
    engine.push("rows", ROWS)

    def use() -> None:
        engine.push("rows", {"k": [1], "v": [2]})
        assert (engine.epoch_number, view.read().height) == (2, 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        in_child(use, few_rows=True)


def test_what_goes_with_one_worker_only_is_refused_where_it_is_declared(tmp_path: Path) -> None:
    with pytest.raises(ec.PlanError, match=r"record=True goes with workers=1 only: .* leave out one"):
        ec.Engine(workers=2, record=True)
    with pytest.raises(ec.PlanError, match=r"record_rows\(\) goes with workers=1 only"):
        ec.Engine(workers=2).record_rows()
    with pytest.raises(ec.PlanError, match=r"resident_bytes=.* goes with workers=1 only"):
        ec.Engine(workers=2, checkpoint=ec.Checkpoint(tmp_path, resident_bytes=1 << 20))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("several", [0, -1, 65, True, 2.0, "2", None])
def test_a_number_of_workers_is_a_number(several: Any) -> None:
    with pytest.raises(ec.PlanError, match=r"workers= is .*; give a number from 1 to 64"):
        ec.Engine(workers=several)


def test_an_engine_with_workers_explains_what_it_has_done() -> None:
    one, _ = chain()
    several, _ = chain(workers=3)
    for engine in (one, several):
        engine.push("rows", ROWS)
        engine.push("rows", ROWS)
    assert rows_out(several) == rows_out(one)


def rows_out(engine: ec.Engine) -> list[int]:
    """The rows that each operator has given: what it takes may be added up before."""
    return [node.rows_out for node in engine._current().circuit.nodes]


def test_windows_are_fired_by_hand() -> None:
    engine = ec.Engine(workers=2)
    rows = engine.source("rows", {"k": pl.Int64, "t": pl.Datetime("us")}, event_time="t")
    windows = rows.window(ec.fixed("10s")).trigger(ec.repeat(ec.signal()))
    view = engine.view("counts", windows.group_by("k").agg(n=pl.len()))
    engine.push("rows", {"k": list(range(20)), "t": [datetime(2026, 1, 1)] * 20})
    view.fire(key=7)
    assert view.read()["k"].to_list() == [7]
    view.fire()
    assert sorted(view.read()["k"]) == list(range(20))
