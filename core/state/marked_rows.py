"""A few rows are found among many by their marks, and then compared value by value, so that no words are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ..data.columns.comparisons import differ
from ..data.columns.directory import Directory
from ..data.columns.grouping import group
from ..data.columns.kernels import Index, Keys, Mask, Words, at, is_one_word, key_words
from ..data.columns.key_hash import KeyHash, hashing_by
from ..data.columns.marks import Marks, MarkTable

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
class Candidates:
    """Some rows of a frame, those at ``places``, and the marks of all of its rows."""

    frame: pl.DataFrame
    marks: Marks
    places: Index


@dataclass(frozen=True, slots=True, eq=False)
class MarkedRows:
    """Different rows, no two of which have the same mark. ``marks`` ascend; ``key_hash`` makes the words of the rows."""

    marks: Marks
    rows: pl.DataFrame
    key_hash: KeyHash
    table: MarkTable = field(init=False, repr=False)
    directory: Directory | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", MarkTable(self.marks))
        object.__setattr__(self, "directory", Directory.of(_as_words(self.marks), is_matched=False))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.marks)

    def among(self, parts: Sequence[Candidates]) -> list[tuple[Index, Index]]:
        """Return for each part which of its candidates are one of the rows, and which. Cost: the candidates."""
        marked = [self._of_marks(part) for part in parts]
        owners = np.concatenate([numbers for _, numbers in marked])
        same = np.ones(len(owners), np.bool_)
        # The values of all parts are compared together: most steps cost the same for few values as for many.
        for column in self.rows.get_columns() if len(owners) else ():
            theirs = [
                (part.frame.get_column(column.name), entries)
                for part, (entries, _) in zip(parts, marked, strict=True)
            ]
            same &= ~_differ(column, owners, theirs)
        ends = np.cumsum([len(numbers) for _, numbers in marked])
        return [
            (entries[is_same], numbers[is_same])
            for (entries, numbers), is_same in zip(marked, np.split(same, ends[:-1]), strict=True)
        ]

    def _of_marks(self, part: Candidates) -> tuple[Index, Index]:
        """Return the candidates of a part that have the mark of a row, and that row."""
        marks = part.marks[part.places]
        owners = np.minimum(self._places_of(marks), len(self) - 1)
        marked = np.flatnonzero(self.marks[owners] == marks)
        return part.places[marked], owners[marked]

    def _places_of(self, marks: Marks) -> Index:
        if self.directory is None:
            return np.searchsorted(self.marks, marks)
        return self.directory.search(_as_words(self.marks), _as_words(marks))

    def keys(self) -> tuple[Index, Keys]:
        """Return the words of the rows in ascending order, and the rows in this order. Cost: their hashes, and a sort."""
        with hashing_by(self.key_hash):
            words = key_words(self.rows.get_columns(), len(self))
        groups = group(words)
        return groups.order, groups.keys


def _differ(one: pl.Series, its: Index, parts: Sequence[tuple[pl.Series, Index]]) -> Mask:
    """Return where the values of a column at these positions ``differ`` from those of others at theirs, one part after the other.

    Numbers of 64 bits need no query.
    """
    others = [column for column, _ in parts]
    if type(one.dtype) not in WORDS or one.has_nulls() or any(column.has_nulls() for column in others):
        theirs = pl.concat([at(column, entries) for column, entries in parts])
        return differ(at(one, its), theirs)
    ones, values = (
        one.to_numpy()[its],
        np.concatenate([column.to_numpy()[entries] for column, entries in parts]),
    )
    if ones.dtype != np.float64:
        # The least instant is no number for numpy.
        unequal: Mask = ones.view(np.int64) != values.view(np.int64)
        return unequal
    with np.errstate(invalid="ignore"):
        differs: Mask = (ones != values) & ((ones == ones) | (values == values))
        return differs


def _as_words(marks: Marks) -> Words:
    """Return marks as words that sort as they do, distributed over all words."""
    return marks.astype(np.uint64) << np.uint64(32)
