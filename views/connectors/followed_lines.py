"""Lines of files that are followed, and how it is seen that such a file was replaced, became shorter or was written anew."""

import os
import time
import zlib
from pathlib import Path
from typing import BinaryIO

from evercurrent.core.data.schema import counted

from .file_columns import Reading
from .lines import BLOCK_BYTES, Lines, Quoting, ReplacedFileError

TAIL_BYTES = 4 << 10
"""The last bytes read of a file are compared whenever it has grown, this many of them."""

SETTLED_NS = 100_000_000
"""A file that was written less long ago may be written again without a change of its times."""


class _Beginning:
    """The part of a file that was read, as far as it is needed to see whether a file begins with it.

    A file that has grown is compared in its last bytes alone, as each append would cost a pass over the whole file. It is
    compared as a whole if it is another file, or was written without having grown.
    """

    def __init__(self) -> None:
        self._size = 0
        self._checksum = 0
        self._tail = b""
        self._status: tuple[tuple[int, ...], int, tuple[int, ...]] = ((), 0, ())
        """The identity, the size and the times of the file when it was last compared."""
        self._is_settled = False

    def add(self, data: bytes) -> None:
        """Add bytes that were read after the others."""
        self._size += len(data)
        self._checksum = zlib.crc32(data, self._checksum)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def is_of(self, file: BinaryIO) -> bool:
        """Return whether the open file begins with it, and remember the file's status; its position is moved."""
        status = os.fstat(file.fileno())
        file_id, times = (status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_ctime_ns)
        now = (file_id, status.st_size, times)
        if now == self._status and self._is_settled:
            return True
        id_before, size_before, times_before = self._status
        is_written_over = status.st_size == size_before and times != times_before
        is_same = status.st_size >= self._size and (
            self._is_whole_in(file) if file_id != id_before or is_written_over else self._ends_at(file)
        )
        if is_same:
            self._status = now
            self._is_settled = time.time_ns() - max(times) > SETTLED_NS
        return is_same

    def _ends_at(self, file: BinaryIO) -> bool:
        file.seek(self._size - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _is_whole_in(self, file: BinaryIO) -> bool:
        file.seek(0)
        checksum, rest = 0, self._size
        while rest and (data := file.read(min(rest, BLOCK_BYTES))):
            checksum, rest = zlib.crc32(data, checksum), rest - len(data)
        return not rest and checksum == self._checksum


class GrowingLines(Lines):
    """The lines of a file that is followed and may only grow: it has to begin with what was read of it.

    The file may be replaced by one that does. It is not kept open, as a folder may have more files than a process may open.
    """

    def __init__(self, path: Path, *, quoting: Quoting | None = None) -> None:
        super().__init__(path, quoting=quoting)
        self._beginning = _Beginning()

    def require_grown(self) -> None:
        """Do nothing: the file is compared when it is opened, as it may be another one right after a check."""

    def _returned(self, data: bytes) -> bytes:
        self._beginning.add(data)
        return super()._returned(data)

    def _opened(self) -> BinaryIO:
        """Open the file.

        Raises:
            ReplacedFileError: it does not begin with what was read.
        """
        file = super()._opened()
        if not self._beginning.is_of(file):
            is_shorter = os.fstat(file.fileno()).st_size < self.offset
            file.close()
            raise ReplacedFileError(
                f"{self.path}: the file is {'shorter than' if is_shorter else 'another one, or does not begin any more with'} what was "
                f"read of it ({counted(self.rows)}); lines may be appended, not removed or changed, and lines that the old file "
                "got at last may not have been read: put it back, and write new lines to a file with a new name"
            )
        file.seek(0)
        return file


class FollowedLines(Lines):
    """The lines of a file that is kept open, so that it is read to its end after another one has got its name."""

    def __init__(self, path: Path, *, quoting: Quoting | None = None) -> None:
        super().__init__(path, quoting=quoting)
        self._file = super()._opened()
        self._beginning = _Beginning()

    @property
    def is_replaced(self) -> bool:
        """Whether the path is another file now, or this one was truncated or written anew."""
        here = os.fstat(self._file.fileno())
        try:
            now = self.path.stat()
        except OSError:  # Between the removal of the old file and the creation of the new one.
            return False
        return (now.st_dev, now.st_ino) != (here.st_dev, here.st_ino) or self.is_rewritten

    @property
    def is_rewritten(self) -> bool:
        """Whether the open file no longer begins with what was read of it."""
        with self._opened() as file:
            return not self._beginning.is_of(file)

    def header(self, *, final: bool) -> bytes | None:
        """Return the first line, without its newline; None while there is none, or if there was none until the file was replaced."""
        return super().header(final=final) if os.fstat(self._file.fileno()).st_size else None

    def require_grown(self) -> None:
        """Do nothing: a file that has become shorter is another one."""

    def _returned(self, data: bytes) -> bytes:
        self._beginning.add(data)
        return super()._returned(data)

    def _opened(self) -> BinaryIO:
        """Return a second handle of the open file, whatever has its name now."""
        copy = os.fdopen(os.dup(self._file.fileno()), "rb")
        copy.seek(0)
        return copy


def plain_lines(path: Path, reading: Reading, quoting: Quoting | None = None) -> Lines:
    """Return the lines of a plain file, which may be followed."""
    if reading.follows_replaced:
        return FollowedLines(path, quoting=quoting)
    return (GrowingLines if reading.refuses_replaced else Lines)(path, quoting=quoting)
