"""The journal of a folder: a power failure takes away what was not synced, and everything committed is there again."""

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from evercurrent.core.errors import CheckpointError, MissingFileError, NameTakenError
from evercurrent.views.store import LocalStore, journal
from evercurrent.views.store.journal import entries_of
from evercurrent.views.store.protocol import JOURNALS

ROOT = Path(__file__).resolve().parents[2]


def files_in(folder):
    """By name what is in the files, without the store's own."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if not path.name.startswith((".", "writer."))
    }


def commit(store, number, size=5000):
    """A commit of three files; returns what they hold."""
    files = {
        f"pieces/{number}.arrow": bytes([number % 256]) * size,
        f"deltas/v/{number}.arrow": b"delta %d" % number,
        f"commits/{number:012}.json": b"record %d" % number,
    }
    *items, (name, data) = ((name, [data[: size // 3], data[size // 3 :]]) for name, data in files.items())
    store.commit(store.put_ahead(items), name, data)
    return files


class Synced:
    """What is on the disk: the bytes of files as of their last sync, and the names of folders as of theirs."""

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.bytes = {}
        self.names = {}
        self._guard = threading.Lock()
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._sync)

    def _sync(self, descriptor):
        with self._guard:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.isdir(path):
                self.names[path] = {each.name: each.inode() for each in os.scandir(path)}
            else:
                self.bytes[os.fstat(descriptor).st_ino] = Path(path).read_bytes()

    def survive(self, place, lost):
        """What a power failure leaves, at a new place; ``lost(path, content)`` says what is left of unsynced bytes."""
        shutil.rmtree(place, ignore_errors=True)
        self._survive(str(self.folder), place, lost)

    def _survive(self, folder, place, lost):
        place.mkdir()
        synced = self.names.get(folder, {})
        for each in os.scandir(folder):
            path = place / each.name
            has_name = synced.get(each.name) == each.inode()
            if each.is_dir():
                assert has_name, f"{each.path} is a folder whose name may be lost"
                self._survive(each.path, path, lost)
            elif each.inode() in self.bytes and has_name:
                path.write_bytes(self.bytes[each.inode()])
            elif (left := lost(each.path, Path(each.path).read_bytes())) is not None:
                path.write_bytes(left)


LOSSES = {
    "nothing": lambda path, content: content,
    "names": lambda path, content: None,
    "bytes": lambda path, content: b"",
    "halves": lambda path, content: content[: len(content) // 2],
    "zeros": lambda path, content: bytes(len(content)),
    "others": lambda path, content: content[::-1],
}


@pytest.mark.parametrize("full", [1, 12_000, 1 << 20])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_power_failure_after_every_commit(tmp_path, monkeypatch, loss, full):
    """All that was committed is there byte for byte, and what was deleted is gone; with journals of any size."""
    monkeypatch.setattr(journal, "FULL", full)
    synced, files = Synced(monkeypatch, tmp_path / "real"), {}
    store = LocalStore(tmp_path / "real")
    store.put("checkpoint.json", [b"marker"])
    with store.lock():
        for number in range(12):
            files |= commit(store, number)
            if number in (4, 5, 9):
                gone = [name for name in files if f"{number - 2}." in name]
                store.delete_all(gone)
                files = {name: data for name, data in files.items() if name not in gone}
            left = tmp_path / "left"
            synced.survive(left, loss)
            for _ in range(2):
                with LocalStore(left).lock():
                    assert files_in(left) == {"checkpoint.json": b"marker", **files}, number
    synced.survive(left, LOSSES["names"])
    assert files_in(left) == {"checkpoint.json": b"marker", **files}
    assert sorted(os.listdir(left)) == ["checkpoint.json", "commits", "deltas", "pieces"]


def test_each_unsynced_file_is_lost_alone_or_with_others(tmp_path, monkeypatch):
    """All combinations for the files of two commits."""
    synced, store = Synced(monkeypatch, tmp_path / "real"), LocalStore(tmp_path / "real")
    with store.lock():
        files = commit(store, 0) | commit(store, 1)
        for count in range(len(files) + 1):
            for lost in itertools.combinations(files, count):
                paths = {str(tmp_path / "real" / name) for name in lost}
                synced.survive(tmp_path / "left", lambda path, data, paths=paths: None if path in paths else data)
                with LocalStore(tmp_path / "left").lock():
                    assert files_in(tmp_path / "left") == files


def test_a_journal_that_was_cut_anywhere(tmp_path):
    """Whole entries are made good; of one that is not whole, nothing is there: neither record nor file."""
    store = LocalStore(tmp_path / "real")
    with store.lock():
        first, second = commit(store, 0, 300), commit(store, 1, 300)
        content = Path(store.url, JOURNALS[1]).read_bytes()
    assert len(content) == 8192
    end = content.rindex(b"record 1") + len(b"record 1")
    cuts = [*range(4090, end, 7), *range(end - 40, end + 2), len(content)]
    for at, kind in itertools.product(cuts, ("short", "zeros", "flipped")):
        place = tmp_path / "left"
        place.mkdir()
        torn = {
            "short": content[:at],
            "zeros": content[:at] + bytes(len(content) - at),
            "flipped": content[: at - 1] + bytes([content[at - 1] ^ 1]) + content[at:],
        }[kind]
        (place / JOURNALS[1]).write_bytes(torn)
        with LocalStore(place).lock():
            found = files_in(place)
        is_hit = kind == "flipped" and at <= end
        expected = {} if at < end and at <= 4096 and (kind == "flipped" or at < 4096 - 4096 + len(content)) else {}
        expected = first if at >= _end_of_first(content) else {}
        if kind == "flipped":
            expected = {} if at <= _end_of_first(content) else first
        if at >= end and not is_hit:
            expected = first | second
        assert found == expected, (at, kind)
        shutil.rmtree(place)


def _end_of_first(content):
    return content.index(b"record 0") + len(b"record 0")
