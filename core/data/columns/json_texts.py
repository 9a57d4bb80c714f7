"""Any value and any row that a column can hold is written as JSON and as text.

polars writes most of them. It panics at times beyond its calendar and at bytes, and writes NaN and infinities as null.
So these are written here:

- NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity";
- bytes as a string of hexadecimal digits;
- times more than some 260,000 years away as others are, in UTC: "+294247-01-10 04:00:54.775807".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from .kernels import Ints, physical
from .polars_versions import writes_otherwise

INFINITIES = {"Infinity": float("inf"), "-Infinity": float("-inf")}
NOT_A_NUMBER = "NaN"
"""The text of NaN, which JSON does not have."""

CYCLE_DAYS, CYCLE_YEARS = 146_097, 400
"""The Gregorian calendar repeats itself after this many days, which are this many years."""

MOST_DAYS = 260_000 * 365
"""polars can write dates and times up to this many days from 1970, in any zone."""

PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
YEAR_DIGITS = 4

EVEN_SINCE = 2 * 365 + 7
"""The day, counted from 1970, since which every zone's offset is a whole number of minutes: Liberia's, in January 1972, was the last."""

LEAST = -(1 << 63)
LEAST_MILLISECONDS = '"-PT9223372036854775.808S"'
"""The one duration that polars cannot write."""


def json_rows(frame: pl.DataFrame) -> pl.Series:
    """Return each row as a JSON object.

    >>> json_rows(pl.DataFrame({"a": [1.5, float("nan")], "b": ["x", None]})).to_list()
    ['{"a":1.5,"b":"x"}', '{"a":"NaN","b":null}']
    """
    columns = frame.get_columns()
    if columns and not any(map(_is_ours, columns)):
        return frame.select(pl.struct(pl.all()).struct.json_encode().alias("row")).to_series()
    return _objects(columns, frame.height).alias("row")


def has_bytes(dtype: Any) -> bool:
    """Return whether there are bytes in values of this type, at any depth, which JSON cannot represent."""
    if isinstance(dtype, pl.Struct):
        return any(has_bytes(field.dtype) for field in dtype.fields)
    if isinstance(dtype, pl.List | pl.Array):
        return has_bytes(dtype.inner)
    return bool(dtype == pl.Binary)


def json_values(column: pl.Series) -> pl.Series:
    """Return each value as JSON; a null as ``null``."""
    if isinstance(column.dtype, pl.BaseExtension):
        return json_values(column.ext.storage())
    if not _is_ours(column):
        wrapped = column.alias("").to_frame().select(pl.struct(pl.all()).struct.json_encode()).to_series()
        return wrapped.str.strip_prefix('{"":').str.strip_suffix("}")
    dtype = column.dtype
    if isinstance(dtype, pl.Struct):
        fields = [column.struct.field(field.name) for field in dtype.fields]
        written = _objects(fields, len(column))
    elif isinstance(dtype, pl.Array):
        written = json_values(column.arr.to_list())
    elif isinstance(dtype, pl.List):
        written = _lists(column)
    elif dtype.is_float():
        written = _floats(column)
    elif dtype == pl.Binary:
        written = _quoted(column.bin.encode("hex"))
    elif dtype.is_temporal():
        written = _times(column)
    else:
        written = pl.Series([json.dumps(str(value)) for value in column], dtype=pl.String)
    return _where(column.is_null(), "null", written)


def as_text(column: pl.Series) -> pl.Series:
    """Return each value as JSON, but without the quotes of a JSON string; null is null."""
    written = json_values(column).alias(column.name)
    if not column.dtype.is_nested():
        written = written.str.strip_prefix('"').str.strip_suffix('"')
    return _where(column.is_null(), None, written)


def printable(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame for display: columns that polars cannot print are texts."""
    return frame.with_columns([as_text(column) for column in frame.get_columns() if is_far(column)])


def shown_row(frame: pl.DataFrame, place: int) -> str:
    """Return a row as messages show it, whatever is in it.

    >>> shown_row(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), 1)
    "{'a': 2, 'b': 'y'}"
    """
    return str(shown_values(frame, place))


def shown_values(frame: pl.DataFrame, place: int) -> dict[str, Any]:
    """Return the values of a row by column for display: values that Python cannot represent are texts."""
    return {column.name: _shown(column) for column in frame.slice(place, 1).get_columns()}


def _shown(value: pl.Series) -> Any:
    if is_far(value):
        return as_text(value).item()
    try:
        return value.to_list()[0]
    except (OverflowError, ValueError):
        return as_text(value).item()  # Python's years end with 9999.


def is_far(column: pl.Series) -> bool:
    """Return whether a value, at any depth, is a time that polars can neither write nor print."""
    return any_leaf(column, _beyond)


def _is_ours(column: pl.Series) -> bool:
    """Return whether polars would lose a part of these values, or panic."""
    return writes_otherwise(column.dtype) or any_leaf(column, _is_lost)


def _is_lost(column: pl.Series) -> bool:
    dtype = column.dtype
    if dtype.is_float():
        return not column.is_finite().all()
    return dtype in (pl.Binary, pl.Object) or isinstance(dtype, pl.BaseExtension) or _beyond(column)


def _beyond(column: pl.Series) -> bool:
    if column.dtype == pl.Duration("ms"):
        return bool((column.to_physical() == LEAST).any())
    if not isinstance(column.dtype, pl.Date | pl.Datetime) or column.null_count() == len(column):
        return False
    most = MOST_DAYS * _per_day(column.dtype)
    numbers = column.to_physical()
    if int(numbers.min()) < -most or int(numbers.max()) > most:  # type: ignore[arg-type]
        return True
    return bool(_has_seconds(column).any())


