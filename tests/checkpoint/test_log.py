"""The log of commits: what is appended is read again, by whomever, whole; what is damaged is named."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.commits_made import History, a_commit, files_of
from checkpoint.memory_store import MemoryStore
from evercurrent.core.data.errors import CheckpointError, CorruptFileError, EpochGoneError, MissingFileError
from evercurrent.views.checkpoint import Commit, CommitLog, DeltaRef, PieceRef, StateRecord
from evercurrent.views.checkpoint.marker import is_checkpoint, put_marker
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore, InjectedError, Killed, When

SEEDS = st.integers(0, 2**32)


def made(store: Store, commits: int, *, full_every: int = 3, seed: int = 1, skips: bool = False) -> History:
    history, log = History(seed, skips=skips), CommitLog(store, full_every=full_every)
    for _ in range(commits):
        log.append(history.go_on())
    return history


def test_a_commit_comes_back_as_it_was(tmp_path: Any) -> None:
    state = StateRecord((PieceRef("pieces/a.arrow", 64, 10, 2**32 - 1, 5),), {"totals": {"x": 2**63}}, None)
    routed = StateRecord((), {}, {"kind": "columns", "columns": ["ä", "b"]})
    commit = a_commit(
        12,
        states={"a:0/0": state, "b:0/3": routed},
        deltas={"über": (DeltaRef(11, state.pieces[0]), DeltaRef(12, state.pieces[0]))},
        readers={"sink": 3},
        facts={"spark": {"stages": [1, None, 2.5]}},
    )
    store = LocalStore(tmp_path / "checkpoint")
    CommitLog(store).append(commit)
    assert CommitLog(LocalStore(tmp_path / "checkpoint")).last == commit
    assert Commit.from_json(json.loads(json.dumps(commit.as_json()))) == commit


@given(SEEDS, st.integers(1, 30), st.sampled_from([1, 2, 3, 7, 64]))
def test_differences_restore_the_same_as_whole_records(seed: int, commits: int, full_every: int) -> None:
    """A161: a commit writes what has changed, and is read as all there is."""
    store = MemoryStore()
    history = made(store, commits, full_every=full_every, seed=seed, skips=True)
    log = CommitLog(store, full_every=full_every)
    assert log.last == history.commits[-1]
    assert log.epochs() == [commit.epoch for commit in history.commits]
    for commit in history.commits:
        assert log.at(commit.epoch) == commit
        assert CommitLog(store).at(commit.epoch) == commit
    passed = [epoch for commit in history.commits for epoch in commit.epochs]
    assert list(CommitLog(store).past_epochs()) == passed[::-1]


@given(SEEDS, st.lists(st.booleans(), min_size=1, max_size=40), st.sampled_from([1, 3, 64]))
def test_a_reader_follows_and_sees_every_delta_once(seed: int, looks: list[bool], full_every: int) -> None:
    store, history = MemoryStore(), History(seed)
    writer, reader = CommitLog(store, full_every=full_every), CommitLog(store)
    received: list[DeltaRef] = []
    for looks_now in looks:
        writer.append(history.go_on())
        if looks_now:
            received += reader.deltas("v", received[-1].epoch if received else -1)
            assert reader.refresh() == history.commits[-1]
            received += reader.deltas("v", received[-1].epoch if received else -1)
    reader.refresh()
    received += reader.deltas("v", received[-1].epoch if received else -1)
    assert received == [ref for commit in history.commits for ref in commit.deltas.get("v", ())]


def test_a_difference_is_small() -> None:
    store, log = MemoryStore(), CommitLog(MemoryStore())
    log = CommitLog(store)
    pieces = tuple(PieceRef(f"pieces/{n}.arrow", 0, 1, 1, 1) for n in range(20))
    states = {f"{n}/0": StateRecord(pieces, {}, None) for n in range(50)}
    log.append(a_commit(0, states=states))
    changed = StateRecord((*pieces, PieceRef("pieces/new.arrow", 0, 1, 1, 1)), {}, None)
    log.append(a_commit(1, states=states | {"7/0": changed}))
    assert len(store.files["commits/000000000001.json"][0]) < 500 < 20_000
    assert len(store.files["commits/000000000000.json"][0]) > 20_000
    assert CommitLog(store).last == a_commit(1, states=states | {"7/0": changed})


def test_reading_costs_no_more_records_than_there_are_between_whole_ones() -> None:
    store = MemoryStore()
    made(store, 30, full_every=4)
    store.reads.clear()
    assert CommitLog(store).last
    assert len([name for name in store.reads if name.startswith("commits/")]) <= 4


def test_a_new_checkpoint_is_nothing_yet() -> None:
    log = CommitLog(MemoryStore())
    assert log.last is None
    assert log.refresh() is None
    assert log.epochs() == []
    assert log.deltas("v", 3) == []
    assert log.sweep(1, 0).files == 0
    with pytest.raises(EpochGoneError, match="none has been made yet"):
        log.at(0)


def test_the_error_about_an_unknown_epoch_names_those_there_are() -> None:
    store = MemoryStore()
    log = CommitLog(store, full_every=1)
    for epoch in (0, 4, 5, 9):
        log.append(a_commit(epoch, deltas={"v": (DeltaRef(epoch, PieceRef("deltas/x", 0, 1, 1, 1)),)}))
    with pytest.raises(EpochGoneError, match="no commit of epoch 7; the nearest are those of 5 and 9"):
        log.at(7)
    with pytest.raises(EpochGoneError, match="no commit of epoch 10 yet, the last is epoch 9"):
        log.at(10)
    log.sweep(2, 0)
    assert log.epochs() == [5, 9] == CommitLog(store).epochs()
    with pytest.raises(EpochGoneError, match="epoch 4 is no longer retained, the oldest is epoch 5"):
        log.at(4)
    with pytest.raises(EpochGoneError, match="'v' after epoch 3 are no longer retained, those after 4 are"):
        log.deltas("v", 3)
    assert [ref.epoch for ref in log.deltas("v", 4)] == [5, 9]


# Writers


@pytest.mark.parametrize("ahead", [(1,), (1, 2), (3,)])
def test_of_two_who_go_on_from_one_commit_one_gets_it(ahead: tuple[int, ...]) -> None:
    """Of two writers that continue from one commit the second is refused, whatever epochs the first has committed."""
    store = MemoryStore()
    one, other = CommitLog(store), CommitLog(store)
    one.append(a_commit(0))
    assert other.last
    for epoch in ahead:
        one.append(a_commit(epoch, writer="one"))
    with pytest.raises(
        CheckpointError, match=rf"another writer has committed epoch {ahead[0]} of {store.url}"
    ):
        other.append(a_commit(2, writer="other"))
    assert CommitLog(store).last == one.last == other.refresh()


def test_two_who_begin_at_once_do_not_both() -> None:
    store = MemoryStore()
    one, other = CommitLog(store), CommitLog(store)
    assert one.last is other.last is None
    one.append(a_commit(0, writer="one"))
    with pytest.raises(CheckpointError, match="another writer has committed epoch 0"):
        other.append(a_commit(1, writer="other"))


def test_an_epoch_is_committed_once() -> None:
    store = MemoryStore()
    history = made(store, 3)
    with pytest.raises(CheckpointError, match="epoch 2 is committed already, the last is epoch 2"):
        CommitLog(store).append(history.commits[-1])


class LosingAnswers(MemoryStore):
    """A put succeeds and its answer is lost."""

    losing = False

    def put(self, name: str, data: Any) -> None:
        super().put(name, data)
        if self.losing:
            raise CheckpointError("no answer")


def test_a_put_whose_answer_was_lost_is_found_to_be_done() -> None:
    store = LosingAnswers()
    log = CommitLog(store)
    log.append(a_commit(0))
    store.losing = True
    log.append(a_commit(1))
    store.losing = False
    log.append(a_commit(2))
    assert CommitLog(store).epochs() == [0, 1, 2]


def test_a_checkpoint_that_was_deleted_in_use_is_not_begun_anew() -> None:
    """A writer whose checkpoint was deleted gets an error and writes nothing: its next commit would name states in files that are gone."""
    store = MemoryStore()
    log = CommitLog(store)
    log.append(a_commit(0))
    log.append(a_commit(1))
    store.files.clear()
    store.note = None
    for _ in range(2):
        with pytest.raises(CheckpointError, match="another writer has committed so many epochs after 1"):
            log.append(a_commit(2))
        with pytest.raises(
            CheckpointError, match="all commits up to epoch 1 are gone: the checkpoint was deleted"
        ):
            log.refresh()
    assert not store.files


def test_a_folder_that_was_emptied_in_use_gets_no_commit(tmp_path: Any) -> None:
    """A writer that holds the lock of a folder that was emptied gets an error, and its files are not left there."""
    store = LocalStore(tmp_path / "checkpoint")
    log = CommitLog(store)
    with store.lock():
        log.append(a_commit(0), [("pieces/0", [b"x"])])
        for name in ("commits", "pieces"):
            shutil.rmtree(tmp_path / "checkpoint" / name)
            (tmp_path / "checkpoint" / name).mkdir()
        with pytest.raises(
            CheckpointError,
            match="or the checkpoint was deleted or moved; what was to be committed now is not; put the checkpoint back",
        ):
            log.append(a_commit(1), [("pieces/1", [b"x"])])
    assert not list((tmp_path / "checkpoint" / "pieces").iterdir())


def test_an_attempt_that_was_given_up_and_was_made_all_the_same_is_not_taken_for_the_next() -> None:
    store = MemoryStore()
    log, late = CommitLog(store), CommitLog(store)
    log.append(a_commit(0))
    assert late.last
    late.append(a_commit(1, facts={"of": "the first attempt"}))
    with pytest.raises(CheckpointError, match="an earlier attempt of this writer has committed epoch 1"):
        log.append(a_commit(1, facts={"of": "the second"}))


@pytest.mark.parametrize("when", ["before", "after", "torn"])
@pytest.mark.parametrize("error", [InjectedError, Killed])
@pytest.mark.parametrize("lasting", [False, True])
def test_whatever_fails_the_log_can_be_read_and_the_next_append_is_clean(
    when: When, error: type, lasting: bool, tmp_path: Any
) -> None:
    """At every operation of the store: appends, a sweep, a look from outside."""
    for at in itertools.count():
        inner: Any = (
            MemoryStore() if at % 5 else LocalStore(tmp_path / f"{when}{at}{error.__name__}{lasting}")
        )
        store = FailingStore(inner, at, when, error=error, lasting=lasting)
        history, log, done = History(at), CommitLog(store, full_every=2), 0
        failure: BaseException | None = None
        try:
            for _ in range(5):
                log.append(history.go_on())
                done += 1
            log.sweep(2, 0)
        except (CheckpointError, Killed) as raised:
            failure = raised
        # Nothing is refused but for what failed, and nobody survives a death.
        assert store.has_failed or failure is None, failure
        assert error is Killed or not isinstance(failure, Killed)
        assert error is InjectedError or not store.has_failed or isinstance(failure, Killed)
        after = CommitLog(inner, full_every=2)
        last = after.last
        assert last in ([None] if done == 0 else []) + history.commits[max(0, done - 1) : done + 1]
        for epoch in after.epochs():
            assert after.at(epoch) in history.commits
        after.append(a_commit(100))
        after.sweep(1, 0)
        assert CommitLog(inner).last == a_commit(100)
        if not store.has_failed:
            assert at > 10
            break


def test_an_unknown_fate_of_a_commit_is_an_error() -> None:
    inner = MemoryStore()
    log = CommitLog(inner)
    log.append(a_commit(0))
    store = FailingStore(inner, 1, lasting=True, only=("put", "read"))
    log.store = store
    with pytest.raises(CheckpointError, match=r"unknown whether epoch 1 is committed.*failed on purpose"):
        log.append(a_commit(1))


# What is kept, and what goes


@given(SEEDS, st.integers(1, 30), st.integers(1, 12), st.sampled_from([1, 2, 5]))
def test_a_sweep_deletes_what_no_retained_commit_names_and_nothing_else(
    seed: int, commits: int, keep: int, full_every: int
) -> None:
    store, history = MemoryStore(), History(seed)
    log = CommitLog(store, full_every=full_every)
    orphan = "pieces/orphan.arrow"
    store.put(orphan, [b"x"])
    for _ in range(commits):
        commit = history.go_on()
        for name in files_of(commit) - set(store.files):
            store.put(name, [b"xy"])
        log.append(commit)
        if history.random.random() < 0.3:
            log.sweep(keep, 0)
    swept = (log if seed % 2 else CommitLog(store)).sweep(keep, 0)
    retained = [commit for commit in history.commits if commit.epoch in CommitLog(store).epochs()]
    assert retained == history.commits[-len(retained) :]
    assert min(keep, commits) <= len(retained) < keep + full_every
    named = set().union(*map(files_of, retained))
    assert {name for name in store.files if name.startswith(("pieces/", "deltas/"))} == named
    assert swept.commits <= commits
    log = CommitLog(store)
    assert [log.at(commit.epoch) for commit in retained] == retained
    assert log.deltas("w", retained[0].epoch - len(retained[0].epochs)) == [
        ref for commit in retained for ref in commit.deltas.get("w", ())
    ]


def test_what_is_young_is_not_swept() -> None:
    store = MemoryStore()
    made(store, 4, full_every=1)
    store.put("pieces/new.arrow", [b"123"])
    assert CommitLog(store).sweep(10, 60).files == 0
    store.age(61)
    store.put("deltas/v/newer.arrow", [b"123"])
    swept = CommitLog(store).sweep(10, 60)
    assert (swept.files, swept.bytes, swept.commits) == (1, 3, 0)
    assert "deltas/v/newer.arrow" in store.files


def test_a_reader_who_was_overtaken_by_a_sweep_finds_the_end() -> None:
    store, history = MemoryStore(), History(1)
    writer, reader = CommitLog(store, full_every=1), CommitLog(store)
    writer.append(history.go_on())
    assert reader.last == history.commits[-1]
    for _ in range(10):
        writer.append(history.go_on())
    writer.sweep(2, 0)
    assert reader.refresh() == history.commits[-1]
    assert reader.epochs() == writer.epochs()
    with pytest.raises(EpochGoneError):
        reader.deltas("v", 0)


class Watched(MemoryStore):
    """Somebody reads after each file that is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.watching: list[Callable[[], None]] = []

    def delete(self, name: str) -> None:
        super().delete(name)
        for look in self.watching:
            look()


