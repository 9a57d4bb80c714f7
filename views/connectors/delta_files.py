"""Deltas and contents of views are written to files: Parquet or JSON lines, by suffix."""

from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import polars as pl
from pyarrow import parquet as pq

from evercurrent.core.columns.json_texts import json_rows
from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import listed

from .arrow_tables import as_table

DELTA_SUFFIXES = (".parquet", ".jsonl", ".ndjson")
"""Suffixes of files that deltas can be written to."""

ROW_GROUP = 100_000
"""How many rows of deltas are collected for a row group of a Parquet file."""


class DeltaFile:
    """A file to which the deltas of a view are written as they come: the view's columns, ``_epoch``, ``_diff``.

    JSON lines are complete after every epoch; NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"
    there, as in files of input. A Parquet file gets its name when it is closed, so that a file of that name is always
    readable; until then it is ``.NAME.part``.
    An older file of the name is replaced.

    Raises:
        FileError: the suffix is not that of a format for deltas, a column's type cannot be written in it, or the file
            cannot be made.
    """

    def __init__(self, path: Path, schema: pl.Schema) -> None:
        self.path = path
        self.rows = 0
        suffix = path.suffix.lower()
        if suffix not in DELTA_SUFFIXES:
            raise FileError(f"{path}: deltas are written as one of {listed(DELTA_SUFFIXES)}; rename the file")
        self._is_parquet = suffix == ".parquet"
        for name, dtype in schema.items():
            if not self._is_parquet and _has_bytes(dtype):
                raise FileError(
                    f"{path}: column {name!r} is {dtype}, which JSON cannot represent; use .parquet"
                )
        self._unfinished = path.with_name(f".{path.name}.part") if self._is_parquet else path
        self._kept = schema.to_frame()
        self._parquet: pq.ParquetWriter | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self._unfinished.open("wb")
        except OSError as error:
            raise FileError(f"{path}: cannot be written ({error.strerror}); choose another path") from error

    def write(self, delta: pl.DataFrame) -> None:
        """Add the delta of an epoch."""
        self.rows += delta.height
        if self._is_parquet:
            self._kept = pl.concat([self._kept, delta.select(self._kept.columns)])
            if self._kept.height >= ROW_GROUP:
                self._write_row_group()
        else:
            if delta.height:
                self._file.write(json_rows(delta).str.join("\n").item().encode() + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Make the file complete. Closing again does nothing."""
        if self._file.closed:
            return
        if self._is_parquet:
            self._write_row_group()
            assert self._parquet is not None
            self._parquet.close()
        self._file.close()
        self._unfinished.replace(self.path)

    def _write_row_group(self) -> None:
        table = as_table(self._kept, pl.CompatLevel.oldest())
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._file, table.schema, compression="zstd")
        self._parquet.write_table(table)
        self._kept = self._kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _has_bytes(dtype: Any) -> bool:
    """Return whether there are bytes in values of this type, at any depth."""
    if isinstance(dtype, pl.Struct):
        return any(_has_bytes(field.dtype) for field in dtype.fields)
    if isinstance(dtype, pl.List | pl.Array):
        return _has_bytes(dtype.inner)
    return bool(dtype == pl.Binary)


def write_contents(folder: Path, name: str, contents: pl.DataFrame) -> Path:
    """Write the contents of a view as ``folder/name.parquet``, which appears when it is complete.

    Raises:
        FileError: the folder or the file cannot be made.
    """
    path = folder / f"{name.replace('/', '%2F')}.parquet"
    unfinished = folder / f".{path.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contents.write_parquet(unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
    return path