def _has_seconds(column: pl.Series) -> pl.Series:
    """Return where a zone's offset has seconds, as local mean times have, which polars would leave out."""
    dtype, has_seconds = column.dtype, np.zeros(len(column), np.bool_)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        early = (column.to_physical() < EVEN_SINCE * _per_day(dtype)).fill_null(False)
        times = column.filter(early)  # The values under nulls are arbitrary, and polars would read them.
        if len(times):
            offset = times.dt.base_utc_offset() + times.dt.dst_offset()
            has_seconds[early.to_numpy()] = (offset.dt.total_seconds() % 60 != 0).to_numpy()
    return pl.Series(has_seconds)


def any_leaf(column: pl.Series, holds: Callable[[pl.Series], bool]) -> bool:
    """Return whether ``holds`` is true of any part of the column that is not nested."""
    dtype = column.dtype
    if isinstance(dtype, pl.Struct):
        return any(any_leaf(column.struct.field(field.name), holds) for field in dtype.fields)
    if isinstance(dtype, pl.Array):
        return any_leaf(column.arr.to_list(), holds)
    if isinstance(dtype, pl.List):
        return any_leaf(column.explode(empty_as_null=False), holds)
    return holds(column)


def _objects(columns: Sequence[pl.Series], height: int) -> pl.Series:
    """Return each row of these columns as a JSON object."""
    parts: list[Any] = []
    frame = pl.DataFrame([json_values(column).alias(str(at)) for at, column in enumerate(columns)])
    for at, column in enumerate(columns):
        name = json.dumps(column.name, ensure_ascii=False)
        parts += [pl.lit(f"{',' if at else ''}{name}:"), pl.col(str(at))]
    written = pl.concat_str(pl.lit("{"), *parts, pl.lit("}"))
    return frame.select(written).to_series() if columns else pl.Series(["{}"]).new_from_index(0, height)


def _lists(column: pl.Series) -> pl.Series:
    """Return each list as a JSON array; the text of a null list does not matter."""
    lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return pl.Series(["[]"]).new_from_index(0, len(column))
    values = json_values(column.gather(filled).explode(empty_as_null=False))
    lists = pl.DataFrame({"list": np.repeat(np.arange(len(filled)), lengths[filled]), "text": values})
    joined = lists.group_by("list", maintain_order=True).agg(pl.col("text").str.join(",")).get_column("text")
    place = np.full(len(column), len(filled))
    place[filled] = np.arange(len(filled))
    return "[" + joined.append(pl.Series([""])).gather(place) + "]"


def _floats(column: pl.Series) -> pl.Series:
    finite = column.is_finite().fill_null(False)
    written = json_values(_where(finite, column, None))
    written = _where(column.is_nan().fill_null(False), f'"{NOT_A_NUMBER}"', written)
    for text, value in INFINITIES.items():
        written = _where((column == value).fill_null(False), f'"{text}"', written)
    return written


def _times(column: pl.Series) -> pl.Series:
    """Return times as JSON where polars cannot write all of them.

    Times too far away are written in a year of the same calendar, and the year is then replaced. Where an offset has
    seconds, the time is written in UTC.
    """
    if column.dtype == pl.Duration:
        least = (column.to_physical() == LEAST).fill_null(False)
        return _where(least, LEAST_MILLISECONDS, json_values(_where(least, None, column)))
    per_day = _per_day(column.dtype)
    most, numbers = MOST_DAYS * per_day, column.to_physical()
    reaches = most < -LEAST  # Nanoseconds are never too far.
    far = ((numbers > most) | (numbers < -most)).fill_null(False) if reaches else numbers != numbers
    far = far.fill_null(False)
    near = _where(far, None, column)
    uneven = _has_seconds(near)
    written = json_values(_where(uneven, None, near))
    if uneven.any():
        written = _where(uneven, json_values(near.dt.convert_time_zone("UTC")), written)
    return _where(far, _far_times(column, per_day), written) if far.any() else written


def _far_times(column: pl.Series, per_day: int) -> pl.Series:
    cycle = CYCLE_DAYS * per_day
    numbers: Ints = physical(column).astype(np.int64)
    dtype = column.dtype
    within = pl.Series(np.mod(numbers, cycle))
    if isinstance(dtype, pl.Datetime):
        within = within.cast(pl.Datetime(dtype.time_unit, "UTC" if dtype.time_zone else None))
    else:
        within = within.cast(pl.Int32).cast(dtype)
    years = within.dt.year().cast(pl.Int64).to_numpy() + CYCLE_YEARS * np.floor_divide(numbers, cycle)
    rest = json_values(within).str.slice(1 + YEAR_DIGITS)
    signs = pl.Series(np.where(years < 0, '"-', '"+'), dtype=pl.String)
    return signs + pl.Series(np.abs(years)).cast(pl.String) + rest


def _per_day(dtype: pl.DataType) -> int:
    return PER_DAY[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1


def _quoted(text: pl.Series) -> pl.Series:
    return '"' + text + '"'


def _where(mask: pl.Series, one: Any, other: Any) -> pl.Series:
    """Return ``one`` where the mask is true, elsewhere ``other``; each is a column or one value."""
    columns = {
        name: value if isinstance(value, pl.Series) else pl.lit(value)
        for name, value in (("1", one), ("0", other))
    }
    name = next((value.name for value in (other, one) if isinstance(value, pl.Series)), "")
    chosen = pl.when(mask).then(columns["1"]).otherwise(columns["0"])
    return pl.select(chosen.alias(name)).to_series()