@pytest.mark.parametrize("full_every", [1, 2, 3, 7])
def test_a_reader_in_the_middle_of_a_sweep_finds_the_end(full_every: int) -> None:
    """Whichever record it has read last: that may be there still, while the one after it is deleted."""
    store, history = Watched(), History(1, skips=False)
    writer = CommitLog(store, full_every=full_every)
    readers: list[CommitLog] = []
    for _ in range(30):
        writer.append(history.go_on())
        readers.append(CommitLog(store))
        assert readers[-1].last == history.commits[-1]
    last = history.commits[-1]

    def look() -> None:
        for reader in readers:
            reader_now = copy.deepcopy(reader, {id(store): store})
            with suppress(MissingFileError):  # As a reader beside a writer, it would look again.
                assert reader_now.refresh() == last

    store.watching.append(look)
    writer.sweep(2, 0)
    assert len(writer.epochs()) < 12


# Damage


def test_every_flipped_bit_of_a_record_is_found() -> None:
    store = MemoryStore()
    made(store, 2)
    for name in ("commits/000000000000.json", "commits/000000000001.json", "checkpoint.json"):
        content = store.files[name][0]
        for at in range(len(content)):
            store.flip(name, at)
            with pytest.raises(CheckpointError, match=re.escape(name)):
                assert CommitLog(store).last
            store.replace(name, content)
    assert CommitLog(store).last


