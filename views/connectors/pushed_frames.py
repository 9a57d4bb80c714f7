"""Pushed data of any library is converted to a polars frame; its origin is kept for the remedies in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.json_texts import as_text
from evercurrent.core.data.columns.lossless import LossyValueError, as_type, exactly, has_leaf
from evercurrent.core.data.columns.ownership import owned, owned_arrow
from evercurrent.core.data.columns.time_texts import READ_AS
from evercurrent.core.data.errors import InputError, first_line
from evercurrent.core.data.instants import in_utc
from evercurrent.core.data.schema import columns_are, listed, with_diff

from .decimal_values import as_decimals, exact_decimals, has_decimals, misfit_of_decimal
from .float_values import FLOATS, first_changed
from .foreign_columns import (
    lost_nanoseconds,
    named,
    readable_array,
    readable_arrow,
    readable_numpy,
    readable_pandas,
)
from .input_hints import ZONE_OF_VALUE, Origin
from .nested_times import as_texts, has_times, times_inside, times_of, with_texts
from .pandas_objects import is_of_pandas, object_values
from .row_shapes import ONE_VALUE, require_heights, require_rows, with_names

PYTHON_WAY_OUT = "give a value of that type, or declare the column with one that holds it"

NO_FRAME = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    TypeError,
    ValueError,
)
"""Errors raised if no frame can be made of the data."""

ROWS = (Mapping, tuple, list)
"""The types of rows in a list: with names, and in the order of the declared columns."""

LOOKED_AT = (pl.Datetime, pl.Duration, pl.Date, pl.Time, pl.Decimal, pl.Struct, pl.Null)
"""Types for which polars silently converts some Python values to different ones."""


Memory = Literal["owned", "shared", "left"]
"""Whether nobody else can write into the memory of a frame, it is to be copied, or it stays where it is."""


@dataclass(frozen=True, slots=True)
class PushedFrame:
    """Pushed rows as a frame of polars, with their origin and their types there."""

    frame: pl.DataFrame
    origin: Origin
    types: Mapping[str, str]
    """The names of column types in the library of origin, where these are not those of polars."""
    memory: Memory = "owned"

    def type_of(self, column: str) -> str:
        """Return the type of a column as the library of origin names it."""
        return self.types.get(column, str(self.frame.schema[column]))


def pushed_frame(where: str, schema: pl.Schema, data: Any) -> PushedFrame:
    """Return the rows of any pushed data, in memory that no other code can write.

    Raises:
        InputError: no frame can be made of it; names the column and the row, as far as they are known.
    """
    if isinstance(data, pl.DataFrame):
        return PushedFrame(owned(data), "polars", {})
    if type(data) is tuple and not all(isinstance(value, ONE_VALUE) for value in data):
        data = list(data)
    require_rows(where, data)
    try:
        return _made(where, schema, data)
    except InputError:
        raise
    except NO_FRAME as error:
        column = _failing_column(data)
        about = where if column is None else f"{where}: column {column!r}"
        mends = "" if column is None else "; cast it to a type that polars has"
        raise InputError(
            f"{about}: cannot make a frame of {type(data).__name__}: {first_line(error)}{mends}"
        ) from error


def time_value(where: str, name: str, value: object, dtype: pl.DataType) -> pl.Series:
    """Return a value that is given for a column with times, as that column with one row: as it is read in a row.

    Raises:
        InputError: it does not go with the column.
    """
    try:
        frame = pushed_frame(where, pl.Schema({name: dtype}), {name: [value]}).frame
        return exactly(frame.get_column(name), dtype)
    except (InputError, LossyValueError) as error:
        raise InputError(
            f"{where}: {name} {value!r} does not go with the column, which is {dtype}"
        ) from error


def _failing_column(data: Any) -> str | None:
    """Return the first column that alone cannot be made a frame."""
    if isinstance(data, dict):
        parts = {name: {name: values} for name, values in data.items()}
    elif isinstance(data, pa.Table | pa.RecordBatch):
        parts = {name: data.select([name]) for name in dict.fromkeys(data.schema.names)}
    elif is_of_pandas(data) and data.columns.is_unique:
        parts = {name: data[[name]] for name in data.columns}
    else:
        return None
    for name, part in parts.items():
        try:
            pl.DataFrame(part)
        except NO_FRAME:
            return str(name)
    return None


def _made(where: str, schema: pl.Schema, data: Any) -> PushedFrame:
    if isinstance(data, pl.LazyFrame):
        return PushedFrame(owned(data.collect()), "polars", {})
    if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
        data = list(data)
    if isinstance(data, dict) and data and all(isinstance(value, ONE_VALUE) for value in data.values()):
        data = [data]  # One row, whose texts are read as in a list of rows.
    if isinstance(data, dict | list):
        return PushedFrame(_from_python(where, schema, data), "python", {})
    if isinstance(data, pa.Table | pa.RecordBatch):
        types = {field.name: str(field.type) for field in data.schema}
        return PushedFrame(pl.DataFrame(owned_arrow(readable_arrow(where, data))), "arrow", types)
    if is_of_pandas(data):
        _require_no_index(where, schema, data)
        types = {str(name): str(dtype) for name, dtype in data.dtypes.items()}
        return PushedFrame(_from_pandas(where, schema, data), "pandas", types)
    if (
        hasattr(data, "__arrow_c_stream__")
        and not hasattr(data, "dtype")
        and not isinstance(data, pa.ChunkedArray)
    ):
        return _made(where, schema, pa.RecordBatchReader.from_stream(data).read_all())
    return PushedFrame(owned(pl.DataFrame(data)), "polars", {})


def _require_no_index(where: str, schema: pl.Schema, data: Any) -> None:
    """Check that no declared column is the index of a frame of pandas, which polars leaves out."""
    index = [name for name in data.index.names if name in schema and name not in data.columns]
    if index:
        raise InputError(
            f"{where}: {columns_are(index)} the index of the frame; push frame.reset_index(), which has all columns"
        )


def columns_of_rows(schema: pl.Schema, data: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """Return a list of rows, with names or tuples in the order of the declared columns, as a dictionary of columns.

    Anything else is returned as it is.

    Raises:
        ValueError: tuples have other numbers of values, a row has a name twice, or only some rows have names.
    """
    types, data = with_diff(schema), with_names(data)
    if isinstance(data, list) and all(isinstance(row, tuple | list) for row in data):
        width = max(map(len, data), default=len(schema))
        if width not in (len(types) - 1, len(types)):
            raise ValueError(f"a row has {width} values, for the columns {listed(schema)}")
        if (odd := next((place for place, row in enumerate(data) if len(row) != width), None)) is not None:
            raise ValueError(
                f"the rows have different numbers of values, row {odd} has {len(data[odd])}; give each {width}"
            )
        return {name: [row[place] for row in data] for place, name in enumerate(list(types)[:width])}
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        # polars takes the names of columns from the first hundred rows: a later `_diff` would be lost.
        names = dict.fromkeys(name for row in data for name in row)
        return {name: [row.get(name) for row in data] for name in names}
    if isinstance(data, list) and {isinstance(row, Mapping) for row in data if isinstance(row, ROWS)} == {
        True,
        False,
    }:
        raise ValueError(
            "some rows have names and others have none; give all of them with names, or all as tuples"
        )
    return data


def _from_pandas(where: str, schema: pl.Schema, data: Any) -> pl.DataFrame:
    """Return a frame of pandas, whose columns of objects are read as Python values are."""
    types = with_diff(schema)
    objects = object_values(types, data)
    if not objects:
        return owned(pl.DataFrame(readable_pandas(where, data)))
    others = data.drop(columns=list(objects))
    frame = owned(pl.DataFrame(readable_pandas(where, others))) if others.shape[1] else pl.DataFrame()
    columns = {name: column_of_values(where, name, values, types[name]) for name, values in objects.items()}
    return pl.DataFrame(
        [columns[name] if name in columns else frame.get_column(str(name)) for name in data.columns]
    )


def _from_python(where: str, schema: pl.Schema, data: dict[str, Any] | list[Any]) -> pl.DataFrame:
    """Return a dictionary of columns, or a list of rows: dictionaries, or tuples in the order of the declared columns."""
    types, data = with_diff(schema), columns_of_rows(schema, data)
    if not isinstance(data, dict):
        return pl.DataFrame(data)
    data = {name: _readable(where, name, values) for name, values in data.items()}
    require_heights(where, data)
    columns = {
        name: column_of_values(where, name, values, types[name])
        if name in types and isinstance(values, list | tuple)
        else values
        for name, values in data.items()
    }
    frame = pl.DataFrame(columns)
    return frame if all(isinstance(values, list | tuple) for values in data.values()) else owned(frame)


def _readable(where: str, name: str, values: Any) -> Any:
    """Return a column of another library in a type that polars reads.

    Raises:
        InputError: a value does not fit the type that polars has for it; names the column.
    """
    if isinstance(values, np.ndarray):
        return named(where, name, values.dtype, lambda: readable_numpy(values))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return named(where, name, values.type, lambda: readable_array(values))
    if type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "to_frame"):
        return readable_pandas(where, values.to_frame(name=name)).iloc[:, 0]
    return values


# Python values that polars would silently change.


def column_of_values(where: str, name: str, values: Any, dtype: pl.DataType) -> pl.Series:
    """Return Python values as a column of the declared type.

    A finite float of Python becomes the nearest finite ``Float32``, as Python has only one type of floats. A decimal becomes the
    float that Python prints as this decimal.

    Raises:
        InputError: a value is of another kind, or would be changed; names it and its row.
    """
    if isinstance(dtype, pl.Decimal):
        values = list(values)
        decimals, bad = exact_decimals(values, dtype)
        if bad is not None:
            what = misfit_of_decimal(values[bad], dtype)
            raise InputError(f"{where}: column {name!r} holds {what} (in row {bad})")
        values = decimals
    elif _is_looked_at(dtype) or _has_decimals_for_floats(values, dtype):
        for row, value in enumerate(values):
            if (what := next(_misfits(value, dtype), None)) is not None:
                raise InputError(f"{where}: column {name!r} holds {what} (in row {row})")
        if has_decimals(dtype):
            values = [as_decimals(value, dtype) for value in values]
    if isinstance(dtype, READ_AS):
        if any(isinstance(value, str) for value in values):
            return _with_texts(where, name, values, dtype)
        values = [_as_time(value, dtype) for value in values]
    elif has_times(dtype) and (texts := with_texts(values, dtype)) is not None:
        return read_texts(where, column_of_values(where, name, texts, as_texts(dtype)), dtype)
    try:
        column = pl.Series(name, values, dtype)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        TypeError,
        ValueError,
        OverflowError,
    ) as e:
        row = _first_refused(values, dtype)
        raise InputError(
            f"{where}: column {name!r} holds {values[row]!r} in row {row}, which is not of its declared type {dtype}: "
            f"{first_line(e)}; {PYTHON_WAY_OUT}"
        ) from e
    if has_leaf(dtype, FLOATS) and (changed := first_changed(values, column)) is not None:
        row, number, why = changed
        raise InputError(f"{where}: column {name!r} holds {number} in row {row}, {why}; {PYTHON_WAY_OUT}")
    return column


def _with_texts(where: str, name: str, values: Any, dtype: pl.DataType) -> pl.Series:
    """Return dates or datetimes of which some are texts; each is read by itself, whatever stands beside it."""
    texts = pl.Series(name, [value if isinstance(value, str) else None for value in values], pl.String)
    times = read_texts(where, texts, dtype)
    others = column_of_values(
        where, name, [None if isinstance(value, str) else value for value in values], dtype
    )
    return pl.select(pl.when(texts.is_not_null()).then(times).otherwise(others)).to_series().alias(name)


def read_texts(where: str, texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column of texts as one of dates or datetimes, also inside of lists, arrays and structs.

    Raises:
        InputError: a text names no single value of the type; names it and its row.
    """
    times, bad = times_inside(texts, dtype)
    if bad is None:
        return times
    text = as_text(texts.slice(bad, 1)).item() if dtype.is_nested() else repr(texts[bad])
    zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    way_out = f"write it as in {'2026-01-31' if dtype == pl.Date else '2026-01-31 12:50:00'}"
    if zone is not None:
        way_out += f"+00:00, or as a local time of {zone} that exists once"
    raise InputError(
        f"{where}: column {texts.name!r} holds {text} in row {bad}, which is not of its declared type {dtype}{times_of(dtype)}; "
        f"{way_out}"
    )


