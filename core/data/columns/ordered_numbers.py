"""Values as numbers that have their order, in arrays that numpy searches and compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .nulls import nulls_as

Numbers = npt.NDArray[Any]
"""Integers or floats of any width."""


def numbers_of(column: pl.Series) -> Numbers:
    """Return numbers as they are, decimals as floats, instants and durations as integers; 0 for null.

    Two decimals may have the same float, but none a lower one than a lesser decimal.

    >>> numbers_of(pl.Series([2.5, None])).tolist()
    [2.5, 0.0]
    """
    if isinstance(column.dtype, pl.Decimal):
        column = column.cast(pl.Float64)
    elif column.dtype.is_temporal():
        column = column.cast(pl.Int64)
    return nulls_as(0, column).to_numpy()


def column_of_numbers(numbers: Numbers, dtype: pl.DataType) -> pl.Series:
    """Return some of the ``numbers_of`` a column of this type as values; decimals stay floats."""
    column = pl.Series(numbers)
    return column.cast(dtype) if dtype.is_temporal() else column


def is_less(ones: Numbers, others: Numbers) -> npt.NDArray[np.bool_]:
    """Return where numbers are less than others; NaN is greater than all."""
    with np.errstate(invalid="ignore"):
        less: npt.NDArray[np.bool_] = ones < others
        return less | ((others != others) & (ones == ones)) if ones.dtype.kind == "f" else less


def are_unequal(ones: Numbers, others: Numbers) -> npt.NDArray[np.bool_]:
    """Return where numbers are not equal; NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        unequal: npt.NDArray[np.bool_] = ones != others
        return unequal & ((ones == ones) | (others == others)) if ones.dtype.kind == "f" else unequal
