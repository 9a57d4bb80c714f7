"""Which values of a group a median or a quantile is made of, and how: with the floats and the roundings of polars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.columns.kernels import Floats, Ints
from ...data.columns.ordered_numbers import numbers_of

METHODS = ("lower", "higher", "nearest", "equiprobable", "midpoint", "linear")
"""The methods of quantiles: one of the values, or between two neighbours."""

BETWEEN = ("median", "midpoint", "linear")
"""Those that are between two values, if there is none at the place."""

RANKED: tuple[type[pl.DataType], ...] = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64, pl.Decimal, pl.Datetime, pl.Duration, pl.Time),
)
"""The types of values whose ranks are found by order. Medians of dates are datetimes."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which values of a group a quantile is made of: by ``method``, as polars names it, or the two middle ones (``median``)."""

    method: str
    quantile: float = 0.5

    def of(self, counts: Ints, nulls: Ints) -> tuple[Ints, Ints]:
        """Return the lower and the upper rank, from 0, among so many ascending values; nulls come before the values.

        >>> [ranks.tolist() for ranks in Ranks("median").of(np.array([3, 4]), np.array([0, 0]))]
        [[1, 1], [1, 2]]
        >>> [ranks.tolist() for ranks in Ranks("linear", 0.9).of(np.array([3, 21]), np.array([0, 0]))]
        [[1, 18], [2, 18]]
        >>> Ranks("nearest", 0.9).of(np.array([3, 20]), np.array([0, 0]))[0].tolist()
        [2, 17]
        """
        if self.method == "median":
            return (counts - 1) // 2, counts // 2
        ranks = self._ranks(counts.astype(np.float64), nulls.astype(np.float64))
        low, high = (np.minimum(np.maximum(rank, 0), np.maximum(counts - 1, 0)) for rank in ranks)
        return low.astype(np.int64), high.astype(np.int64)

    def _ranks(self, counts: Floats, nulls: Floats) -> tuple[Floats, Floats]:
        if self.method == "equiprobable":
            rank: Floats = np.ceil(counts * self.quantile) - 1
            return rank, rank
        exact = (counts - 1) * self.quantile + nulls
        below, above = np.floor(exact) - nulls, np.ceil(exact) - nulls
        match self.method:
            case "lower":
                return below, below
            case "higher":
                return above, above
            case "nearest":
                near = below + (exact - np.floor(exact) >= 0.5)
                return near, near
        return below, above

    @property
    def is_between(self) -> bool:
        """Return whether it may be between two values."""
        return self.method in BETWEEN

    def values(self, low: pl.Series, high: pl.Series, counts: Ints, nulls: Ints) -> pl.Series:
        """Return the results of groups with these values at their two ranks, as polars computes them: with floats of 64 bits.

        Its formulas are those of ``median``, of ``midpoint`` and of ``linear``; the first two round in another way. Instants
        are floats of their units then, also where a value is the result, and are rounded down to 53 bits in nanoseconds.

        >>> four, none = np.array([4]), np.array([0])
        >>> Ranks("linear", 0.25).values(pl.Series([1.0]), pl.Series([2.0]), four, none).to_list()
        [1.75]
        """
        if not self.is_between and not low.dtype.is_temporal():
            return low
        one, other = (numbers_of(column).astype(np.float64) for column in (low, high))
        with np.errstate(invalid="ignore", over="ignore"):
            match self.method:
                case "median":
                    between = 0.5 * (other - one) + one
                case "midpoint":
                    between = (one + other) / 2
                case "linear":
                    exact = (counts.astype(np.float64) - 1) * self.quantile + nulls
                    between = (other - one) * (exact - np.floor(exact)) + one
                case _:
                    between = one
        return pl.Series(low.name, np.where(one == other, one, between))
