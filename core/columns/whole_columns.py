"""Columns of whole numbers that are arrays until somebody needs them as columns of polars."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Whole64 = npt.NDArray[np.int64]

TYPES: dict[np.dtype[Any], pl.DataType] = {
    np.dtype(np.int64): pl.Int64(),
    np.dtype(np.uint64): pl.UInt64(),
    np.dtype(np.int32): pl.Int32(),
    np.dtype(np.uint32): pl.UInt32(),
}
"""The types of polars by those of numpy."""


@dataclass(slots=True, eq=False)
class Whole:
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
    def int64(self) -> Whole64:
        """Return the values as int64; those of UInt64 wrap, losslessly."""
        kind = self.values.dtype
        if kind == np.int64:
            return self.values
        return self.values.view(np.int64) if kind == np.uint64 else self.values.astype(np.int64)

    def has_nulls(self) -> bool:
        """Return that there are none, as ``polars.Series.has_nulls`` does."""
        return False

    def alias(self, name: str) -> Whole:
        """Return the same column under another name."""
        return self if name == self.name else Whole(name, self.values)


AnyColumn = pl.Series | Whole
"""A column, of polars or of numpy."""


def series_of(column: AnyColumn) -> pl.Series:
    """Return a column as one of polars."""
    return column.series if isinstance(column, Whole) else column
