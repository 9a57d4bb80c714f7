"""The complete lines of files: of plain ones that may grow, of compressed ones, and of the standard input."""

import lzma
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import counted

from .csv_quotes import end_of_records, is_open, is_shown_stray

BLOCK_BYTES = 4 << 20
"""The bytes of a text file that are in memory at once, unless one line is longer."""

LONGEST_LINE = 64 << 20
"""A line with more bytes than this is refused: it is a quote that was never closed, or no text file."""


class ReplacedFileError(FileError):
    """A file of which rows were read, and which has become shorter, or is another one now."""


@dataclass(frozen=True, slots=True)
class Quoting:
    """How values of CSV are quoted: the separator before a value, and whether lines with stray quotes are ``skipped``."""

    separator: str
    skips: bool = False


class Lines:
    """The complete lines of a file that may still grow, each returned once.

    A line is complete with its newline. In CSV (``quoting``) a newline between quotes belongs to the value.
    """

    def __init__(self, path: Path, *, quoting: Quoting | None = None) -> None:
        self.path = path
        self.offset = 0
        """Bytes returned so far."""
        self.rows = 0
        """Rows in these bytes, counted by the parser."""
        self.refused = 0
        """Rows in these bytes that were refused, and are not in ``rows``."""
        self.columns = 0
        """The columns of CSV, set when its header was read."""
        self._quoting = quoting

    def header(self, *, final: bool) -> bytes | None:
        """Return the first line, without its newline; None where it is not complete and may still become so.

        Raises:
            FileError: the file is empty and final.
        """
        with self._opened() as file:
            line = file.readline(LONGEST_LINE)
        if not line and final:
            raise FileError(f"{self.path}: the file is empty; a CSV file starts with a line of column names")
        if not line.endswith(b"\n") and not final:
            return None
        return self._returned(line).removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")

    def blocks(self, *, final: bool) -> Iterator[bytes]:
        """Yield the bytes that were not returned before, in blocks of complete lines.

        With ``final`` the last line needs no newline; else it is left until it has one.

        Raises:
            FileError: a line does not end, or at the end of a final file a quoted value does not.
        """
        rest = b""
        with self._opened() as file:
            file.seek(self.offset)
            while chunk := file.read(BLOCK_BYTES):
                rest += chunk
                if end := self._end_of_lines(rest):
                    yield self._returned(rest[:end])
                    rest = rest[end:]
                elif len(rest) > LONGEST_LINE:
                    raise FileError(self._endless("is longer than 64 MiB"))
        if rest and final:
            if self._ends_open(rest):
                raise FileError(self._endless("is not closed before the end of the file"))
            yield self._returned(rest)

    def require_grown(self) -> None:
        """Check that the bytes returned are still in the file.

        Raises:
            ReplacedFileError: the file is shorter than that.
        """
        if self.path.stat().st_size < self.offset:
            raise ReplacedFileError(
                f"{self.path}: the file is shorter than what was read of it ({counted(self.rows)}); "
                "lines may be appended, not removed: write new lines to a new file"
            )

    def bytes_of(self, rows: int) -> float:
        """Estimate the bytes of the first ``rows`` rows, as a block is parsed at once and has many rows."""
        return self.offset * (rows / self.rows if self.rows else 1)

    def _returned(self, data: bytes) -> bytes:
        """Count bytes that are returned, and return them."""
        self.offset += len(data)
        return data

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise FileError(
                f"{self.path}: cannot be opened ({error.strerror}); check its permissions"
            ) from error

    def _end_of_lines(self, data: bytes) -> int:
        """Return the length of the longest part that ends with a line."""
        whole_lines = data.rfind(b"\n") + 1
        if self._quoting is None:
            return whole_lines
        end = end_of_records(data, self._quoting.separator)
        if (
            end < whole_lines
            and self._quoting.skips
            and is_shown_stray(data[end:], self._quoting.separator, self.columns)
        ):
            return whole_lines
        return end

    def _ends_open(self, data: bytes) -> bool:
        """Return whether the data, which begin with a record, end in a quoted value, and this is no row to be skipped."""
        quoting = self._quoting
        return quoting is not None and not quoting.skips and is_open(data, quoting.separator)

    def _endless(self, what: str) -> str:
        return (
            f"{self.path}: row {self.rows + self.refused + 1}: the line or quoted value that starts at byte {self.offset} {what}: the "
            "file is cut off there, or a quote inside a value is not doubled; repair it and run again"
        )


