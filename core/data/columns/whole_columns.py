"""Whole numbers: columns of them that are arrays until somebody needs them as columns of polars, and their values and bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]

FEW_VALUES = 32
"""Up to this many values Python is as fast as numpy, whose calls cost as much as visiting so many."""

MOST_ONES = 1 << 18
"""So many ones at once are made once for all."""

TYPES: dict[np.dtype[Any], pl.DataType] = {
    np.dtype(np.int64): pl.Int64(),
    np.dtype(np.uint64): pl.UInt64(),
    np.dtype(np.int32): pl.Int32(),
    np.dtype(np.uint32): pl.UInt32(),
}
"""The types of polars by those of numpy."""


@dataclass(slots=True, eq=False)
class IntColumn:
    """A column of whole numbers without nulls: its name and values. ``series`` is the same column of polars, made when it is needed.

    What most small epochs pass from one operator to the next are counts, sums and keys. They are made and used as arrays, and
    making a column of polars of each, and a frame of these, cost as much as everything that is computed with them.
    """

    name: str
    values: npt.NDArray[Any]
    _series: pl.Series | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.values)

    @property
    def dtype(self) -> pl.DataType:
        """Return the type of the column in polars."""
        return TYPES[self.values.dtype]

    @property
    def series(self) -> pl.Series:
        """Return the column of polars. Cost: a copy of the values, the first time."""
        if self._series is None:
            self._series = pl.Series(self.name, self.values)
        return self._series

    @property
    def int64(self) -> Ints:
        """Return the values as int64; those of UInt64 wrap, losslessly."""
        kind = self.values.dtype
        if kind == np.int64:
            return self.values
        return self.values.view(np.int64) if kind == np.uint64 else self.values.astype(np.int64)

    def has_nulls(self) -> bool:
        """Return that there are none, as ``polars.Series.has_nulls`` does."""
        return False

    def alias(self, name: str) -> IntColumn:
        """Return the same column under another name."""
        return self if name == self.name else IntColumn(name, self.values)


AnyColumn = pl.Series | IntColumn
"""A column, of polars or of numpy."""


def physical(column: AnyColumn) -> Ints:
    """Return the values of an integer, temporal or boolean column as int64; null is 0. UInt64 wraps, losslessly."""
    if isinstance(column, IntColumn):
        return column.int64
    kind = type(column.dtype)
    if kind not in (pl.Int64, pl.UInt64):
        column = column.cast(pl.Int64)  # The same as to_physical() of these types, which is a query of 30 us.
    if column.has_nulls():
        column = column.fill_null(0)
    values: Ints = column.to_numpy()
    return values.view(np.int64) if kind is pl.UInt64 else values


_ONES: Ints = np.ones(MOST_ONES, np.int64)
_ONES.flags.writeable = False


def ones(count: int) -> Ints:
    """Return so many ones, not to be written to: those of one array, by which ``is_ones`` recognizes them, unless they are very many."""
    return _ONES[:count] if count <= MOST_ONES else np.ones(count, np.int64)


def is_ones(values: Ints) -> bool:
    """Return whether all values are 1, as the diffs of rows that are only added are."""
    if values.base is _ONES:
        return len(values) > 0
    if len(values) <= FEW_VALUES:
        return len(values) > 0 and values.tolist().count(1) == len(values)
    return bool(values[0] == 1) and bool((values == 1).all())


def weight_of(diffs: Ints) -> float:
    """Return the number of rows that come and go with these diffs, each diff counted once at least."""
    if is_ones(diffs):
        return len(diffs)
    return max(len(diffs), float(np.abs(diffs).astype(np.float64).sum()))


def least_and_greatest(values: Ints) -> tuple[int, int]:
    """Return the bounds of some values, of which there is at least one."""
    if len(values) <= FEW_VALUES:
        listed = values.tolist()
        return min(listed), max(listed)
    return int(values.min()), int(values.max())
