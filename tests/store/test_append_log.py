"""The log of a folder: entries are there from the moment they were added, until it begins anew."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from evercurrent.core.data.errors import CheckpointError, CorruptFileError
from evercurrent.views.store import LocalStore, append_log
from evercurrent.views.store.append_log import AppendLog, entries_after


def add(log: AppendLog, number: int, content: bytes) -> None:
    log.begin(number, [content[:3], content[3:]])
    log.wait()


def found(path: Path, number: int = 0) -> list[bytes]:
    return [bytes(entry) for entry in entries_after(str(path), number)]


@pytest.fixture
def log(tmp_path: Path):
    with AppendLog(str(tmp_path / "log")) as log:
        yield log


def test_entries_are_there_in_order(log, tmp_path):
    contents = [
        bytes([number]) * size for number, size in enumerate((1, 0, 5000, 4096 - append_log.HEAD_SIZE, 9000))
    ]
    assert found(tmp_path / "log") == []
    for number, content in enumerate(contents, 1):
        add(log, number, content)
        assert found(tmp_path / "log") == contents[:number]
    assert found(tmp_path / "log", 1) == contents[1:]
    assert found(tmp_path / "log", 5) == []
    assert found(tmp_path / "no log") == []


def test_what_begins_anew_has_nothing_of_before(log, tmp_path):
    """Whatever the sizes: what is left of older entries has lower numbers."""
    for first in range(1, 30, 3):
        for number in range(first, first + 3):
            add(log, number, b"x" * (1000 * (number % 7)))
        assert len(found(tmp_path / "log", first - 1)) == 3
        log.restart()
        assert found(tmp_path / "log", first + 2) == []
    assert log.size == 0


def test_what_is_taken_back_is_none(log, tmp_path):
    add(log, 1, b"one")
    log.take_back()
    assert found(tmp_path / "log") == [b"one"], "it was waited for"
    log.begin(2, [b"not waited for"])
    log.take_back()
    assert found(tmp_path / "log") == [b"one"]
    add(log, 2, b"again")
    assert found(tmp_path / "log") == [b"one", b"again"]


@pytest.mark.parametrize("kind", ["short", "zeros", "flipped"])
def test_torn_at_any_byte(log, tmp_path, kind):
    """Of the last entry, if it is not whole, nothing is there, and those before it are; another one is damage."""
    contents = [b"a" * 50, b"b" * 60, b"c" * 10]
    for number, content in enumerate(contents, 1):
        add(log, number, content)
    whole = (tmp_path / "log").read_bytes()
    starts = [4096 * number for number in range(3)]
    ends = [
        start + append_log.HEAD_SIZE + len(content) for start, content in zip(starts, contents, strict=True)
    ]
    torn = tmp_path / "torn"
    for at in [at for start, end in zip(starts, ends, strict=True) for at in range(start, end)]:
        torn.write_bytes(
            {
                "short": whole[:at],
                "zeros": whole[:at] + bytes(len(whole) - at),
                "flipped": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
            }[kind]
        )
        if kind == "flipped" and at < ends[1]:
            with pytest.raises(
                CorruptFileError, match=rf"torn is damaged: the input of epoch {1 + (at >= ends[0])},"
            ):
                found(torn)
        else:
            assert found(torn) == contents[: sum(end <= at for end in ends)], at


def test_a_disk_that_fails(log, tmp_path, monkeypatch):
    add(log, 1, b"one")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for call in ("pwritev", "fdatasync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            log.begin(2, [b"two"])
            with pytest.raises(OSError, match="Input/output"):
                log.wait()
        log.take_back()
        assert found(tmp_path / "log") == [b"one"]
    add(log, 2, b"two")
    assert found(tmp_path / "log") == [b"one", b"two"]


def test_what_could_not_be_begun_leaves_no_gap(log, tmp_path, monkeypatch):
    add(log, 1, b"one")

    def refuse(*_):
        raise RuntimeError("no thread")

    with monkeypatch.context() as patch:
        patch.setattr(log._beside, "submit", refuse)
        with pytest.raises(RuntimeError):
            log.begin(2, [b"two"])
    add(log, 2, b"again")
    add(log, 3, b"three")
    assert found(tmp_path / "log") == [b"one", b"again", b"three"]


def test_a_full_disk(log, tmp_path, monkeypatch):
    """Nothing was written, and nothing can be, not even that it is to be forgotten."""
    add(log, 1, b"one")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(os, "pwrite", full)
        log.begin(2, [b"two"])
        with pytest.raises(OSError, match="No space"):
            log.wait()
        log.take_back()
    add(log, 2, b"again")
    assert found(tmp_path / "log") == [b"one", b"again"]


@pytest.mark.parametrize("way", ["deleted", "moved with a folder", "replaced by a copy"])
def test_an_entry_that_a_reopening_would_not_find_is_not_acknowledged(way, tmp_path):
    """The descriptor stays open, so that writing raises nothing; what was refused is in no file when all is put back."""
    folder, away = tmp_path / "above" / "folder", tmp_path / "away"
    folder.mkdir(parents=True)
    with AppendLog(str(folder / "log")) as log:
        add(log, 1, b"one")
        shutil.copytree(folder.parent, tmp_path / "copy")
        if way == "deleted":
            (folder / "log").rename(away)
            shutil.rmtree(folder)
        else:
            folder.parent.rename(away)
        if way == "replaced by a copy":
            (tmp_path / "copy").rename(folder.parent)
        for _ in range(2):
            with pytest.raises(
                CheckpointError, match=r"folder: the folder was deleted or moved while it was in use"
            ):
                add(log, 2, b"two")
            log.take_back()
        if way == "deleted":
            folder.mkdir()
            away.rename(folder / "log")
        else:
            shutil.rmtree(folder.parent, ignore_errors=True)
            away.rename(folder.parent)
        assert found(folder / "log") == [b"one"]
        add(log, 2, b"again")
        assert found(folder / "log") == [b"one", b"again"]


def test_a_log_that_alone_is_gone_is_named(log, tmp_path):
    (tmp_path / "log").unlink()
    with pytest.raises(
        CheckpointError, match="log was deleted or moved while it was in use; put it back, or close the"
    ):
        add(log, 1, b"one")
    log.take_back()


def test_a_file_system_may_number_the_file_anew(log, tmp_path):
    log._identity = (0, 0)
    for number, content in enumerate((b"one", b"two" * 5000, b"three"), 1):
        add(log, number, content)
    assert found(tmp_path / "log") == [b"one", b"two" * 5000, b"three"]


def test_a_child_leaves_it_alone(log):
    assert log.is_ours
    child = os.fork()
    if not child:
        os._exit(log.is_ours)
    assert os.waitpid(child, 0)[1] == 0
    assert log.is_ours


def test_a_write_in_parts(log, tmp_path, monkeypatch):
    """The system may write less than it was given."""
    monkeypatch.setattr(
        os, "pwritev", lambda descriptor, buffers, at: os.pwrite(descriptor, b"".join(buffers)[:50], at)
    )
    add(log, 1, bytes(range(200)))
    assert found(tmp_path / "log") == [bytes(range(200))]


def test_only_who_has_the_lock_has_it(tmp_path):
    store = LocalStore(tmp_path)
    assert store.input_log() is None
    with store.lock(), store.input_log() as log:
        assert LocalStore(tmp_path).input_log() is None
        add(log, 8, b"eight")
        assert [bytes(entry) for entry in LocalStore(tmp_path).inputs_after(7)] == [b"eight"]
        assert store.list() == []
        log.remove()
        log.remove()
    assert store.inputs_after(7) == []
    assert not (tmp_path / "writer.inputs").exists()
