"""Columns of Arrow, pandas and numpy are converted to types that polars reads, with every value unchanged.

polars cannot read some types, though it has others that hold their values, and it silently changes times in whole seconds
that are out of the range of milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from evercurrent.core.data.columns.polars_versions import has_arrays, importable
from evercurrent.core.data.errors import InputError, first_line
from evercurrent.core.data.instants import in_utc

MOST_DIGITS = 38
"""The most digits of polars' decimals."""

MOST_TYPES = 1000
"""The most types that are cached, as analysing one costs more than reading a column of few rows."""

MOST_DAYS = 2**31 - 1
"""Days before and after 1970 that polars has."""

DAYS_OF = {"Y": 366, "M": 31, "W": 7, "D": 1}
"""Units of numpy in which times are days: how many, or the most that it may have."""

MILLISECONDS_OF = {"W": 604_800_000, "D": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
"""Units of numpy in which durations, and other times, are whole milliseconds: how many."""

MAY_BE_TIMES = frozenset({"datetime", "datetime64", "timedelta", "timedelta64", "mixed"})
"""Kinds that pandas infers for objects among which there are times."""


def readable_arrow(where: str, table: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Return the same rows in types that polars reads.

    Raises:
        InputError: a value does not fit what polars has for it; names the column.
    """
    readable = table
    for place, field in enumerate(table.schema):
        if readable_type(field.type) != field.type or has_arrays(field.type):
            column = named(where, field.name, field.type, partial(readable_array, table.column(place)))
            readable = readable.set_column(place, field.name, column)
    return readable


def readable_array(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the same values in a type that polars reads.

    Raises:
        pa.ArrowException: they do not fit, or Arrow has no such cast.
    """
    target = readable_type(column.type)
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([readable_array(chunk) for chunk in column.chunks], target)
    if target == column.type:
        return importable(column)
    if _is_canonical(column.type):
        return readable_array(column.storage)
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute as pc  # Imported here, as it takes long and few columns need it.

        return readable_array(pc.run_end_decode(column))
    return importable((_without_views(column) if _is_view(column.type) else column).cast(target))


@lru_cache(MOST_TYPES)
def readable_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type in which polars reads the values of a type; the type itself where polars reads it.

    >>> readable_type(pa.list_view(pa.timestamp("s")))
    ListType(list<item: timestamp[ms]>)
    """
    if _is_canonical(dtype):
        return readable_type(dtype.storage_type)
    if pa.types.is_run_end_encoded(dtype):
        return readable_type(dtype.value_type)
    if _is_view(dtype):
        list_type = pa.list_ if pa.types.is_list_view(dtype) else pa.large_list
        return list_type(_castable_field(dtype.value_field))
    return _castable_type(dtype)


def _castable_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type that a type is cast to, also within others; Arrow cannot cast all that ``readable_array`` reads."""
    types = pa.types
    match dtype:
        case _ if types.is_list(dtype):
            return pa.list_(_castable_field(dtype.value_field))
        case _ if types.is_large_list(dtype):
            return pa.large_list(_castable_field(dtype.value_field))
        case _ if types.is_fixed_size_list(dtype):
            return pa.list_(_castable_field(dtype.value_field), dtype.list_size)
        case _ if types.is_struct(dtype):
            return pa.struct([_castable_field(dtype.field(place)) for place in range(dtype.num_fields)])
        case _ if types.is_decimal256(dtype) or (types.is_decimal(dtype) and dtype.scale < 0):
            whole = max(-dtype.scale, 0)
            return pa.decimal128(min(dtype.precision + whole, MOST_DIGITS), max(dtype.scale, 0))
        case _ if types.is_timestamp(dtype) and (dtype.unit == "s" or not _is_zone(dtype.tz)):
            return pa.timestamp(
                "ms" if dtype.unit == "s" else dtype.unit, dtype.tz if _is_zone(dtype.tz) else "UTC"
            )
        case _ if types.is_duration(dtype) and dtype.unit == "s":
            return pa.duration("ms")
    return dtype


@lru_cache(MOST_TYPES)
def _is_zone(name: str | None) -> bool:
    """Return whether a zone has a name in the database of zones, which polars needs; offsets of minutes have none."""
    try:
        return name is None or ZoneInfo(name).key == name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _without_views(column: pa.Array) -> pa.Array:
    """Return contiguous lists for lists anywhere in a buffer, for which Arrow's cast makes too few offsets."""
    import pyarrow.compute as pc

    is_null = column.is_null()
    lengths = pc.if_else(is_null, 0, column.sizes)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    is_large = pa.types.is_large_list_view(column.type)
    list_array, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return list_array.from_arrays(pa.array(offsets, width), column.flatten(), mask=is_null)


def readable_pandas(where: str, frame: Any) -> Any:
    """Return the same rows in types that polars reads.

    Raises:
        InputError: a value does not fit what polars has for it; names the column.
    """
    mended = {
        place: named(where, str(name), dtype, partial(change, frame.iloc[:, place]))
        for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True))
        if (change := _change_of_pandas(str(dtype), getattr(dtype, "pyarrow_dtype", None))) is not None
    }
    if not mended:
        return frame
    frame = frame.copy(deep=False)
    for place, column in mended.items():
        frame.isetitem(place, column)
    return frame


