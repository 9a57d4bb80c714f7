"""Rows of Python objects, of which those that do not fit their columns are set apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.halving import bad_places
from evercurrent.core.data.schema import listed, with_diff

from .foreign_columns import readable_pandas
from .pandas_objects import is_of_pandas, object_values
from .pushed_frames import column_of_values, columns_of_rows
from .row_shapes import with_names

Apart = tuple[Any, dict[str, pl.DataFrame]]
"""The rows that fit, as they were pushed or as columns; and the others as frames, by the reason."""

UNEVEN = "the row has more or fewer values than there are columns; correct it, and push the row again"
"""The reason of a row without names of columns; kept in checkpoints, so its text never changes."""


def unfit(column: str) -> str:
    """Return the reason of rows with a value that is not one of its column."""
    return f"column {column!r} does not hold the value of the row; correct it, or declare another type, and push the row again"


def undeclared(columns: Sequence[str]) -> str:
    """Return the reason of rows with names that other rows do not have and no column has."""
    return (
        f"{listed(columns)} is not declared; correct the name, or declare the column, and push the row again"
    )


def unfit_rows_apart(where: str, schema: pl.Schema, data: Any) -> Apart | None:
    """Return the rows whose values fit the declared columns, and the others; None if these are not rows of Python objects.

    A column of the others in which a value does not fit is one of texts.
    """
    if is_of_pandas(data):
        return _of_pandas(where, schema, data)
    try:
        data, others = odd_rows_apart(schema, data)
        columns = columns_of_rows(schema, data)
    except ValueError:
        return None
    if not isinstance(columns, dict) or not columns:
        return (data, others) if others else None
    lists = [values for values in columns.values() if isinstance(values, list | tuple)]
    if len(lists) < len(columns) or len({len(values) for values in lists}) != 1:
        return None
    types = with_diff(schema)
    bad = _bad_places(where, columns, types)
    good = {name: _without(values, bad) for name, values in columns.items()}
    return good, others | {
        reason: pl.DataFrame(
            [_shown(where, each, [columns[each][place] for place in places], types) for each in columns]
        )
        for reason, places in bad.items()
    }


def _of_pandas(where: str, schema: pl.Schema, data: Any) -> Apart | None:
    types = with_diff(schema)
    columns = object_values(types, data)
    if not columns:
        return None
    bad = _bad_places(where, columns, types)
    others = {}
    for reason, places in bad.items():
        part = data.iloc[places]
        plain = part.drop(columns=list(columns))
        frame = pl.DataFrame(readable_pandas(where, plain)) if plain.shape[1] else pl.DataFrame()
        others[reason] = pl.DataFrame(
            [
                _shown(where, name, [columns[name][place] for place in places], types)
                if name in columns
                else frame.get_column(str(name))
                for name in data.columns
            ]
        )
    dropped = {place for places in bad.values() for place in places}
    return data.iloc[[place for place in range(len(data)) if place not in dropped]], others


def odd_rows_apart(schema: pl.Schema, data: Any) -> tuple[Any, dict[str, pl.DataFrame]]:
    """Return the rows of a list that have the shape of rows, and the others; a name that all rows have is a matter of the push."""
    if not isinstance(data, list) or not data:
        return data, {}
    types, data = with_diff(schema), with_names(data)
    bad: dict[str, list[Any]] = {}
    good: list[Any] = []
    if all(isinstance(row, tuple | list) for row in data):
        for row in data:
            fits = len(row) in (len(types) - 1, len(types))
            (good if fits else bad.setdefault(UNEVEN, [])).append(row)
        widths = {len(row) for row in good}
        if not good or len(widths) > 1:
            return data, {}
        shown = {reason: [[_text(value) for value in row] for row in rows] for reason, rows in bad.items()}
        return good, {reason: pl.DataFrame({"row": rows}) for reason, rows in shown.items()}
    if not all(isinstance(row, Mapping) for row in data):
        return data, {}
    common = set.intersection(*(set(row) for row in data))
    for row in data:
        odd = [str(name) for name in row if name not in types and name not in common]
        (bad.setdefault(undeclared(odd), []) if odd else good).append(row)
    return good, {
        reason: pl.DataFrame(
            {
                str(name): [_text(row.get(name)) for row in rows]
                for name in dict.fromkeys(name for row in rows for name in row)
            },
            dict.fromkeys((str(name) for row in rows for name in row), pl.String),
        )
        for reason, rows in bad.items()
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _bad_places(where: str, columns: Mapping[str, Sequence[Any]], types: pl.Schema) -> dict[str, list[int]]:
    """Return the places of the values that do not fit, by the reason: each row once, by its first such column."""
    by_reason: dict[str, list[int]] = {}
    bad: set[int] = set()
    for name, values in columns.items():
        if name not in types:
            continue

        def is_fine(start: int, end: int, name: str = name, values: Sequence[Any] = values) -> bool:
            return _column(where, name, values[start:end], types[name]) is not None

        places = [place for place in bad_places(len(values), is_fine) if place not in bad]
        if places:
            by_reason[unfit(name)] = places
            bad.update(places)
    return by_reason


def _without(values: Sequence[Any], bad: Mapping[str, Sequence[int]]) -> list[Any]:
    dropped = {place for places in bad.values() for place in places}
    return [value for place, value in enumerate(values) if place not in dropped]


def _column(where: str, name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series | None:
    try:
        return column_of_values(where, name, values, dtype)
    except InputError:
        return None


def _shown(where: str, name: str, values: list[Any], types: pl.Schema) -> pl.Series:
    """Return values as a column: of its type if it holds them, else of texts."""
    column = _column(where, name, values, types[name]) if name in types else None
    if column is not None:
        return column
    return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)
