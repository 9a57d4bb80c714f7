"""What is pushed has the shape of rows: a frame, a list of rows, or columns of equal height; anything else is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import counted

ONE_VALUE = (str, bytes, int, float, Decimal, date, time, timedelta, type(None))
"""The types of Python whose values are one value of a row; a dictionary of them alone is a row, not columns."""

NO_ROWS = (*ONE_VALUE, complex, set, frozenset)
"""The types of which no rows are made."""


OF_COLUMNS = ("dtype", "columns", "__arrow_c_stream__")
"""Attributes of columns and frames, which may have keys as rows do."""


def require_rows(where: str, data: Any) -> None:
    """Check that pushed data may be rows.

    Raises:
        InputError: it is one value, one row without names, or a collection without an order.
    """
    if isinstance(data, tuple):
        raise InputError(
            f"{where}: expected rows, got the tuple {data!r}; give a list of rows, for one row [{data!r}]"
        )
    if has_names(type(data)):
        raise InputError(
            f"{where}: expected rows, got one {type(data).__name__}; give a list of rows, for one row [row]"
        )
    if _is_series(data):
        raise InputError(
            f"{where}: expected rows, got a {type(data).__name__} of {type(data).__module__.partition('.')[0]}, which is one "
            "column; give a frame, as series.to_frame() makes one, or a list of rows"
        )
    if isinstance(data, NO_ROWS):
        way_out = "give a frame, or a list of rows"
        if isinstance(data, str):
            way_out += (
                "; of a file, pl.read_csv(path), or the command: evercurrent run APP --input SOURCE=PATH"
            )
        raise InputError(f"{where}: expected rows, got {type(data).__name__}; {way_out}")


def has_names(kind: type) -> bool:
    """Return whether values of a type of Python are rows with names, as named tuples, rows of Spark and of sqlite3 are, and no mappings.

    >>> from sqlite3 import Row
    >>> has_names(tuple), has_names(Row)
    (False, True)
    """
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields") or hasattr(kind, "asDict")
    if issubclass(kind, Mapping) or any(hasattr(kind, name) for name in OF_COLUMNS):
        return False
    return hasattr(kind, "keys") and hasattr(kind, "__getitem__")


def with_names(data: Any) -> Any:
    """Return a list of rows in which those with names are dictionaries; anything else as it is.

    Raises:
        ValueError: a row has a name twice.
    """
    if not isinstance(data, list):
        return data
    named = {kind for kind in set(map(type, data)) if has_names(kind)}
    return [_by_name(row) if type(row) in named else row for row in data] if named else data


def _by_name(row: Any) -> Any:
    """Return a row with names as a dictionary; a row of Spark may have none."""
    if not isinstance(row, tuple):
        names = row.keys()
    elif (names := getattr(row, "_fields", None) or getattr(row, "__fields__", None)) is None:
        return row
    names = list(names)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"a row has the name {repeated!r} twice; name one of them otherwise, as by AS in SQL"
        )
    return (
        dict(zip(names, row, strict=True)) if isinstance(row, tuple) else {name: row[name] for name in names}
    )


def require_heights(where: str, columns: Mapping[str, Any]) -> None:
    """Check that the columns that are lists of values have equally many.

    Raises:
        InputError: they have not; names two of them.
    """
    heights = {name: len(values) for name, values in columns.items() if isinstance(values, list | tuple)}
    first = next(iter(heights), "")
    for name, height in heights.items():
        if height != heights[first]:
            raise InputError(
                f"{where}: column {name!r} has {counted(height, 'value')}, and column {first!r} has {counted(heights[first], 'value')}; give each "
                "row a value in every column, None where there is none"
            )


def _is_series(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and not hasattr(data, "columns")