@lru_cache(MOST_TYPES)
def _change_of_pandas(name: str, arrow: pa.DataType | None) -> Callable[[Any], Any] | None:
    """Return the conversion of a column of pandas' or Arrow's type to one that polars reads; None if none is needed."""
    if arrow is not None:
        return None if readable_type(arrow) == arrow and not has_arrays(arrow) else _of_arrow
    if name.startswith(("datetime64[", "timedelta64[")):
        return _change_of_times(name)
    if name.startswith("Sparse["):
        return lambda column: column.sparse.to_dense()
    return _with_times if name == "object" else None


def _change_of_times(name: str) -> Callable[[Any], Any] | None:
    unit, _, zone = name.partition("[")[2].removesuffix("]").partition(", ")
    in_seconds, is_offset = unit == "s", not _is_zone(zone or None)
    if not in_seconds and not is_offset:
        return None

    def change(column: Any) -> Any:
        column = column.dt.as_unit("ms") if in_seconds else column
        return column.dt.tz_convert("UTC") if is_offset else column

    return change


def _of_arrow(column: Any) -> Any:
    """Return the column converted by way of Arrow, in which pandas keeps it."""
    return type(column.array)(readable_array(column.array.__arrow_array__()))


def _with_times(column: Any) -> Any:
    """Return objects of pandas that are times in a type of times, as Arrow and polars would read them as Python's."""
    inferred = column.infer_objects()
    if inferred.dtype.kind in "Mm":
        change = _change_of_pandas(str(inferred.dtype), None)
        return inferred if change is None else change(inferred)
    if sys.modules["pandas"].api.types.infer_dtype(column, skipna=True) in MAY_BE_TIMES:
        for row, value in enumerate(
            column
        ):  # Times of several zones, or mixed with other objects, are rare and have no common type.
            if lost := lost_nanoseconds(value):
                raise ValueError(f"it holds {value} in row {row}, {lost}")
        has_zone = {value.tzinfo is not None for value in column if isinstance(value, datetime)}
        if True in has_zone:
            zone = UTC if len(has_zone) == 1 else None  # Beside times without a zone, which are no instants.
            values = [_in_one_zone(row, value, zone) for row, value in enumerate(column)]
            return type(column)(values, index=column.index, dtype=object)
    return column


def _in_one_zone(row: int, value: object, zone: tzinfo | None) -> object:
    """Return a time with a zone as the time in UTC, which polars would convert to the zone of the first one."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return value
    if (utc := in_utc(value)) is None:
        raise ValueError(f"it holds {value} in row {row}, which is beyond the years 1 to 9999 in UTC")
    return utc.replace(tzinfo=zone)


def lost_nanoseconds(value: object) -> str | None:
    """Return the complaint about a time of pandas or numpy that Python's datetime cannot hold; None if it can."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return "which is a scalar of numpy and not a value of a column; give a column of datetime64 or timedelta64, or Python's datetime or timedelta"
    nanoseconds = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    if not isinstance(nanoseconds, int) or not nanoseconds:
        return None
    return "whose nanoseconds would be lost; give a column of datetime64[ns] or timedelta64[ns], or round it"


def readable_numpy(values: Any) -> Any:
    """Return the same values as an array, or a list, that polars reads.

    Raises:
        ValueError: a time is out of the range of polars' type.
    """
    if values.ndim != 1 or values.dtype.kind not in "OMm":
        return values
    if values.dtype.kind == "O":
        return values.tolist()
    unit, _ = np.datetime_data(values.dtype)
    is_day = values.dtype.kind == "M" and unit in DAYS_OF
    if not is_day and unit not in MILLISECONDS_OF:
        return values  # Units that polars has, finer ones, or months without a length, which polars refuses.
    finer, most = ("D", MOST_DAYS) if is_day else ("ms", 2**63 - 1)
    # Checked before the conversion, in which some versions of numpy wrap and others raise.
    most //= DAYS_OF[unit] if is_day else MILLISECONDS_OF[unit]
    ticks = values.view(np.int64)
    is_lost = ((ticks > most) | (ticks < -most)) & ~np.isnat(values)
    if is_lost.any():
        row = int(is_lost.argmax())
        raise ValueError(f"{ticks[row]} {unit} since 1970 in row {row} is too far away")
    return values.astype(f"{values.dtype.kind}8[{finer}]")


def _castable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_castable_type(field.type))


def _is_view(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(dtype) or pa.types.is_large_list_view(dtype))


def _is_canonical(dtype: pa.DataType) -> bool:
    """Return whether a type is a canonical extension of Arrow, whose storage holds the same values."""
    return isinstance(dtype, pa.BaseExtensionType) and str(dtype.extension_name).startswith("arrow.")


def named(where: str, name: str, dtype: object, make: Callable[[], Any]) -> Any:
    """Return the column that ``make`` returns, with its name in an error.

    Raises:
        InputError: ``make`` failed; names the column.
    """
    try:
        return make()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: column {name!r} is {dtype}, and polars has no type for all of its values: {first_line(error)}; "
            "correct the rows, or cast the column"
        ) from error
