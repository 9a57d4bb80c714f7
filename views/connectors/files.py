"""Files and folders are read as batches of rows of a source: CSV, JSON lines, Parquet, Arrow IPC, logs; also growing ones.

A file is never in memory as a whole. A value that does not fit the source's schema is refused with the file, the column
and the row in the message; the rows before it are returned first.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
from pyarrow import ipc
from pyarrow import parquet as pq

from evercurrent.core.data.columns.polars_versions import importable_rows
from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import counted, listed

from .file_columns import AS_WRITTEN, Reading, Target, check_schema, fitted, is_unsupported, not_supported
from .line_files import CODECS, TextFile
from .lines import STANDARD_INPUT, ReplacedFileError, starts_with_json
from .log_files import REFUSED, LogFile

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json lines",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".log": "log",
}
"""The format of a file, by its suffix."""

PATIENCE = 20
"""How many times in a row a file of a growing folder may be unreadable and unchanged before it is refused."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive rows of one file."""

    file: Path
    first_row: int
    """Number of the first row in its file, counted from 1."""
    frame: pl.DataFrame
    """The source's columns, then ``_diff`` where the file has it."""


class Reader:
    """The reader of files and folders for one source: each row once, in batches that do not span files.

    Text files may be compressed (``.csv.gz``, ``.jsonl.zst``), and ``/dev/stdin`` is CSV or JSON lines.

    Paths are read in the given order; the files of a folder in the order of their names. Names that start with
    ``.`` or ``_`` or end in ``.tmp`` or ``.part`` are skipped. A source of kind "diffs" or "upsert" (``diffs``) takes a
    column ``_diff`` too.

    Columns of CSV and JSON lines are parsed as the declared types. Columns of Parquet and Arrow IPC are cast where
    every value is kept exactly (Int32 to Int64, nanoseconds that are whole microseconds), else refused. Of a web
    server's log (common or combined format) the declared columns are taken; odd lines are in ``refused``.

    Raises:
        FileError: a path does not exist, is of no known format, or holds a row that does not fit the source.
    """

    def __init__(
        self,
        source: str,
        paths: Sequence[Path],
        schema: pl.Schema,
        *,
        diffs: bool,
        batch_rows: int,
        reading: Reading = AS_WRITTEN,
    ) -> None:
        self._target = Target(source, schema, diffs, reading)
        self._paths = tuple(paths)
        self._batch_rows = batch_rows
        self._inputs: dict[Path, _Input] = {}
        self.left_out: dict[Path, str] = {}
        """The files that cannot be read, and why; each is tried again when it has changed."""
        self._left_out_as: dict[Path, object] = {}
        self.total_bytes = 0
        """The size of all files when they were last checked."""
        self.done_bytes = 0.0
        """About how many of these bytes were read."""
        self._look()

    def batches(self, *, final: bool = True) -> Iterator[Batch]:
        """Yield batches that were not read before: of new files, and of new lines of CSV, JSON lines and logs.

        Without ``final`` more is expected: the last line of a file is left until it has its newline, and a file
        that cannot be opened yet is tried again at the next call (refused when it no longer changes).

        Raises:
            FileError: naming the file, and the first row in it that was not read.
        """
        self._look()
        for path, file in list(self._inputs.items()):
            if self._is_left_out(path):
                continue
            try:
                yield from self._batches_of(path, file, final=final)
            except FileError as error:
                self._leave_out(path, error)
                if not file.rows:
                    self.done_bytes -= file.done_bytes
                    del self._inputs[path]

    def _batches_of(self, path: Path, file: "_Input", *, final: bool) -> Iterator[Batch]:
        """Yield the batches of one file that were not read before."""
        if not path.exists() and not file.is_open:
            if not file.done_bytes and not self._target.reading.follows_replaced:
                raise FileError(f"{path}: row 1: the file was removed before it was read; put it back")
            return
        others = self.done_bytes - file.done_bytes
        try:
            for frame in cut(file.frames(self._batch_rows, final=final), self._batch_rows):
                file.rows += frame.height
                self.done_bytes = others + file.done_bytes
                yield Batch(path, file.rows - frame.height + 1, frame)
        finally:
            self.done_bytes = others + file.done_bytes

    def require_files(self) -> None:
        """Check that there is a file to read for every path.

        Raises:
            FileError: a folder has no file with a name that is read.
        """
        for path in self._paths:
            if not files_of(path):
                raise FileError(
                    f"{path}: there is nothing to read for source {self._target.source!r}: the folder has no file (names "
                    "that begin with . or _ or end with .tmp or .part are not read); check the path, or wait for files "
                    "with --follow"
                )

    @property
    def is_one_file(self) -> bool:
        """Return whether a single file was given, and no folder."""
        return len(self._paths) == 1 and not self._paths[0].is_dir()

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The names of the files that there are to be read, and how many bytes each has now."""
        return tuple((path.name, path.stat().st_size) for path in self._inputs if path.exists())

    @property
    def rows(self) -> int:
        """Return how many rows were read so far."""
        return sum(file.rows for file in self._inputs.values())

    @property
    def without_rows(self) -> list[Path]:
        """Return the files that were read, and have no row."""
        return [
            path
            for path, file in self._inputs.items()
            if not file.rows
            and path not in self.left_out
            and not (isinstance(file, _WholeFile) and file.is_unread)
        ]

    @property
    def unfinished(self) -> list[Path]:
        """Return the files whose end was not read: the last line has no newline yet, or they could not be opened yet."""
        return [
            path
            for path, file in self._inputs.items()
            if path not in self.left_out and path.exists() and path.stat().st_size > round(file.done_bytes)
        ]

    def why_unfinished(self, path: Path) -> str:
        """Return why the end of an unfinished file may not have been read."""
        if isinstance(self._inputs[path], _WholeFile):
            return "it is incomplete or damaged so far, or the run was stopped before"
        return "the last line has no newline yet, or the run was stopped before"

    @property
    def refused(self) -> pl.DataFrame:
        """Return the lines of logs that were refused so far: file, line, reason, text."""
        return pl.concat([REFUSED.to_frame(), *(log.refused for log in self.logs)])

    @property
    def logs(self) -> list[LogFile | TextFile]:
        """Return the files of lines, of which some may have been refused."""
        return [file for file in self._inputs.values() if isinstance(file, LogFile | TextFile)]

    def _look(self) -> None:
        """Add files that were not there before."""
        for path in self._paths:
            if path in self._inputs and self._target.reading.follows_replaced and not path.exists():
                continue  # Between the removal of the old file and the creation of the new one.
            for file in _entries_of(path):
                if file not in self._inputs and not self._is_left_out(file):
                    try:
                        self._inputs[file] = _open(file, self._target)
                    except FileError as error:
                        self._leave_out(file, error)
        self.total_bytes = sum(path.stat().st_size for path in self._inputs if path.exists())

    def _leave_out(self, file: Path, error: FileError) -> None:
        """Leave out a file of a folder that cannot be read; if it was given itself, or all have to be read, raise the error."""
        reading = self._target.reading
        is_refused = reading.refuses_replaced and isinstance(error, ReplacedFileError)
        if is_refused or not reading.leaves_out or file in self._paths:
            raise error
        self.left_out[file], self._left_out_as[file] = str(error), _changes_of(file)

    def _is_left_out(self, file: Path) -> bool:
        """Return whether a file is left out, and still as it was then."""
        if file in self.left_out and self._left_out_as[file] != _changes_of(file):
            del self.left_out[file], self._left_out_as[file]
        return file in self.left_out


def _changes_of(file: Path) -> object:
    """Return a value that differs when a file has been changed or replaced."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def files_of(path: Path) -> list[Path]:
    """Return the files of a path: itself, or the files in the folder, in the order of names.

    Raises:
        FileError: there is nothing at the path, or a file of no known format, or a folder in the folder.
    """
    files = _entries_of(path)
    for file in files:
        _format_of(file)
    return files


