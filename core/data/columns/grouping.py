"""Equal keys are brought together by a sort of words, or by counting where integers lie close together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from .dense import SAMPLE, SPARSE, are_close, integers_of, range_order, words_of
from .kernels import (
    Index,
    Ints,
    Keys,
    Mask,
    Words,
    is_one_word,
    is_ones,
    key_words,
    physical,
)
from .value_words import SPREAD
from .whole_columns import AnyColumn

SMALL = 256
"""Up to this many words a plain sort of positions is as fast."""

PACKED_BELOW = 1 << 25
"""From this many words on, too few bits are left of a word beside its position."""

DENSE_BELOW = 1 << 22
"""From this many integers on, the counts and codes of a group by counting take more memory than a sort does."""

BLOCK = 1 << 15
"""About so many entries are summed up at a time where their values are computed for it: these stay in the caches."""

FEW_KEYS = 1 << 8
"""Up to so many different keys are distinguished by 16 bits of their words."""

FROM_KEYS = 1 << 12
"""Fewer entries than this are sorted: that takes less than a look at a sample of them."""

SAMPLED = 1 << 8
"""So many keys are looked at before all of them are; if at most one in four is another one, all may be few."""

WINDOWS = tuple(map(np.uint64, (48, 32, 16, 0)))
"""The places of 16 bits in a word by which few keys are distinguished, the first of them that does it."""

RUN = 1 << 10
"""Words are merged if they ascend over stretches of this length on average, as the words of merged runs do."""

LOW_16 = np.uint64(0xFFFF)

SWAPS = 16
"""How many passes swap neighbours that are out of order before the words are sorted in another way."""


@dataclass(frozen=True)
class Segments:
    """Entries in an order, cut into segments: ``order`` sorts them, ``starts`` are where a segment begins."""

    order: Index
    starts: Index

    def __len__(self) -> int:
        """Return the number of segments; none is empty."""
        return len(self.starts)

    def sums(self, values: Ints) -> Ints:
        """Return the sum of the values of each segment, modulo 2^64."""
        if len(self.starts) == len(self.order):
            return values.take(self.order)
        if len(values) <= SMALL:
            few: Ints = np.add.reduceat(values[self.order], self.starts)
            return few
        if is_ones(values):
            return np.diff(self.starts, append=len(self.order))
        if len(self.order) - len(self.starts) < len(self.order) >> 2:
            totals = values[self.first_entries]
            entries, segments = self._further_entries
            np.add.at(totals, segments, values[entries])
            return totals
        # Differences of a running sum are exact modulo 2^64, and three times faster than np.add.reduceat.
        running = np.cumsum(values.take(self.order))
        ends: Ints = running[np.append(self.starts[1:], len(values)) - 1]
        ends[1:] -= ends[:-1].copy()
        return ends

    def sums_of(self, columns: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the ``sums`` of each of these columns."""
        return {name: self.sums(column) for name, column in columns.items()}

    def sums_by_block(self, values_of: Callable[[slice | Index], Mapping[str, Ints]]) -> dict[str, Ints]:
        """Return the sums of columns that a function returns of some entries, a block of segments at a time.

        A column that is not there for some entries is zero. Cost: the entries; room for the columns of a block, not for all.
        """
        # A segment that is larger than a block is one of its own.
        cuts = np.append(self.starts.searchsorted(np.arange(0, len(self.order), BLOCK)), len(self.starts))
        totals: dict[str, Ints] = {}
        for first, last in pairwise(np.unique(cuts).tolist()):
            starts = self.starts[first:last]
            begin, end = starts[0], self.starts[last] if last < len(self.starts) else len(self.order)
            ordered = Segments(np.arange(end - begin), starts - begin)
            for name, values in values_of(self.order[begin:end]).items():
                if name not in totals:
                    totals[name] = np.zeros(len(self.starts), np.int64)
                totals[name][first:last] = ordered.sums(values)
        return totals

    def greatest(self, values: Ints) -> Ints:
        """Return the greatest value of each segment."""
        greatest: Ints = np.maximum.reduceat(values[self.order], self.starts)
        return greatest

    @cached_property
    def first_entries(self) -> Index:
        """Return the entry with which each segment begins."""
        return self.order if len(self.starts) == len(self.order) else self.order[self.starts]

    @property
    def last_entries(self) -> Index:
        """Return the entry with which each segment ends."""
        last: Index = self.order[np.append(self.starts[1:], len(self.order)) - 1]
        return last

    @property
    def numbers(self) -> Index:
        """Return the number of the segment of each entry."""
        numbers = np.empty(len(self.order), np.intp)
        numbers[self.order] = np.repeat(np.arange(len(self)), np.diff(self.starts, append=len(self.order)))
        return numbers

    @cached_property
    def _further_entries(self) -> tuple[Index, Index]:
        """Return all entries but the first ones, and the number of the segment of each."""
        further = np.ones(len(self.order), np.bool_)
        further[self.starts] = False
        places = np.flatnonzero(further)
        return self.order[places], places - np.arange(1, len(places) + 1)


