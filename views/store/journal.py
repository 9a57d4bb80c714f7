"""The journal of a store's folder makes writes to many files durable with one wait for the disk.

An entry holds whole files, or names of files to be deleted. Once it is on the disk, the files may be written without
any wait: after a power failure they are restored from the journal. There are two journal files. When one is full, the
files of its entries are synced in the background while the other one is written to.

An entry begins on a multiple of ``ALIGNED``, so a torn write damages none before it: a head of fixed size, the names
and sizes as JSON, the bytes of the files. Entries of one pass over a file carry the same token and are counted; the
first that is not whole, or of an earlier pass, ends it.
"""

import errno
import json
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from evercurrent.core.data.errors import CorruptFileError

from .acknowledged_file import AcknowledgedFile
from .protocol import JOURNALS, Buffer, size_of
from .syncing import erase, is_ending, sync_data, sync_folder, sync_together
from .unfinished import Spares

FULL = 32 << 20
"""Bytes of entries after which a journal file is full; one entry may be larger."""

ALIGNED = 4096

HEAD = struct.Struct("<8s16sQQQQI")
"""The magic, the token of the pass, its number, the number of the entry, bytes of names, bytes of files, checksum."""

HEAD_SIZE = HEAD.size + 4
"""With the head's own checksum."""

MAGIC = b"evcrjrn1"

WITHOUT_JOURNAL = (
    "restore the whole folder from a copy of the checkpoint; if the power has not failed since it was written, its files "
    "are whole without it: then move writer.journal, writer.journal2 and writer.acknowledged away"
)
"""The remedy for a damaged journal."""

MOST_BUFFERS = 512

MOST_SPARES = 16
"""The most files that are made ahead."""

