"""An append log is a file to which durable entries are added, and which is emptied as a whole.

The numbers of entries always grow. After the log is emptied the next entry is written over the first, and remains of
older entries have lower numbers. An entry begins on a multiple of ``ALIGNED``, so that a torn write damages none
before it, with a head of fixed size.

Only the last entry can be torn, and only if it was not waited for. A torn entry cannot be distinguished from a damaged one
by its bytes, so two rules decide: an entry is begun when the one before it is on the disk, so all entries before another
one must be whole; and an entry that was waited for is noted elsewhere (``acknowledged``), a note that only a power failure
can lose.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from evercurrent.core.data.errors import CorruptFileError, MissingFileError

from .acknowledged import Acknowledged
from .acknowledged_file import AcknowledgedFile
from .protocol import Abandoned, Buffer, LogGapError, size_of
from .refusals import log_gone
from .syncing import erase, is_ending, sync_data, sync_folder

ALIGNED = 4096

HEAD = struct.Struct("<8s16sQQI")
"""The magic, the token of the log's writer, the number of the entry, the number of its bytes, their checksum."""

HEAD_SIZE = HEAD.size + 4
"""With the head's own checksum."""

MAGIC = b"evcrlog2"

FORMER_HEAD, FORMER_MAGIC = struct.Struct("<8sQQI"), b"evcrlog1"
"""The head of an earlier version, without a token."""


