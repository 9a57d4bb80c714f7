"""Frames are written in Arrow's file format, uncompressed, so that they can be mapped."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.key_hash import OF_POLARS, OURS, KeyHash
from evercurrent.core.data.columns.lossless import holds_empty_arrays
from evercurrent.core.data.errors import CheckpointError, CorruptFileError, first_line

from ..connectors.arrow_tables import as_table
from ..store import Buffer, FileBytes

NAME = b"evercurrent"

SLACK = 1 << 16
"""Unused bytes that a text column may carry from the frame from which it was cut."""

SMALL = 1 << 12
"""Up to this many bytes are copied, which costs less than keeping them as a part of their own."""

NEWEST, OLDEST = pl.CompatLevel.newest(), pl.CompatLevel.oldest()


@dataclass(slots=True)
class Content:
    """The bytes of a file in parts, of which those of a frame's columns are not copied."""

    parts: list[Buffer] = field(default_factory=list)
    size: int = 0
    crc: int = 0

    def write(self, part: Buffer) -> None:
        """Add bytes, as Arrow does with a file."""
        self.parts.append(part)
        self.size += len(part)

    def finished(self) -> Content:
        """Return this content with its checksum; consecutive small parts are joined."""
        parts: list[Buffer] = []
        for is_small, run in groupby(self.parts, lambda part: len(part) <= SMALL):
            several = list(run)
            parts += [b"".join(several)] if is_small else several
        self.parts = parts
        for part in parts:
            self.crc = zlib.crc32(part, self.crc)
        return self

    closed = False

    def tell(self) -> int:
        """Return the number of bytes, as Arrow needs it from a file."""
        return self.size

    def flush(self) -> None:
        """Do nothing, as nothing is buffered; Arrow calls it."""

    def close(self) -> None:
        """Do nothing, as nothing is open; Arrow calls it."""


def as_bytes(frame: pl.DataFrame, key_hash: KeyHash = OURS) -> Content:
    """Return the frame as an Arrow file, its columns as in polars' memory; ``key_hash`` is the hash of its keys.

    Raises:
        CheckpointError: a column of a type that Arrow does not have.
    """
    content = _written(_as_arrow(frame, NEWEST), key_hash)
    # A text column refers to all texts of the frame from which it was cut, and the file would hold them.
    if content.size > SLACK and content.size > 2 * (frame.estimated_size() + 16 * frame.height) + SLACK:
        content = _written(_as_arrow(frame, OLDEST), key_hash)
    return content.finished()


def as_plain_bytes(frame: pl.DataFrame, key_hash: KeyHash = OURS) -> Content:
    """Return the frame as an Arrow file that any reader of Arrow can read: with texts, and not views of texts.

    Raises:
        CheckpointError: a column of a type that Arrow does not have.
    """
    return _written(_as_arrow(frame, OLDEST), key_hash).finished()


def from_bytes(where: str, buffer: FileBytes, key_hash: KeyHash | None = None) -> pl.DataFrame:
    """Return the frame of such bytes, by reference. ``where`` names them in messages.

    ``key_hash`` is the required hash of its keys; None accepts any, where keys are not used.

    Raises:
        CorruptFileError: the bytes are not such a file.
        CheckpointError: the keys are of another hash, or the format is newer.
    """
    try:
        table = pa.ipc.open_file(pa.BufferReader(buffer)).read_all()
        _require_ours(where, (table.schema.metadata or {}).get(NAME, b"{}"), key_hash)
        frame = pl.from_arrow(table, rechunk=False)
    except (pa.ArrowException, ValueError, OSError, pl.exceptions.PolarsError) as error:
        raise CorruptFileError(f"{where} cannot be read as Arrow: {first_line(error)}") from error
    assert isinstance(frame, pl.DataFrame), "a table is a frame"
    return frame


@cache
def _own_words(key_hash: KeyHash) -> bytes:
    """Return the metadata of each schema: the format, and the hash of keys."""
    return json.dumps({"format": key_hash.format, "hash": key_hash.mark}).encode()


def _require_ours(where: str, content: bytes, key_hash: KeyHash | None) -> None:
    if key_hash is not None and content == _own_words(key_hash):
        return
    metadata = json.loads(content)
    if not isinstance(metadata, dict) or "hash" not in metadata or "format" not in metadata:
        raise CorruptFileError(f"{where} has no metadata of evercurrent: another program wrote it")
    if metadata["format"] > OURS.format:
        raise CheckpointError(
            f"{where} is of format {metadata['format']}, and this version of evercurrent reads formats up to {OURS.format}; "
            "open it with the version that wrote it"
        )
    if key_hash is not None:
        raise CheckpointError(unlike(where, str(metadata["hash"]), key_hash))


def unlike(where: str, mark: str, key_hash: KeyHash) -> str:
    """Return the message for keys of another hash than this one."""
    if key_hash is OF_POLARS:
        return (
            f"{where} is of a checkpoint of format 1, whose keys were hashed by {mark}, and polars {pl.__version__} hashes them "
            f"otherwise; open it with {mark.replace('-', ' ')}, or begin a new checkpoint, which every version of polars "
            "can open, and replay the input"
        )
    return (
        f"{where} has keys with another hash ({mark}) than those here ({key_hash.mark}); restore the file from a "
        "copy of this checkpoint"
    )


def _as_arrow(frame: pl.DataFrame, level: pl.CompatLevel) -> pa.Table:
    try:
        return as_table(frame.rechunk(), level)
    except (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        for column in frame.get_columns():
            require_arrow(column.name, column.dtype)
        raise CheckpointError(
            f"columns {frame.columns} do not pass through Arrow: {first_line(error)}"
        ) from error


def require_arrow(column: str, dtype: pl.DataType, what: str = "column") -> None:
    """Check that Arrow has the type of a column, as files could not hold it otherwise.

    Raises:
        CheckpointError: names the column, as ``what`` it is, and what to use instead.
    """
    name = column.removeprefix("payload ")
    if holds_empty_arrays(dtype):
        raise CheckpointError(
            f"{what} {name!r} is {dtype}, and arrays of no values cannot be kept in Arrow files; leave it out, or make it a list"
        )
    unsupported = not_in_arrow(dtype)
    if unsupported is None:
        return
    way_out = "cast it to Int64 or Decimal(38, 0)" if unsupported.is_integer() else "use a type of Arrow"
    raise CheckpointError(
        f"{what} {name!r} is {dtype}, and {unsupported} cannot be kept in Arrow files; {way_out}"
    )


def is_in_arrow(dtype: pl.DataType) -> bool:
    """Return whether Arrow has a type, so that files can hold it."""
    return not holds_empty_arrays(dtype) and not_in_arrow(dtype) is None


def not_in_arrow(dtype: pl.DataType) -> pl.DataType | None:
    """Return the type, or the one inside of it, that Arrow does not have; None if it has it."""
    if dtype in (pl.Int128, pl.UInt128, pl.Object):
        return dtype
    if isinstance(dtype, pl.Struct):
        inner = [field.dtype for field in dtype.fields]
    else:
        inner = [dtype.inner] if isinstance(dtype, pl.List | pl.Array) else []
    for each in inner:
        unsupported = not_in_arrow(each() if isinstance(each, type) else each)
        if unsupported is not None:
            return unsupported
    return None


def _written(table: pa.Table, key_hash: KeyHash) -> Content:
    content, table = Content(), table.replace_schema_metadata({NAME: _own_words(key_hash)})
    with pa.PythonFile(content, mode="w") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return content
