"""Deltas and contents of views are written to files: Parquet, JSON lines, CSV or Arrow, by suffix; or to the standard output.

Text may be compressed, by the last suffix.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import polars as pl
import pyarrow as pa
from pyarrow import ipc
from pyarrow import parquet as pq

from evercurrent.core.data.columns.json_texts import has_bytes, json_rows
from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import listed

from .arrow_tables import as_table

STANDARD_OUTPUT = Path("/dev/stdout")
"""The path that stands for the standard output, to which JSON lines are written."""

TEXT_SUFFIXES = (".jsonl", ".ndjson", ".csv")
"""Suffixes of text that deltas can be written to, which may be followed by one of ``WRITTEN_CODECS``."""

DELTA_SUFFIXES = (".parquet", *TEXT_SUFFIXES, ".arrow", ".arrows")
"""Suffixes of files that deltas can be written to."""

WRITTEN_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""The compressions of text that is written, by the last suffix."""

ROW_GROUP = 100_000
"""How many rows of deltas are collected for a row group of a Parquet file."""


def delta_form(path: Path) -> tuple[str, str | None]:
    """Return the suffix that sets in which format deltas are written to a file, and the compression of text, if there is one.

    Raises:
        FileError: there is no such format.
    """
    suffix, codec = path.suffix.lower(), WRITTEN_CODECS.get(path.suffix.lower())
    if codec is not None and (suffix := path.with_suffix("").suffix.lower()) in TEXT_SUFFIXES:
        return suffix, codec
    if codec is None and suffix in DELTA_SUFFIXES:
        return suffix, None
    raise FileError(
        f"{path}: the suffix has to be one of {listed(DELTA_SUFFIXES)}, or one of text with {listed(WRITTEN_CODECS)} after it, as "
        ".jsonl.gz; rename the file"
    )


class DeltaFile:
    """A file to which the deltas of a view are written as they come: the view's columns, ``_epoch``, ``_diff``.

    JSON lines and CSV are complete after every epoch; NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"
    in JSON, as in files of input. A Parquet, Arrow or compressed file gets its name when it is closed, so that a file of that
    name is always readable; until then it is ``.NAME.part``. An older file of the name is replaced.

    Raises:
        FileError: the suffix is not that of a format for deltas, a column's type cannot be written in it, or the file
            cannot be made.
    """

    def __init__(self, path: Path, schema: pl.Schema) -> None:
        self.path = path
        self.rows = 0
        suffix, self._codec = (".jsonl", None) if path == STANDARD_OUTPUT else delta_form(path)
        self._is_parquet, self._is_csv = suffix == ".parquet", suffix == ".csv"
        self._is_arrow, self._is_stream = suffix in (".arrow", ".arrows"), suffix == ".arrows"
        is_whole = self._is_parquet or self._is_arrow
        for name, dtype in schema.items():
            if (not is_whole and has_bytes(dtype)) or (self._is_csv and dtype.is_nested()):
                text = "CSV" if self._is_csv else "JSON"
                raise FileError(
                    f"{path}: column {name!r} is {dtype}, which {text} cannot represent; use .parquet"
                )
        self._unfinished = (
            path.with_name(f".{path.name}.part") if is_whole or self._codec is not None else path
        )
        self._kept = schema.to_frame()
        self._parquet: pq.ParquetWriter | None = None
        self._arrow: ipc.RecordBatchStreamWriter | ipc.RecordBatchFileWriter | None = None
        if path == STANDARD_OUTPUT and sys.stdout is None:
            raise FileError("the standard output is closed; give deltas a file, or a reader of the output")
        try:
            if path == STANDARD_OUTPUT:
                self._file: BinaryIO = _standard_output()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._opened()
            if self._is_csv:
                self._file.write(schema.to_frame().write_csv().encode())
        except OSError as error:
            raise FileError(f"{path}: cannot be written ({error.strerror}); choose another path") from error

    def write(self, delta: pl.DataFrame) -> None:
        """Add the delta of an epoch."""
        self.rows += delta.height
        if self._is_parquet:
            self._kept = pl.concat([self._kept, delta.select(self._kept.columns)])
            if self._kept.height >= ROW_GROUP:
                self._write_row_group()
        elif self._is_arrow:
            self._write_record_batch(delta.select(self._kept.columns))
        else:
            if delta.height and self._is_csv:
                self._file.write(delta.select(self._kept.columns).write_csv(include_header=False).encode())
            elif delta.height:
                self._file.write(json_rows(delta).str.join("\n").item().encode() + b"\n")
        if self._codec is None and not self._is_parquet:
            self._file.flush()

    def _opened(self) -> BinaryIO:
        if self._codec is None:
            return self._unfinished.open("wb")
        return cast(BinaryIO, pa.CompressedOutputStream(str(self._unfinished), self._codec))

    def close(self) -> None:
        """Make the file complete. Closing again does nothing."""
        if self._file.closed or self.path == STANDARD_OUTPUT:
            return
        if self._is_parquet:
            self._write_row_group()
            assert self._parquet is not None
            self._parquet.close()
        if self._is_arrow:
            self._write_record_batch(self._kept)
            assert self._arrow is not None
            self._arrow.close()
        self._file.close()
        self._unfinished.replace(self.path)

    def _write_row_group(self) -> None:
        table = as_table(self._kept, pl.CompatLevel.oldest())
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._file, table.schema, compression="zstd")
        self._parquet.write_table(table)
        self._kept = self._kept.clear()

    def _write_record_batch(self, delta: pl.DataFrame) -> None:
        table = as_table(delta, pl.CompatLevel.oldest())
        if self._arrow is None:
            opened = ipc.new_stream if self._is_stream else ipc.new_file
            self._arrow = opened(self._file, table.schema)
        self._arrow.write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


