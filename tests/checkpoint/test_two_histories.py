"""A folder with records of two histories: no state, and no deltas, are read of it that neither of them had."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from checkpoint.commits_made import History, a_commit, without_before_crc
from checkpoint.memory_store import MemoryStore
from commit_cadence import commits_put_off
from durability.test_options import crash
from evercurrent.core.data.errors import CheckpointError, CorruptFileError
from evercurrent.views.checkpoint import Commit, CommitLog, DeltaRef, record_packs
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.record_files import checksum_of
from evercurrent.views.checkpoint.records import BEFORE_CRC
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.durability import input_log
from evercurrent.views.store import LocalStore

TWO = "two histories, of epochs up to"

SEEDS = st.integers(0, 2**32)


class Branch:
    """A checkpoint in memory that goes on from a copy of another one."""

    def __init__(
        self, earlier: Branch | None, commits: int, seed: int, *, full_every: int, skips: bool
    ) -> None:
        self.store = MemoryStore()
        self.history = History(seed, skips=skips)
        if earlier is not None:
            self.store.files, self.history = dict(earlier.store.files), deepcopy(earlier.history)
            self.history.random = random.Random(seed)
        log = CommitLog(self.store, full_every=full_every)
        for _ in range(commits):
            log.append(self.history.go_on())

    def at(self, epoch: int) -> Commit | None:
        return next((each for each in self.history.commits if each.epoch == epoch), None)

    def deltas(self, since: int, until: int = 10**9) -> list[DeltaRef]:
        refs = (ref for commit in self.history.commits for ref in commit.deltas.get("v", ()))
        return [ref for ref in refs if since < ref.epoch <= until]


@contextmanager
def refused_unless(whole: bool, reason: str = "") -> Iterator[None]:
    """What is read may be refused if the records are of two histories, or for this reason."""
    refusal = ""
    try:
        yield
    except CheckpointError as error:
        refusal = str(error)
    assert not refusal or not whole or (reason and reason in refusal), refusal


def is_whole(store: MemoryStore) -> bool:
    """Whether each record goes on from the one before it."""
    records = [content for name, (content, _) in sorted(store.files.items()) if name.startswith("commits/")]
    bodies = [json.loads(each)["body"] for each in records]
    return all(
        body[BEFORE_CRC] == checksum_of(before) for body, before in zip(bodies[1:], records, strict=False)
    )


@given(
    SEEDS, st.integers(1, 6), st.integers(1, 8), st.integers(1, 8), st.sampled_from([2, 3, 64]), st.booleans()
)
def test_a_state_is_that_of_one_history_or_refused(
    seed: int, shared: int, one: int, other: int, full_every: int, skips: bool
) -> None:
    earlier = Branch(None, shared, seed, full_every=full_every, skips=skips)
    left = Branch(earlier, one, seed + 1, full_every=full_every, skips=skips)
    right = Branch(earlier, other, seed + 2, full_every=full_every, skips=skips)
    reader = CommitLog(left.store)
    assert reader.last is not None
    draw = random.Random(seed)
    share = draw.choice([0.3, 0.7, 1])
    left.store.files |= {name: file for name, file in right.store.files.items() if draw.random() < share}
    left.store.note = None
    assert any(fault.file.startswith("commits/") for fault in verify(left.store).faults) != is_whole(
        left.store
    )
    with refused_unless(is_whole(left.store), "the checkpoint was replaced"):
        assert reader.refresh() in (*left.history.commits, *right.history.commits)
    epochs, last = [], None
    with refused_unless(is_whole(left.store)):
        last = CommitLog(left.store).last
        assert last in (*left.history.commits, *right.history.commits)
        epochs = CommitLog(left.store).epochs()
    for epoch in epochs:
        branches = [left, right]
        with refused_unless(is_whole(left.store)):
            commit = CommitLog(left.store).at(epoch)
            branches = [branch for branch in branches if branch.at(epoch) == commit]
            assert branches
        with refused_unless(is_whole(left.store)):
            refs = CommitLog(left.store).deltas("v", epoch)
            assert last is not None
            assert refs in [branch.deltas(epoch, last.epoch) for branch in branches]


def with_the_end_of(store: MemoryStore, other: MemoryStore, first: int) -> MemoryStore:
    """A store in which the records from this one on are those of another one."""
    mixed = MemoryStore()
    mixed.files = {name: file for name, file in store.files.items() if name < f"commits/{first:012d}"}
    mixed.files |= {name: file for name, file in other.files.items() if name >= f"commits/{first:012d}"}
    return mixed


def branches(shared: int, each: int, *, full_every: int) -> tuple[Branch, Branch]:
    earlier = Branch(None, shared, 1, full_every=full_every, skips=False)
    return tuple(Branch(earlier, each, seed, full_every=full_every, skips=False) for seed in (2, 3))  # type: ignore[return-value]


def test_the_error_has_the_file_its_meaning_and_the_way_out() -> None:
    one, other = branches(3, 5, full_every=64)
    store = with_the_end_of(one.store, other.store, 6)
    with pytest.raises(
        CorruptFileError,
        match=rf"^{store.url}: commits/000000000006.json goes on from another record of epoch 5 than the one that is there: the "
        "folder has records of two histories, of epochs up to 5 and of epochs from 6 on, .*; restore one copy of the checkpoint "
        "into an empty folder, or move this file and all later records away: then epoch 5 is the last$",
    ):
        assert CommitLog(store).last
    commits = [fault for fault in verify(store).faults if fault.file.startswith("commits/")]
    assert [fault.file for fault in commits] == ["commits/000000000006.json"]
    assert TWO in commits[0].what
    assert "empty folder" in commits[0].what
    for name in ("6", "7"):
        store.delete(f"commits/00000000000{name}.json")
    assert CommitLog(store).last == one.at(5)
    CommitLog(store).append(a_commit(6))
    assert CommitLog(store).last == a_commit(6)


@pytest.mark.parametrize("whole", [4, 5])
def test_deltas_do_not_go_on_in_another_history(whole: int) -> None:
    """Also where the first record of the other one is whole, from which states can be read."""
    one, other = branches(3, 5, full_every=whole)
    store = with_the_end_of(one.store, other.store, whole)
    log = CommitLog(store)
    assert log.last == other.at(7)
    assert log.at(2) == one.at(2) == other.at(2)
    for since in range(whole):
        with pytest.raises(CorruptFileError, match=TWO):
            log.deltas("v", since)
    assert log.deltas("v", whole) == other.deltas(whole)
    with pytest.raises(CorruptFileError, match=TWO):
        log.sweep(10, 0)
    assert log.sweep(1, 0).commits == whole
    assert verify(store).commits == 8 - whole


def test_packed_records_of_another_history() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_packs, "LEAST", 3)
        one, other = branches(4, 9, full_every=4)
        CommitLog(other.store).sweep(100, 0)
    packed = [name for name in other.store.files if name.endswith(".jsonl")]
    assert packed
    one.store.files |= {name: other.store.files[name] for name in packed}
    with pytest.raises(CorruptFileError, match=TWO):
        assert CommitLog(one.store).deltas("v", 0)
    with pytest.raises(CorruptFileError, match=TWO):
        assert CommitLog(one.store).sweep(100, 0)
    assert CommitLog(one.store).last == one.at(12), "its states are after a whole record of its own"
    assert any(TWO in fault.what for fault in verify(one.store).faults)


def test_a_reader_and_a_writer_of_a_checkpoint_that_is_replaced_by_another_copy() -> None:
    one, other = branches(3, 4, full_every=64)
    reader, writer = CommitLog(one.store), CommitLog(one.store)
    assert reader.last == writer.last == one.at(6)
    longer = Branch(other, 2, 4, full_every=64, skips=False)
    one.store.files = dict(longer.store.files)
    for _ in range(2):
        with pytest.raises(
            CheckpointError,
            match="the record of epoch 6 is another one than before: the checkpoint was replaced",
        ):
            reader.refresh()
        with pytest.raises(
            CheckpointError, match="the checkpoint was replaced by another copy while it was in use"
        ):
            writer.append(a_commit(7))
    assert CommitLog(one.store).last == longer.at(8)
    assert one.store.files == longer.store.files


def test_nothing_is_committed_after_a_record_that_is_damaged() -> None:
    store = MemoryStore()
    log = CommitLog(store)
    for epoch in range(3):
        log.append(a_commit(epoch))
    store.flip("commits/000000000002.json", 20)
    with pytest.raises(
        CorruptFileError, match=r"000000000002.json: these \d+ bytes are not what was written"
    ):
        log.append(a_commit(3))
    store.flip("commits/000000000002.json", 20)
    log.append(a_commit(3))
    assert CommitLog(store).last == a_commit(3)


@pytest.mark.parametrize("full_every", [1, 3, 64])
def test_versions_that_do_not_write_the_field_take_turns_with_those_that_do(full_every: int) -> None:
    store, history = MemoryStore(), History(5, skips=False)
    reader = CommitLog(store)
    for epoch in range(12):
        CommitLog(store, full_every=full_every).append(history.go_on())
        if epoch % 4 in (1, 2):
            name = f"commits/{epoch:012d}.json"
            store.replace(name, without_before_crc(store.files[name][0]))
            assert BEFORE_CRC not in str(store.files[name])
        assert reader.refresh() == history.commits[-1]
        assert CommitLog(store).last == history.commits[-1]
    assert [CommitLog(store).at(commit.epoch) for commit in history.commits] == history.commits
    assert len(CommitLog(store).deltas("v", -1)) == sum(
        len(commit.deltas.get("v", ())) for commit in history.commits
    )
    assert not [fault for fault in verify(store).faults if fault.file.startswith("commits/")]


# With engines


@contextmanager
def counting(path: Path) -> Iterator[tuple[ec.Engine, ec.Source]]:
    engine = ec.Engine(checkpoint=path)
    rows = engine.source("rows", {"k": pl.Int64})
    engine.view("counts", rows.group_by("k").len("n"))
    yield engine, rows


def pushed(path: Path, key: int, epochs: int) -> list[tuple[int, int]]:
    with counting(path) as (engine, rows), engine:
        for _ in range(epochs):
            rows.push({"k": [key]})
            engine.checkpoint()
        return sorted(engine.views["counts"].read().rows())


def test_a_backup_over_which_the_copy_of_a_restored_older_one_is_written(tmp_path: Path) -> None:
    """The disk is lost, an older copy is restored and goes on, and is then backed up over what the first one has left."""
    live, monday, backup = tmp_path / "live", tmp_path / "monday", tmp_path / "backup"
    pushed(live, 1, 3)
    shutil.copytree(live, monday)
    pushed(live, 1, 3)
    shutil.copytree(live, backup)
    shutil.rmtree(live)
    shutil.copytree(monday, live)
    pushed(live, 2, 2)
    shutil.copytree(live, backup, dirs_exist_ok=True)
    with pytest.raises(CorruptFileError, match=f"{TWO} 5 and of epochs from 6 on"):
        pushed(backup, 3, 0)
    assert any(TWO in fault.what for fault in verify(LocalStore(backup)).faults)
    (backup / "commits" / "000000000006.json").unlink()
    assert pushed(backup, 3, 1) == [(1, 3), (2, 2), (3, 1)]
    assert verify(LocalStore(backup)).faults == ()


@pytest.mark.parametrize("with_notes", [True, False])
def test_a_log_of_inputs_beside_the_records_of_another_history(with_notes: bool, tmp_path: Path) -> None:
    """The first backup was made while an engine ran, with epochs of which only the input was on disk; the next one replaces its commits."""
    live, monday, backup = tmp_path / "live", tmp_path / "monday", tmp_path / "backup"
    pushed(live, 1, 3)
    shutil.copytree(live, monday)
    with commits_put_off(), counting(live) as (engine, rows):
        for _ in range(4):
            rows.push({"k": [1]})
        shutil.copytree(live, backup)
        crash(engine)
    shutil.rmtree(live)
    shutil.copytree(monday, live)
    pushed(live, 2, 2)
    shutil.copytree(live, backup, dirs_exist_ok=True)
    if not with_notes:
        (backup / "writer.acknowledged").unlink()
    match = "writer.inputs has the input of epoch 6 after another record of epoch 5 than the one that is there: .* two histories"
    for refused in (lambda: pushed(backup, 3, 0), lambda: compact(LocalStore(backup), keep=1, grace=0)):
        with pytest.raises(CorruptFileError, match=match):
            refused()
    assert [fault.file for fault in verify(LocalStore(backup)).faults] == ["writer.inputs"]
    for name in ("writer.inputs", "writer.acknowledged"):
        (backup / name).unlink(missing_ok=True)
    assert pushed(backup, 3, 1) == [(1, 3), (2, 2), (3, 1)]


def test_input_that_an_earlier_version_has_logged_is_evaluated(tmp_path: Path) -> None:
    pushed(tmp_path / "live", 1, 2)
    with commits_put_off(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_log, "BEFORE_CRC", "of no meaning")
        with counting(tmp_path / "live") as (engine, rows):
            for _ in range(3):
                rows.push({"k": [1]})
            shutil.copytree(tmp_path / "live", tmp_path / "left")
            crash(engine)
    assert (tmp_path / "left" / "writer.inputs").exists()
    assert pushed(tmp_path / "left", 2, 1) == [(1, 5), (2, 1)]


@pytest.mark.parametrize("epoch", [3, 5])
def test_a_record_of_another_checkpoint_with_its_pieces(epoch: int, tmp_path: Path) -> None:
    for name, key in (("a", 1), ("b", 2)):
        pushed(tmp_path / name, key, 5)
    record = f"commits/{epoch:012d}.json"
    shutil.copyfile(tmp_path / "b" / record, tmp_path / "a" / record)
    shutil.copytree(tmp_path / "b" / "pieces", tmp_path / "a" / "pieces", dirs_exist_ok=True)
    with pytest.raises(CorruptFileError, match=f"{TWO} {epoch - 1}|{TWO} {epoch}"):
        pushed(tmp_path / "a", 1, 0)
    log = CommitLog(LocalStore(tmp_path / "a"))
    with pytest.raises(CorruptFileError, match=TWO):
        log.at(epoch)
    assert len([fault for fault in verify(LocalStore(tmp_path / "a")).faults if TWO in fault.what]) == (
        1 if epoch == 5 else 2
    )


@pytest.mark.parametrize("full_every", [1, 4])
def test_what_maintenance_writes_goes_on_from_what_was_there(full_every: int, tmp_path: Path) -> None:
    store: Any = LocalStore(tmp_path / "live")
    for _ in range(2):
        pushed(tmp_path / "live", 1, 2)
        with store.lock():
            rebucket(store, 3)
            compact(store, keep=full_every, grace=0)
            rebucket(store, 1)
        assert verify(store).faults == ()
    assert pushed(tmp_path / "live", 1, 1) == [(1, 5)]