class AppendLog:
    """The log at a path, for the one process that has the lock of its folder, with the file of its notes.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: str, acknowledged: AcknowledgedFile | None = None) -> None:
        self.path = path
        self._acknowledged = acknowledged
        self._token = os.urandom(16)
        self._begun: int | None = None
        """The number of the entry that was begun and is not yet durable."""
        self._head = b""
        """Its head."""
        self._process = os.getpid()
        self._end = self._next = 0
        """The end of the entries that were waited for, and of the one that was begun."""
        self._writing: Future[None] | None = None
        is_new = not os.path.lexists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._identity = _identity(os.fstat(self._descriptor))
        self._beside = ThreadPoolExecutor(1, "evercurrent-log")
        if is_new:
            sync_folder(os.path.dirname(path))

    @property
    def is_ours(self) -> bool:
        """Return whether this process has made it, and not the one that it was forked from."""
        return self._process == os.getpid()

    @property
    def size(self) -> int:
        """Return bytes up to the end of the last entry that was waited for."""
        return self._end

    def begin(self, number: int, parts: Sequence[Buffer]) -> None:
        """Begin to add an entry; ``wait`` for it before the next one."""
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        head = HEAD.pack(MAGIC, self._token, number, size_of(parts), crc)
        head += zlib.crc32(head).to_bytes(4, "little")
        size = HEAD_SIZE + size_of(parts)
        self._next, self._begun, self._head = self._end + _aligned(size), number, head
        if is_ending():
            self._write([head, *parts], self._end)
        else:
            self._writing = self._beside.submit(self._write, [head, *parts], self._end)

    def wait(self) -> None:
        """Wait until the entry that was begun is on the disk, in the file that has the path of this log.

        Raises:
            OSError: it is unknown whether it is; then call ``take_back``.
            CheckpointError: the path has no such file any more; call ``take_back``, too.
        """
        if self._writing is not None:
            self._writing.result()
        if self._begun is not None and not self._is_in_place():
            raise log_gone(*os.path.split(self.path))
        if self._begun is not None and self._acknowledged is not None:
            self._acknowledged.logged(self._begun, self._token)
        self._end, self._writing, self._begun = self._next, None, None

    def take_back(self) -> None:
        """Undo the entry that was begun and not waited for, durably, however much of it is there.

        Raises:
            OSError: it is unknown whether the entry is still there; it can be tried again.
        """
        if self._writing is not None:
            wait([self._writing])
            self._writing = None
        if self._begun is not None and self._acknowledged is not None:
            self._acknowledged.take_back(self._begun)
        erase(self._descriptor, self._end, HEAD_SIZE)
        self._next, self._begun = self._end, None

    def restart(self) -> None:
        """Drop all entries: the next one, whose number is higher than theirs, takes their place."""
        self._end = self._next = 0

    def remove(self) -> None:
        """Remove the log, which is not needed any more."""
        if self._acknowledged is not None:
            self._acknowledged.forget_inputs()
        with suppress(FileNotFoundError):  # The whole folder may be gone.
            os.unlink(self.path)

    def __enter__(self) -> Self:
        """Return the log, until the end of the context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file. A log that was abandoned was not being written to."""
        self._beside.shutdown(wait=kind is not Abandoned)
        os.close(self._descriptor)

    def _is_in_place(self) -> bool:
        """Return whether whoever opens the path reads the entry that was begun; costs a microsecond.

        The file may have been deleted or moved with any folder above it, which an open descriptor does not show.
        """
        try:
            if _identity(os.stat(self.path)) == self._identity:
                return True
            # Some file systems number a file anew each time that it is looked up.
            with open(self.path, "rb") as file:
                file.seek(self._end)
                return file.read(len(self._head)) == self._head
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _write(self, buffers: Sequence[Buffer], at: int) -> None:
        written, size = os.pwritev(self._descriptor, list(buffers), at), size_of(buffers)
        if written < size:
            rest = memoryview(b"".join(buffers))
            while written < size:
                written += os.pwrite(self._descriptor, rest[written:], at + written)
        sync_data(self._descriptor)


def entries_after(path: str, number: int, acknowledged: Acknowledged | None = None) -> list[memoryview]:
    """Return the consecutive entries of a log from the one after this number on; none if there is no log.

    ``acknowledged`` is the writer's note: the entries that it names must be there.

    Raises:
        MissingFileError, CorruptFileError: they are not, or a damaged entry is followed by a later one; names the log.
        LogGapError: the log begins with a later entry.
    """
    try:
        content = memoryview(Path(path).read_bytes())
    except FileNotFoundError:
        require_none(path, number, acknowledged)
        return []
    return entries_in(path, content, number, acknowledged)


def require_none(path: str, number: int, acknowledged: Acknowledged | None) -> None:
    """Check that no entries after this number were acknowledged, as there is no log.

    Raises:
        MissingFileError: some were.
    """
    if acknowledged is not None and acknowledged.logged > number:
        raise MissingFileError(
            f"{path} is missing, with the input of the epochs from {number + 1} to {acknowledged.logged}, which were "
            "acknowledged and are not committed; restore it from a copy of the checkpoint"
        )


def entries_in(path: str, content: memoryview, number: int, note: Acknowledged | None) -> list[memoryview]:
    """Return the consecutive entries after this number in the content of a log.

    Raises:
        CorruptFileError, LogGapError: as ``entries_after``.
    """
    first = _head_at(content, 0)
    if first is not None and first.number > number + 1:
        raise LogGapError(
            f"{path} goes on from epoch {first.number}, and not from {number + 1}", first.number
        )
    entries: list[memoryview] = []
    tokens = {each.token for each in (first, note) if each is not None}
    at, head, last = 0, first, number
    # A log has one writer: entries of another writer after its own are old remains, whatever their number.
    while head is not None and first is not None and (not at or _follows(head, first, last)):
        entry = content[at + head.length : at + head.length + head.size]
        if len(entry) < head.size or zlib.crc32(entry) != head.crc:
            break
        if head.number > number:
            entries.append(entry)
        last, at = head.number, at + _aligned(head.length + head.size)
        head = _head_at(content, at)
    last = max(last, number)
    heads = (_head_at(content, place) for place in range(at, len(content), ALIGNED))
    # Without a known token any is accepted; with one, an entry imitated by users' data is not.
    later = (each.number for each in heads if each is not None and (not tokens or each.token in tokens))
    is_owed = note is not None and note.logged > last
    if is_owed or any(its_number > last + 1 for its_number in later):
        raise CorruptFileError(
            f"{path} is damaged: the input of epoch {last + 1}, at byte {at:,}, is not what was written, and that epoch was "
            "acknowledged; restore the file from a copy of the checkpoint. To go on from the last commit, without the epochs "
            "after it, move it and writer.acknowledged away"
        )
    return entries


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of an entry: its writer, its number, the bytes that follow and their checksum, its own length."""

    token: bytes
    number: int
    size: int
    crc: int
    length: int = HEAD_SIZE


def _follows(head: _Head, first: _Head, last: int) -> bool:
    """Return whether an entry is the next after one of this number, in the log that begins with ``first``."""
    return head.number == last + 1 and head.token == first.token


def _head_at(content: memoryview, at: int) -> _Head | None:
    """Return the head at a place, if there is one, of this version or an earlier one."""
    magic = content[at : at + len(MAGIC)]
    layout = HEAD if magic == MAGIC else FORMER_HEAD
    body, crc = content[at : at + layout.size], content[at + layout.size : at + layout.size + 4]
    if (
        magic not in (MAGIC, FORMER_MAGIC)
        or len(crc) < 4
        or zlib.crc32(body) != int.from_bytes(crc, "little")
    ):
        return None
    if layout is HEAD:
        return _Head(*layout.unpack(body)[1:])
    _, number, size, its_crc = layout.unpack(body)
    return _Head(b"", number, size, its_crc, layout.size + 4)


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Return what distinguishes a file from any other one of this machine."""
    return status.st_dev, status.st_ino


def _aligned(size: int) -> int:
    return size + -size % ALIGNED
