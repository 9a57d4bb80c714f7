"""Rows that have some values are found by passes over columns, or over their fingerprints, where nothing is sorted by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import polars as pl

from evercurrent.core.data.columns.kernels import Index, Mask
from evercurrent.core.data.columns.value_words import SPREAD

from .part_rows import is_numpy

Fingerprints = npt.NDArray[np.uint16]
"""16 bits of each number of a column, which differ for nearly all other numbers: a quarter of what a pass has to read."""

Numbers = npt.NDArray[np.integer]

ONE_BY_ONE = 4
"""So many numbers are compared with one after the other: a comparison takes a fifth of a look-up in a set."""

FEW_PLACES = 256
"""So few rows are not looked at in further columns."""

PASSES = 4
"""After so many passes over a column its fingerprints are made, which takes about as long as these."""

TURNS = 8
"""Parts take so many turns to make theirs, one pass after the other, so that no look-up waits for those of all."""

BLOCK = 1 << 14
"""So many numbers at a time are made to fingerprints, within the processor's cache."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A look-up by passes over columns: ``values`` are those of columns that compare exactly, first those of the one with fewest."""

    values: tuple[pl.Series, ...]

    @classmethod
    def of(cls, lookup_values: pl.DataFrame) -> Scan | None:
        """Return the scan for these values; None if no column compares exactly."""
        exact = [
            _each_once(lookup_values.get_column(name))
            for name, dtype in lookup_values.schema.items()
            if dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Date)
        ]
        return cls(tuple(sorted(exact, key=len))) if exact else None


def _each_once(values: pl.Series) -> pl.Series:
    return values.unique() if len(values) > 1 else values


@dataclass(slots=True, eq=False)
class ScannedPart:
    """What is known of a part of a state that is scanned: the look-ups by columns, and the fingerprints of numbers.

    Memory: 2 bytes for each row and column over which at least ``PASSES + turn`` passes were made.
    """

    turn: int = 0
    look_ups: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _passes: Counter[str] = field(default_factory=Counter)
    _fingerprints: dict[str, Fingerprints] = field(default_factory=dict)

    def places(self, frame: pl.DataFrame, scan: Scan) -> Index:
        """Return the positions of all rows of the part's frame with one of the combinations of values, and perhaps of others.

        Cost: a pass over the column with the fewest values, and the rows that it finds.
        """
        first, *others = scan.values
        places = self._places_of(frame.get_column(first.name), first)
        for values in others:
            if len(places) > FEW_PLACES:
                column = frame.get_column(values.name)[pl.Series(places)]
                places = places[_is_one_of(column, values).to_numpy()]
        return places

    def _places_of(self, column: pl.Series, values: pl.Series) -> Index:
        """Return the positions of the rows of a column that have one of the values."""
        if len(values) <= ONE_BY_ONE and is_numpy(column) and not values.has_nulls():
            return self._places_of_numbers(column.name, column.to_numpy(), values.to_numpy())
        # To select numbers by a mask of few rows is ten times as fast as to look for these.
        return pl.int_range(len(column), eager=True).filter(_is_one_of(column, values)).to_numpy()

    def _places_of_numbers(self, name: str, numbers: Numbers, values: Numbers) -> Index:
        self._passes[name] += 1
        if self._passes[name] <= PASSES + self.turn or numbers.itemsize <= 2:
            return np.flatnonzero(_has_one_of(numbers, values))
        if name not in self._fingerprints:
            self._fingerprints[name] = fingerprints(numbers)
        places = np.flatnonzero(_has_one_of(self._fingerprints[name], fingerprints(values)))
        return places[_has_one_of(numbers[places], values)]


def fingerprints(numbers: Numbers) -> Fingerprints:
    """Return the fingerprints of numbers: the leading bits of their products with ``SPREAD``, modulo 2^64."""
    prints = np.empty(len(numbers), np.uint16)
    for start in range(0, len(numbers), BLOCK):
        words = numbers[start : start + BLOCK].astype(np.uint64)
        words *= SPREAD
        words >>= np.uint64(48)
        prints[start : start + BLOCK] = words
    return prints


def _has_one_of(numbers: Numbers, values: Numbers) -> Mask:
    return reduce(np.logical_or, [numbers == value for value in values])


def _is_one_of(column: pl.Series, values: pl.Series) -> pl.Series:
    return column.is_in(values.implode(), nulls_equal=True)
