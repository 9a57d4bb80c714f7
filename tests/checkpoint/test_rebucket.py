"""Cut into buckets and put together again, a checkpoint goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from checkpoint.commits_made import a_commit
from checkpoint.memory_store import MemoryStore
from commit_cadence import each_epoch_committed
from durability.every_operator import EVERY_OPERATOR
from durability.timed import Timed
from eventtime.pipelines import Both, Run, runs
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.partitioning import Route, bucket_of
from evercurrent.views.checkpoint import Commit, CommitLog, Pieces, StateRecord
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore
from oracle import TooLargeError
from strategies import Case, cases, of_profile

Start = Callable[..., Any]


def seen(running: Any, since: int) -> dict[str, Any]:
    """Return the deltas of every view since an epoch, and what the views and the ledger hold."""
    engine = running.engine
    # In which order rows of a delta stand depends on how many runs there are.
    deltas = {
        name: [sorted(map(repr, delta.drop("_epoch").rows())) for delta in view.deltas(since)]
        for name, view in engine.views.items()
    }
    held = {name: sorted(map(repr, view.read().rows())) for name, view in engine.views.items()}
    refused = engine.ledger().drop("epoch", strict=False).drop("_epoch", strict=False).rows()
    return {"deltas": deltas, "held": held, "refused": refused, "watermarks": engine.watermarks}


def check(
    start: Start, epochs: Sequence[Any], path: Path, buckets: Sequence[int], between: Any = None
) -> None:
    """One engine runs through; of another the checkpoint is cut again and again between any two epochs."""
    steady, store = start(), LocalStore(path)
    for epoch in epochs:
        before = steady.engine.epoch_number
        steady.push(epoch)
        cut = start(checkpoint=ec.Checkpoint(path))
        with cut.engine:
            before_cut = cut.engine.epoch_number
            cut.push(epoch)
            assert seen(cut, before_cut) == seen(steady, before)
        (between or cut_and_back)(store, buckets)


def cut_and_back(store: Store, buckets: Sequence[int]) -> None:
    for number in (*buckets, 1):
        require_cut(store, rebucket(store, number))


def require_cut(store: Store, commit: Commit) -> None:
    """Check that every entry is in the bucket that its route gives."""
    pieces = Pieces(store)
    assert CommitLog(store).last == commit
    for name, record in commit.states.items():
        bucket = int(name.rpartition("/")[2])
        route = Route("one") if record.route is None else Route.from_json(record.route)
        if route.kind == "cells":
            continue  # Of whole entries only; those that were not cut are not.
        for ref in record.pieces:
            with hashing_by(pieces.key_hash):
                found = bucket_of(route.words(pieces.read(ref)), commit.buckets)
            assert found.tolist() == [bucket] * ref.rows, name


def positioned(case: Case, **options: Any) -> Any:
    """A case whose processing times do not depend on numbers of epochs."""
    running = Timed(case, **options)
    count = iter(range(1_000_000))
    push = running.push
    running.push = lambda epoch: push(epoch, next(count))  # type: ignore[method-assign]
    return running


@pytest.mark.parametrize("buckets", [(3, 64), (1000, 7)])
def test_every_operator(buckets: Sequence[int], tmp_path: Path) -> None:
    """A161: a checkpoint moves between one process and many buckets."""
    check(lambda **o: positioned(EVERY_OPERATOR, **o), EVERY_OPERATOR.epochs, tmp_path, buckets)


@of_profile(0.06)
@given(case=cases(max_lines=3, max_epochs=3), buckets=st.lists(st.integers(1, 9), min_size=1, max_size=2))
def test_any_program(case: Case, buckets: list[int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    with TemporaryDirectory() as folder:
        check(lambda **o: positioned(case, **o), case.epochs, Path(folder), buckets)


@of_profile(0.1)
@given(run=runs(max_epochs=4), buckets=st.lists(st.integers(1, 9), min_size=1, max_size=2))
def test_any_pipeline_of_windows(run: Run, buckets: list[int]) -> None:
    with TemporaryDirectory() as folder:
        check(lambda **o: Both(run, **o), run.epochs, Path(folder), buckets)


@each_epoch_committed()
def a_checkpoint(path: Path) -> LocalStore:
    running = Timed(EVERY_OPERATOR, checkpoint=ec.Checkpoint(path))
    with running.engine:
        running.push_all()
    return LocalStore(path)


def test_what_is_not_rows_stays(tmp_path: Path) -> None:
    store = a_checkpoint(tmp_path)
    last = CommitLog(store).last
    assert last is not None
    commit = rebucket(store, 4)
    assert commit.epoch == last.epoch + 1
    assert (commit.positions, commit.readers, commit.facts, commit.plan) == (
        last.positions, last.readers, last.facts, last.plan,
    )  # fmt: skip
    assert commit.epochs == ((commit.epoch, *last.epochs[-1][1:]),)
    assert commit.deltas == {}
    assert CommitLog(store).at(last.epoch) == last
    assert rebucket(store, 4) == commit
    assert verify(store).faults == ()


def test_a_watermark_that_is_held_back_is_so_in_every_bucket() -> None:
    store = MemoryStore()
    held = {
        f"h:0/{n}": StateRecord((), {"committed": 5, "held_at": 10 - n}, {"kind": "one"}) for n in range(2)
    }
    CommitLog(store).append(a_commit(3, states=held, buckets=2))
    states = rebucket(store, 3).states
    assert {name: record.facts for name, record in states.items()} == {
        f"h:0/{n}": {"committed": 5, "held_at": 9} for n in range(3)
    }


def test_a_state_that_does_not_record_its_buckets_is_refused_by_name(tmp_path: Path) -> None:
    store = a_checkpoint(tmp_path)
    log = CommitLog(store)
    assert log.last is not None
    name, record = next((n, r) for n, r in log.last.states.items() if r.pieces)
    commit = replace(
        log.last, epoch=log.last.epoch + 1, states={**log.last.states, name: replace(record, route=None)}
    )
    log.append(commit)
    with pytest.raises(CheckpointError, match=f"state '{name[:-2]}' does not record to which bucket"):
        rebucket(store, 2)
    assert CommitLog(store).last == commit


def test_there_must_be_something_to_cut_and_a_number_that_can_be() -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint, or one without a commit"):
        rebucket(MemoryStore(), 2)
    for number in (0, -1, 65537):
        with pytest.raises(CheckpointError, match=r"give a number from 1 to 65,536"):
            rebucket(MemoryStore(), number)


@pytest.mark.parametrize(
    "work", [lambda store: rebucket(store, 3), lambda store: compact(store, keep=1, grace=0)]
)
@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_whatever_fails_the_checkpoint_is_as_before_or_as_after(work: Any, when: Any) -> None:
    original = MemoryStore()
    with TemporaryDirectory() as folder:
        for each in (local := a_checkpoint(Path(folder))).list():
            original.put(each.name, [local.read(each.name)])
    last = CommitLog(original).last
    assert last is not None
    for at in range(0, 1000, 3):
        store = MemoryStore()
        store.files = dict(original.files)
        failing = FailingStore(store, at, when)
        try:
            work(failing)
        except CheckpointError:
            found = CommitLog(store).last
            assert found == last or (found is not None and found.epoch == last.epoch + 1)
            work(store)
        assert verify(store).faults == ()
        if not failing.has_failed:
            assert at > 4
            return


# Compacting


def test_compacted_checkpoints_go_on(tmp_path: Path) -> None:
    def between(store: Store, _: Any) -> None:
        before = {each.name: each.size for each in store.list()}
        commit, swept = compact(store, keep=1, grace=0)
        assert CommitLog(store).epochs() == [commit.epoch]
        after = {each.name: each.size for each in store.list()}
        assert swept.files == len([name for name in before.keys() - after if not name.startswith("commits/")])
        needed = sum(ref.size for ref in {ref for record in commit.states.values() for ref in record.pieces})
        assert (
            sum(size for name, size in after.items() if name.startswith("pieces/")) <= 2 * needed + 64 * 100
        )
        assert verify(store).faults == ()

    check(lambda **o: positioned(EVERY_OPERATOR, **o), EVERY_OPERATOR.epochs, tmp_path, (), between)


def test_deltas_that_a_reader_has_yet_to_receive_are_not_deleted(tmp_path: Path) -> None:
    store = a_checkpoint(tmp_path)
    log = CommitLog(store)
    assert log.last is not None
    log.append(replace(log.last, epoch=log.last.epoch + 1, readers={"sink": log.last.epoch - 2, "ahead": 99}))
    with pytest.raises(
        CheckpointError, match=r"reader 'sink' has received deltas up to epoch 3, .* keep 4 commits or more"
    ):
        compact(store, keep=3, grace=0)
    compact(store, keep=4, grace=0)
    assert min(ref.epoch for ref in CommitLog(store).deltas("v1", 3)) == 4
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        compact(MemoryStore(), keep=1, grace=0)


# Verifying


def test_every_fault_is_named() -> None:
    store = MemoryStore()
    with TemporaryDirectory() as folder:
        for each in (local := a_checkpoint(Path(folder))).list():
            store.put(each.name, [local.read(each.name)])
    found = verify(store)
    assert found.faults == ()
    assert found.commits == 6
    original = dict(store.files)
    log = CommitLog(store)
    needed = {
        ref.file
        for epoch in log.epochs()
        for record in log.at(epoch).states.values()
        for ref in record.pieces
    }
    needed |= {ref.piece.file for view in EVERY_OPERATOR.program.views for ref in log.deltas(view, -1)}
    assert needed == {name for name in original if name.startswith(("pieces/", "deltas/"))}
    damaged = [*sorted(needed)[::3], "checkpoint.json", "commits/000000000002.json"]
    for name in damaged:
        size = len(original[name][0])
        damages: list[Callable[[str], None]] = [
            lambda name: store.delete(name),
            lambda name, size=size: store.replace(name, original[name][0][: size // 2]),  # type: ignore[misc]
            lambda name: store.flip(name, 20),
        ]
        for damage in damages:
            damage(name)
            try:
                faults = verify(store).faults
            except CheckpointError as error:
                assert name == "checkpoint.json" in str(error)  # noqa: PT017
            else:
                assert name in {fault.file for fault in faults}
            store.files = dict(original)


def test_words_are_random_enough_for_this() -> None:
    """What the tests above rest on: that buckets differ."""
    words = np.random.default_rng(1).integers(0, 2**63, 100, dtype=np.int64).astype(np.uint64) * np.uint64(2)
    assert len(set(bucket_of(words, 8).tolist())) == 8
