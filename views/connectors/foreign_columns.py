"""Columns of Arrow, pandas and numpy in types that polars reads, every value what it was.

Of some types polars has none, though it has one that holds their values; of times in whole seconds it makes others without
a word, where they are too far away for milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evercurrent.core.data.errors import InputError, first_line

MOST_DIGITS = 38
"""So many digits the decimals of polars have."""

MOST_TYPES = 1000
"""So many types are remembered: to look at one costs more than to read a column of few rows."""

DATES, DURATIONS = frozenset("YMWD"), frozenset("WDhms")
"""Units of numpy: moments in these are days; what else is in these is whole milliseconds."""

MAY_BE_TIMES = frozenset({"datetime", "datetime64", "timedelta", "timedelta64", "mixed"})
"""What pandas says of objects among which there are times."""


def readable_arrow(where: str, table: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """The same rows in types that polars reads.

    Raises:
        InputError: a value does not fit what polars has for it; names the column.
    """
    made = table
    for place, field in enumerate(table.schema):
        if readable_type(field.type) != field.type:
            column = named(where, field.name, field.type, partial(readable_array, table.column(place)))
            made = made.set_column(place, field.name, column)
    return made


def readable_array(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The same values in a type that polars reads.

    Raises:
        pa.ArrowException: they do not fit, or Arrow has no way there.
    """
    wanted = readable_type(column.type)
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([readable_array(chunk) for chunk in column.chunks], wanted)
    if wanted == column.type:
        return column
    if _is_canonical(column.type):
        return readable_array(column.storage)
    if pa.types.is_run_end_encoded(column.type):
        return readable_array(pc.run_end_decode(column))
    return (_without_views(column) if _is_view(column.type) else column).cast(wanted)


@lru_cache(MOST_TYPES)
def readable_type(dtype: pa.DataType) -> pa.DataType:
    """What polars reads the values of a type as; the type itself where it reads that.

    >>> readable_type(pa.list_view(pa.timestamp("s")))
    ListType(list<item: timestamp[ms]>)
    """
    if _is_canonical(dtype):
        return readable_type(dtype.storage_type)
    if pa.types.is_run_end_encoded(dtype):
        return readable_type(dtype.value_type)
    if _is_view(dtype):
        made = pa.list_ if pa.types.is_list_view(dtype) else pa.large_list
        return made(_castable_field(dtype.value_field))
    return _castable_type(dtype)


def _castable_type(dtype: pa.DataType) -> pa.DataType:
    """What a type is cast to, also within others; Arrow does not cast all that ``readable_array`` reads."""
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
        case _ if types.is_timestamp(dtype) and dtype.unit == "s":
            return pa.timestamp("ms", dtype.tz)
        case _ if types.is_duration(dtype) and dtype.unit == "s":
            return pa.duration("ms")
    return dtype


def _without_views(column: pa.Array) -> pa.Array:
    """Lists that follow one another, of lists that lie anywhere: the cast of Arrow makes too few offsets of them."""
    is_null = column.is_null()
    lengths = pc.if_else(is_null, 0, column.sizes)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    is_large = pa.types.is_large_list_view(column.type)
    made, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return made.from_arrays(pa.array(offsets, width), column.flatten(), mask=is_null)


def readable_pandas(where: str, frame: Any) -> Any:
    """The same rows in types that polars reads.

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
    """What makes a column of a type of pandas, or of Arrow's there, one that polars reads, if it has to be another one."""
    if arrow is not None:
        return None if readable_type(arrow) == arrow else _of_arrow
    if name.startswith(("datetime64[s", "timedelta64[s")):
        return lambda column: column.dt.as_unit("ms")
    if name.startswith("Sparse["):
        return lambda column: column.sparse.to_dense()
    return _with_times if name == "object" else None


def _of_arrow(column: Any) -> Any:
    """A column that pandas keeps in Arrow."""
    return type(column.array)(readable_array(column.array.__arrow_array__()))


def _with_times(column: Any) -> Any:
    """Objects of pandas' as what they are, where they are times: Arrow and polars would take these as Python's."""
    found = column.infer_objects()
    if found.dtype.kind in "Mm":
        return found
    if sys.modules["pandas"].api.types.infer_dtype(column, skipna=True) in MAY_BE_TIMES:
        for row, value in enumerate(
            column
        ):  # Of several zones, or among other things: seldom, and then of no type.
            if lost := lost_nanoseconds(value):
                raise ValueError(f"it holds {value} in row {row}, {lost}")
    return column


def lost_nanoseconds(value: object) -> str | None:
    """What is to be said of a time of pandas or numpy that is more than the datetime of Python that others take it for."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return "which is of numpy's and not of a column's type; give a column of datetime64 or timedelta64"
    nanoseconds = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    if not isinstance(nanoseconds, int) or not nanoseconds:
        return None
    return "whose nanoseconds would be lost; give a column of datetime64[ns] or timedelta64[ns], or round it"


def readable_numpy(values: Any) -> Any:
    """The same values as an array, or a list, that polars reads.

    Raises:
        ValueError: a time is too far away for what polars has.
    """
    if values.ndim != 1 or values.dtype.kind not in "OMm":
        return values
    if values.dtype.kind == "O":
        return values.tolist()
    unit, _ = np.datetime_data(values.dtype)
    is_day = values.dtype.kind == "M" and unit in DATES
    if not is_day and unit not in DURATIONS:
        return values  # As polars has it, or finer, or months of no length: it says so.
    made = values.astype(f"{values.dtype.kind}8[{'D' if is_day else 'ms'}]")
    is_lost = (made.astype(values.dtype) != values) & ~np.isnat(values)
    if is_day:
        is_lost |= (np.abs(made.view(np.int64)) >= 1 << 31) & ~np.isnat(values)
    if is_lost.any():
        row = int(is_lost.argmax())
        raise ValueError(f"{values.view(np.int64)[row]} {unit} since 1970 in row {row} is too far away")
    return made


def _castable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_castable_type(field.type))


def _is_view(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(dtype) or pa.types.is_large_list_view(dtype))


def _is_canonical(dtype: pa.DataType) -> bool:
    """Whether a type is one that Arrow itself extends another by, which holds the same values."""
    return isinstance(dtype, pa.BaseExtensionType) and str(dtype.extension_name).startswith("arrow.")


def named(where: str, name: str, dtype: object, make: Callable[[], Any]) -> Any:
    """A column as it is made.

    Raises:
        InputError: it cannot be; names the column.
    """
    try:
        return make()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: column {name!r} is {dtype}, and polars has no type for all of its values: {first_line(error)}; "
            "mend the rows, or cast the column"
        ) from error
