"""Integers that lie close together are found in a table of their range, and brought into the order of their words once for many batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .kernels import UNSPREAD, Index, Ints, Words
from .value_words import SPREAD

SPARSE = 2
"""Integers lie close together if their range has at most so many times as many integers as they are."""

SAMPLE = 64
"""So many words are looked at before all of them are."""

CHUNK = 1 << 18
"""How many words are looked at together."""

BLOCK = 1 << 16
"""So many words are looked up together: what is computed on the way stays in the caches."""

MOST_REMEMBERED = 1 << 18
"""Orders of ranges of more integers than this are not kept."""

RANGES, STEPS = 4, 5
"""Orders of so many ranges are kept; the bounds of a range are rounded to one in 2^``STEPS`` of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The place of each integer of a range in an ascending array of words of such integers; -1 for one that is not there."""

    least: int
    places: npt.NDArray[np.int32]

    @staticmethod
    def of(words: Words) -> Places | None:
        """Return the places of ascending words; None unless they are distinct and their integers lie close together.

        Cost: a few passes over the words; of words that are hashes, a look at some.
        """
        if not 0 < len(words) < 2**31 or not are_close(words[:SAMPLE], len(words)):
            return None
        least, size = _range(words)
        if size > SPARSE * len(words):
            return None
        places = np.full(size, -1, np.int32)
        for start in range(0, len(words), CHUNK):
            integers = integers_of(words[start : start + CHUNK])
            places[integers - least] = np.arange(start, start + len(integers), dtype=np.int32)
        if np.count_nonzero(places >= 0) < len(words):
            return None
        return Places(least, places)

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return self.places.nbytes

    def match(self, words: Words, targets: Words) -> tuple[Index, Index]:
        """Return which of these words are there, and their places in ``words``, whose places these are."""
        if len(targets) > BLOCK:
            return in_blocks(self.match, words, targets)
        codes = (integers_of(targets) - self.least).view(np.uint64)
        is_within = codes < np.uint64(len(self.places))
        within = None if is_within.all() else np.flatnonzero(is_within)
        places = self.places[(codes if within is None else codes[within]).view(np.int64)]
        there = np.flatnonzero(places >= 0)
        if len(there) < len(places):
            places = places[there]
        return there if within is None else within[there], places.astype(np.intp)

    def search(self, words: Words, targets: Words) -> Index:
        """Return ``np.searchsorted(words, targets)``. Cost: a binary search for each target."""
        return words.searchsorted(targets)


def in_blocks(
    match: Callable[[Words, Words], tuple[Index, Index]], words: Words, targets: Words
) -> tuple[Index, Index]:
    """Return which targets are among words, and their places, as ``match`` does, given a block of the targets at a time."""
    starts = range(0, len(targets), BLOCK)
    parts = [match(words, targets[start : start + BLOCK]) for start in starts]
    hits = [hit + start for start, (hit, _) in zip(starts, parts, strict=True)]
    return np.concatenate(hits), np.concatenate([places for _, places in parts])


@dataclass(slots=True)
class RangeOrder:
    """The integers of a range, in the order of their words. They are sorted when they are needed again: some ranges never are."""

    least: int
    size: int
    _is_recurring: bool = False
    _codes: Index | None = field(default=None, repr=False)

    def codes(self) -> Index | None:
        """Return each integer less the least one, in the order of their words; None the first time. Cost: one sort, once."""
        if self._codes is None and self._is_recurring:
            self._codes = words_of(np.arange(self.size), self.least).argsort()
        self._is_recurring = True
        return self._codes


def range_order(least: int, greatest: int) -> RangeOrder | None:
    """Return the order of a range that has these bounds in it, the same for many similar ones; None if it is too long to be kept.

    >>> range_order(3, 99_998) is range_order(7, 99_999)
    True
    """
    step = 1 << max((greatest - least).bit_length() - STEPS, 0)
    begin = least // step * step
    size = greatest // step * step + step - begin
    return _range_order(begin, size) if size <= MOST_REMEMBERED else None


@lru_cache(maxsize=RANGES)
def _range_order(least: int, size: int) -> RangeOrder:
    return RangeOrder(least, size)


def are_close(words: Words, count: int) -> bool:
    """Return whether so many integers may lie close together, some words of which, at least one, are given."""
    return _range(words)[1] <= SPARSE * count


def integers_of(words: Words) -> Ints:
    """Return the integers of which these words are made."""
    return (words * UNSPREAD).view(np.int64)


def words_of(codes: Ints, least: int) -> Words:
    """Return the words of integers, given as what each is more than the least one."""
    return (codes + least).view(np.uint64) * SPREAD


def _range(words: Words) -> tuple[int, int]:
    """Return the least of the integers of these words, and how many there are up to the greatest."""
    bounds = []
    for start in range(0, len(words), CHUNK):
        integers = integers_of(words[start : start + CHUNK])
        bounds += [int(integers.min()), int(integers.max())]
    return min(bounds), max(bounds) - min(bounds) + 1
