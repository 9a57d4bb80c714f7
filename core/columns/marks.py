"""A mark of each row rules out most rows before their words are made: a hash of 32 bits of the values that are numbers.

Equal rows have equal marks. A mark costs a tenth of the words of a row that has texts. Marks are kept nowhere: they depend
on nothing but values, but nobody needs to know how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    sums: npt.NDArray[np.uint64] | None = None
    factor = int(SPREAD)
    for column in columns:
        numbers: npt.NDArray[Any] = one_of_each(column) if column.dtype.is_float() else physical(column)
        weighted = numbers.view(np.uint64) * np.uint64(factor)
        # Any other odd factor for each column: the upper bits of a product depend on all bits of the number.
        factor = factor * int(SPREAD) % 2**64
        if sums is None:
            sums = weighted
        else:
            sums += weighted
    assert sums is not None, "marks are made of columns"
    return (sums >> np.uint64(32)).astype(np.uint32)


def marked(marks: Marks, targets: Marks) -> Index:
    """Return the positions of all marks that are among those targets, and of few others. Cost: a look at each."""
    bits = min(max(8, (TIMES * len(targets)).bit_length()), MOST_BITS)
    upper, lower = np.uint32(32 - bits), np.uint32((1 << bits) - 1)
    table = np.zeros(1 << bits, np.bool_)
    table[targets >> upper] = True
    candidates = np.empty(len(marks), np.bool_)
    for start in range(0, len(marks), CHUNK):
        part = slice(start, start + CHUNK)
        np.take(table, marks[part] >> upper, out=candidates[part], mode="clip")
    positions = np.flatnonzero(candidates)
    if len(targets) < MANY:
        return positions
    table[:] = False
    table[targets & lower] = True
    passing: Index = positions[table[marks[positions] & lower]]
    return passing
