"""Old records in one file: every commit can be read at every moment, whoever reads, and whatever is interrupted."""

from __future__ import annotations

import pytest

from checkpoint.commits_made import History, files_of
from checkpoint.memory_store import MemoryStore
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import Commit, CommitLog
from evercurrent.views.checkpoint.verifying import verify
from failing_store import FailingStore, When

COMMITS, EVERY = 75, 20


def made(store: MemoryStore, commits: int = COMMITS) -> History:
    history, log = History(3), CommitLog(store, full_every=EVERY)
    for _ in range(commits):
        commit = history.go_on()
        for name in files_of(commit) - set(store.files):
            store.put(name, [b"xy"])
        log.append(commit)
    return history


def read_one_by_one(log: CommitLog) -> list[Commit]:
    return [log.at(epoch) for epoch in log.epochs()]


def records(store: MemoryStore) -> list[str]:
    return [name for name in sorted(store.files) if name.startswith("commits/")]


def test_records_are_packed_from_one_whole_to_the_next() -> None:
    store = MemoryStore()
    history = made(store)
    before = CommitLog(store)
    assert before.last
    assert CommitLog(store, full_every=EVERY).sweep(1000, 0).commits == 0
    names = records(store)
    assert [name.endswith(".jsonl") for name in names] == [True] * 3 + [False] * 15
    assert read_one_by_one(CommitLog(store)) == history.commits
    assert read_one_by_one(before) == history.commits, "who has looked before finds them all the same"
    assert CommitLog(store).deltas("v", -1) == [
        ref for commit in history.commits for ref in commit.deltas.get("v", ())
    ]
    assert [at[0] for at in before.past_epochs()] == [at[0] for at in CommitLog(store).past_epochs()]


def test_packs_are_dropped_as_a_whole() -> None:
    store = MemoryStore()
    history = made(store)
    log = CommitLog(store, full_every=EVERY)
    for keep, packs in ((50, 2), (35, 1), (3, 0)):
        log.sweep(keep, 0)
        assert sum(name.endswith(".jsonl") for name in records(store)) == packs
        for each in (log, CommitLog(store)):
            found = read_one_by_one(each)
            assert found == history.commits[-len(found) :]
            assert keep <= len(found) < keep + EVERY


def test_a_reader_that_was_far_behind_finds_the_end() -> None:
    store = MemoryStore()
    history, reader = made(store, 30), CommitLog(store)
    assert reader.last == history.commits[-1]
    writer = CommitLog(store, full_every=EVERY)
    for _ in range(60):
        writer.append(history.go_on())
        writer.sweep(1000, 1000)
    assert reader.refresh() == history.commits[-1]
    assert read_one_by_one(reader) == history.commits


def test_a_reader_at_records_that_stay_apart_before_a_pack_finds_the_end() -> None:
    """As when a checkpoint was compacted, so that the record after those is whole, and was then written to for long."""
    store = MemoryStore()
    history, reader = made(store, 6), CommitLog(store)
    assert reader.last == history.commits[-1]
    writer = CommitLog(store, full_every=EVERY)
    writer.append(history.go_on(), whole=True)
    for _ in range(60):
        writer.append(history.go_on())
    writer.sweep(1000, 1000)
    assert len([name for name in records(store) if name.endswith(".jsonl")]) == 3
    assert reader.refresh() == history.commits[-1]
    assert read_one_by_one(reader) == history.commits


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", [0, 1, 2, 9, 20, 21, 22, 45, 62])
def test_whatever_is_interrupted_all_can_be_read(when: When, operation: int) -> None:
    inner = MemoryStore()
    history = made(inner)
    store = FailingStore(inner, operation, when, only=("put", "delete"))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError):
        CommitLog(store, full_every=EVERY).sweep(1000, 0)
    assert read_one_by_one(CommitLog(inner)) == history.commits
    assert [fault for fault in verify(inner).faults if fault.file.startswith("commits/")] == []
    CommitLog(inner, full_every=EVERY).sweep(1000, 0)
    assert len(records(inner)) == 18
    assert read_one_by_one(CommitLog(inner)) == history.commits


def test_damage_of_a_pack_is_named() -> None:
    store = MemoryStore()
    made(store)
    CommitLog(store, full_every=EVERY).sweep(1000, 0)
    name, other = records(store)[1:3]
    content = store.files[name][0]
    damaged = [content[: len(content) // 2], b"", content + b"\n", store.files[other][0]]
    damaged += [
        content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] for at in range(0, len(content), 4999)
    ]
    for each in damaged:
        store.replace(name, each)
        with pytest.raises(CheckpointError, match=name):
            read_one_by_one(CommitLog(store))
        assert name in {fault.file for fault in verify(store).faults}
    store.replace(name, content)
    read_one_by_one(CommitLog(store))