@pytest.mark.parametrize("cut", [0, 1, 20, 100])
def test_a_torn_record_is_named(cut: int) -> None:
    store = MemoryStore()
    made(store, 2)
    name = "commits/000000000001.json"
    store.replace(name, store.files[name][0][:cut])
    with pytest.raises(CorruptFileError, match=r"000000000001.json.*not what was written"):
        assert CommitLog(store).last


def test_another_file_in_the_place_of_a_record_is_named() -> None:
    store = MemoryStore()
    made(store, 4, full_every=2)
    marker, record = store.files["checkpoint.json"][0], store.files["commits/000000000001.json"][0]
    for name in [name for name in store.files if name.startswith("commits/")]:
        content = store.files[name][0]
        store.replace(name, marker)
        with pytest.raises(CorruptFileError, match=f"{name} is not the record of a commit"):
            CommitLog(store).at(int(name[-6:-5]))
        store.replace(name, content)
    store.replace("checkpoint.json", record)
    with pytest.raises(
        CorruptFileError, match=r"checkpoint\.json is not what was written: .*restore it from a copy"
    ):
        assert CommitLog(store).last


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_marker_deeper_than_any_is_damage(opening: bytes) -> None:
    store = MemoryStore()
    made(store, 1)
    store.replace("checkpoint.json", opening * 100_000)
    with pytest.raises(CorruptFileError, match=r"checkpoint\.json is not JSON"):
        assert CommitLog(store).last


