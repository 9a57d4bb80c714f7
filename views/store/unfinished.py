"""Files are written under temporary names, and get their own names when they are whole."""

import errno
import os
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from .locks import waiting_lock
from .protocol import Buffer, size_of
from .syncing import make_folders

UNFINISHED = ".part-"
"""The prefix of the names of files that are being written."""

NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
"""Errors of file systems without hard links."""


def unfinished_in(folder: str) -> str:
    """Return a unique path in this folder."""
    return f"{folder}/{UNFINISHED}{os.getpid()}-{secrets.token_hex(6)}"


Spare: TypeAlias = tuple[int, str]
"""The descriptor of a file that was made ahead, and its path."""


class Spares:
    """Files made ahead in a folder, as creating one costs as much as a wait for the disk on some file systems."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._ready: deque[Spare] = deque()

    def take(self) -> Spare | None:
        """Return a file that is ready, if there is one."""
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def make(self, count: int) -> None:
        """Make files until ``count`` are ready, unless the folder is gone."""
        while len(self._ready) < count:
            path = unfinished_in(self._folder)
            self._ready.append((_created(path), path))

    def close(self) -> None:
        """Remove the files that are left."""
        while self._ready:
            descriptor, path = self._ready.popleft()
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(path)


class Unfinished:
    """A file that is being written. ``write`` it, ``sync`` it if it is to be durable, ``name_it``, and ``forget``."""

    def __init__(self, name: str, path: str, data: Sequence[Buffer], spare: "Spare | None" = None) -> None:
        self.name = name
        self.path = path
        self.folder: str = os.path.dirname(path)
        self.size: int = size_of(data)
        self.is_taken = False
        self._data = data
        self._descriptor: int | None = spare[0] if spare else None
        self._temporary = spare[1] if spare else unfinished_in(self.folder)

    def write(self) -> None:
        """Write the bytes."""
        if self._descriptor is None:
            self._descriptor = create(self._temporary)
        write_all(self._descriptor, self._data)

    def sync(self) -> None:
        """Sync the bytes to the disk."""
        assert self._descriptor is not None, "it is written first"
        os.fsync(self._descriptor)

    def name_it(self) -> None:
        """Give the file its name; ``is_taken`` is set if another file has it."""
        self._close()
        try:
            os.link(self._temporary, self.path)
        except FileExistsError:
            # A network file system may have made the link and lost the response: then the file has two names.
            self.is_taken = os.stat(self._temporary).st_nlink < 2
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self.is_taken = not _renamed(self._temporary, self.path)

    def rename(self) -> None:
        """Give the file its name, which no other file has."""
        self._close()
        try:
            os.rename(self._temporary, self.path)
        except FileNotFoundError:
            make_folders(self.folder)
            os.rename(self._temporary, self.path)

    def forget(self) -> None:
        """Remove the unfinished name. An error is ignored, as the next ``lock`` sweeps again."""
        with suppress(OSError):
            self._close()
        with suppress(OSError):
            os.unlink(self._temporary)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def create(path: str) -> int:
    """Create a file, with its folder if need be, and open it.

    Raises:
        FileExistsError: it is there.
    """
    try:
        return _created(path)
    except FileNotFoundError:
        make_folders(os.path.dirname(path))
        return _created(path)


def _created(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o666)


def write_all(descriptor: int, data: Sequence[Buffer]) -> None:
    """Write all buffers, one after another."""
    for each in data:
        rest = memoryview(each)
        if rest.nbytes:
            rest = rest.cast("B")
            while rest.nbytes:
                rest = rest[os.write(descriptor, rest) :]


def _renamed(old: str, new: str) -> bool:
    """Rename a file unless the new name is taken, where links cannot do that.

    ``rename`` would replace a file silently (not on Windows), so a lock makes check and rename one step for all processes
    of this machine.
    """
    with waiting_lock(Path(new).with_name(".names.lock")):
        if os.path.lexists(new):
            return False
        try:
            os.rename(old, new)
        except FileExistsError:
            return False
    return True