class CompressedLines(Lines):
    """The lines of a file that is compressed as a whole, and does not grow."""

    def __init__(self, path: Path, *, quoting: Quoting | None, codec: str) -> None:
        super().__init__(path, quoting=quoting)
        self._codec = codec
        self._read_as: tuple[int, int] | None = None
        """Size and time of the file when all of it was read."""
        self._begun_in: int | None = None
        """The file of which rows were read, by its number, though not to its end yet."""

    def blocks(self, *, final: bool) -> Iterator[bytes]:
        """Yield the bytes in blocks of complete lines, once; the last line needs no newline.

        Raises:
            FileError: the file is damaged.
        """
        now = self._status()
        if now == self._read_as:
            return
        self._begun_in = self.path.stat().st_ino
        try:
            yield from super().blocks(final=True)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise FileError(
                f"{self.path}: row {self.rows + 1}: the file is incomplete or damaged from here on; write it again ({error})"
            ) from error
        self._read_as = now

    def header(self, *, final: bool) -> bytes | None:
        """Return the first line, without its newline.

        Raises:
            FileError: the file is empty or damaged.
        """
        try:
            return super().header(final=True)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise FileError(
                f"{self.path}: the file is incomplete or damaged, or not compressed by {self._codec}; write it again ({error})"
            ) from error

    def require_grown(self) -> None:
        """Check that the file is the one that was read.

        Raises:
            ReplacedFileError: it was changed.
        """
        is_other = self.rows and self._begun_in != self.path.stat().st_ino
        if is_other or self._read_as not in (None, self._status()):
            raise ReplacedFileError(
                f"{self.path}: the file was changed after {counted(self.rows)} of it had been read; write new rows to a new file"
            )

    def bytes_of(self, rows: int) -> float:
        """Return the size of the file when all of it was read; until then it is not known."""
        return self._read_as[0] if self._read_as is not None and rows == self.rows else 0

    def _status(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def _opened(self) -> BinaryIO:
        super()._opened().close()
        if self._codec == "xz":  # Which pyarrow does not read.
            return cast(BinaryIO, lzma.open(self.path))
        return cast(BinaryIO, _Skipping(pa.input_stream(str(self.path), compression=self._codec)))


class _Skipping:
    """A stream that is positioned by reading what comes before."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._line = b""

    def seek(self, offset: int) -> None:
        while offset:
            skipped = len(self._stream.read(min(offset, BLOCK_BYTES)))
            offset = offset - skipped if skipped else 0

    def read(self, size: int) -> bytes:
        return bytes(self._stream.read(size))

    def readline(self, size: int) -> bytes:
        """Return the first line; only at the beginning of the stream."""
        data = b""
        while b"\n" not in data and len(data) < size and (more := self.read(1 << 16)):
            data += more
        return data[: data.find(b"\n") + 1 or len(data)]

    def __enter__(self) -> "_Skipping":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


STANDARD_INPUT = Path("/dev/stdin")
"""The path that stands for the standard input."""


class WaitEnded(KeyboardInterrupt):
    """The end of a wait for the standard input, on request."""


class StandardInputWait:
    """Whether the process waits for its standard input, which whoever ends a run may end: in a quiet pipe it may last for ever."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_ended = False
        """Whether no other wait is to begin."""

    def end(self) -> None:
        """End the wait, or the next one; to be called by the handler of a signal, which interrupts it.

        Raises:
            WaitEnded: there is a wait.
        """
        self.is_ended = True
        if self.is_on:
            raise WaitEnded

    def over(self, read: Callable[[], bytes]) -> bytes:
        """Return what is read of the standard input, as a wait that can be ended.

        Raises:
            WaitEnded: it was.
        """
        self.is_on = True
        try:
            if self.is_ended:
                raise WaitEnded
            return read()
        finally:
            self.is_on = False


WAIT = StandardInputWait()
"""The wait of this process."""


class StandardLines(Lines):
    """The lines of the standard input, each read once as it comes."""

    def __init__(self, *, quoting: Quoting | None) -> None:
        super().__init__(STANDARD_INPUT, quoting=quoting)
        self._data = _standard_input()
        self._has_ended = False

    def header(self, *, final: bool) -> bytes | None:
        """Return the first line, without its newline; None if the wait for it was ended.

        Raises:
            FileError: there is none.
        """
        try:
            line = WAIT.over(lambda: self._data.readline(LONGEST_LINE))
        except WaitEnded:
            return None
        if not line:
            raise FileError("the standard input is empty; CSV starts with a line of column names")
        return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")

    def blocks(self, *, final: bool) -> Iterator[bytes]:
        """Yield blocks of complete lines as they come, to the end of the input or of the wait for it."""
        rest = b""
        while not self._has_ended:
            try:
                chunk = WAIT.over(lambda: self._data.read1(BLOCK_BYTES))
            except WaitEnded:
                return
            self._has_ended = not chunk
            rest += chunk
            end = self._end_of_lines(rest) if chunk else len(rest)
            if not chunk and self._ends_open(rest):
                raise FileError(self._endless("is not closed before the end of the input"))
            if end:
                yield self._returned(rest[:end])
                rest = rest[end:]
            elif len(rest) > LONGEST_LINE:
                raise FileError(self._endless("is longer than 64 MiB"))

    def require_grown(self) -> None:
        """Do nothing: what was read of a stream is gone."""

    def bytes_of(self, rows: int) -> float:
        """Return 0, as the size of the input is not known."""
        return 0.0


def starts_with_json() -> bool:
    """Return whether the standard input begins with an object of JSON, and so is not CSV. Waits for its first bytes.

    Raises:
        WaitEnded: the wait for them was ended.
    """
    data = _standard_input()
    return WAIT.over(lambda: data.peek(1))[:1] == b"{"


def _standard_input() -> BufferedReader:
    """Return the standard input.

    Raises:
        FileError: it is closed.
    """
    if sys.stdin is None:  # So it is in a process that was started without one.
        raise FileError("the standard input is closed; give it something to read, as in < rows.csv")
    return _buffered(sys.stdin.buffer)


@lru_cache(maxsize=1)
def _buffered(data: BinaryIO) -> BufferedReader:
    """Return a stream that can be peeked into without consuming it, the same one each time."""
    return data if isinstance(data, BufferedReader) else BufferedReader(cast(RawIOBase, data))