def test_a_missing_record_is_named_wherever_it_is_needed() -> None:
    store = MemoryStore()
    made(store, 7, full_every=3)
    everything = dict(store.files)
    store.delete("commits/000000000005.json")
    lost = "000000000005.json is missing"
    log = CommitLog(store)
    assert log.last
    with pytest.raises(MissingFileError, match=lost):
        log.at(5)
    with pytest.raises(MissingFileError, match=lost):
        log.deltas("v", 3)
    with pytest.raises(MissingFileError, match=lost):
        log.sweep(5, 0)
    store.files = everything
    store.delete("commits/000000000003.json")
    with pytest.raises(
        MissingFileError, match=r"000000000003.json is missing, and commits/000000000004.json"
    ):
        CommitLog(store).at(5)
    store.delete("commits/000000000000.json")
    store.delete("commits/000000000006.json")
    with pytest.raises(MissingFileError, match=r"000000000003.json is missing"):
        assert CommitLog(store).last


def test_what_an_interrupted_sweep_has_left_is_not_retained() -> None:
    store = MemoryStore()
    history = made(store, 7, full_every=3)
    store.delete("commits/000000000000.json")
    log = CommitLog(store)
    assert log.epochs() == [3, 4, 5, 6]
    assert log.last == history.commits[-1]
    assert log.sweep(100, 0).commits == 0
    assert "commits/000000000001.json" not in store.files