CONTENTS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "parquet": pl.DataFrame.write_parquet,
    "csv": pl.DataFrame.write_csv,
    "jsonl": lambda contents, path: path.write_bytes(
        b"".join(line.encode() + b"\n" for line in json_rows(contents))
    ),
    "arrow": pl.DataFrame.write_ipc,
}
"""How contents are written, by format, which is the suffix of the file."""


def _standard_output() -> BinaryIO:
    """Return the standard output. Where Python does not buffer it, as for PYTHONUNBUFFERED, it may write less than it is given."""
    output = sys.stdout.buffer
    if isinstance(output, io.RawIOBase):
        return open(output.fileno(), "wb", closefd=False)
    return output


def write_contents(folder: Path, name: str, contents: pl.DataFrame, form: str = "parquet") -> Path:
    """Write the contents of a view as a file of a format, ``folder/name.parquet``, which appears when it is complete.

    Raises:
        FileError: the folder or the file cannot be made, or the format cannot represent a column.
    """
    path = contents_path(folder, name, form)
    unfinished = require_writable(path, name, contents.schema, form)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        CONTENTS[form](contents, unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
    return path


def contents_path(folder: Path, name: str, form: str) -> Path:
    """Return the file of a view's contents."""
    return folder / f"{name.replace('/', '%2F')}.{form}"


def require_writable(path: Path, name: str, schema: pl.Schema, form: str) -> Path:
    """Check that the contents of a view can be written to a file, and return the path under which it is written at first.

    It leaves nothing behind.

    Raises:
        FileError: the folder or the file cannot be made, or the format cannot represent a column.
    """
    for column, dtype in schema.items():
        if (form == "csv" and dtype.is_nested()) or (form in ("csv", "jsonl") and has_bytes(dtype)):
            raise FileError(
                f"view {name!r}: column {column!r} is {dtype}, which {form} cannot represent; write parquet"
            )
    unfinished = path.with_name(f".{path.name}.part")
    new_folders = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        unfinished.open("ab").close()
        unfinished.unlink()
        for folder in new_folders:
            folder.rmdir()
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
    return unfinished
