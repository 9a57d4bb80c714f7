"""Every frame that is pushed into a source is checked, and becomes a delta or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Ints, frame_of
from evercurrent.core.data.columns.lossless import LossyValueError, exactly
from evercurrent.core.data.columns.ownership import PushedColumns, owned_columns
from evercurrent.core.data.columns.whole_columns import ones
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH, columns_are, listed

from ..connectors.input_hints import refusal
from ..connectors.pushed_frames import PushedFrame, pushed_frame
from ..connectors.text_bytes import require_utf8
from .source import Source

DIFF_LIMIT = 2**31
"""Diffs from this size on are refused: sums of that many rows could not be kept exactly."""

FEW_ROWS = 16
"""Up to so many rows are copied at once: that takes no longer than to copy only the columns that somebody reads."""

NARROW = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt32, pl.UInt16, pl.UInt8)
"""Types of whole numbers that are all in Int64."""


def accepted(source: Source, data: Any, may_stay: Callable[[], bool] | None = None) -> Delta:
    """Return a pushed frame as a delta, with its columns in the order of the source.

    Where they ``may_stay``, all but a few rows of a frame of polars are left where they are: the delta has ``pushed_columns``, which are the
    caller's to ``own`` in time. All others are copied as soon as they are checked.

    Raises:
        InputError: the frame does not fit the source; names the column, what is in it and the remedy.
    """
    where = source.changed.where
    if source.format is not None:
        decoded = source.decoded(pushed_frame(where, source.read_as, data))
        decoded.require_all(where)
        pushed = PushedFrame(decoded.rows, "polars", {})
    elif not isinstance(data, pl.DataFrame):
        pushed = pushed_frame(where, source.read_as, data)
    elif data.height > FEW_ROWS and may_stay is not None and may_stay():
        pushed = PushedFrame(data.rechunk(), "polars", {}, "left")
    else:
        pushed = PushedFrame(data, "polars", {}, "shared")
    return delta_of(source, pushed)


def arriving_frame(source: Source, data: Any) -> pl.DataFrame:
    """Return pushed data that fit the source as rows with diffs, or as the messages that they are.

    Raises:
        InputError: they do not fit the source.
    """
    rows = accepted(source, data).frame
    return rows if source.format is None else messages_of(source, data)


def messages_of(source: Source, data: Any) -> pl.DataFrame:
    """Return the messages that were pushed into a source of changes, with all columns of its format; none is decoded.

    Raises:
        InputError: a column is not one of the format, or of another type.
    """
    assert source.format is not None
    messages = pushed_frame(f"source {source.name!r}", source.read_as, data).frame
    return source.format.with_columns(source.changed, messages).cast(source.arriving)


def delta_of(source: Source, pushed: PushedFrame) -> Delta:
    """Return a frame that was pushed as a delta, as ``accepted`` does."""
    declared, frame, has_zeros = source.changed, pushed.frame, False
    where, schema = declared.where, declared.schema
    names, dtypes = schema.names(), schema.dtypes()
    if frame.columns == names:
        diffs = ones(frame.height)
    else:
        frame, diffs = _with_declared_columns(where, source, frame)
        has_zeros = not diffs.all()
    require_utf8(where, frame)
    if frame.dtypes != dtypes or frame.columns != names:
        frame = _as_declared(where, schema, frame, pushed)
    for key in declared.keys:
        if frame.get_column(key).has_nulls():
            row = int(frame.get_column(key).is_null().arg_max() or 0)
            raise InputError(f"{where}: primary key {key!r} is null in row {row}; give every row its key")
    for name in declared.sequence:
        _require_sequence(where, frame.get_column(name))
    if pushed.memory == "left":
        delta = Delta.of_mapping(PushedColumns(frame.get_columns()), diffs)
    else:
        columns = owned_columns(frame) if pushed.memory == "shared" else frame.get_columns()
        delta = Delta.of_columns(columns, diffs)
    return delta.take(np.flatnonzero(diffs)) if has_zeros else delta


def _with_declared_columns(where: str, source: Source, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Return a frame with all declared columns, of the types that were pushed, and the diffs of its rows.

    Raises:
        InputError: a column is missing or not declared, or diffs are not what the source takes.
    """
    if EPOCH in frame.columns:
        raise InputError(f"{where}: column {EPOCH!r} is reserved for the engine; drop it")
    schema, diffs = source.schema, _diffs(where, source, frame)
    if source.kind == "upsert":
        frame = _with_deleted_columns(source, frame, diffs)
    if source.stamps_rows and source.event_time not in frame.columns:
        assert source.event_time is not None
        dtype = schema[source.event_time]
        frame = frame.with_columns(pl.lit(None, dtype).alias(source.event_time))
    _require_columns(where, schema, frame)
    return frame, diffs


