"""Files of remote stores are copied to this machine, as mapped files without names."""

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pyarrow as pa

from .protocol import FileBytes


class MappedCopies:
    """A cache of the copies used last, up to a number of bytes. Safe for threads.

    A copy is written to a file, mapped, and the file's name removed: its space on the disk is freed when the
    mapping is dropped, also if the process is killed. A file larger than the bound is mapped for its reader and
    not kept.
    """

    def __init__(self, folder: str | None, most: int) -> None:
        self.folder: str = folder or tempfile.gettempdir()
        self.most = most
        self._kept: OrderedDict[str, FileBytes] = OrderedDict()
        self._bytes = 0
        self._guard = threading.Lock()

    def find(self, name: str) -> FileBytes | None:
        """Return the copy of that name, if it is kept."""
        with self._guard:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def add(self, name: str, write: Callable[[Path], object]) -> FileBytes:
        """Keep the file that ``write`` fills, and return it mapped.

        Raises: as ``once``.
        """
        copy = self.once(write)
        self.drop([name])
        with self._guard:
            self._kept[name] = copy
            self._bytes += copy.size
            while self._bytes > self.most:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return copy

    def once(self, write: Callable[[Path], object]) -> FileBytes:
        """Return the file that ``write`` fills, mapped and not kept.

        Raises:
            OSError: the folder has no room, or cannot be written. What ``write`` raises passes.
        """
        os.makedirs(self.folder, exist_ok=True)
        descriptor, text = tempfile.mkstemp(prefix="evercurrent-", dir=self.folder)
        os.close(descriptor)
        path = Path(text)
        try:
            write(path)
            return _mapped(path)
        finally:
            path.unlink(missing_ok=True)

    def drop(self, names: Iterable[str]) -> None:
        """Drop the copies of these names."""
        with self._guard:
            for name in names:
                copy = self._kept.pop(name, None)
                self._bytes -= copy.size if copy is not None else 0


@cache
def copies_of(url: str, folder: str | None, most: int) -> MappedCopies:
    """Return the cache of a store, one per process however often the store is unpickled there."""
    return MappedCopies(folder, most)


def _mapped(path: Path) -> FileBytes:
    if os.name == "nt":  # A mapped file cannot be unlinked there.
        loaded: FileBytes = pa.py_buffer(path.read_bytes())
        return loaded
    with pa.memory_map(str(path)) as file:
        mapped: FileBytes = file.read_buffer()
    return mapped
