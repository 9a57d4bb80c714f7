"""Values that a place does not hold are refused before they are written: times out of its range, null lists of structs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

import polars as pl

from evercurrent.core.data.columns.json_texts import as_text
from evercurrent.core.data.columns.lossless import as_type
from evercurrent.core.data.columns.polars_versions import is_map
from evercurrent.core.data.errors import SinkError

_DAY = 86_400_000_000

_EPOCH = date(1970, 1, 1)


class Span(NamedTuple):
    """A span of time in microseconds since 1970, both ends included, and its name in messages."""

    first: int
    last: int
    name: str


YEARS = Span(
    (date.min - _EPOCH).days * _DAY, (date.max - _EPOCH).days * _DAY + _DAY - 1, "the years 1 to 9999"
)
"""What Python's dates and times hold."""

MICROSECONDS = Span(-(2**63), 2**63 - 1, "times within 64 bits of microseconds")


def types_in(dtype: pl.DataType) -> Iterator[pl.DataType]:
    """Yield a type and those inside of it, at any depth.

    >>> list(types_in(pl.List(pl.Struct({"n": pl.Int8}))))
    [List(Struct({'n': Int8})), Struct({'n': Int8}), Int8]
    """
    yield dtype
    inside: list[object] = []
    if isinstance(dtype, pl.List | pl.Array):
        inside = [dtype.inner]
    elif isinstance(dtype, pl.Struct):
        inside = [field.dtype for field in dtype.fields]
    elif is_map(dtype):
        inside = [dtype.key, dtype.value]
    for each in inside:
        yield from types_in(as_type(each))


def remedy(name: str, dtype: pl.DataType) -> str:
    """Return how a column is written in the view so that each place holds it."""
    if dtype.is_nested():
        if any(isinstance(each, pl.Binary | pl.Object) or _is_fine(each) for each in types_in(dtype)):
            return (
                "write what is in it as columns or rows of their own, as with .unnest(...) or .explode(...)"
            )
        encoded = f"pl.struct({name!r}).struct.json_encode().alias({name!r})"
        return f"write it as JSON in the view, with .with_columns({encoded})"
    if _is_fine(dtype):
        return "cast it to pl.Datetime('us') or pl.Int64 in the view"
    return f"cast it to {'pl.Int64' if isinstance(dtype, pl.Duration) else 'pl.String'} in the view"


def _is_fine(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"


def require_times(place: str, rows: pl.DataFrame, times: Span) -> None:
    """Check that dates are of the years 1 to 9999, and times in a span; those in lists fit microseconds.

    Raises:
        SinkError: one is not; names the column, the value and the remedy.
    """
    for column in rows.get_columns():
        if any(isinstance(dtype, pl.Date | pl.Datetime) for dtype in types_in(column.dtype)):
            for part, is_in_list in _parts(column):
                span = MICROSECONDS if is_in_list else YEARS if isinstance(part.dtype, pl.Date) else times
                _require_within(place, column.name, part, span)


def require_lists_of_structs(place: str, rows: pl.DataFrame) -> None:
    """Check that no list or map of structs is null, at any depth.

    Raises:
        SinkError: one is; names the column and the remedy.
    """
    for column in rows.get_columns():
        if not any(_is_of_structs(dtype) for dtype in types_in(column.dtype)):
            continue
        if any(_is_of_structs(part.dtype) and part.null_count() for part, _ in _parts(column)):
            filled = f"write .with_columns(pl.col({column.name!r}).fill_null([])) in the view if that is meant, or "
            is_plain = isinstance(column.dtype, pl.List) and _is_of_structs(column.dtype)
            raise SinkError(
                f"{place}: column {column.name!r} has a null in place of a list of structs, which pyiceberg would turn into an empty "
                f"list; {filled if is_plain else ''}{remedy(column.name, column.dtype)}"
            )


def _is_of_structs(dtype: pl.DataType) -> bool:
    inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else dtype.value if is_map(dtype) else None
    return inner is not None and isinstance(as_type(inner), pl.Struct)


def _parts(column: pl.Series, is_in_list: bool = False) -> Iterator[tuple[pl.Series, bool]]:
    """Yield a column, and what is inside of its values that are not null, at any depth; and whether that is in a list."""
    yield column, is_in_list
    dtype = column.dtype
    if isinstance(dtype, pl.Struct):
        for field in column.drop_nulls().struct.unnest().get_columns():
            yield from _parts(field, is_in_list)
    elif isinstance(dtype, pl.List | pl.Array) or is_map(dtype):
        lists = column.drop_nulls()
        if isinstance(dtype, pl.Array):
            lists = lists.arr.to_list()
        elif is_map(dtype):
            lists = lists.map.entries()
        yield from _parts(lists.explode(empty_as_null=False), True)


def _require_within(place: str, name: str, part: pl.Series, span: Span) -> None:
    if isinstance(part.dtype, pl.Date):
        unit = _DAY
    elif isinstance(part.dtype, pl.Datetime):
        unit = 1000 if part.dtype.time_unit == "ms" else 1
    else:
        return
    misfits = ~part.to_physical().cast(pl.Int64).is_between(-(-span.first // unit), span.last // unit)
    if misfits.any():
        value = as_text(part.filter(misfits).head(1)).item()
        raise SinkError(
            f"{place}: column {name!r} has {value}, and the table holds {span.name}; leave such rows out, or cast the column to "
            "pl.Int64 in the view"
        )
