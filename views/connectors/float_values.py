"""Numbers that a type of floats does not hold: a float becomes the nearest one of its type, unless that is infinite, and integers are exact."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.lossless import has_leaf

from .decimal_values import NUMBER

NARROW = (pl.Float16, pl.Float32)
"""The types in which numbers that are finite as ``Float64`` may be infinite."""

FLOATS = (*NARROW, pl.Float64)
"""All types of floats."""

EXACT_INTEGERS: Mapping[type[pl.DataType], float] = {
    pl.Float16: 1 << 11,
    pl.Float32: 1 << 24,
    pl.Float64: 1 << 53,
}
"""The integer up to which a float type holds every whole number."""

INFINITY: Mapping[type[pl.DataType], float] = dict.fromkeys(FLOATS, math.inf)


class _Number(str):
    """A number as it is written in a line."""

    __slots__ = ()


def first_changed(values: Iterable[Any], column: pl.Series) -> tuple[int, str, str] | None:
    """Return the first number among values that a column of floats does not hold, or one with floats inside: its row, the number, and why.

    A number in a type of floats is the nearest one, and is finite if the number is; an integer is held exactly. Cost: a pass over
    the floats, and one over the values if floats are so large that there may be such a number.

    >>> first_changed([[1e39], [float("inf")]], pl.Series([[1e39], [float("inf")]], dtype=pl.List(pl.Float32)))
    (0, '1e+39', 'which is beyond the range of its declared type List(Float32)')
    >>> first_changed([0.1, 2**24 + 1], pl.Series([0.1, 2**24 + 1], dtype=pl.Float32))
    (1, '16777217', 'which Float32 would round')
    """
    if not _has_large(column, EXACT_INTEGERS):
        return None
    for row, pair in enumerate(zip(values, column.to_list(), strict=True)):
        for value, stored in _floats(*pair):
            if _is_overflow(value, stored):
                return row, repr(value), f"which is beyond the range of its declared type {column.dtype}"
            if isinstance(value, int | np.integer) and int(value) != stored:
                return row, str(value), f"which {column.dtype} would round"
    return None


def overflows_of_lines(columns: Mapping[str, pl.Series], block: bytes) -> dict[int, tuple[str, str]]:
    """Return the rows in which a finite number of JSON lines is infinite in its column, each with the first such column and number.

    ``columns`` are those of the first lines of the block, or of all.

    Cost: a pass over the floats, and each line is read once more if there is an infinity.

    >>> overflows_of_lines({"x": pl.Series([float("inf")] * 2, dtype=pl.Float32)}, b'{"x": 1e39}\\n{"x": "Infinity"}')
    {0: ('x', '1e39')}
    """
    infinite = {name: column.to_list() for name, column in columns.items() if _has_large(column, INFINITY)}
    if not infinite:
        return {}
    lines = (line for line in block.split(b"\n") if line.strip())
    overflows: dict[int, tuple[str, str]] = {}
    for row, (line, *stored) in enumerate(zip(lines, *infinite.values(), strict=False)):
        written = json.loads(line, parse_float=_Number)
        for name, each in zip(infinite, stored, strict=True):
            for number, number_stored in _floats(written.get(name), each):
                if _is_overflow(number, number_stored):
                    overflows.setdefault(row, (name, str(number)))
    return overflows


def is_beyond(text: str, dtype: pl.DataType) -> bool:
    """Return whether a text is a finite number that is infinite in a type of floats.

    >>> is_beyond("-1e39", pl.Float32()), is_beyond("-1e39", pl.Float64()), is_beyond("inf", pl.Float32())
    (True, False, False)
    """
    if NUMBER.fullmatch(text) is None:
        return False
    return bool(pl.Series([float(text)]).cast(dtype).is_infinite().item())


def beyond(column: str, number: object, dtype: pl.DataType) -> str:
    """Return why a finite number that is infinite in a column is refused, with the remedy."""
    return f"column {column!r}: {number} is beyond the range of its type {dtype}; correct the value or declare another type"


def _has_large(column: pl.Series, limits: Mapping[type[pl.DataType], float]) -> bool:
    """Return whether a float is as large as the limit of its type, at any depth."""
    dtype = column.dtype
    if not has_leaf(dtype, FLOATS):
        return False
    match dtype:
        case pl.List():
            return _has_large(column.explode(empty_as_null=False), limits)
        case pl.Array():
            return _has_large(column.arr.to_list(), limits)
        case pl.Struct():
            return any(_has_large(column.struct.field(field.name), limits) for field in dtype.fields)
    return bool((column.abs() >= limits[type(dtype)]).any())


def _floats(value: Any, stored: Any) -> Iterator[tuple[Any, float]]:
    """Yield the floats of a stored value, each with what it was made of."""
    match value, stored:
        case _, float():
            yield value, stored
        case Mapping(), dict():
            for name, each in stored.items():
                yield from _floats(value.get(name), each)
        case Iterable(), list():
            for pair in zip(value, stored, strict=False):
                yield from _floats(*pair)


def _is_overflow(value: Any, stored: float) -> bool:
    """Return whether a finite number is stored as an infinity; a text is that of one."""
    return math.isinf(stored) and type(value) is not str and value not in (math.inf, -math.inf)
