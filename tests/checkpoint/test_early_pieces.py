"""Large pieces are written before the commit that names them, and those that no commit will name are deleted."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import evercurrent as ec
from commit_cadence import commits_put_off
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import CommitLog, early
from evercurrent.views.durability import durability, input_log
from evercurrent.views.store import Item, Listed, LocalStore
from evercurrent.views.store.syncing import OneThread

KEYS = 300


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All runs are written early, the threads that do so are listed, and an epoch is committed only where a test commits it."""
    monkeypatch.setattr(early, "EARLY", 1)
    monkeypatch.setattr(early, "OneThread", Thread)
    with commits_put_off():
        yield
    Thread.all.clear()


class Thread(OneThread):
    """A thread that writes pieces; all of them are known."""

    all: ClassVar[list[Thread]] = []

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.all.append(self)


class Watched(LocalStore):
    """A store whose puts are noted, and wait or fail as a test sets it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.put_names: list[str] = []
        self.may_put = threading.Event()
        self.may_put.set()
        self.fails = False

    def put_all(self, items: Sequence[Item]) -> None:
        """Note where it is called, too."""
        if threading.current_thread() is not threading.main_thread():
            assert self.may_put.wait(60)
            if self.fails:
                raise CheckpointError("this disk is broken")
            self.put_names += [name for name, _ in items]
        super().put_all(items)
        for name, _ in items:
            os.utime(f"{self.url}/{name}", (0, 0))  # Old enough for every sweep.

    def list(self, prefix: str = "") -> list[Listed]:
        """Return all files when the threads that write and delete some have done so."""
        self.wait_for_threads()
        return super().list(prefix)

    @staticmethod
    def wait_for_threads() -> None:
        """Wait until all that was begun is written or deleted."""
        for thread in Thread.all:
            if thread._pool is not None:
                thread.begin(lambda: None).result()

    def pieces(self) -> set[str]:
        """Return the files of pieces."""
        return {each.name for each in self.list("pieces/")}


def opened(store: LocalStore, **options: Any) -> ec.Engine:
    """Return an engine of which each key is one entry."""
    engine = ec.Engine(checkpoint=ec.Checkpoint(store, **options))
    rows = engine.source("rows", {"key": pl.Int64, "value": pl.Int64})
    engine.view("sums", rows.group_by("key").agg(n=pl.len(), total=pl.col("value").sum()))
    return engine


def push(engine: ec.Engine, epoch: int) -> None:
    """Push some keys."""
    keys = [epoch * 7 % KEYS, *range(epoch % 5 * 60, epoch % 5 * 60 + 60)]
    engine.push("rows", {"key": keys, "value": [epoch] * len(keys)})


def expected(epochs: int) -> list[tuple[int, int, int]]:
    """Return the view after so many epochs."""
    sums: dict[int, tuple[int, int]] = {}
    for epoch in range(epochs):
        for key in (epoch * 7 % KEYS, *range(epoch % 5 * 60, epoch % 5 * 60 + 60)):
            n, total = sums.get(key, (0, 0))
            sums[key] = n + 1, total + epoch
    return sorted((key, *of_key) for key, of_key in sums.items())


def contents(engine: ec.Engine) -> list[tuple[int, int, int]]:
    return sorted(engine.views["sums"].read().rows())


def require_reopened(path: Path, epochs: int) -> None:
    """Check that the checkpoint opens with the view after so many epochs."""
    with opened(LocalStore(path)) as engine:
        assert contents(engine) == expected(epochs)


def named(store: LocalStore) -> set[str]:
    """Return the files that the last commit names."""
    last = CommitLog(store).last
    assert last is not None
    return {ref.file for record in last.states.values() for ref in record.pieces}


def threads() -> list[threading.Thread]:
    """Return the threads that write pieces."""
    return [each for each in threading.enumerate() if each.name.startswith("evercurrent-pieces")]


def test_a_commit_names_files_that_were_written_before(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    with opened(store) as engine:
        for epoch in range(30):
            push(engine, epoch)
        engine.checkpoint()
        assert named(store) & set(store.put_names)
        assert contents(engine) == expected(30)
    require_reopened(tmp_path, 30)


def test_what_no_commit_will_name_is_deleted(tmp_path: Path) -> None:
    """Runs are merged while they wait for a commit: their files go, and are not left until a sweep."""
    store = Watched(tmp_path)
    with opened(store) as engine:
        for epoch in range(60):
            push(engine, epoch)
            store.wait_for_threads()  # A run that is merged before its turn comes is not written.
        assert len(store.put_names) > 30
        assert len(store.pieces()) < 10
        engine.checkpoint()
        assert contents(engine) == expected(60)


def test_an_engine_that_is_closed_leaves_no_file_that_no_commit_names(tmp_path: Path) -> None:
    """Also where it is closed while one is being written that was merged since; what is not begun then is not written."""
    store = Watched(tmp_path)
    with opened(store) as engine:
        store.may_put.clear()
        for epoch in range(60):
            push(engine, epoch)
        threading.Timer(0.2, store.may_put.set).start()
    assert 0 < len(store.put_names) < 30
    assert {name for name in store.pieces() if name in store.put_names} <= named(store)


def test_a_commit_waits_for_a_file_that_is_being_written(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    with opened(store) as engine:
        push(engine, 0)
        engine.checkpoint()
        store.may_put.clear()
        push(engine, 1)
        committing = threading.Thread(target=engine.checkpoint)
        committing.start()
        committing.join(0.1)
        assert committing.is_alive()
        store.may_put.set()
        committing.join(60)
        assert named(store) <= store.pieces()
    require_reopened(tmp_path, 2)


def test_a_commit_does_not_wait_for_the_store_of_another_engine(tmp_path: Path) -> None:
    slow, other = Watched(tmp_path / "slow"), Watched(tmp_path / "other")
    with opened(slow) as waiting:
        slow.may_put.clear()
        release = threading.Timer(60, slow.may_put.set)
        release.start()
        with opened(other) as engine:
            for epoch in range(9):
                push(engine, epoch)
                push(waiting, epoch)
            engine.checkpoint()
            assert named(LocalStore(other.url)) & set(other.put_names)
        assert not slow.may_put.is_set()
        slow.may_put.set()
        release.cancel()


def test_the_thread_ends_when_the_engine_is_closed(tmp_path: Path) -> None:
    before = threads()
    with opened(Watched(tmp_path)) as engine:
        push(engine, 0)
        (thread,) = set(threads()).difference(before)
    thread.join(60)
    assert not thread.is_alive()


def test_a_commit_that_is_due_is_put_off_while_its_pieces_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as much input may wait in the log then, and no more."""
    store = Watched(tmp_path)
    with opened(store) as engine:
        push(engine, 0)
        engine.checkpoint()
        store.may_put.clear()
        push(engine, 1)
        monkeypatch.setattr(input_log, "FULL", 4096)
        commits = len(CommitLog(LocalStore(tmp_path)).epochs())
        push(engine, 2)
        push(engine, 3)
        assert len(CommitLog(LocalStore(tmp_path)).epochs()) == commits
        releasing = threading.Timer(0.2, store.may_put.set)
        releasing.start()
        for epoch in range(4, 20):
            push(engine, epoch)
        assert len(CommitLog(LocalStore(tmp_path)).epochs()) > commits
        assert contents(engine) == expected(20)