@dataclass(frozen=True)
class Groups(Segments):
    """Entries brought together by key: a segment for each of ``keys``, which are distinct and ascend."""

    keys: Keys


class DenseGroups(Groups):
    """Entries brought together by integers that lie close together: counted, without a sort of the entries.

    ``codes`` is each entry's integer less the least of a range, ``used`` the codes that there are, by their words, and ``counts``
    the number of entries of each code of the range.
    """

    def __init__(self, codes: Ints, used: Ints, counts: Ints, keys: Keys) -> None:
        self.__dict__.update(codes=codes, used=used, counts=counts, keys=keys)

    codes: Ints
    used: Ints
    counts: Ints

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.used)

    def sums(self, values: Ints) -> Ints:
        """Return the sum of the values of each group, modulo 2^64."""
        if is_ones(values):
            return self.counts.take(self.used)
        totals = np.zeros(len(self.counts), np.int64)
        np.add.at(totals, self.codes, values)
        return totals.take(self.used)

    def sums_by_block(self, values_of: Callable[[slice | Index], Mapping[str, Ints]]) -> dict[str, Ints]:
        """See ``Segments``: blocks of entries."""
        totals: dict[str, Ints] = {}
        for start in range(0, len(self.codes), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self.codes)))
            for name, values in values_of(rows).items():
                if name not in totals:
                    totals[name] = np.zeros(len(self.counts), np.int64)
                np.add.at(totals[name], self.codes[rows], values)
        return {name: sums.take(self.used) for name, sums in totals.items()}

    def greatest(self, values: Ints) -> Ints:
        """Return the greatest value of each group."""
        greatest = np.full(len(self.counts), np.iinfo(np.int64).min)
        np.maximum.at(greatest, self.codes, values)
        return greatest[self.used]

    @cached_property
    def order(self) -> Index:
        """Return the positions of the entries, group by group."""
        return order_of_numbers(self.numbers)

    @property
    def numbers(self) -> Index:
        """Return the number of the group of each entry."""
        rank = np.zeros(len(self.counts), np.intp)
        rank[self.used] = np.arange(len(self.used))
        return rank[self.codes]

    @cached_property
    def starts(self) -> Index:
        """Return where each group begins in ``order``."""
        return np.concatenate(([0], np.cumsum(self.counts[self.used])[:-1]))

    @cached_property
    def first_entries(self) -> Index:
        """Return the first entry of each group."""
        first = np.zeros(len(self.counts), np.intp)
        first[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return first[self.used]

    @property
    def last_entries(self) -> Index:
        """Return the last entry of each group."""
        last = np.zeros(len(self.counts), np.intp)
        last[self.codes] = np.arange(len(self.codes))
        return last[self.used]


def order_of_numbers(numbers: Index) -> Index:
    """Return the stable order of the numbers of groups, fewer than ``DENSE_BELOW``: each is sorted with its position, by value."""
    bits = len(numbers).bit_length()
    packed = numbers << bits
    packed |= np.arange(len(numbers))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def boundaries(keys: Keys) -> Index:
    """Return the positions at which a key differs from the one before it, position 0 included."""
    return differing(keys).nonzero()[0]


def differing(keys: Keys) -> Mask:
    """Return where a key differs from the one before it; true for the first."""
    differs = np.empty(len(keys.first), np.bool_)
    differs[:1] = True
    np.not_equal(keys.first[1:], keys.first[:-1], out=differs[1:])
    if keys.second is not None:
        differs[1:] |= keys.second[1:] != keys.second[:-1]
    return differs


def group_columns(columns: Sequence[AnyColumn], height: int) -> Groups:
    """Bring equal keys in these columns together: ``group`` of their ``key_words``."""
    if is_one_word([column.dtype for column in columns]):
        return group_column(columns[0])
    return _hashed_groups(key_words(columns, height))


def group_column(column: AnyColumn) -> Groups:
    """Bring equal keys in a column of one-word keys together."""
    if column.has_nulls():
        return _hashed_groups(key_words([column], len(column)))
    integers = physical(column)
    return _dense_groups(integers) or _hashed_groups(Keys(integers.view(np.uint64) * SPREAD))


def group(keys: Keys) -> Groups:
    """Bring equal keys together; equal ones stay in the order in which they came.

    Cost: one sort of words; of both words only where the first ones collide. Integers that lie close together
    are counted instead, and so are few different keys.
    """
    if keys.second is not None or len(keys) >= DENSE_BELOW:
        return _hashed_groups(keys)
    return _dense_groups(integers_of(keys.first)) or _hashed_groups(keys)


def group_stretches(keys: Keys) -> Groups:
    """Return the ``group`` of keys that ascend in a few stretches, by merging. Cost: one pass for each doubling of a stretch.

    Integers that lie close together are counted instead.
    """
    groups = None
    if keys.second is None and len(keys) < DENSE_BELOW and are_close(keys.first[:SAMPLE], len(keys)):
        groups = _dense_groups(integers_of(keys.first))
    return groups or _grouped(keys, *_stable_order(keys.first))


def _hashed_groups(keys: Keys) -> Groups:
    return _few_groups(keys) or _sorted_groups(keys)


def _few_groups(keys: Keys) -> DenseGroups | None:
    """Return the groups of keys few of which are different, by counting; None if they seem to be more, or words collide."""
    words = keys.first
    if not FROM_KEYS <= len(words) < DENSE_BELOW:
        return None
    few = np.unique(words[:: len(words) // SAMPLED])
    if 4 * len(few) > SAMPLED:
        return None
    codes = _codes_among(few, words)
    if codes is None:
        return None
    others = np.flatnonzero(few.take(codes) != words)
    if len(others):
        # Keys that are not in the sample are rare where keys are few.
        if len(others) > len(words) >> 4:
            return None
        few = np.union1d(few, words[others])
        codes = _codes_among(few, words) if len(few) <= FEW_KEYS else None
        if codes is None:
            return None
    counts = np.bincount(codes, minlength=len(few))
    second = None
    if keys.second is not None:
        second = np.zeros(len(few), np.uint64)
        second[codes] = keys.second
        if (second.take(codes) != keys.second).any():
            return None
    return DenseGroups(codes, np.arange(len(few)), counts, Keys(few, second))


def _codes_among(few: Words, words: Words) -> Index | None:
    """Return the place of each word among a few ascending ones, and any place of another word; None if no 16 bits distinguish these."""
    for window in WINDOWS:
        bits = (few >> window & LOW_16).view(np.int64)
        place_of = np.zeros(1 << 16, np.intp)
        place_of[bits] = np.arange(len(few))
        if (place_of[bits] == np.arange(len(few))).all():
            places: Index = place_of.take((words >> window & LOW_16).view(np.int64))
            return places
    return None


def _sorted_groups(keys: Keys) -> Groups:
    return _grouped(keys, *sort_words(keys.first))


def _grouped(keys: Keys, order: Index, first: Words) -> Groups:
    """Return the groups of keys, whose first words are in this order."""
    if len(order) == 1:
        return Groups(order, np.zeros(1, np.intp), keys)
    second = None if keys.second is None else keys.second[order]
    if second is not None and ((first[1:] == first[:-1]) & (second[1:] != second[:-1])).any():
        order = _sorted_by_second(keys, order, first)
        first, second = keys.first[order], keys.seconds_at(order)
    starts = boundaries(Keys(first, second))
    if len(starts) < len(order):
        first, second = first[starts], None if second is None else second[starts]
    return Groups(order, starts, Keys(first, second))


def _sorted_by_second(keys: Keys, order: Index, first: Words) -> Index:
    """Return the order, where first words agree by the second ones: only such entries are sorted again."""
    same = np.zeros(len(order) + 1, np.bool_)
    np.equal(first[1:], first[:-1], out=same[1:-1])
    places = np.flatnonzero(same[1:] | same[:-1])
    entries = order[places]
    order[places] = entries[np.lexsort((keys.seconds_at(entries), first[places]))]
    return order


def _dense_groups(integers: Ints) -> DenseGroups | None:
    """Return the groups of integers that lie so close together that counting costs less than a sort; else None."""
    if not SMALL < len(integers) < DENSE_BELOW:
        return None
    smallest, largest = int(integers.min()), int(integers.max())
    if largest - smallest >= SPARSE * len(integers):
        return None
    in_order = range_order(smallest, largest)
    if in_order is None or (all_codes := in_order.codes()) is None:
        codes = integers - smallest
        counts = np.bincount(codes)
        present = np.flatnonzero(counts)
        order, words = sort_words(words_of(present, smallest))
        return DenseGroups(codes, present[order], counts, Keys(words))
    codes = integers - in_order.least
    counts = np.bincount(codes, minlength=in_order.size)
    used = all_codes[counts[all_codes] > 0]
    return DenseGroups(codes, used, counts, Keys(words_of(used, in_order.least)))


def sort_words(words: Words) -> tuple[Index, Words]:
    """Return the stable order of words, and the words in that order.

    Words and their positions are packed into one word each and sorted by value, three times faster than a sort
    of positions. That leaves 64 - log2(n) bits of the word to sort by: among uniformly distributed words few
    agree in all of these, and they are reordered afterwards. Words that ascend in a few long stretches are
    merged, a few times faster still.
    """
    if len(words) <= SMALL or np.count_nonzero(words[1:] < words[:-1]) * RUN < len(words):
        return _stable_order(words)
    if len(words) < PACKED_BELOW:
        low = np.uint64((1 << len(words).bit_length()) - 1)
        packed = words & ~low
        packed |= np.arange(len(words), dtype=np.uint64)
        packed.sort()
        packed &= low
        order = packed.view(np.int64)
        ordered = words[order]
        for _ in range(SWAPS):
            wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
            if not len(wrong):
                return order, ordered
            # Of overlapping pairs only the first is swapped; the others follow in the next pass.
            wrong = wrong[np.diff(wrong, prepend=-2) > 1]
            order[wrong], order[wrong + 1] = order[wrong + 1], order[wrong]
            ordered[wrong], ordered[wrong + 1] = ordered[wrong + 1], ordered[wrong]
    return _stable_order(words)


def _stable_order(words: Words) -> tuple[Index, Words]:
    """Return the same as ``sort_words``, by numpy's stable sort, which finds ascending stretches and merges them."""
    order = words.argsort(kind="stable")
    return order, words[order]


def consolidated_rows(rows: pl.DataFrame, diffs: Ints) -> tuple[Index | None, Ints]:
    """Return the first of each set of equal rows, in order of appearance, and the sums of their diffs.

    The positions are None if all rows are different and no diff is zero: then there is nothing to do.
    """
    return consolidated(group(key_words(rows.get_columns(), len(diffs))), diffs)


def consolidated(groups: Groups, diffs: Ints) -> tuple[Index | None, Ints]:
    """Return what ``consolidated_rows`` does of rows that are grouped."""
    if len(groups) == len(diffs) and diffs.all():
        return None, diffs
    sums = groups.sums(diffs)
    alive = sums != 0
    first = groups.first_entries[alive]
    appearance = np.argsort(first)
    return first[appearance], sums[alive][appearance]
