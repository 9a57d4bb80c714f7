"""A column is converted to another type with every value unchanged, or refused: so pushed columns become declared ones.

A number is the same number in any type that holds it, a text the same text as ``Categorical`` or ``Enum``, an instant the
same in any zone and unit that can represent it. A type without a zone is read as UTC: it holds an instant as its time in
UTC. A date is its midnight. A text is not a number, and a time without a zone is not an instant; a column of nulls fits
any type. The same holds at any depth of lists, arrays, structs and maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from .json_texts import as_text
from .polars_versions import is_map


class LossyValueError(ValueError):
    """A value that another type does not hold exactly; names the first such row and its value as text."""

    def __init__(self, column: pl.Series, row: int) -> None:
        self.row, self.value = row, as_text(column.slice(row, 1)).item()
        super().__init__(f"{self.value} in row {row}")


def exactly(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return the column as this type with the same values. Cost: nothing if it is of the type, else a cast and a comparison.

    >>> exactly(pl.Series("n", [1, 2], pl.Int32), pl.Int64()).dtype
    Int64

    Raises:
        LossyValueError: a value would change.
    """
    if column.dtype == dtype:
        return column
    converted = _converted(column, dtype)
    if converted is None:
        raise LossyValueError(column, _first_misfit(column, dtype))
    return converted


def may_hold(dtype: pl.DataType, source: pl.DataType) -> bool:
    """Return whether a type holds at least one value of another one exactly, besides null.

    >>> may_hold(pl.Int8(), pl.Int64()), may_hold(pl.Int64(), pl.String())
    (True, False)
    """
    if source == dtype or isinstance(source, pl.Null):
        return True
    if isinstance(source, pl.List | pl.Array) and isinstance(dtype, pl.List | pl.Array):
        return may_hold(as_type(dtype.inner), as_type(source.inner))
    if isinstance(source, pl.Struct) and isinstance(dtype, pl.Struct):
        return _same_fields(source, dtype) and all(
            may_hold(_field(dtype, each.name), as_type(each.dtype)) for each in source.fields
        )
    if is_map(source) and is_map(dtype):
        pairs = ((dtype.key, source.key), (dtype.value, source.value))
        return all(may_hold(as_type(to), as_type(of)) for to, of in pairs)
    if any(isinstance(each, pl.Decimal) for each in (dtype, source)) and (
        dtype.is_float() or source.is_float()
    ):
        return False  # Few binary fractions are decimal ones.
    family, family_of_source = _family(dtype), _family(source)
    return family is not None and (
        family == family_of_source or (family, family_of_source) == ("time", "instant")
    )