def test_a_file_that_cannot_be_written_early_is_written_with_the_commit(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    with opened(store) as engine:
        store.fails = True
        for epoch in range(10):
            push(engine, epoch)
        engine.checkpoint()
        assert not store.put_names
    require_reopened(tmp_path, 10)


def test_a_sweep_leaves_files_that_the_next_commit_will_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Watched(tmp_path)
    monkeypatch.setattr(durability, "SWEEP_EVERY", 1)
    with opened(store, keep=1, grace="0s") as engine:
        for epoch in range(9):
            push(engine, epoch)
            engine.checkpoint()
            assert named(store) <= store.pieces()
    with opened(LocalStore(tmp_path)) as engine:
        assert contents(engine) == expected(9)


def test_an_engine_that_is_dropped_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    engine = opened(store)
    for epoch in range(9):
        push(engine, epoch)
    del engine
    with opened(LocalStore(tmp_path)) as engine:
        assert contents(engine) == expected(9)
        push(engine, 9)
    require_reopened(tmp_path, 10)


def test_an_engine_that_is_dropped_writes_no_further_pieces(tmp_path: Path) -> None:
    """None that waits for the thread is written, since no commit would name it."""
    store, before = Watched(tmp_path), threads()
    engine = opened(store)
    push(engine, 0)
    engine.checkpoint()
    store.put_names.clear()
    store.may_put.clear()
    for epoch in range(1, 9):
        push(engine, epoch)
    (thread,) = set(threads()).difference(before)
    del engine
    gc.collect()
    store.may_put.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(store.put_names) == 1, "the one that was begun"


def test_an_epoch_is_done_where_no_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pieces are written by the thread that pushes, once."""
    store, start = Watched(tmp_path), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("evercurrent-pieces"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with opened(store) as engine:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for epoch in range(9):
            push(engine, epoch)
        monkeypatch.setattr(threading.Thread, "start", start)
        for epoch in range(9, 20):
            push(engine, epoch)
        engine.checkpoint()
        assert contents(engine) == expected(20)
    with opened(LocalStore(tmp_path)) as engine:
        assert contents(engine) == expected(20)
