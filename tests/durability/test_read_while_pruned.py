"""Reading a checkpoint whose writer deletes old commits at the same time: what is there is read, and what is gone is named."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from evercurrent import spark_bridge
from evercurrent.core.data.errors import CheckpointError, MissingFileError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.beside_writer import TRIES, read_beside_writer
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.cli import app
from evercurrent.views.store import LocalStore
from evercurrent.views.store.protocol import FileBytes

EPOCHS = 60


def declared(**options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    engine.view("sums", rows.group_by("k").agg(n=pl.len(), total=pl.col("v").sum()))
    engine.view("middles", rows.group_by("k").agg(middle=pl.col("v").median()))
    return engine


def push(engine: ec.Engine, number: int) -> None:
    engine.push("rows", {"k": [number % 5], "v": [number]})
    engine.checkpoint()


class Pruned(LocalStore):
    """A store whose writer commits, and deletes all but the last commit, before some of the reads of others."""

    def __init__(self, path: Path, prune: Callable[[], None]) -> None:
        super().__init__(path)
        self.prune = prune
        self.left = 0

    def read(self, name: str) -> FileBytes:
        if self.left and name.startswith(("pieces/", "deltas/", "commits/")):
            self.left -= 1
            self.prune()
        return super().read(name)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[ec.Engine]:
    engine = declared(checkpoint=ec.Checkpoint(tmp_path, keep=1, grace="0s"))
    push(engine, 0)
    yield engine
    engine.close()


@pytest.fixture
def store(writer: ec.Engine, tmp_path: Path) -> Pruned:
    def prune() -> None:
        push(writer, writer.epoch_number)
        CommitLog(LocalStore(tmp_path)).sweep(1, 0)

    return Pruned(tmp_path, prune)


READS: dict[str, Callable[[Pruned, ec.Engine], Any]] = {
    "contents": lambda store, _: spark_bridge.views(declared(), store)["sums"].read(),
    "contents with other states": lambda store, _: spark_bridge.views(declared(), store)["middles"].read(),
    "a fork": lambda store, _: declared().fork(ec.Checkpoint(store)).views["sums"].read(),  # type: ignore[arg-type]
    "verify": lambda store, _: verify(store).faults,
    "an epoch": lambda store, writer: spark_bridge.views(declared(), store)["sums"].read(
        epoch=writer.epoch_number
    ),
    "deltas": lambda store, writer: list(
        spark_bridge.views(declared(), store)["sums"].deltas(since=writer.epoch_number - 1)
    ),
}


@pytest.mark.parametrize("pruned", [1, 2, 3, 5])
@pytest.mark.parametrize("name", READS)
def test_a_read_begins_again(name: str, pruned: int, store: Pruned, writer: ec.Engine) -> None:
    for number in range(1, 12):
        push(writer, number)
    store.left = pruned
    gone = ("nearest are", "no longer retained") if name in ("an epoch", "deltas") else ()
    result, refusal = None, ""
    try:
        result = READS[name](store, writer)
    except ec.EpochGoneError as error:
        refusal = str(error)
    assert not refusal or any(words in refusal for words in gone), refusal
    if name == "verify":
        assert result == ()
    elif name not in ("an epoch", "deltas"):
        last = writer.views["middles" if "other" in name else "sums"].read()
        assert sorted(result.rows()) == sorted(last.rows()) or store.left == 0


def test_the_error_of_a_reader_that_is_always_too_slow_names_what_to_change(store: Pruned) -> None:
    store.left = 10_000
    with pytest.raises(
        ec.EpochGoneError, match=rf"deleted what was being read {TRIES} times; retain more commits"
    ):
        read_beside_writer(store, lambda: _swept(store))


def _swept(store: Pruned) -> None:
    """A read that begins with the last commit, and meets another one."""
    commit = CommitLog(LocalStore(Path(store.url))).last
    assert commit is not None
    store.prune()
    raise MissingFileError(f"{store.url}: a file of epoch {commit.epoch} is missing")


def test_damage_is_not_taken_for_a_writer(writer: ec.Engine, tmp_path: Path) -> None:
    for number in range(1, 5):
        push(writer, number)
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    for file in (copy / "pieces").iterdir():
        file.unlink()
    with pytest.raises(MissingFileError, match="is missing"):
        spark_bridge.views(declared(), copy)["sums"].read()
    with pytest.raises(MissingFileError, match="is missing"):
        declared().fork(copy)
    assert verify(LocalStore(copy)).faults


def test_readers_in_threads_beside_a_writer_that_prunes_all_the_time(
    writer: ec.Engine, tmp_path: Path
) -> None:
    done = threading.Event()
    turn = threading.Lock()
    """As the lock of a checkpoint does for processes: files of an epoch that is not committed yet are named by no commit."""
    errors: list[Exception] = []

    def prune() -> None:
        while not done.is_set():
            # Of its own: there is one that prunes too in the engine.
            with turn, suppress(MissingFileError):
                CommitLog(LocalStore(tmp_path)).sweep(1, 0)
            done.wait(0.002)

    def read() -> None:
        views = spark_bridge.views(declared(), tmp_path)
        while not done.is_set():
            try:
                assert views["sums"].read()["n"].sum() > 0
                assert declared().fork(tmp_path).views["middles"].read().height > 0
                result = CliRunner().invoke(app, ["checkpoint", "ls", str(tmp_path)])
                assert result.exit_code == 0, result.output
            except (AssertionError, CheckpointError, ec.EpochGoneError) as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=each) for each in (prune, read)]
    for thread in threads:
        thread.start()
    for number in range(1, EPOCHS):
        with turn:
            push(writer, number)
    done.set()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_log_that_cannot_be_read_to_its_end_is_read_again(writer: ec.Engine, tmp_path: Path) -> None:
    class Failing(LocalStore):
        fails_at = -1

        def read(self, name: str) -> FileBytes:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise CheckpointError("the store is away")
            return super().read(name)

    store = Failing(tmp_path)
    log = CommitLog(store)
    assert log.last is not None
    for number in range(1, 6):
        push(writer, number)
    for fails_at in (2, 3, 4):
        store.fails_at = fails_at
        with pytest.raises(CheckpointError, match="away"):
            log.refresh()
    store.fails_at = -1
    last = log.refresh()
    assert last is not None
    assert last.epoch == writer.epoch_number
    assert log.epochs() == sorted(set(log.epochs())) == CommitLog(LocalStore(tmp_path)).epochs()


def test_a_reader_of_a_view_that_its_writer_drops(writer: ec.Engine, tmp_path: Path) -> None:
    views = spark_bridge.views(declared(), tmp_path)
    assert views["sums"].read().height == 1
    writer.drop_view("sums")
    push(writer, 1)
    with pytest.raises(
        CheckpointError, match=r"view 'sums' is no longer in the checkpoint .*, its writer has dropped it"
    ):
        views["sums"].read()
