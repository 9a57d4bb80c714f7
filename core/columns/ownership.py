"""Frames whose memory nobody else can write.

A polars frame is safe from what is done to it through polars: a cell that is set, a column that is added or a series
that is appended to leaves every clone as it was. Not so where its columns lie in memory that is somebody else's: polars
takes numpy arrays, Arrow buffers and the columns of pandas as they are, and who has these can go on writing there.
Nothing tells such a frame from another one, so the values are copied: 200,000 rows of a column in 50 us.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def owned(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows in memory of polars' own. Cost: the columns of fixed width, once.

    Text and bytes stay where they are: numpy has none that polars would share, and for Arrow's there is ``owned_arrow``.
    """
    return pl.DataFrame([owned_column(column) for column in frame.get_columns()]) if frame.width else frame


def owned_column(column: pl.Series) -> pl.Series:
    """See ``owned``."""
    if column.dtype in (pl.String, pl.Binary, pl.Null) or not len(column):
        return column
    if len(column) == 1:
        return column.new_from_index(0, 1)
    # To have one chunk of two, polars copies both.
    return column.slice(0, 1).append(column.slice(1)).rechunk()


def owned_arrow(columns: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Return the same columns in memory that nobody can write; by reference, if nobody can anyway. Cost: a copy of the bytes."""
    if not any(_is_open(column) for column in columns.columns):
        return columns
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write(columns)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _is_open(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether somebody could write into its values."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return any(buffer is not None and buffer.is_mutable for chunk in chunks for buffer in chunk.buffers())
