"""Times and durations in milliseconds reach a thousand times as far as Spark's, which are microseconds in 64 bits."""

from __future__ import annotations

import polars as pl

from evercurrent.core.data.errors import InputError

FURTHEST = (2**63 - 1) // 1000
"""In milliseconds: some 292,000 years before and after 1970."""


def require_times_fit(where: str, frame: pl.DataFrame) -> None:
    """Check that Spark can hold all times of a frame. Cost: nothing for columns without milliseconds.

    Raises:
        InputError: one is beyond; names the column and the value.
    """
    for column in frame.get_columns():
        value = _beyond(column)
        if value is not None:
            of = "a duration" if _is_duration(column.dtype) else "a time"
            raise InputError(
                f"{where}: column {column.name!r} has {of} of {value} milliseconds{'' if of == 'a duration' else ' since 1970'}, and "
                "Spark's microseconds end before it; leave such rows out with filter(...), or keep the number with .cast(pl.Int64)"
            )


def _beyond(column: pl.Series) -> int | None:
    """Return the first value that is too far, at any depth."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime | pl.Duration):
        if dtype.time_unit != "ms":
            return None
        numbers = column.to_physical()
        beyond = numbers.filter((numbers > FURTHEST) | (numbers < -FURTHEST))
        return int(beyond[0]) if len(beyond) else None
    if not dtype.is_nested() or "'ms'" not in str(dtype):
        return None
    if isinstance(dtype, pl.Struct):
        fields = (column.struct.field(each.name) for each in dtype.fields)
        return next((value for field in fields if (value := _beyond(field)) is not None), None)
    if isinstance(dtype, pl.List | pl.Array):
        return _beyond(column.explode(empty_as_null=False))
    return None


def _is_duration(dtype: pl.DataType) -> bool:
    return "Duration" in str(dtype)