File = tuple[str, Sequence[Buffer]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of an entry: files by name, each with its bytes, or None if it is to be deleted."""

    at: tuple[int, int]
    """The number of the pass and the entry's own."""
    token: bytes
    """The token of the pass."""
    files: dict[str, memoryview | None]


class JournalFile:
    """One file of the journal, written in passes from its beginning to its end."""

    def __init__(self, path: str, which: int, acknowledged: AcknowledgedFile) -> None:
        self.path = path
        self.end = 0
        self._which = which
        self._acknowledged = acknowledged
        self.touched: set[str] = set()
        """Paths of files that entries of this pass name."""
        self._start = self._count = self._pass = 0
        self._token = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def begin(self, number: int) -> None:
        """Begin a pass. The file must be empty, or its entries not needed."""
        self.end = self._start = self._count = 0
        self._pass, self._token = number, os.urandom(16)
        self.touched = set()

    def write(self, files: Sequence[File], deleted: Sequence[str]) -> None:
        """Add an entry, which is durable after ``sync``."""
        self._start = self.end
        names = json.dumps([[[name, size_of(data)] for name, data in files], list(deleted)]).encode()
        buffers: list[Buffer] = [names, *(each for _, data in files for each in data)]
        crc = 0
        for each in buffers:
            crc = zlib.crc32(each, crc)
        size = size_of(buffers)
        head = HEAD.pack(MAGIC, self._token, self._pass, self._count, len(names), size - len(names), crc)
        head += zlib.crc32(head).to_bytes(4, "little")
        _write_at(self._descriptor, [head, *buffers, bytes(-(HEAD_SIZE + size) % ALIGNED)], self._start)
        self.end = self._start + _aligned(HEAD_SIZE + size)
        self._count += 1

    def sync(self) -> None:
        """Sync all entries to the disk, and then note their number."""
        end = self._token, self._count
        sync_data(self._descriptor)
        self._acknowledged.end_of_journal(self._which, end)

    def take_back(self) -> None:
        """Undo the last ``write``, however much of it is there.

        Raises:
            OSError: it is unknown whether the entry is still there; it can be tried again.
        """
        count = self._count - (self.end > self._start)
        self._acknowledged.shorten_journal(self._which, (self._token, count))
        erase(self._descriptor, self._start, HEAD_SIZE)
        self.end, self._count = self._start, count

    def empty(self) -> None:
        """Drop all entries."""
        self._acknowledged.shorten_journal(self._which, (self._token, 0))
        os.pwrite(self._descriptor, bytes(HEAD_SIZE), 0)
        sync_data(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Journal:
    """The journal of a folder, for the one process that has the lock of it; its threads take turns by ``guard``."""

    def __init__(self, folder: str, acknowledged: AcknowledgedFile) -> None:
        self.process = os.getpid()
        self._acknowledged = acknowledged
        self.guard = threading.Lock()
        self._folder = folder
        self._files: list[JournalFile] = []
        self._passes = 0
        self._emptied: Future[None] | None = None
        """The settling of the journal file that is not written to."""
        self._beside = ThreadPoolExecutor(3, "evercurrent-journal")
        self.spares = Spares(folder)
        self._making: Future[None] | None = None
        self.broken: OSError | None = None
        """The error after which the content of the journal is unknown."""
        self.not_undone: OSError | None = None
        """The error with which the last ``write`` could not be undone: nothing is written before it is."""

    @property
    def is_begun(self) -> bool:
        """Return whether there may be entries."""
        return self._passes > 0

    def write(self, files: Sequence[File], gone: Sequence[str] = ()) -> Future[None]:
        """Add an entry; it is durable when the returned future is done.

        Raises:
            OSError: it was not added, or the journal is broken.
        """
        file = self._with_room()
        try:
            file.write(files, gone)
        except BaseException:
            self.take_back()
            raise
        file.touched.update(f"{self._folder}/{name}" for name, _ in files)
        file.touched.update(f"{self._folder}/{name}" for name in gone)
        return self._done_beside(file.sync)

    def take_back(self, writing: Future[None] | None = None) -> None:
        """Undo the last ``write``. Where that fails, it is tried again before anything else is written."""
        if writing is not None:
            wait([writing])
        self._undo()

    def mend(self) -> None:
        """Undo the last ``write`` if that has failed before.

        Raises:
            OSError: it fails again.
        """
        if self.not_undone is not None:
            self._undo()
        if self.not_undone is not None:
            raise self.not_undone

    def make_spares(self, count: int) -> None:
        """Make files ready for the next entry in the background."""
        if (self._making is None or self._making.done()) and not is_ending():
            self._making = self._beside.submit(self.spares.make, min(count, MOST_SPARES))

    def settle(self) -> None:
        """Sync all files that entries name, and drop the entries.

        Raises:
            OSError: the entries are still there.
        """
        if self.broken is not None:
            raise self.broken
        if self._emptied is not None:
            self._emptied.result()
        if self.is_begun:
            self._settle(self._files[self._passes % 2])
            self._files[self._passes % 2].begin(self._passes)

    def close(self) -> None:
        """Settle, and remove the journal. What cannot be settled now is left to the next process that opens the folder."""
        if self.process != os.getpid():
            return
        try:
            with self.guard:
                with suppress(OSError):
                    self.mend()
                if self.broken is None and self.not_undone is None:
                    self.settle()
                    self._remove()
        finally:
            self._beside.shutdown()
            self.spares.close()
            for file in self._files:
                file.close()
            self._files = []

    def abandon(self) -> bool:
        """Leave everything to the next process that opens the folder, without waiting; return whether no write is under way."""
        self._beside.shutdown(wait=False)
        if self._making is None or self._making.done():
            self.spares.close()
        is_idle = self._emptied is None or self._emptied.done()
        if is_idle:
            for file in self._files:
                file.close()
            self._files = []
        return is_idle

    def _undo(self) -> None:
        try:
            self._files[self._passes % 2].take_back()
            self.not_undone = None
        except OSError as error:
            self.not_undone = error

    def _done_beside(self, work: Callable[..., None], *files: JournalFile) -> Future[None]:
        if not is_ending():
            return self._beside.submit(work, *files)
        future: Future[None] = Future()
        try:
            work(*files)
            future.set_result(None)
        except Exception as error:
            future.set_exception(error)
        return future

    def _remove(self) -> None:
        for file in self._files:
            with suppress(FileNotFoundError):  # The whole folder may be gone.
                os.unlink(file.path)

    def _with_room(self) -> JournalFile:
        if not self.is_begun:
            self._files = [
                JournalFile(f"{self._folder}/{name}", which, self._acknowledged)
                for which, name in enumerate(JOURNALS)
            ]
            sync_folder(self._folder)
            self._next()
        elif self._files[self._passes % 2].end >= FULL:
            if self._emptied is not None:
                self._emptied.result()
            self._emptied = self._done_beside(self._settle, self._files[self._passes % 2])
            self._next()
        return self._files[self._passes % 2]

    def _next(self) -> None:
        self._passes += 1
        self._files[self._passes % 2].begin(self._passes)

    def _settle(self, file: JournalFile) -> None:
        try:
            sync_together(file.touched)
            file.empty()
        except OSError as error:
            # After a failed sync the success of another one proves nothing.
            self.broken = error
            raise


def entries_of(path: str) -> Iterator[Entry]:
    """Yield the whole entries of a journal file in order; none if there is no such file. Only the last one may be torn.

    Raises:
        CorruptFileError: a damaged entry is followed by one that was written after it.
    """
    if os.path.isdir(path):  # Arrow's error of it has no number.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        with pa.memory_map(path) as file:
            content = memoryview(file.read_buffer())
    except FileNotFoundError:
        return
    at, token, count = 0, b"", 0
    while (head := _head_at(content, at)) is not None:
        body = content[at + HEAD_SIZE : at + HEAD_SIZE + head.names_size + head.size]
        is_next = head.count == count and (head.token == token or not at)
        if not is_next or len(body) < head.names_size + head.size or zlib.crc32(body) != head.crc:
            break
        files = _files_of(bytes(body[: head.names_size]), body[head.names_size :])
        yield Entry((head.number, count), head.token, files)
        at, token, count = at + _aligned(HEAD_SIZE + len(body)), head.token, count + 1
    # The file may have been emptied, and have no first entry.
    for place in range(at, len(content) if count else 0, ALIGNED):
        later = _head_at(content, place)
        if later is not None and later.token == token and later.count > count:
            raise CorruptFileError(
                f"{path} is damaged: entry {count + 1}, at byte {at:,}, is not what was written, and later ones are there; "
                f"{WITHOUT_JOURNAL}"
            )


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of an entry: token and number of the pass, the entry's number in it, sizes, checksum of the rest."""

    token: bytes
    number: int
    count: int
    names_size: int
    size: int
    crc: int


def _head_at(content: memoryview, at: int) -> _Head | None:
    """Return the head at a place, if there is one."""
    head = content[at : at + HEAD_SIZE]
    if len(head) < HEAD_SIZE or head[: len(MAGIC)] != MAGIC:
        return None
    if zlib.crc32(head[: HEAD.size]) != int.from_bytes(head[HEAD.size :], "little"):
        return None
    return _Head(*HEAD.unpack(head[: HEAD.size])[1:])


def _files_of(names: bytes, content: memoryview) -> dict[str, memoryview | None]:
    written, deleted = json.loads(names)
    files: dict[str, memoryview | None] = {}
    at = 0
    for name, size in written:
        files[name] = content[at : at + size]
        at += size
    return files | dict.fromkeys(deleted)


def _aligned(size: int) -> int:
    return size + -size % ALIGNED


def _write_at(descriptor: int, buffers: Sequence[Buffer], at: int) -> None:
    if len(buffers) > MOST_BUFFERS:
        buffers = [b"".join(buffers)]
    size = size_of(buffers)
    written = os.pwritev(descriptor, buffers, at)
    if written < size:
        rest = memoryview(b"".join(buffers))
        while written < size:
            written += os.pwrite(descriptor, rest[written:], at + written)