def _entries_of(path: Path) -> list[Path]:
    """Return the files of a path, whether they can be read or not."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if not is_unfinished(file.name))
    if path.exists():
        return [path]
    raise FileError(f"{path}: there is no such file or folder; check the path")


def _format_of(file: Path) -> str:
    """Return the format of a file, by its suffix.

    Raises:
        FileError: it has none that is known, or it is a folder in a folder.
    """
    if file.is_dir():
        raise FileError(f"{file}: a folder inside a folder is not read; give it as an input of its own")
    if file == STANDARD_INPUT:
        return "json lines" if starts_with_json() else "csv"
    suffix = file.suffix.lower()
    if suffix in CODECS:
        inner = SUFFIXES.get(file.with_suffix("").suffix.lower())
        if inner in ("csv", "json lines"):
            return inner
        raise FileError(
            f"{file}: a compressed file is CSV or JSON lines, such as .csv{suffix} or .jsonl{suffix}; Parquet and Arrow "
            "compress their columns themselves: rename the file, or decompress it"
        )
    if suffix not in SUFFIXES:
        raise FileError(f"{file}: {_OF_SUFFIX.get(suffix) or _unknown(file)}")
    return SUFFIXES[suffix]


_OF_SUFFIX = {
    **dict.fromkeys(
        (".zip", ".7z", ".rar", ".tar", ".tgz"),
        "an archive is not read; unpack it, and give the file or folder",
    ),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet is not read; save it as CSV"),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3", ".duckdb"), "a database is not read; export a table as CSV or Parquet"
    ),
    **dict.fromkeys((".avro", ".orc"), "this format is not read; convert it to Parquet"),
}
"""What to do with files of other suffixes."""


def _unknown(file: Path) -> str:
    """Return what to do with a file whose suffix names no format."""
    if file.is_fifo():
        return "a pipe is read from the standard input: COMMAND | evercurrent run APP --input SOURCE=-"
    return (
        f"the format of a file follows from its suffix, one of {listed(SUFFIXES)}; rename the file, or give CSV or JSON "
        f"lines to the standard input: --input SOURCE=- < {file.name}"
    )


def is_unfinished(name: str) -> bool:
    """Return whether files of this name are not to be read, or not yet."""
    return name.startswith((".", "_")) or name.endswith((".tmp", ".part"))


def _open(path: Path, target: Target) -> "_Input":
    match _format_of(path):
        case "parquet":
            return _ParquetFile(path, target)
        case "ipc":
            return _IpcFile(path, target)
        case "log":
            return LogFile(path, target)
        case "csv":
            return TextFile(path, target, json_lines=False)
        case _:
            return TextFile(path, target, json_lines=True)


class _Input(Protocol):
    """One file of a reader: its read rows and bytes, and the frames not read yet."""

    rows: int

    @property
    def done_bytes(self) -> float: ...

    @property
    def is_open(self) -> bool: ...

    def frames(self, batch_rows: int, *, final: bool) -> Iterator[pl.DataFrame]: ...


def cut(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of ``rows`` rows, the last one smaller; rows before an error are yielded before it."""
    rest: pl.DataFrame | None = None
    try:
        for frame in frames:
            rest = frame if rest is None or not rest.height else pl.concat([rest, frame])
            while rest.height >= rows:
                yield rest.head(rows).rechunk()
                rest = rest.slice(rows)
    except FileError:
        if rest is not None and rest.height:
            yield rest.rechunk()
        raise
    if rest is not None and rest.height:
        yield rest.rechunk()


