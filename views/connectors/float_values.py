"""Finite numbers that a type of floats makes infinite: a float is rounded to the nearest of its type, and an infinity is not near."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from evercurrent.core.data.columns.lossless import has_leaf

from .decimal_values import NUMBER

NARROW = (pl.Float16, pl.Float32)
"""The types in which numbers that are finite as ``Float64`` may be infinite."""

FLOATS = (*NARROW, pl.Float64)
"""All types of floats."""


class _Number(str):
    """A number as it is written in a line."""

    __slots__ = ()


def first_overflow(values: Iterable[Any], column: pl.Series) -> tuple[int, object] | None:
    """Return the first finite number among values that is infinite in the column made of them, and its row; None if there is none.

    Cost: a pass over the floats, and one over the values if there is an infinity.

    >>> first_overflow([[1e39], [float("inf")]], pl.Series([[1e39], [float("inf")]], dtype=pl.List(pl.Float32)))
    (0, 1e+39)
    """
    if not _has_infinities(column):
        return None
    pairs = enumerate(zip(values, column.to_list(), strict=True))
    return next(((row, number) for row, pair in pairs for number in _overflows(*pair)), None)


def overflows_of_lines(columns: Mapping[str, pl.Series], block: bytes) -> dict[int, tuple[str, str]]:
    """Return the rows in which a finite number of JSON lines is infinite in its column, each with the first such column and number.

    ``columns`` are those of the first lines of the block, or of all.

    Cost: as ``first_overflow``, where each line is read once more if there is an infinity.

    >>> overflows_of_lines({"x": pl.Series([float("inf")] * 2, dtype=pl.Float32)}, b'{"x": 1e39}\\n{"x": "Infinity"}')
    {0: ('x', '1e39')}
    """
    infinite = {name: column.to_list() for name, column in columns.items() if _has_infinities(column)}
    if not infinite:
        return {}
    lines = (line for line in block.split(b"\n") if line.strip())
    overflows: dict[int, tuple[str, str]] = {}
    for row, (line, *stored) in enumerate(zip(lines, *infinite.values(), strict=False)):
        written = json.loads(line, parse_float=_Number)
        for name, each in zip(infinite, stored, strict=True):
            for number in _overflows(written.get(name), each):
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


def _has_infinities(column: pl.Series) -> bool:
    """Return whether a float is infinite, at any depth."""
    dtype = column.dtype
    if not has_leaf(dtype, FLOATS):
        return False
    match dtype:
        case pl.List():
            return _has_infinities(column.explode(empty_as_null=False))
        case pl.Array():
            return _has_infinities(column.arr.to_list())
        case pl.Struct():
            return any(_has_infinities(column.struct.field(field.name)) for field in dtype.fields)
    return bool(column.is_infinite().any())


def _overflows(value: Any, stored: Any) -> Iterator[object]:
    """Yield the finite numbers in a value that are infinite as they are stored; texts of infinities are none."""
    match value, stored:
        case _, float() if math.isinf(stored):
            if type(value) is not str and value not in (math.inf, -math.inf):
                yield value
        case Mapping(), dict():
            for name, each in stored.items():
                yield from _overflows(value.get(name), each)
        case Iterable(), list():
            for pair in zip(value, stored, strict=False):
                yield from _overflows(*pair)
