"""Rows of Python objects, of which those whose values do not fit their columns are set apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.halving import bad_places
from evercurrent.core.data.schema import with_diff

from .pushed_frames import column_of_values, columns_of_rows

Apart = tuple[dict[str, Any], dict[str, pl.DataFrame]]
"""The rows that fit, as columns; and the others as frames, by the first column that does not hold their values."""


def unfit_rows_apart(where: str, schema: pl.Schema, data: Any) -> Apart | None:
    """Return the rows whose values fit the declared columns, and the others; None if these are not rows of Python objects.

    A column of the others in which a value does not fit is one of texts.
    """
    try:
        columns = columns_of_rows(schema, data)
    except ValueError:
        return None
    if not isinstance(columns, dict) or not columns:
        return None
    lists = [values for values in columns.values() if isinstance(values, list | tuple)]
    if len(lists) < len(columns) or len({len(values) for values in lists}) != 1:
        return None
    types, height = with_diff(schema), len(lists[0])
    places_by_column: dict[str, list[int]] = {}
    bad: set[int] = set()
    for name, values in columns.items():
        if name not in types:
            continue

        def is_fine(start: int, end: int, name: str = name, values: Sequence[Any] = values) -> bool:
            return _column(where, name, values[start:end], types[name]) is not None

        places = [place for place in bad_places(height, is_fine) if place not in bad]
        if places:
            places_by_column[name] = places
            bad.update(places)
    good = {
        name: [values[place] for place in range(height) if place not in bad]
        for name, values in columns.items()
    }
    return good, {
        name: pl.DataFrame(
            [_shown(where, each, [columns[each][place] for place in places], types) for each in columns]
        )
        for name, places in places_by_column.items()
    }


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