def _first_refused(values: Any, dtype: pl.DataType) -> int:
    """Return the place of the first value that polars cannot put into a column of this type."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pl.Series("", values[good:middle], dtype)
            good = middle
        except (Exception, pl.exceptions.PanicException):
            bad = middle
    return good


def _is_looked_at(dtype: pl.DataType) -> bool:
    """Return whether polars silently changes some values that this type does not hold exactly."""
    if isinstance(dtype, pl.List | pl.Array):
        return _is_looked_at(as_type(dtype.inner))
    return isinstance(dtype, LOOKED_AT)


def _has_decimals_for_floats(values: Any, dtype: pl.DataType) -> bool:
    """Return whether decimals are among the values of a type of floats, or of lists of these: polars rounds them silently."""
    if isinstance(dtype, pl.List | pl.Array):
        inner = as_type(dtype.inner)
        lists = (each for each in values if isinstance(each, list | tuple))
        return any(_has_decimals_for_floats(each, inner) for each in lists)
    return dtype.is_float() and Decimal in set(map(type, values))


def _misfits(value: Any, dtype: pl.DataType) -> Iterator[str]:
    """Yield the parts of a value that polars would change, with the remedy."""
    match value, dtype:
        case datetime(), _ if value != value:
            yield "NaT, the missing time of pandas; give None, or the frame of pandas itself"
        case ((datetime() | timedelta() | np.datetime64() | np.timedelta64()), _) if lost := lost_nanoseconds(
            value
        ):
            yield f"{value}, {lost}"
        case list() | tuple(), pl.List() | pl.Array():
            inner = as_type(dtype.inner)
            if _is_looked_at(inner) or _has_decimals_for_floats(value, inner):
                for each in value:
                    yield from _misfits(each, inner)
        case Mapping(), pl.Struct():
            types = {field.name: as_type(field.dtype) for field in dtype.fields}
            for name, each in value.items():
                if name not in types:
                    yield f"a field {name!r}, which is not declared; there are {listed(types)}: leave it out"
                elif _is_looked_at(types[name]) or _has_decimals_for_floats([each], types[name]):
                    yield from _misfits(each, types[name])
        case _, pl.Null() if value is not None:
            yield f"{value!r}, and its type is Null, which has no values: declare another one"
        case ((int() | float()), pl.Datetime() | pl.Date()):
            yield f"the number {value}; give datetimes, or pl.from_epoch(...)"
        case ((int() | float()), pl.Duration() | pl.Time()):
            yield f"the number {value}; give {'timedeltas' if isinstance(dtype, pl.Duration) else 'times'}"
        case time(), pl.Time() if value.tzinfo is not None:
            yield (
                f"{value!r}, whose zone a time of day does not keep; use .replace(tzinfo=None), or declare pl.Datetime with a zone "
                "and give datetimes"
            )
        case datetime(), (pl.Datetime() | pl.Date()) if value.tzinfo is not None:
            yield from _misfits_of_instant(value, dtype)
        case datetime(), pl.Datetime(time_zone=str()):
            yield f"{value}, which has no time zone, and the column is declared with one; {ZONE_OF_VALUE}"
        case date(), pl.Datetime(time_zone=str()) if not isinstance(value, datetime):
            yield (
                f"{value}, which has no time zone, and the column is declared with one; "
                "use datetime(2026, 1, 31, tzinfo=...)"
            )
        case datetime(), pl.Datetime(time_unit="ms") if value.microsecond % 1000:
            yield f"{value}, which milliseconds cannot hold; round it, or declare pl.Datetime('us')"
        case timedelta(), pl.Duration(time_unit="ms") if value.microseconds % 1000:
            yield f"{value}, which milliseconds cannot hold; round it, or declare pl.Duration('us')"
        case datetime(), pl.Date() if value.time() != time():
            yield f"{value}, which is more than a date; use .date(), or declare pl.Datetime('us')"
        case Decimal(), (pl.Float32() | pl.Float64()) if value.is_finite() and value != Decimal(
            repr(float(value))
        ):
            yield f"{value}, which floats round to {float(value)!r}; give float(...) of it, or declare pl.Decimal"
        case _, pl.Decimal() if value is not None and (misfit := misfit_of_decimal(value, dtype)):
            yield misfit
        case _:
            return


def _as_time(value: object, dtype: pl.DataType) -> object:
    """Return a time, or anything else, as polars takes it beside others: an instant in UTC, a date as its midnight."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        # A local time that a change of clocks leaves out is an instant for Python, and none for polars.
        return value.astimezone(UTC) if isinstance(value, datetime) else value
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else in_utc(value)
        return utc.date() if utc is not None and isinstance(dtype, pl.Date) else utc
    if isinstance(value, date) and isinstance(dtype, pl.Datetime):
        return datetime.combine(value, time())
    return value


def _misfits_of_instant(value: datetime, dtype: pl.DataType) -> Iterator[str]:
    """Yield why a column does not hold a time with a zone, which is converted to UTC."""
    utc = in_utc(value)
    if utc is None:
        yield f"{value}, which is beyond the years 1 to 9999 in UTC; correct it, or leave the row out"
        return
    zoneless = pl.Datetime(dtype.time_unit) if isinstance(dtype, pl.Datetime) else dtype
    for misfit in _misfits(utc, zoneless):
        yield f"{value}, which in UTC is {misfit}"