# What is no checkpoint


def test_a_folder_of_something_else_is_refused() -> None:
    store = MemoryStore()
    for name in ("a.txt", "b/c.txt", "d.txt", "e.txt"):
        store.put(name, [b""])
    with pytest.raises(
        CheckpointError, match=r"neither empty nor a checkpoint: it holds .*a.txt.* and 1 more"
    ):
        assert CommitLog(store).last


def test_what_is_below_a_folder_that_is_no_checkpoint_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        below = tmp_path / "home" / f"user {number}"
        below.mkdir(parents=True)
        (below / "notes.txt").touch()
    (tmp_path / "media" / "empty").mkdir(parents=True)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "loop").symlink_to("loop")
    (tmp_path / ".hidden").touch()
    (tmp_path / "a.txt").touch()
    folders: list[str] = []
    scandir = os.scandir

    def counting(path: str) -> Any:
        folders.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counting)
    with pytest.raises(
        CheckpointError, match=r"neither empty nor a checkpoint: it holds 'a.txt', 'home/', 'usr/'; give"
    ):
        assert CommitLog(LocalStore(tmp_path)).last
    assert len(folders) < 8
    assert CommitLog(LocalStore(tmp_path / "media")).last is None


def test_what_a_first_commit_that_failed_has_left_is_room_for_another() -> None:
    store = MemoryStore()
    store.put("pieces/a.arrow", [b""])
    assert CommitLog(store).last is None