def _diffs(where: str, source: Source, frame: pl.DataFrame) -> Ints:
    if DIFF not in frame.columns:
        return ones(frame.height)
    if source.kind == "append":
        raise InputError(
            f"{where}: rows with {DIFF!r}, but the source is declared append; declare it with kind='diffs' to retract"
        )
    column = frame.get_column(DIFF)
    if not column.dtype.is_integer():
        raise InputError(
            f"{where}: column {DIFF!r} is {column.dtype}; it must be a whole number, for example pl.Int64"
        )
    if column.has_nulls():
        row = int(column.is_null().arg_max() or 0)
        raise InputError(f"{where}: column {DIFF!r} is null in row {row}; use +1 or -1")
    if column.dtype in NARROW:
        diffs: Ints = column.to_numpy().astype(np.int64)  # A copy, also where it is the same type.
    else:
        diffs = column.cast(pl.Int64, strict=False).fill_null(DIFF_LIMIT).to_numpy()
    # The least integer has no absolute value.
    if len(diffs) and (int(diffs.max()) >= DIFF_LIMIT or int(diffs.min()) <= -DIFF_LIMIT):
        raise InputError(f"{where}: column {DIFF!r} holds a count of {DIFF_LIMIT} or more; split the row")
    if source.kind == "upsert" and not (np.abs(diffs) == 1).all():
        raise InputError(
            f"{where}: column {DIFF!r} of an upsert source is +1 (this row now) or -1 (delete the key)"
        )
    return diffs


def _with_deleted_columns(source: Source, frame: pl.DataFrame, diffs: Ints) -> pl.DataFrame:
    """Add columns of nulls to a frame of deletions, which needs only the key and the sequence."""
    needed = (*source.key, *source.sequence_by)
    missing = [name for name in source.columns if name not in frame.columns and name not in needed]
    if missing and (diffs == -1).all():
        frame = frame.with_columns(pl.lit(None, source.schema[name]).alias(name) for name in missing)
    return frame


def _require_sequence(where: str, column: pl.Series) -> None:
    """Check that a column of ``sequence_by`` has neither null nor NaN, which have no place in the order."""
    bad, what = column.is_null(), "null"
    if not bad.any() and column.dtype.is_float():
        bad, what = column.is_nan(), "NaN"
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise InputError(
            f"{where}: sequence {column.name!r} is {what} in row {row}, so it is neither before nor after other rows of its "
            "key; give every row its sequence, deletions too"
        )


def _require_columns(where: str, schema: pl.Schema, frame: pl.DataFrame) -> None:
    if missing := [name for name in schema if name not in frame.columns]:
        raise InputError(
            f"{where}: {columns_are(missing)} missing; the frame has {listed(frame.columns)}: add {'it' if len(missing) == 1 else 'them'}"
        )
    if extra := [name for name in frame.columns if name not in schema and name != DIFF]:
        raise InputError(
            f"{where}: {columns_are(extra)} not declared; {'drop it or declare it' if len(extra) == 1 else 'drop them or declare them'}"
        )


def _as_declared(where: str, schema: pl.Schema, frame: pl.DataFrame, pushed: PushedFrame) -> pl.DataFrame:
    """Return the declared columns in their order and with exactly their types, and every value unchanged."""
    types = frame.schema
    columns: list[pl.Series] = []
    for name, dtype in schema.items():
        if types[name] != dtype:
            column = frame.get_column(name)
            try:
                columns.append(exactly(column, dtype))
            except LossyValueError as lossy:
                what = refusal(pushed.origin, name, pushed.type_of(name), column, dtype, lossy)
                raise InputError(f"{where}: {what}") from None
    frame = frame.with_columns(columns) if columns else frame
    return frame_of([frame.get_column(name) for name in schema])
