"""A disk without room, or one that is read-only for a while: pushes are refused, and the same engine goes on afterwards."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.test_store_faults import SMALL, started
from evercurrent.views.store import LocalStore
from failing_store import FailingStore


class Disk:
    """What the system does on a disk on which nothing can be written, or only over what is there."""

    def __init__(self, error: int, *, may_overwrite: bool) -> None:
        self._error, self._may_overwrite = error, may_overwrite

    def refusing(self, call: Any, sizes: bool = False) -> Any:
        def work(descriptor: int, data: Any, *at: int) -> Any:
            nbytes = sum(memoryview(each).nbytes for each in data) if sizes else memoryview(data).nbytes
            is_there = at and at[0] + nbytes <= os.fstat(descriptor).st_size
            if not (self._may_overwrite and is_there):
                raise OSError(self._error, os.strerror(self._error))
            return call(descriptor, data, *at)

        return work

    def fail(self, *_: Any) -> Any:
        raise OSError(self._error, os.strerror(self._error))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", self.refusing(os.write))
            patch.setattr(os, "pwrite", self.refusing(os.pwrite))
            patch.setattr(os, "pwritev", self.refusing(os.pwritev, sizes=True))
            if not self._may_overwrite:
                patch.setattr(os, "ftruncate", self.fail)
            yield


DISKS = {
    "full": (Disk(errno.ENOSPC, may_overwrite=True), "there is no room on the disk"),
    "full, and copies what is overwritten": (Disk(errno.ENOSPC, may_overwrite=False), "there is no room"),
    "read-only": (Disk(errno.EROFS, may_overwrite=False), "the file system is read-only"),
}


def counting(path: Path, every: int) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(checkpoint=ec.Checkpoint(path, every=every))
    rows = engine.source("rows", {"k": pl.Int64})
    return engine, engine.view("counts", rows.group_by("k").agg(n=pl.len()))


def _refusal(work: Callable[[], object]) -> str:
    try:
        work()
    except ec.CheckpointError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("name", DISKS)
def test_the_same_engine_goes_on_when_there_is_room(name: str, every: int, tmp_path: Path) -> None:
    """Each refusal is one sentence with the path, and what was acknowledged is there again when it is opened."""
    disk, why = DISKS[name]
    engine, counts = counting(tmp_path / "kept", every)
    for _ in range(6):
        engine.push("rows", [(1,), (2,)])
        with disk.at_work():
            refusals = [_refusal(lambda: engine.push("rows", [(1,)])) for _ in range(4)]
            refusals.append(_refusal(engine.checkpoint))
        assert any(refusals[:4])
        for refusal in filter(None, refusals):
            assert refusal.startswith(str(tmp_path / "kept"))
            assert why in refusal
    engine.push("rows", [(2,)])
    rows, epoch = sorted(counts.read().rows()), engine.epoch_number
    engine.close()
    again, counts = counting(tmp_path / "kept", every)
    with again:
        assert sorted(counts.read().rows()) == rows
        assert again.epoch_number == epoch


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_was_unknown_is_found_out_before_the_next_push(is_committed: bool, tmp_path: Path) -> None:
    """It is not taken twice if its record is there, and is refused, with the way out, if this engine is behind."""
    store = FailingStore(LocalStore(tmp_path))
    running = started(SMALL, store)
    running.push(SMALL.epochs[0], 1)
    done = len(store.done)
    running.push(SMALL.epochs[1], 2)
    record = next(
        n for n, each in enumerate(store.done[done:]) if each == ("put", "commits/000000000002.json")
    )
    store.fail_at, store.when, store.lasting = (
        len(store.done) + record,
        "after" if is_committed else "before",
        True,
    )
    for _ in range(2):
        with pytest.raises(
            ec.CheckpointError, match=r"unknown whether epoch 3 was committed: .*then push again"
        ):
            running.push(SMALL.epochs[2], 3)
    store.lasting = False
    if is_committed:
        for _ in range(2):
            with pytest.raises(ec.CheckpointError, match="is committed; make a new engine"):
                running.push(SMALL.epochs[2], 3)
    else:
        running.push(SMALL.epochs[2], 3)
    running.engine.close()
    with started(SMALL, FailingStore(LocalStore(tmp_path))).engine as engine:
        assert engine.epoch_number == 3


@pytest.mark.parametrize("every", [1, 3])
def test_a_checkpoint_that_is_moved_away_and_put_back(every: int, tmp_path: Path) -> None:
    """Commits and pushes are refused meanwhile, closing does not hide it, and what was acknowledged is in the folder that was moved."""
    engine, _ = counting(tmp_path / "kept", every)
    for _ in range(3):
        engine.push("rows", [(1,)])
    engine.checkpoint()
    engine.push("rows", [(2,)])
    (tmp_path / "kept").rename(tmp_path / "away")
    push = partial(
        engine.push, "rows", [(9,)]
    )  # With every=1 its input is durable at once, and else it waits for a commit.
    for work in (engine.checkpoint, engine.checkpoint, *[push] * (every == 1)):
        assert "kept: the folder was deleted or moved while it was in use; put it back" in _refusal(work)
    (tmp_path / "away").rename(tmp_path / "kept")
    engine.push("rows", [(3,)])
    engine.checkpoint()
    engine.push("rows", [(4,)])
    (tmp_path / "kept").rename(tmp_path / "away")
    assert "deleted or moved while it was in use" in _refusal(engine.checkpoint)
    with pytest.raises(ec.CheckpointError, match="deleted or moved while it was in use"):
        engine.close()
    again, counts = counting(tmp_path / "away", every)
    with again:
        rows = sorted(counts.read().rows())
        assert rows[:3] == [(1, 3), (2, 1), (3, 1)]
        assert rows[3:] == [(4, 1)] * (every == 1)
        assert again.epoch_number == (6 if every == 1 else 5)


def test_epochs_that_nothing_has_are_not_lost_silently_at_the_end(tmp_path: Path) -> None:
    probe, store = (FailingStore(LocalStore(tmp_path / name)) for name in ("probe", "kept"))
    for each in (probe, store):
        running = started(SMALL, each, every=2)
        running.push(SMALL.epochs[0], 1)
        if each is probe:
            running.push(SMALL.epochs[1], 2)
            running.engine.close()
            store.fail_at = each.done.index(("put", "commits/000000000001.json"))
            store.lasting = True
    with pytest.raises(ec.CheckpointError, match="unknown whether epoch 2"):
        running.push(SMALL.epochs[1], 2)
    with pytest.raises(ec.CheckpointError, match="unknown whether epoch 2"):
        running.engine.close()
