"""A file of a folder that grows by entries, each of which is durable when it has been added, and is emptied as a whole.

Entries have numbers that grow for ever. Emptied means that the next entry is written over the first: what is still
there of older ones has lower numbers. An entry begins on a multiple of ``ALIGNED``, so that a torn write damages none
before it, with a head of fixed size; the first one that is not whole ends the file.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from .protocol import Abandoned, Buffer, size_of
from .syncing import is_ending, sync_data, sync_folder

ALIGNED = 4096

HEAD = struct.Struct("<8sQQI")
"""What it is, the number of the entry, its bytes, their checksum."""

HEAD_SIZE = HEAD.size + 4
"""With the head's own checksum."""

MAGIC = b"evcrlog1"


class AppendLog:
    """The log at a path, for the one process that has the lock of its folder.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._process = os.getpid()
        self._end = self._next = 0
        """The end of the entries that were waited for, and of the one that was begun."""
        self._writing: Future[None] | None = None
        is_new = not os.path.lexists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._beside = ThreadPoolExecutor(1, "evercurrent-log")
        if is_new:
            sync_folder(os.path.dirname(path))

    @property
    def is_ours(self) -> bool:
        """Whether this process has made it, and not the one that it was forked from."""
        return self._process == os.getpid()

    @property
    def size(self) -> int:
        """Bytes up to the end of the last entry that was waited for."""
        return self._end

    def begin(self, number: int, parts: Sequence[Buffer]) -> None:
        """Begin to add an entry; ``wait`` for it before the next one."""
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        head = HEAD.pack(MAGIC, number, size_of(parts), crc)
        head += zlib.crc32(head).to_bytes(4, "little")
        size = HEAD_SIZE + size_of(parts)
        self._next = self._end + size + -size % ALIGNED
        if is_ending():
            self._write([head, *parts], self._end)
        else:
            self._writing = self._beside.submit(self._write, [head, *parts], self._end)

    def wait(self) -> None:
        """Return when the entry that was begun is on the disk.

        Raises:
            OSError: it is not known whether it is: ``take_back``.
        """
        if self._writing is not None:
            self._writing.result()
        self._end, self._writing = self._next, None

    def take_back(self) -> None:
        """Undo the entry that was begun and not waited for, durably, whatever of it is there.

        Raises:
            OSError: it may be there, and may be not.
        """
        if self._writing is not None:
            wait([self._writing])
            self._writing = None
        # Where the file ends before it, nothing is there, and there may be no room to say so.
        if os.fstat(self._descriptor).st_size > self._end:
            os.pwrite(self._descriptor, bytes(HEAD_SIZE), self._end)
            sync_data(self._descriptor)
        self._next = self._end

    def restart(self) -> None:
        """Forget all entries: the next one, whose number is higher than theirs, takes their place."""
        self._end = self._next = 0

    def remove(self) -> None:
        """Nobody needs what is in it."""
        with suppress(FileNotFoundError):  # With the whole folder.
            os.unlink(self.path)

    def __enter__(self) -> Self:
        """The log, until the end of the context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the file back. Somebody who has abandoned it was not writing to it."""
        self._beside.shutdown(wait=kind is not Abandoned)
        os.close(self._descriptor)

    def _write(self, buffers: Sequence[Buffer], at: int) -> None:
        done, size = os.pwritev(self._descriptor, list(buffers), at), size_of(buffers)
        if done < size:
            rest = memoryview(b"".join(buffers))
            while done < size:
                done += os.pwrite(self._descriptor, rest[done:], at + done)
        sync_data(self._descriptor)


def entries_after(path: str, number: int) -> Iterator[memoryview]:
    """The entries of a log that follow one another, from the one after this number on. None if there is no log."""
    try:
        content = memoryview(Path(path).read_bytes())
    except FileNotFoundError:
        return
    at = 0
    while at + HEAD_SIZE <= len(content):
        head, start = content[at : at + HEAD_SIZE], at + HEAD_SIZE
        magic, its_number, size, crc = HEAD.unpack(head[: HEAD.size])
        if magic != MAGIC or zlib.crc32(head[: HEAD.size]) != int.from_bytes(head[HEAD.size :], "little"):
            return
        entry = content[start : start + size]
        if its_number != number + 1 or len(entry) < size or zlib.crc32(entry) != crc:
            return
        yield entry
        number = its_number
        at += HEAD_SIZE + size + -(HEAD_SIZE + size) % ALIGNED