def in_utc(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column with each instant as its time in UTC where a type has no zone for it. Cost: only its type changes.

    >>> noon = pl.Series([43_200_000]).cast(pl.Datetime("ms", "Europe/Berlin"))
    >>> in_utc(noon, pl.Datetime("us")).dtype
    Datetime(time_unit='ms', time_zone=None)
    """
    zoneless = _in_utc(column.dtype, dtype)
    return column if zoneless == column.dtype else column.cast(zoneless)


def _in_utc(source: pl.DataType, dtype: pl.DataType) -> pl.DataType:
    """Return a type without the zones that another one has no place for."""
    if isinstance(source, pl.Datetime) and _family(dtype) == "time":
        return pl.Datetime(source.time_unit)
    if isinstance(source, pl.List | pl.Array) and isinstance(dtype, pl.List | pl.Array):
        inner = _in_utc(as_type(source.inner), as_type(dtype.inner))
        return pl.Array(inner, source.size) if isinstance(source, pl.Array) else pl.List(inner)
    if isinstance(source, pl.Struct) and isinstance(dtype, pl.Struct) and _same_fields(source, dtype):
        types = {each.name: as_type(each.dtype) for each in source.fields}
        return pl.Struct({name: _in_utc(each, _field(dtype, name)) for name, each in types.items()})
    if is_map(source) and is_map(dtype):
        pairs = ((source.key, dtype.key), (source.value, dtype.value))
        return pl.Map(*(_in_utc(as_type(of), as_type(to)) for of, to in pairs))
    return source


def _family(dtype: pl.DataType) -> str | None:
    """Return the kind of values that a type holds, if several types hold them."""
    if dtype.is_numeric():
        return "number"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return "text"
    if isinstance(dtype, pl.Datetime):
        return "time" if dtype.time_zone is None else "instant"
    if isinstance(dtype, pl.Date):
        return "time"
    return "duration" if isinstance(dtype, pl.Duration) else None


def _converted(column: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return the column as this type; None if a value would not be the same."""
    if column.null_count() == len(column):
        return pl.Series(column.name, [None], dtype).new_from_index(0, len(column))
    if dtype.is_nested() != column.dtype.is_nested():
        return None
    try:
        column = in_utc(column, dtype)
        converted = _cast(column, dtype)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return converted if converted.dtype == dtype and _agree(column, converted) else None


def _cast(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column as another type, null where it has no such value.

    polars casts numbers inside of lists to no categories, not even nulls among them, but by way of texts. Cast to lists of
    nulls, a list keeps its type: it is made anew, row by row, as such lists hold nothing.
    """
    try:
        converted = column.cast(dtype, strict=False)
        if converted.dtype == dtype or with_leaves(dtype, _flag_for_null) == dtype:
            return converted
        return pl.Series(column.name, column.to_physical().to_list(), dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        if (texts := with_leaves(dtype, _text_for_category)) == dtype:
            raise
        return column.cast(texts, strict=False).cast(dtype, strict=False)


def _text_for_category(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if isinstance(dtype, pl.Categorical | pl.Enum) else dtype


def _flag_for_null(dtype: pl.DataType) -> pl.DataType:
    return pl.Boolean() if isinstance(dtype, pl.Null) else dtype


def _agree(column: pl.Series, converted: pl.Series) -> bool:
    """Return whether all values of a column are those of another one, at any depth."""
    source, dtype = column.dtype, converted.dtype
    if source == dtype:
        return True
    nulls = column.null_count()
    if nulls != converted.null_count():
        return False
    if nulls == len(column):
        return True
    if isinstance(source, pl.List | pl.Array) and isinstance(dtype, pl.List | pl.Array):
        return _agree_inside(column, converted)
    if isinstance(source, pl.Struct) and isinstance(dtype, pl.Struct):
        return _same_fields(source, dtype) and all(
            _agree(column.struct.field(each.name), converted.struct.field(each.name))
            for each in source.fields
        )
    if is_map(source) and is_map(dtype):
        return _agree(column.map.entries(), converted.map.entries())
    return may_hold(dtype, source) and (_shows_by_null(source, dtype) or _comes_back(column, converted))


def _agree_inside(column: pl.Series, converted: pl.Series) -> bool:
    ours, theirs = (_as_lists(each.drop_nulls()) for each in (column, converted))
    if not ours.list.len().equals(theirs.list.len()):
        return False
    filled = ours.list.len() > 0
    ours, theirs = (each.filter(filled).explode(empty_as_null=False) for each in (ours, theirs))
    return _agree(ours, theirs)


def _as_lists(column: pl.Series) -> pl.Series:
    return column.arr.to_list() if isinstance(column.dtype, pl.Array) else column


def _shows_by_null(source: pl.DataType, dtype: pl.DataType) -> bool:
    """Return whether a cast makes values null that do not fit, and changes no others."""
    return (source.is_integer() and dtype.is_integer()) or _family(dtype) == "text"


def _comes_back(column: pl.Series, converted: pl.Series) -> bool:
    back = converted.cast(column.dtype, strict=False)
    return not bool(column.ne_missing(back).any())


def _first_misfit(column: pl.Series, dtype: pl.DataType) -> int:
    """Return the first row that does not fit; there must be one."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (
            (good, middle) if _converted(column.slice(good, middle - good), dtype) is None else (middle, bad)
        )
    return good


def _same_fields(one: pl.Struct, other: pl.Struct) -> bool:
    return {each.name for each in one.fields} == {each.name for each in other.fields}


def _field(dtype: pl.Struct, name: str) -> pl.DataType:
    return as_type(next(each.dtype for each in dtype.fields if each.name == name))


def with_leaves(dtype: pl.DataType, change: Callable[[pl.DataType], pl.DataType]) -> pl.DataType:
    """Return a type with each type changed that is not nested, at any depth of lists, arrays and structs.

    >>> with_leaves(pl.List(pl.Struct({"n": pl.Int8})), lambda leaf: pl.String())
    List(Struct({'n': String}))
    """
    match dtype:
        case pl.List():
            return pl.List(with_leaves(as_type(dtype.inner), change))
        case pl.Array():
            return pl.Array(with_leaves(as_type(dtype.inner), change), dtype.size)
        case pl.Struct():
            return pl.Struct(
                {field.name: with_leaves(as_type(field.dtype), change) for field in dtype.fields}
            )
    return dtype if is_map(dtype) else change(dtype)


def has_leaf(dtype: pl.DataType, leaves: tuple[type[pl.DataType], ...]) -> bool:
    """Return whether a type is one of these, which are not nested, or has one of them inside of lists, arrays and structs.

    >>> has_leaf(pl.List(pl.Float32), (pl.Float32, pl.Float64)), has_leaf(pl.Int8(), (pl.Float32, pl.Float64))
    (True, False)
    """
    match dtype:
        case pl.List() | pl.Array():
            return has_leaf(as_type(dtype.inner), leaves)
        case pl.Struct():
            return any(has_leaf(as_type(field.dtype), leaves) for field in dtype.fields)
    return isinstance(dtype, leaves)


def holds_empty_arrays(dtype: pl.DataType) -> bool:
    """Return whether a type is one of arrays of no values, or has them inside: polars does not read them back from Arrow files.

    >>> holds_empty_arrays(pl.List(pl.Array(pl.Int8, 0))), holds_empty_arrays(pl.Array(pl.Int8, 1))
    (True, False)
    """
    match dtype:
        case pl.List():
            return holds_empty_arrays(as_type(dtype.inner))
        case pl.Array():
            return dtype.size == 0 or holds_empty_arrays(as_type(dtype.inner))
        case pl.Struct():
            return any(holds_empty_arrays(as_type(field.dtype)) for field in dtype.fields)
    return False


def as_type(dtype: Any) -> pl.DataType:
    """Return a type as an object: polars takes classes too."""
    instance: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return instance
