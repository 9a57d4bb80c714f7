"""Where a column is null, found in the calling thread if the values are few: ``polars.Series.is_null`` is a query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

FEW_TEXTS = 512
"""Up to this many values are looked at as values of Python, where numpy has no words for them: it takes less than a query."""


def is_listed(dtype: pl.DataType) -> bool:
    """Return whether values are the same if and only if those of Python are: texts, bytes, integers and booleans."""
    return dtype in (pl.String, pl.Binary, pl.Boolean) or dtype.is_integer()


def nulls_as(value: float, column: pl.Series) -> pl.Series:
    """Return the column with a value in the place of nulls: the column itself where nothing is null, as to fill it is a query."""
    return column.fill_null(value) if column.has_nulls() else column


def nulls_in(column: pl.Series) -> npt.NDArray[np.bool_]:
    """Return where a column is null."""
    if not column.has_nulls():
        return np.zeros(len(column), np.bool_)
    if len(column) <= FEW_TEXTS and (is_listed(column.dtype) or column.dtype.is_temporal()):
        # Instants beyond the years of Python have no values there.
        values = column if is_listed(column.dtype) else column.cast(pl.Int64)
        return np.array([value is None for value in values.to_list()], np.bool_)
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy()
    return nulls
