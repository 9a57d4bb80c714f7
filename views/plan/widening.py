"""Types that hold all values of another one, with which a column of a source may be declared later."""

from __future__ import annotations

import polars as pl

from evercurrent.core.data.columns.lossless import as_type

UNITS = ("ms", "us", "ns")
"""Units of time, from the coarsest."""


def widens(before: pl.DataType, after: pl.DataType) -> bool:
    """Return whether another type holds each value of a type; for times within the range of the finer unit.

    >>> widens(pl.Int32(), pl.Int64()), widens(pl.Date(), pl.Datetime("us")), widens(pl.Int64(), pl.Int32())
    (True, True, False)
    """
    match before, after:
        case _ if before == after:
            return True
        case pl.Null(), _:
            return True
        case pl.List(), pl.List():
            return widens(as_type(before.inner), as_type(after.inner))
        case pl.Array(), pl.Array():
            return before.size == after.size and widens(as_type(before.inner), as_type(after.inner))
        case pl.Struct(), pl.Struct():
            parts = zip(before.fields, after.fields, strict=False)
            return len(before.fields) == len(after.fields) and all(
                one.name == two.name and widens(as_type(one.dtype), as_type(two.dtype)) for one, two in parts
            )
        case pl.Date(), pl.Datetime(time_zone=None):
            return True
        case pl.Datetime(), pl.Datetime():
            return before.time_zone == after.time_zone and _is_finer(before.time_unit, after.time_unit)
        case pl.Duration(), pl.Duration():
            return _is_finer(before.time_unit, after.time_unit)
        case ((pl.Enum() | pl.Categorical()), pl.String()):
            return True
    if before.is_integer() and after.is_integer():
        return _bits(after) > _bits(before) and (after.is_signed_integer() or before.is_unsigned_integer())
    return before.is_float() and after.is_float() and _bits(after) > _bits(before)


def _is_finer(before: str, after: str) -> bool:
    return UNITS.index(after) >= UNITS.index(before)


def _bits(dtype: pl.DataType) -> int:
    return int("".join(filter(str.isdigit, str(dtype))))
