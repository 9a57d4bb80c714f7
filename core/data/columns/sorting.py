"""Rows are sorted by several columns: as words packed into one where they fit, which costs one sort of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from .comparisons import OrderWords
from .comparisons import order_words as words_of_few
from .grouping import sort_words
from .kernels import MANY_ROWS, Index, Mask, Words
from .order_words import order_word_count, several_order_words
from .polars_versions import arg_sort

SIGN = np.uint64(1 << 63)

PACKED_FROM = 1500
"""From this many rows on, words are packed into one: fewer are sorted column by column in less time."""

PASSES = 3
"""How often rows that still tie are packed again before they are sorted column by column."""


@dataclass(frozen=True, slots=True, eq=False)
class SortColumn:
    """A column to sort by, and how."""

    values: pl.Series | Words
    descending: bool = False
    nulls_last: bool = False

    @property
    def has_words(self) -> bool:
        """Return whether the column is sorted as words."""
        return isinstance(self.values, np.ndarray) or order_word_count(self.values.dtype) > 0

    def words(self) -> list[Words]:
        """Return unsigned words that sort as the column does, those that mark which values are null before those of the values."""
        if isinstance(self.values, np.ndarray):
            return [~self.values if self.descending else self.values]
        words = [
            (~signed if self.descending else signed).view(np.uint64) ^ SIGN
            for signed in several_order_words(self.values)
        ]
        if not self.values.has_nulls():
            return words
        nulls = self.values.is_null().to_numpy()
        is_null = (nulls == self.nulls_last).astype(np.uint64)
        return [is_null, *(np.where(nulls, np.uint64(0), each) for each in words)]

    def take(self, rows: Index) -> SortColumn:
        """Return the column of these rows."""
        return SortColumn(self.values[rows], self.descending, self.nulls_last)


def sorted_by(
    columns: Sequence[pl.Series | Words], descending: Sequence[bool] = (), nulls_last: Sequence[bool] = ()
) -> Index:
    """Return the order of rows by these columns, the first one ruling, as ``polars.DataFrame.sort`` sorts.

    A few rows of plain columns are sorted as words, without the fixed cost of a query; many rows as words that are packed
    into one, as far as columns have words.
    """
    flags = zip(descending or [False] * len(columns), nulls_last or [False] * len(columns), strict=True)
    sort_columns = [SortColumn(column, *each) for column, each in zip(columns, flags, strict=True)]
    if len(columns[0]) > MANY_ROWS:
        return _packed(sort_columns, PASSES)
    few = [
        words_of_few(each.values, descending=each.descending, nulls_last=each.nulls_last)
        for each in sort_columns
    ]
    listed = [words for words in few if words is not None]
    if len(listed) < len(few):
        return (
            _by_words(sort_columns)
            if all(column.has_words for column in sort_columns)
            else _by_query(sort_columns)
        )
    all_words = [words for each in listed for words in each]
    if len(all_words[0]) >= PACKED_FROM:
        return _packed([SortColumn(_unsigned(words)) for words in all_words], PASSES)
    return np.lexsort(all_words[::-1])


def _unsigned(words: OrderWords) -> Words:
    """Return unsigned words that sort as these do."""
    unsigned: Words = words.view(np.uint64)
    return unsigned if words.dtype == np.uint64 else unsigned ^ SIGN


def _by_words(columns: Sequence[SortColumn]) -> Index:
    return np.lexsort([words for column in columns for words in column.words()][::-1])


def _by_query(columns: Sequence[SortColumn]) -> Index:
    frame = pl.DataFrame([pl.Series(str(number), each.values) for number, each in enumerate(columns)])
    descending, nulls_last = [each.descending for each in columns], [each.nulls_last for each in columns]
    return arg_sort(frame, descending, nulls_last).to_numpy().astype(np.intp)


class _Pack:
    """Words under construction that have as many leading bits of the sort columns as fit beside a position."""

    def __init__(self, height: int) -> None:
        self._places = np.uint64((height - 1).bit_length())
        self._left = 64 - int(self._places)
        self._words = np.zeros(height, np.uint64)
        self._is_empty = True
        self.is_final = False
        """Whether no further column changes the order."""

    def add(self, words: Words, *, is_last: bool) -> bool:
        """Add a column; return False if only its leading bits fit, so that rows may still tie.

        If further columns follow, the first one is added as ranks, as its words may be keys, of which many rows have the same.
        """
        least = words.min()
        width = int(words.max() - least).bit_length()
        if width > self._left and self._is_empty and not is_last:
            words, groups = _ranks(words)
            self.is_final = groups == len(words)
            least, width = np.uint64(0), (groups - 1).bit_length()
        self._is_empty &= width == 0
        bits = min(width, self._left)
        self._words <<= np.uint64(bits)
        self._words |= (words - least) >> np.uint64(width - bits) if width else np.uint64(0)
        self._left -= bits
        return bits == width

    def sorted(self) -> tuple[Index, Mask]:
        """Return the order, and where a row ties with the one before it; rows that tie are in their original order."""
        packed = self._words << self._places
        packed |= np.arange(len(packed), dtype=np.uint64)
        packed.sort()
        order = (packed & np.uint64((1 << int(self._places)) - 1)).view(np.int64)
        packed >>= self._places
        return order, packed[1:] == packed[:-1]


def _ranks(words: Words) -> tuple[Words, int]:
    """Return the rank of each word among the different ones, and their number."""
    order, ordered = sort_words(words)
    steps = np.zeros(len(words), np.uint64)
    np.cumsum(ordered[1:] != ordered[:-1], out=steps[1:])
    ranks = np.empty_like(steps)
    ranks[order] = steps
    return ranks, int(steps[-1]) + 1


def _packed(columns: Sequence[SortColumn], passes: int) -> Index:
    """Return the order by these columns: by all that fits into a word, then, among rows that still tie, by the rest."""
    if not columns[0].has_words:
        return _by_query(columns)
    pack, rest = _Pack(len(columns[0].values)), 0
    for number, column in enumerate(columns):
        if not column.has_words or pack.is_final:
            break
        words = column.words()
        whole = [pack.add(each, is_last=number == len(columns) - 1 and each is words[-1]) for each in words]
        rest = number + all(whole)
        if not all(whole):
            break
    order, ties = pack.sorted()
    if rest == len(columns) or pack.is_final or not ties.any():
        return order
    stretches = np.cumsum(~np.append(False, ties))
    open_stretches = np.zeros(int(stretches[-1]) + 1, np.bool_)
    open_stretches[stretches[1:][ties][_differ(columns[rest:], order, np.flatnonzero(ties))]] = True
    places = np.flatnonzero(open_stretches[stretches])
    if not len(places):
        return order
    rows = order[places]
    further = [
        SortColumn(stretches[places].astype(np.uint64)),
        *(column.take(rows) for column in columns[rest:]),
    ]
    order[places] = rows[_order_of_ties(further, passes)]
    return order


def _differ(columns: Sequence[SortColumn], order: Index, places: Index) -> Mask:
    """Return whether the rows at these places of an order may differ from the next one in these columns."""
    rows, following = order[places], order[places + 1]
    differ = np.zeros(len(places), np.bool_)
    for column in columns:
        if not column.has_words:
            return np.ones(len(places), np.bool_)
        for words in column.words():
            differ |= words[rows] != words[following]
    return differ


def _order_of_ties(columns: Sequence[SortColumn], passes: int) -> Index:
    if not all(column.has_words for column in columns):
        return _by_query(columns) if not columns[1].has_words or not passes else _packed(columns, passes - 1)
    if passes and len(columns[0].values) > MANY_ROWS:
        return _packed(columns, passes - 1)
    return _by_words(columns)
