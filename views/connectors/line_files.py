"""Files of CSV and JSON lines: plain, compressed, the standard input, and files that are replaced while they are followed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from evercurrent.core.data.errors import FileError

from .file_columns import Target, check_names, fitted, without_type
from .followed_lines import FollowedLines, plain_lines
from .lines import STANDARD_INPUT, CompressedLines, Lines, Quoting, StandardLines
from .log_files import KEPT_LINES, REFUSED
from .skipped_rows import Refused, Separated, csv_separated, json_separated
from .text_files import Parsed, csv_rows, header_names, json_rows, unreadable_header, without_text

CODECS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".xz": "xz"}
"""The compressions of text files, by the last suffix."""

TAB = "\t"

UNREADABLE = "cannot be read"
"""The reason for which rows of text files are refused."""


class TextFile:
    """A file of CSV or JSON lines.

    If its target ``skips`` rows, one that cannot be read is refused and kept beside, and the rows after it are read.
    """

    def __init__(self, path: Path, target: Target, *, json_lines: bool) -> None:
        self.path = path
        self.rows = 0
        self.refused_for: Counter[str] = Counter()
        """How many rows were refused."""
        self._refused: list[tuple[int, str]] = []
        self._target = target
        self._json_lines = json_lines
        self._separator = target.reading.separator or (TAB if _names_tabs(path) else ",")
        self._lines = self._opened()
        self._names: list[str] | None = None
        self._rows_before = 0
        """The rows of the files that had this name before."""
        if (name := without_text(target.schema, json_lines=json_lines)) is not None:
            raise FileError(
                f"{path}: column {name!r} of source {target.source!r} is {target.schema[name]}, which "
                f"{'JSON lines' if json_lines else 'CSV'} cannot represent; {without_type(target.schema[name])}"
            )

    @property
    def done_bytes(self) -> float:
        """Return the number of bytes from which the returned rows were read."""
        return self._lines.bytes_of(self.rows - self._rows_before)

    @property
    def is_open(self) -> bool:
        """Return whether it can be read while no file has its name."""
        return isinstance(self._lines, FollowedLines)

    @property
    def refused(self) -> pl.DataFrame:
        """Return the refused rows: file, row, reason, and what is wrong with them."""
        rows = [(str(self.path), number, UNREADABLE, text) for number, text in self._refused]
        return pl.DataFrame(rows, schema=REFUSED, orient="row")

    def frames(self, batch_rows: int, *, final: bool) -> Iterator[pl.DataFrame]:
        """Yield the rows that were not read before, a block of lines at a time.

        Raises:
            FileError: a row cannot be read, or the file became shorter and is not followed.
        """
        if isinstance(self._lines, FollowedLines) and self._lines.is_replaced:
            if not self._lines.is_rewritten:
                yield from self._frames(final=True)
            self._rows_before += self._lines.rows
            self._lines, self._names = self._opened(), None
        yield from self._frames(final=final)

    def _opened(self) -> Lines:
        quoting = None if self._json_lines else Quoting(self._separator, self._target.reading.skips)
        if self.path == STANDARD_INPUT:
            return StandardLines(quoting=quoting)
        if (codec := CODECS.get(self.path.suffix.lower())) is not None:
            return CompressedLines(self.path, quoting=quoting, codec=codec)
        return plain_lines(self.path, self._target.reading, quoting)

    def _frames(self, *, final: bool) -> Iterator[pl.DataFrame]:
        self._lines.require_grown()
        if not self._json_lines and self._names is None and not self._read_header(final):
            return
        for block in self._lines.blocks(final=final):
            if self._target.reading.skips:
                rows, refused = self._separated(block)
                self._refuse(refused)
                self._lines.rows += rows.height
                if rows.height:
                    yield fitted(rows, self._target, self.path, self._lines.rows - rows.height)
                continue
            rows, fault = self._rows(block)
            self._lines.rows += rows.height
            if rows.height:
                yield fitted(rows, self._target, self.path, self._lines.rows - rows.height)
            if fault is not None:
                raise FileError(f"{self.path}: row {self._lines.rows + 1}: {fault.message}")

    def _refuse(self, refused: Sequence[Refused]) -> None:
        """Keep the refused rows of a block, of which no row is counted yet."""
        before = self._lines.rows + self._lines.refused
        self._lines.refused += len(refused)
        self.refused_for[UNREADABLE] += len(refused)
        for row in refused[: KEPT_LINES - len(self._refused)]:
            text = row.text.decode(errors="backslashreplace").rstrip()
            self._refused.append((before + row.row + 1, f"{row.message}: {text}"))

    def _separated(self, block: bytes) -> Separated:
        reading = self._target.reading
        if self._names is None:
            return json_separated(block, self._target.wide, ignores_others=reading.ignores_others)
        return csv_separated(block, self._names, self._target.wide, self._separator)

    def _rows(self, block: bytes) -> Parsed:
        reading = self._target.reading
        if self._names is None:
            return json_rows(block, self._target.wide, ignores_others=reading.ignores_others)
        return csv_rows(block, self._names, self._target.wide, self._separator)

    def _read_header(self, final: bool) -> bool:
        line = self._lines.header(final=final)
        if line is None:
            return False
        names = header_names(line, self._separator)
        if names is None:
            raise FileError(f"{self.path}: {unreadable_header(line)}")
        check_names(self.path, names, self._target)
        self._names, self._lines.columns = names, len(names)
        return True


def _names_tabs(path: Path) -> bool:
    """Return whether a file's suffix is that of values separated by tabs."""
    return any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes[-2:])
