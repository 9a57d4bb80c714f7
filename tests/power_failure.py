"""A power failure: of a folder, what was synced is left, and of the rest nothing, a part, or everything."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

Loss = Callable[[str, bytes], "bytes | None"]
"""What is left of the bytes of a file that were not synced; None: its name is gone too."""

LOSSES: dict[str, Loss] = {
    "nothing": lambda path, content: content,
    "names": lambda path, content: None,
    "bytes": lambda path, content: b"",
    "halves": lambda path, content: content[: len(content) // 2],
    "zeros": lambda path, content: bytes(len(content)),
    "others": lambda path, content: content[::-1],
}


class Synced:
    """What is on the disk: the bytes of files as of their last sync, and the names of folders as of theirs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.bytes: dict[int, bytes] = {}
        self.names: dict[str, dict[str, int]] = {}
        self._guard = threading.Lock()
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._sync)

    def _sync(self, descriptor: int) -> None:
        with self._guard:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.isdir(path):
                self.names[path] = {each.name: each.inode() for each in os.scandir(path)}
            else:
                self.bytes[os.fstat(descriptor).st_ino] = Path(path).read_bytes()

    def survive(self, place: Path, lost: Loss) -> None:
        """What a power failure leaves, at a new place; ``lost(path, content)`` returns what is left of unsynced bytes."""
        shutil.rmtree(place, ignore_errors=True)
        with self._guard:  # At one instant: nothing is synced meanwhile.
            self._survive(str(self.folder), place, lost)

    def _survive(self, folder: str, place: Path, lost: Loss) -> None:
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
