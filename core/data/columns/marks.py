"""A mark of each row rules out most rows before their words are made: a hash of 32 bits of the values that are numbers.

Equal rows have equal marks. A mark costs a tenth of the words of a row that has texts. Marks are kept nowhere: they depend
on nothing but values, but no caller depends on how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from .kernels import Index, is_one_word, physical
from .value_words import SPREAD, one_of_each

Marks = npt.NDArray[np.uint32]

MOST_BITS = 20
"""Tables of marks have at most so many bits in their index, so that they stay in the caches of a processor."""

TIMES = 32
"""Tables have so many places for each mark, as far as ``MOST_BITS`` allow."""

CHUNK = 1 << 15
"""How many marks are looked at together."""

MANY = 1 << 10
"""From so many marks on, those that pass one table are looked up in another one."""


def marked_columns(schema: Mapping[str, pl.DataType]) -> tuple[str, ...]:
    """Return the columns that marks are made of; none if the words of rows cost no more than marks.

    >>> marked_columns({"order": pl.Int64(), "shop": pl.String(), "price": pl.Float64()})
    ('order', 'price')
    """
    if is_one_word([*schema.values()]):
        return ()
    return tuple(name for name, dtype in schema.items() if is_one_word([dtype]) or dtype.is_float())


def marks_of(columns: Sequence[pl.Series]) -> Marks:
    """Return the marks of rows, from at least one column. Cost: some nanoseconds a value, fewer than for words."""
    marks = np.empty(len(columns[0]), np.uint32)
    integers = [None if column.dtype.is_float() else physical(column).view(np.uint64) for column in columns]
    # Any other odd factor for each column: the upper bits of a product depend on all bits of the number.
    factors = [np.uint64(pow(int(SPREAD), place, 2**64)) for place in range(1, len(columns) + 1)]
    weighted = np.empty(min(CHUNK, len(marks)), np.uint64)
    for start in range(0, len(marks), CHUNK):
        size = min(CHUNK, len(marks) - start)
        sums, product = np.zeros(size, np.uint64), weighted[:size]
        for column, numbers, factor in zip(columns, integers, factors, strict=True):
            if numbers is None:
                part = one_of_each(column.slice(start, size)).view(np.uint64)
            else:
                part = numbers[start : start + size]
            sums += np.multiply(part, factor, out=product)
        marks[start : start + size] = sums >> np.uint64(32)
    return marks


class MarkTable:
    """A table of some marks, by which others are looked at: only those that are in it pass, and few others."""

    def __init__(self, targets: Marks) -> None:
        bits = min(max(8, (TIMES * len(targets)).bit_length()), MOST_BITS)
        self._upper, self._lower = np.uint32(32 - bits), np.uint32((1 << bits) - 1)
        self._by_upper = np.zeros(1 << bits, np.bool_)
        self._by_upper[targets >> self._upper] = True
        self._by_lower: npt.NDArray[np.bool_] | None = None
        if len(targets) >= MANY:
            self._by_lower = np.zeros(1 << bits, np.bool_)
            self._by_lower[targets & self._lower] = True

    def passing(self, marks: Marks) -> Index:
        """Return the positions of all marks that are in the table, and of few others. Cost: a look at each."""
        candidates = np.empty(len(marks), np.bool_)
        for start in range(0, len(marks), CHUNK):
            part = marks[start : start + CHUNK]
            np.take(
                self._by_upper,
                part >> self._upper,
                out=candidates[start : start + len(part)],
                mode="clip",
            )
        positions = np.flatnonzero(candidates)
        if self._by_lower is None:
            return positions
        passing: Index = positions[self._by_lower[marks[positions] & self._lower]]
        return passing


def marked(marks: Marks, targets: Marks) -> Index:
    """Return the positions of all marks that are among those targets, and of few others. Cost: a look at each."""
    return MarkTable(targets).passing(marks)


def first_of_each(marks: Marks) -> tuple[Marks, Index]:
    """Return the different ones of some marks, ascending, and the first position of each. Cost: a sort by value."""
    packed = marks.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(len(marks), dtype=np.uint64)
    packed.sort()
    ordered = (packed >> np.uint64(32)).astype(np.uint32)
    differs = np.ones(len(marks), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    first = np.flatnonzero(differs)
    return ordered[first], (packed[first] & np.uint64(0xFFFFFFFF)).view(np.int64)
