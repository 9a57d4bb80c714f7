"""Rows that have some values are found by a pass over a column, where nothing is sorted by it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import polars as pl

from evercurrent.core.columns.kernels import Index

ONE_BY_ONE = 4
"""So many numbers are compared with one after the other: a comparison takes a fifth of a look-up in a set."""

FEW_PLACES = 256
"""So few rows are not looked at in further columns."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A look-up by passes over columns: ``values`` are those of columns that compare exactly, first those of the one with fewest."""

    values: tuple[pl.Series, ...]

    @classmethod
    def of(cls, lookup_values: pl.DataFrame) -> Scan | None:
        """Return the scan for these values; None if no column compares exactly."""
        exact = [
            lookup_values.get_column(name).unique()
            for name, dtype in lookup_values.schema.items()
            if dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Date)
        ]
        return cls(tuple(sorted(exact, key=len))) if exact else None

    def places(self, frame: pl.DataFrame) -> Index:
        """Return the positions of all rows with one of the combinations of values, and perhaps of others.

        Cost: a pass over the column with the fewest values, and the rows that it finds.
        """
        places: pl.Series | None = None
        for values in self.values:
            column = frame.get_column(values.name)
            if places is None:
                places = _places_of(column, values)
            elif len(places) > FEW_PLACES:
                places = places.filter(_is_one_of(column.gather(places), values))
        assert places is not None, "a column compares exactly"
        return places.to_numpy()


def _places_of(column: pl.Series, values: pl.Series) -> pl.Series:
    """Return the positions of the rows of a column that have one of the values."""
    if len(values) <= ONE_BY_ONE and _is_numpy(column) and not values.has_nulls():
        numbers = column.to_numpy()
        masks = [numbers == value for value in values.to_list()]
        return pl.Series(np.flatnonzero(reduce(np.logical_or, masks)))
    # To select numbers by a mask of few rows is ten times as fast as to look for these.
    return pl.int_range(len(column), eager=True).filter(_is_one_of(column, values))


def _is_numpy(column: pl.Series) -> bool:
    """Return whether numpy has numbers like these."""
    return (
        column.dtype.is_integer() and column.dtype not in (pl.Int128, pl.UInt128) and not column.has_nulls()
    )


def _is_one_of(column: pl.Series, values: pl.Series) -> pl.Series:
    return column.is_in(values.implode(), nulls_equal=True)
