"""Texts of times inside lists, arrays and structs are read as texts in a column are: each exactly, and no format is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.lossless import as_type, with_leaves
from evercurrent.core.data.columns.polars_versions import of_arrow
from evercurrent.core.data.columns.time_texts import READ_AS, times_of_texts
from evercurrent.core.data.instants import in_utc


def has_times(dtype: pl.DataType) -> bool:
    """Return whether a type is one of dates or datetimes, or has them inside.

    >>> has_times(pl.List(pl.Date)), has_times(pl.List(pl.Time))
    (True, False)
    """
    return as_texts(dtype) != dtype


def as_texts(dtype: pl.DataType) -> pl.DataType:
    """Return a type with texts in place of dates and datetimes.

    >>> as_texts(pl.Struct({"n": pl.Int8, "on": pl.List(pl.Date)}))
    Struct({'n': Int8, 'on': List(String)})
    """
    return with_leaves(dtype, lambda leaf: pl.String() if isinstance(leaf, READ_AS) else leaf)


def times_of(dtype: pl.DataType) -> str:
    """Return which times a type has, to be written behind its name; nothing for a type without datetimes.

    >>> times_of(pl.Datetime("ms"))
    ' not finer than ms, from 1 to 9999 in UTC'
    """
    if not isinstance(dtype, pl.Datetime):
        return ""
    return f" not finer than {dtype.time_unit}, from {'1677 to 2262' if dtype.time_unit == 'ns' else '1 to 9999'} in UTC"


def times_inside(column: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return a column of ``as_texts(dtype)`` as one of this type, and the first row with a text that names no time of it.

    As ``times_of_texts``, of which it is the same at any depth. Cost: the column, a few times.
    """
    if isinstance(dtype, READ_AS):
        return times_of_texts(column, dtype)
    if not has_times(dtype) or not len(column):
        return column.cast(dtype), None
    if isinstance(dtype, pl.Struct):
        return _of_structs(column, dtype)
    if isinstance(dtype, pl.Array):
        lists, bad = _of_lists(column.arr.to_list(), pl.List(dtype.inner))
        return lists.list.to_array(dtype.size), bad
    assert isinstance(dtype, pl.List)
    return _of_lists(column, dtype)


def _of_structs(column: pl.Series, dtype: pl.Struct) -> tuple[pl.Series, int | None]:
    fields = [times_inside(column.struct.field(field.name), as_type(field.dtype)) for field in dtype.fields]
    structs = pl.DataFrame([values for values, _ in fields]).to_struct(column.name)
    times = pl.select(pl.when(column.is_not_null()).then(structs)).to_series().alias(column.name)
    return times, min((bad for _, bad in fields if bad is not None), default=None)


def _of_lists(column: pl.Series, dtype: pl.List) -> tuple[pl.Series, int | None]:
    lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    values = column.filter(pl.Series(lengths > 0)).explode(empty_as_null=False)
    times, bad = times_inside(values, as_type(dtype.inner))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Not by pa.array, which imports pandas.
    starts, mask = pl.Series(offsets).to_arrow(), column.is_null().to_arrow()
    lists = pa.LargeListArray.from_arrays(starts, times.to_arrow(), mask=mask)
    rows = np.repeat(np.arange(len(column)), lengths)
    return of_arrow(lists).cast(dtype).alias(column.name), None if bad is None else int(rows[bad])


def with_texts(values: Iterable[Any], dtype: pl.DataType) -> list[Any] | None:
    """Return values of Python for ``as_texts(dtype)``, the times in them as texts; None if they have neither texts nor zones.

    >>> with_texts([["2026-01-31T12:00Z", date(2026, 1, 31)]], pl.List(pl.Datetime("us")))
    [['2026-01-31T12:00Z', '2026-01-31']]
    """
    values = list(values)
    if not any(
        isinstance(time, str) or time.tzinfo is not None for value in values for time in _times(value, dtype)
    ):
        return None
    return [_with_texts(value, dtype) for value in values]


def _times(value: Any, dtype: pl.DataType) -> Iterator[str | datetime]:
    """Yield the texts and datetimes in a value that stand for times."""
    match value, dtype:
        case ((str() | datetime()), (pl.Date() | pl.Datetime())):
            yield value
        case ((list() | tuple()), (pl.List() | pl.Array())):
            inner = as_type(dtype.inner)
            for each in value:
                yield from _times(each, inner)
        case Mapping(), pl.Struct():
            for field in dtype.fields:
                yield from _times(value.get(field.name), as_type(field.dtype))


def _with_texts(value: Any, dtype: pl.DataType) -> Any:
    match value, dtype:
        case datetime(), (pl.Date() | pl.Datetime()) if (utc := in_utc(value)) is not None:
            return utc.replace(tzinfo=UTC).isoformat()
        case date(), (pl.Date() | pl.Datetime()):
            return value.isoformat()
        case ((list() | tuple()), (pl.List() | pl.Array())):
            inner = as_type(dtype.inner)
            return [_with_texts(each, inner) for each in value]
        case Mapping(), pl.Struct():
            types = {field.name: as_type(field.dtype) for field in dtype.fields}
            return {name: _with_texts(each, types[name]) for name, each in value.items()}
    return value
