"""A fork goes its own way: it is what an engine is that was pushed the same, and its origin keeps every bit."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from durability.observing import differences, frame_bytes, held, state
from eventtime.pipelines import Both, Run, runs
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.durability.plan_match import state_ids
from harness import Running, contents, frame_of_entries, hold_to_contract, summed
from strategies import Case, Epoch, cases, of_profile


def bits(engine: ec.Engine) -> dict[str, Any]:
    """All that the states of an engine hold, piece by piece, and all that can be seen of it."""
    states = state_ids(engine._current())
    pieces = {}
    for name, each in states.items():
        saved = each.saved()
        columns = [each.columns_of(piece) for piece in saved.pieces]
        pieces[name] = (
            [id(piece) for piece in saved.pieces],
            list(map(frame_bytes, columns)),
            repr(saved.facts),
        )
    return {"pieces": pieces, **state(engine)}


def push(engine: ec.Engine, case: Case, epoch: Epoch) -> None:
    with engine.epoch():
        for name, columns in case.program.sources.items():
            engine.push(name, frame_of_entries(columns, epoch.get(name, [])))


def same(engine: ec.Engine, truth: Running) -> None:
    """Contents of all views, and the deltas of the last epoch."""
    assert engine.epoch_number == truth.engine.epoch_number
    last = engine.epoch_number - 1
    for name, view in truth.views.items():
        assert contents(engine.views[name]) == contents(view), name
        assert summed(engine.views[name].deltas(last)) == summed(view.deltas(last)), name


@of_profile(0.3, quick=30)
@given(case=cases(), at=st.integers(0, 4), turns=st.lists(st.sampled_from("abc"), max_size=8))
def test_forks_of_forks(case: Case, at: int, turns: list[str]) -> None:
    """Three lines take the same epochs, one after the other in any order, and never disturb each other."""
    at = min(at, len(case.epochs))
    try:
        truths = {line: Running(case, is_checked=False) for line in "abc"}
        engines = {"a": Running(case).engine}
        for epoch in case.epochs[:at]:
            push(engines["a"], case, epoch)
            for truth in truths.values():
                truth.push(epoch)
        engines["b"] = engines["a"].fork()
        engines["c"] = engines["b"].fork()
        for line in "bc":
            hold_to_contract(engines[line])
            assert not engines[line].compare(engines["a"])
        left = dict.fromkeys("abc", at)
        for line in (*turns, *("abc" * len(case.epochs))):
            if left[line] == len(case.epochs):
                continue
            others = {other: bits(engines[other]) for other in "abc" if other != line}
            push(engines[line], case, case.epochs[left[line]])
            truths[line].push(case.epochs[left[line]])
            left[line] += 1
            same(engines[line], truths[line])
            for other, before in others.items():
                assert differences(before, bits(engines[other])) == []
        assert not engines["c"].compare(engines["a"])
    except ArithmeticRefusedError:
        assume(False)


@of_profile(0.3, quick=30)
@given(run=runs(), at=st.integers(0, 4))
def test_forks_of_windows(run: Run, at: int) -> None:
    """Watermarks, timers and open windows go with the fork."""
    truth, both = Both(run), Both(run)
    at = min(at, len(run.epochs))
    for epoch in run.epochs[:at]:
        truth.push(epoch)
        both.push(epoch)
    before, origin = bits(both.engine), both.engine
    both.engine = origin.fork()
    both.view = both.engine.views["panes"]
    for epoch in run.epochs[at:]:
        columns = run.setup.columns
        expected = truth.delta(truth.view, truth.push(epoch), columns)
        assert both.delta(both.view, both.push(epoch), columns) == expected
    assert contents(both.view) == contents(truth.view)
    assert differences(before, bits(origin)) == []


@of_profile(0.2, quick=20)
@given(case=cases(trusted=False), at=st.integers(1, 5))
def test_forks_of_a_checkpoint_at_any_epoch(case: Case, at: int) -> None:
    """Forks of an earlier epoch equal an engine that was pushed the same, while the writer of the checkpoint is open."""
    at = min(at, len(case.epochs))
    try:
        with tempfile.TemporaryDirectory() as folder:
            writer, truth = (
                Running(case, is_checked=False, checkpoint=folder),
                Running(case, is_checked=False),
            )
            for number, epoch in enumerate(case.epochs, 1):
                writer.push(epoch)
                writer.engine.checkpoint()
                if number <= at:
                    truth.push(epoch)
            before = held(writer.engine)
            forks = [
                writer.engine.fork(epoch=at),
                Running(case, is_checked=False).engine.fork(folder, epoch=at),
            ]
            for fork in forks:
                for name, view in truth.views.items():
                    assert contents(fork.views[name]) == contents(view)
            for epoch in case.epochs[at:]:
                truth.push(epoch)
                for fork in forks:
                    push(fork, case, epoch)
                    same(fork, truth)
            assert held(writer.engine) == before
            writer.engine.close()
    except ArithmeticRefusedError:
        assume(False)


SALES = {"shop": pl.String, "price": pl.Int64}


def started(checkpoint: Any = None) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint)
    sales = engine.source("sales", SALES, kind="diffs", retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.view("dear", totals.filter(pl.col("total") > 5))
    engine.push("sales", {"shop": ["north", "south"], "price": [3, 9]}, position=1)
    return engine


def test_a_fork_declares_drops_and_compares_for_itself() -> None:
    engine = started()
    received: list[pl.DataFrame] = []
    engine.views["totals"].subscribe(received.append)
    before, fork = bits(engine), engine.fork()
    assert fork.positions == {"sales": 1}
    assert fork.push("sales", {"shop": ["north"], "price": [1]}, position=1) == 1, "it was taken before"
    fork.push("sales", {"shop": ["south"], "price": [9], "_diff": [-1]}, position=2)
    assert {name: summed([frame.with_columns(_epoch=0)]) for name, frame in fork.compare(engine).items()} == {
        "totals": {("south", 9): -1},
        "dear": {("south", 9): -1},
    }
    best = fork.view("best", fork.sources["sales"].group_by("shop").agg(best=pl.col("price").max()))
    assert best.read().rows() == [("north", 3)]
    with pytest.raises(ec.PlanError, match="view 'totals': view 'dear' is declared on it"):
        fork.drop_view("totals")
    fork.drop_view("dear")
    with pytest.raises(ec.PlanError, match="belongs to a different engine"):
        fork.view("mixed", engine.views["totals"].filter(pl.col("total") > 1))
    assert list(engine.views) == ["totals", "dear"]
    assert not received
    assert differences(before, bits(engine)) == []
    fork.view("totals", fork.sources["sales"].group_by("shop").agg(n=pl.len()), replace=True)
    with pytest.raises(ec.PlanError, match="'totals' has other columns"):
        fork.compare(engine)


def test_what_cannot_be_forked_is_refused(tmp_path: Path) -> None:
    engine = started()
    with pytest.raises(ec.InputError, match="epoch=0, but an engine without a checkpoint"):
        engine.fork(epoch=0)
    with pytest.raises(ec.InputError, match="epoch='1'"):
        engine.fork(epoch="1")  # type: ignore[arg-type]
    with pytest.raises(ec.CheckpointError, match="no checkpoint to fork"):
        engine.fork(tmp_path / "nothing")
    with started(tmp_path / "here") as writer:
        writer.checkpoint()
        other = ec.Engine()
        other.view("all", other.source("sales", SALES, kind="diffs", retained=True))
        with pytest.raises(ec.CheckpointError, match=r"'totals'|'all'"):
            other.fork(tmp_path / "here")
        with pytest.raises(ec.EpochGoneError, match="epoch 9"):
            writer.fork(epoch=9)
        fork = writer.fork(epoch=1)
        assert fork.views["totals"].read().height == 2
        assert not fork.is_durable


def declared_then(folder: Path | None) -> tuple[ec.Engine, ec.Source]:
    engine = ec.Engine(checkpoint=folder)
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    engine.view("kept", rows.group_by("k").len())
    return engine, rows


def test_a_fork_of_an_earlier_epoch_leaves_out_what_was_dropped_since(tmp_path: Path) -> None:
    engine, rows = declared_then(tmp_path)
    other = engine.source("other", {"k": pl.Int64})
    engine.view("old", rows.group_by("k").agg(m=2 * pl.len()))
    engine.view("others", other.unique())
    rows.push({"k": [1]}, position=1)
    other.push({"k": [1]}, position=1)
    engine.checkpoint()
    for view in ("old", "others"):
        engine.drop_view(view)
    engine.drop_source("other")
    rows.push({"k": [2]}, position=2)
    engine.checkpoint()
    outside = declared_then(None)[0]
    dropping = ec.Checkpoint(tmp_path, drop=("old", "others", "other"))
    for fork in (engine.fork(epoch=2), engine.fork(dropping, epoch=2), outside.fork(tmp_path, epoch=2)):
        assert fork.views["kept"].read().rows() == [(1, 1)]
        assert fork.positions == {"rows": 1}
        fork.push("rows", {"k": [1]})
        assert fork.views["kept"].read().rows() == [(1, 2)]
        assert fork.prove()
    assert outside.fork(tmp_path).views["kept"].read().height == 2
    engine.close()


def test_the_epoch_from_which_on_rows_differ_is_found_although_a_view_was_dropped_since(
    tmp_path: Path,
) -> None:
    added = [0]
    with ec.Engine(checkpoint=tmp_path) as engine:
        rows = engine.source("rows", {"k": pl.Int64}, retained=True)
        view = engine.view("v", rows.map_batches(lambda frame: frame.with_columns(pl.col("k") + added[0])))
        engine.view("old", rows.unique())
        for added[0] in (0, 100, 0):
            rows.push({"k": [1]})
            engine.checkpoint()
        engine.drop_view("old")
        assert view.prove().differences["_epoch"].to_list() == [2, 2]


def test_a_commit_of_other_declarations_is_forked_by_an_engine_that_has_them(tmp_path: Path) -> None:
    engine, rows = declared_then(tmp_path)
    rows.push({"k": [1]})
    engine.checkpoint()
    engine.view("kept", rows.unique(), replace=True)
    remedy = r"make an engine that declares what was declared then, .*fork\(checkpoint, epoch=...\)"
    for where in (None, ec.Checkpoint(tmp_path, drop=("kept",))):
        with pytest.raises(ec.CheckpointError, match=f"'kept' is not in the commit of epoch 1 .*; {remedy}"):
            engine.fork(where, epoch=1)
    assert declared_then(None)[0].fork(tmp_path, epoch=1).views["kept"].read().rows() == [(1, 1)]
    another = ec.Engine()
    another.view(
        "kept", another.source("rows", {"k": pl.Int64}, kind="diffs", retained=True).group_by("k").len()
    )
    with pytest.raises(ec.CheckpointError, match=f"source 'rows' is declared in another way .*; {remedy}"):
        another.fork(tmp_path, epoch=1)
    engine.close()


def test_forks_are_made_while_others_push() -> None:
    engine, ended = started(), threading.Event()

    def pushing() -> None:
        while not ended.is_set():
            engine.push("sales", {"shop": ["north", "west"], "price": [1, 2]})

    thread = threading.Thread(target=pushing)
    thread.start()
    for _ in range(30):
        fork = engine.fork()
        pushes = fork.epoch_number - 1
        assert dict(fork.views["totals"].read().rows()).get("north") == 3 + pushes
        fork.push("sales", {"shop": ["north"], "price": [100]})
        assert dict(fork.views["totals"].read().rows())["north"] == 103 + pushes
    ended.set()
    thread.join()
    north = dict(engine.views["totals"].read().rows())["north"]
    assert north == 3 + engine.epoch_number - 1
