"""A few rows are found among many by their marks, and then compared value by value, so that no words are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..columns.comparisons import differ
from ..columns.grouping import group
from ..columns.kernels import Index, Keys, Mask, at, is_one_word, key_words
from ..columns.key_hash import KeyHash, hashing_by
from ..columns.marks import Marks

WORDS = (pl.Int64, pl.UInt64, pl.Float64, pl.Datetime, pl.Duration)
"""Types whose values numpy reads where they are."""


def is_compared(dtypes: Iterable[pl.DataType]) -> bool:
    """Return whether rows of columns of these types are compared value by value: numbers, instants, texts and bytes.

    >>> is_compared([pl.Int64(), pl.String()]), is_compared([pl.List(pl.Int64)])
    (True, False)
    """
    plain = (pl.String, pl.Binary)
    return all(dtype in plain or dtype.is_float() or is_one_word([dtype]) for dtype in dtypes)


@dataclass(frozen=True, slots=True, eq=False)
class MarkedRows:
    """Different rows, no two of which have the same mark. ``marks`` ascend; ``key_hash`` makes the words of the rows."""

    marks: Marks
    rows: pl.DataFrame
    key_hash: KeyHash

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.marks)

    def among(self, frame: pl.DataFrame, marks: Marks, candidates: Index) -> tuple[Index, Index]:
        """Return which candidates, positions in a frame with these marks, are one of the rows, and which. Cost: the candidates."""
        candidate_marks = marks[candidates]
        owners = np.minimum(np.searchsorted(self.marks, candidate_marks), len(self) - 1)
        marked = np.flatnonzero(self.marks[owners] == candidate_marks)
        entries, owners = candidates[marked], owners[marked]
        for column in self.rows.get_columns() if len(entries) else ():
            same = ~_differ(column, owners, frame.get_column(column.name), entries)
            if not same.all():
                entries, owners = entries[same], owners[same]
        return entries, owners

    def keys(self) -> tuple[Index, Keys]:
        """Return the words of the rows in ascending order, and the rows in this order. Cost: their hashes, and a sort."""
        with hashing_by(self.key_hash):
            words = key_words(self.rows.get_columns(), len(self))
        groups = group(words)
        return groups.order, groups.keys


def _differ(one: pl.Series, its: Index, other: pl.Series, others: Index) -> Mask:
    """Return where the values of two columns at these positions ``differ``. Numbers of 64 bits need no query."""
    if type(one.dtype) not in WORDS or one.has_nulls() or other.has_nulls():
        return differ(at(one, its), at(other, others))
    ones, theirs = one.to_numpy()[its], other.to_numpy()[others]
    if ones.dtype != np.float64:
        unequal: Mask = ones.view(np.int64) != theirs.view(
            np.int64
        )  # The least instant is no number for numpy.
        return unequal
    with np.errstate(invalid="ignore"):
        differs: Mask = (ones != theirs) & ((ones == ones) | (theirs == theirs))
        return differs
