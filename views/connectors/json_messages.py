"""Messages of JSON, one in each row of a column, are read as columns of declared types; those that cannot be read are set apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Mask
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.halving import bad_places

TimeUnit = Literal["ms", "us", "ns"]

TimeUnits = TimeUnit | Mapping[str, TimeUnit] | None
"""The unit of numbers that are times, of all columns or of each."""

PER_DAY: Mapping[TimeUnit, int] = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def read_messages(texts: pl.Series, live: Mask, schema: pl.Schema) -> tuple[pl.DataFrame, Mask]:
    """Return the fields of messages, null for those that are not live, and which live ones cannot be read.

    A field that all messages have inside of ``payload`` is read from there.

    >>> texts = pl.Series(['{"n": 1}', '{"n": "x"}', None])
    >>> schema = pl.Schema({"n": pl.Int64(), "payload": pl.Struct({"n": pl.Int64()})})
    >>> frame, unread = read_messages(texts, np.array([True, True, False]), schema)
    >>> frame["n"].to_list(), unread.tolist()
    ([1, None, None], [False, True, False])
    """
    unread = live & texts.is_null().to_numpy()
    places = np.flatnonzero(live & ~unread)
    # Inside of a text of JSON there is no line end: between tokens a blank means the same.
    lines = texts[places].str.replace_all("[\r\n]", " ")
    frame = _read(lines, schema)
    if frame is None:
        bad = bad_places(len(lines), lambda start, end: _read(lines[start:end], schema) is not None)
        unread[places[bad]] = True
        good = np.delete(np.arange(len(lines)), bad)
        places = places[good]
        frame = _read(lines[good], schema)
        assert frame is not None, "each line by itself can be read"
    row = np.full(len(texts), -1, np.int64)
    row[places] = np.arange(len(places))
    at = pl.Series(row)
    spread = frame.select(pl.all().gather(at.set(at < 0, None)))
    return _without_payload(spread), unread


def _read(lines: pl.Series, schema: pl.Schema) -> pl.DataFrame | None:
    """Return a row for each line; None if one cannot be read, or holds more than one object."""
    if not len(lines):
        return schema.to_frame()
    from .text_files import json_rows  # Imported here, as pyarrow's readers of texts take long.

    frame, fault = json_rows(lines.str.join("\n").item().encode(), schema, ignores_others=True)
    return None if fault is not None or frame.height != len(lines) else frame


def _without_payload(frame: pl.DataFrame) -> pl.DataFrame:
    payload = frame.get_column("payload")
    if payload.null_count() == len(payload):
        return frame.drop("payload")
    fields = payload.struct.unnest()
    is_inside = payload.is_not_null()
    return pl.DataFrame(
        [
            pl.select(pl.when(is_inside).then(fields[name]).otherwise(frame[name]).alias(name)).to_series()
            for name in frame.columns
            if name != "payload"
        ]
    )


def wire_types(schema: pl.Schema, units: TimeUnits) -> dict[str, pl.DataType]:
    """Return the types as which columns are read from JSON.

    >>> wire_types(pl.Schema({"n": pl.Int8(), "on": pl.Date(), "raw": pl.Binary()}), "us")
    {'n': Int8, 'on': Int64, 'raw': String}
    """
    return {name: _wire_type(dtype, _unit(units, name)) for name, dtype in schema.items()}


def require_readable(where: str, schema: pl.Schema, units: TimeUnits) -> None:
    """Check that columns have types that JSON can express.

    Raises:
        PlanError: one has not.
    """
    from .text_files import without_text

    for name, dtype in schema.items():
        wire = pl.Schema({name: _wire_type(dtype, _unit(units, name))})
        inside = pl.Schema({name: pl.Struct(wire)})
        if without_text(inside, json_lines=True) is not None:
            raise PlanError(
                f"{where}: column {name!r} is {dtype}, which a message in JSON has no form for; declare another type"
            )


def message_rows(
    envelope: pl.DataFrame, side: str, schema: pl.Schema, units: TimeUnits
) -> tuple[pl.DataFrame, Mask]:
    """Return the rows inside of messages, and in which a value is none of its column; null where there is no row."""
    fields = envelope.get_column(side).struct.unnest()
    bad = np.zeros(envelope.height, np.bool_)
    columns = []
    for name, dtype in schema.items():
        column = fields.get_column(name)
        read = _as_declared(column, dtype, _unit(units, name))
        if read is not column:
            bad |= (read.is_null() & column.is_not_null()).to_numpy()
        columns.append(read)
    return pl.DataFrame(columns), bad


def _unit(units: TimeUnits, name: str) -> TimeUnit | None:
    return units.get(name) if isinstance(units, Mapping) else units


def _is_number(dtype: pl.DataType, unit: TimeUnit | None) -> bool:
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return False
    return unit is not None and isinstance(dtype, pl.Date | pl.Datetime | pl.Time)


def _wire_type(dtype: pl.DataType, unit: TimeUnit | None) -> pl.DataType:
    if _is_number(dtype, unit):
        return pl.Int64()
    if isinstance(dtype, pl.Time | pl.Binary | pl.Enum | pl.Categorical):
        return pl.String()
    return dtype


def _as_declared(column: pl.Series, dtype: pl.DataType, unit: TimeUnit | None) -> pl.Series:
    """Return values read from JSON in the declared type, or one that holds the same: null where they are none of it."""
    if unit is not None and _is_number(dtype, unit):
        if isinstance(dtype, pl.Date):
            return column.cast(pl.Int32, strict=False).cast(pl.Date)
        if isinstance(dtype, pl.Datetime):
            return column.cast(pl.Datetime(unit))
        within = column.is_between(0, PER_DAY[unit] - 1)
        return (column.set(~within, None) * (PER_DAY["ns"] // PER_DAY[unit])).cast(pl.Time)
    if isinstance(dtype, pl.Time):
        return column.str.to_time("%H:%M:%S%.f", strict=False)
    if isinstance(dtype, pl.Binary):
        return column.str.decode("base64", strict=False)
    return column