def test_commits_without_the_marker_of_a_checkpoint_are_damage() -> None:
    store = MemoryStore()
    made(store, 1)
    store.delete("checkpoint.json")
    with pytest.raises(MissingFileError, match=r"checkpoint.json is missing"):
        assert CommitLog(store).last


def test_another_programs_file_is_not_taken_for_ours() -> None:
    store = MemoryStore()
    store.put("checkpoint.json", [b'{"step": 4}'])
    with pytest.raises(CheckpointError, match="written by another program"):
        assert CommitLog(store).last


def test_a_newer_format_is_refused() -> None:
    from evercurrent.views.checkpoint import record_files

    store = MemoryStore()
    content = b'{"format":3,"body":{"evercurrent":"9.0.0"}'
    store.put("checkpoint.json", [content + record_files.TAIL % record_files.zlib.crc32(content)])
    with pytest.raises(CheckpointError, match=r"format 3.*reads formats up to 2.*evercurrent 9.0.0"):
        assert CommitLog(store).last


def test_what_is_no_json_is_refused_by_the_name_of_its_state() -> None:
    store = MemoryStore()
    states = {"a/0": StateRecord((), {}, None), "b/0": StateRecord((), {"odd": object()}, None)}
    with pytest.raises(CheckpointError, match="state 'b/0' cannot be written as JSON"):
        CommitLog(store).append(a_commit(0, states=states))
    CommitLog(store).append(a_commit(0))


class BegunMeanwhile(MemoryStore):
    """Another process begins the checkpoint just after this one has found no marker."""

    commits = 1

    def read(self, name: str) -> Any:
        is_first = not self.files
        try:
            return super().read(name)
        except MissingFileError:
            if is_first:
                put_marker(self)
                for epoch in range(self.commits):
                    CommitLog(self).append(a_commit(epoch))
            raise


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_checkpoint_that_another_process_begins_at_the_same_time(commits: int) -> None:
    store = BegunMeanwhile()
    store.commits = commits
    assert is_checkpoint(store)
    assert len(CommitLog(store).epochs()) == commits


def test_files_of_a_commit_to_come_stay_where_other_writers_are_not_excluded() -> None:
    """Where a store cannot exclude other writers, a sweep leaves files that no commit names for ten minutes, as they may be of a commit to come."""
    store = MemoryStore()
    log = CommitLog(store)
    log.append(a_commit(1))
    store.put("pieces/of-a-commit-to-come", [b"1"])
    store.excludes_writers = False
    assert log.sweep(1, 0).files == 0
    data, _ = store.files["pieces/of-a-commit-to-come"]
    store.files["pieces/of-a-commit-to-come"] = data, time.time() - 601
    assert log.sweep(1, 0).files == 1
    store.put("pieces/left", [b"1"])
    store.excludes_writers = True
    assert log.sweep(1, 0).files == 1