class _WholeFile(ABC):
    """A file of a format in which an incomplete file is unreadable: Parquet, Arrow IPC."""

    def __init__(self, path: Path, target: Target) -> None:
        self.path = path
        self.rows = 0
        self.done_bytes = 0.0
        self._target = target
        self._read_as: tuple[int, ...] | None = None
        self._tried_as: tuple[int, ...] | None = None
        self._tries = 0

    @property
    def is_unread(self) -> bool:
        """Return whether it could not be opened yet."""
        return self._read_as is None

    @property
    def is_open(self) -> bool:
        """Return False: such a file is opened again."""
        return False

    def frames(self, batch_rows: int, *, final: bool) -> Iterator[pl.DataFrame]:
        status = self.path.stat()
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        if now == self._read_as:
            return
        if self._read_as is not None:
            raise ReplacedFileError(
                f"{self.path}: the file was changed after {counted(self.rows)} of it had been read; write new rows to a new file"
            )
        read = 0
        try:
            for frame in self._frames(batch_rows, status.st_size):
                self._read_as = now
                if frame.height:
                    yield fitted(frame, self._target, self.path, read)
                read += frame.height
        except (pa.ArrowException, OSError) as error:
            if self._read_as is None and not final and self._may_become_readable(now):
                return
            if is_unsupported(error):
                raise FileError(f"{self.path}: {not_supported(self.path, error)}") from error
            raise FileError(
                f"{self.path}: row {read + 1}: the file is incomplete or damaged from here on; write it again "
                f"({str(error).strip().splitlines()[0]})"
            ) from error
        self._read_as, self.done_bytes = now, status.st_size

    def _may_become_readable(self, now: tuple[int, ...]) -> bool:
        self._tries = self._tries + 1 if now == self._tried_as else 0
        self._tried_as = now
        return self._tries < PATIENCE

    @abstractmethod
    def _frames(self, batch_rows: int, size: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of a file of that size, not many more than ``batch_rows`` at a time."""


class _ParquetFile(_WholeFile):
    def _frames(self, batch_rows: int, size: int) -> Iterator[pl.DataFrame]:
        with pq.ParquetFile(self.path) as file:
            check_schema(self.path, file.schema_arrow, self._target)
            total = max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_rows):
                self.done_bytes += size * batch.num_rows / total
                yield _polars(batch)


class _IpcFile(_WholeFile):
    """A file in Arrow's file or stream format, mapped, so that a large record batch is read as it is used."""

    def _frames(self, batch_rows: int, size: int) -> Iterator[pl.DataFrame]:
        if not size:
            raise pa.ArrowInvalid("the file is empty")
        with pa.memory_map(str(self.path)) as data:
            is_file = data.read(6) == b"ARROW1"
            data.seek(0)
            with ipc.open_file(data) if is_file else ipc.open_stream(data) as opened:
                check_schema(self.path, opened.schema, self._target)
                count = opened.num_record_batches if is_file else 0
                batches = (opened.get_batch(i) for i in range(count)) if is_file else iter(opened)
                for number, batch in enumerate(batches, 1):
                    for start in range(0, batch.num_rows, batch_rows):
                        yield _polars(batch.slice(start, batch_rows))
                    self.done_bytes = size * number / count if is_file else data.tell()


def _polars(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(importable_rows(batch))
    assert isinstance(frame, pl.DataFrame)
    return frame
