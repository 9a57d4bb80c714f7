"""The values at some ranks among several runs, of which only the entries near these ranks are read, and not whole groups.

    the value at rank k = the least x with F(x) > k,  F(x) = the sum over the runs of the diffs of values up to x

A run may have negative diffs, for what it retracts of others; their sums over all runs are not negative, so F never falls.
Two values of the run that has most entries of a group, at both sides of where the rank would be if all runs had the same
distribution, are counted in all runs. They bound the value, or rule out one side (Floyd and Rivest, "Expected time bounds for
selection", 1975, which samples for this what is a run here).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from ..data.columns.kernels import Index, Ints, Mask, expand, is_ones
from ..data.columns.nulls import nulls_in
from ..data.columns.ordered_numbers import Numbers, are_unequal, is_less, numbers_of
from ..data.columns.sorting import sorted_by
from ..data.schema import DIFF
from .run import Run

Side = Literal["left", "right"]
"""Where among equal values a search ends, as for ``numpy.searchsorted``."""

NEAR = 64
"""Groups of which at most so many entries may be the value are read."""

READ_AT_ONCE = 4096
"""If the other groups have at most so many entries in all, these are read, too: to rule out more of them costs as much."""

ROUNDS = 8
"""How often entries are ruled out at most: each time all but some square roots of their number, where runs are alike."""

MARGIN = 1.0
"""How far the two values are from the expected place, in square roots of the entries of the run: two deviations."""

FEW_RANGES = 32
"""So many ranges are searched one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueRun:
    """The entries of a run, of which each key has some in ascending order, nulls before all ``values``.

    ``ends`` are the sums of the diffs before each entry, and of all; None if all diffs are one. ``nulls`` is None if there are none.
    """

    values: Numbers
    ends: Ints | None
    nulls: Mask | None

    @staticmethod
    def of(run: Run, column: str) -> ValueRun:
        """Return the entries of a run with the values in this column. Cost: a look at all of its diffs."""
        values, diffs = run.payload.get_column(column), run.sums.get(DIFF, np.zeros(len(run), np.int64))
        nulls = nulls_in(values) if values.has_nulls() else None
        return ValueRun(numbers_of(values), None if is_ones(diffs) else running(diffs), nulls)

    def counts(self, lower: Index, upper: Index) -> Ints:
        """Return the sum of the diffs of each of these ranges."""
        if self.ends is None:
            return upper - lower
        sums: Ints = self.ends[upper] - self.ends[lower]
        return sums

    def first_values(self, lower: Index, upper: Index) -> Index:
        """Return the first entry of each range that is not null."""
        nulls = self.nulls
        return lower if nulls is None else _bisected(lambda places, _: nulls[places], lower, upper)

    def search(self, targets: Numbers, lower: Index, upper: Index, side: Side) -> Index:
        """Return the first entry of each range that is not below its target, or to its right the first one above it."""
        if len(targets) <= FEW_RANGES:
            ranges = zip(targets, lower.tolist(), upper.tolist(), strict=True)
            places = [
                start + self.values[start:end].searchsorted(target, side) for target, start, end in ranges
            ]
            return np.array(places, np.intp)
        if side == "left":
            return _bisected(lambda places, of: is_less(self.values[places], targets[of]), lower, upper)
        return _bisected(lambda places, of: ~is_less(targets[of], self.values[places]), lower, upper)


class ValueRuns:
    """The entries of runs by their values in one column, each kept as long as its run is."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._by_run = WeakKeyDictionary[Run, ValueRun]()

    def of(self, runs: Sequence[Run]) -> list[ValueRun]:
        """Return the entries of these runs. Cost: a look at the diffs of those that are new."""
        for run in runs:
            if run not in self._by_run:
                self._by_run[run] = ValueRun.of(run, self._column)
        return [self._by_run[run] for run in runs]


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A moment as of which values are read: the entries then are those of the first ``runs`` runs.

    ``low`` and ``high`` are two ranks of each group, from 0, ``high`` not below ``low``; 0 and -1 where a group has no values.
    """

    runs: int
    low: Ints
    high: Ints


Pair = tuple[Numbers, Numbers]
"""The values at the lower and at the higher rank of each group that has any."""


def at_ranks(
    runs: Sequence[ValueRun], ranges: Sequence[tuple[Index, Index]], moments: Sequence[Moment]
) -> tuple[list[Pair], int]:
    """Return the values at ranks as of some moments, of which the last one has all runs, and how many entries were read.

    ``ranges`` are those of the groups in each of the runs, without nulls. Cost: of groups with few entries all of these, sorted once;
    otherwise of each group a number of entries that depends on how alike the distributions of its values in the runs are, and a
    few searches in each of its ranges.
    """
    windows = _Windows.of(runs, ranges, moments)
    windows.narrow()
    entries = _Entries.of(runs, windows.lower, windows.upper)
    values = [entries.at(moment, below) for moment, below in zip(moments, windows.below, strict=True)]
    return values, len(entries.owner)


@dataclass(slots=True, eq=False)
class _Windows:
    """The entries of each run, from ``lower`` to ``upper`` for each group, that may be the values.

    The first dimension of these arrays is that of runs, the second that of groups. ``below`` counts what is before them for each
    moment and group.
    """

    runs: Sequence[ValueRun]
    moments: Sequence[Moment]
    lower: Index
    upper: Index
    below: Ints

    @staticmethod
    def of(
        runs: Sequence[ValueRun], ranges: Sequence[tuple[Index, Index]], moments: Sequence[Moment]
    ) -> _Windows:
        """Return the windows with all entries of these ranges, but of groups that have no values at any moment with none."""
        has_values = np.array([moment.high >= 0 for moment in moments]).any(axis=0)
        lower = np.array([start for start, _ in ranges])
        upper = np.where(has_values, [end for _, end in ranges], lower)
        return _Windows(runs, moments, lower, upper, np.zeros((len(moments), lower.shape[1]), np.int64))

    def narrow(self) -> None:
        """Rule out entries of groups that have many, round by round."""
        for _ in range(ROUNDS):
            sizes = (self.upper - self.lower).sum(axis=0)
            wide = np.flatnonzero(sizes > NEAR)
            if sizes[wide].sum() <= READ_AT_ONCE:
                return
            self._narrow(wide)

    def _narrow(self, groups: Index) -> None:
        lower, upper, below = self.lower[:, groups], self.upper[:, groups], self.below[:, groups]
        low = np.array([moment.low[groups] for moment in self.moments])
        high = np.array([moment.high[groups] for moment in self.moments])
        least, greatest = self._values_around(lower, upper, low[-1] - below[-1], high[-1] - below[-1])
        first = self._searched(least, lower, upper, "left")
        last = self._searched(greatest, first, upper, "right")
        before, until = below + self._counts(lower, first), below + self._counts(lower, last)
        # Each of the two values is at one side of all ranks, or between them.
        for places, counted in ((first, before), (last, until)):
            is_below, is_above = (counted <= low).all(axis=0), (counted > high).all(axis=0)
            lower[:, is_below], below[:, is_below] = places[:, is_below], counted[:, is_below]
            upper[:, is_above] = np.minimum(upper[:, is_above], places[:, is_above])
        self.lower[:, groups], self.upper[:, groups], self.below[:, groups] = lower, upper, below

    def _values_around(self, lower: Index, upper: Index, low: Ints, high: Ints) -> Pair:
        """Return for each group two values of the run that has most of its entries, around where the ranks are expected."""
        sizes = upper - lower
        fullest, size = sizes.argmax(axis=0), sizes.max(axis=0)
        step, margin = size / np.maximum(self._counts(lower, upper)[-1], 1), MARGIN * np.sqrt(size) + 1
        places = np.array(((low + 0.5) * step - margin, (high + 0.5) * step + margin))
        places = np.minimum(np.maximum(places, 0), size - 1).astype(np.intp)
        bounds = np.empty((2, len(size)), self.runs[0].values.dtype)
        for number, run in enumerate(self.runs):
            own = np.flatnonzero(fullest == number)
            bounds[:, own] = run.values[lower[number, own] + places[:, own]]
        return bounds[0], bounds[1]

    def _counts(self, lower: Index, upper: Index) -> Ints:
        """Return the sums of the diffs of these ranges, over the runs of each moment."""
        ranges = zip(self.runs, lower, upper, strict=True)
        sums = np.array([run.counts(starts, ends) for run, starts, ends in ranges]).cumsum(axis=0)
        none = np.zeros_like(sums[0])
        return np.array([sums[moment.runs - 1] if moment.runs else none for moment in self.moments])

    def _searched(self, targets: Numbers, lower: Index, upper: Index, side: Side) -> Index:
        ranges = zip(self.runs, lower, upper, strict=True)
        return np.array([run.search(targets, starts, ends, side) for run, starts, ends in ranges])


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Entries of several runs, group by group and by value; ``order`` is where each was before, one run after the other.

    ``begins`` is where those of each run began then, ``ends`` the last entry of each value of a group.
    """

    owner: Index
    values: Numbers
    counts: Ints
    order: Index
    begins: Index
    ends: Index

    @staticmethod
    def of(runs: Sequence[ValueRun], lower: Index, upper: Index) -> _Entries:
        """Return the entries in these ranges. Cost: one sort of them."""
        owners, values, counts = [], [], []
        for run, starts, stops in zip(runs, lower, upper, strict=True):
            places, owner = expand(starts, stops)
            owners.append(owner)
            values.append(run.values[places])
            counts.append(run.counts(places, places + 1))
        begins = running(np.array([*map(len, owners)], np.int64))
        owner, value = np.concatenate(owners), np.concatenate(values)
        order = sorted_by([owner.view(np.uint64), pl.Series(value)])
        owner, value = owner[order], value[order]
        is_last = np.ones(len(order), np.bool_)
        np.logical_or(owner[1:] != owner[:-1], are_unequal(value[1:], value[:-1]), out=is_last[:-1])
        return _Entries(owner, value, np.concatenate(counts)[order], order, begins, np.flatnonzero(is_last))

    def at(self, moment: Moment, below: Ints) -> Pair:
        """Return the values as of a moment, where ``below`` counts what is less than the first entry of each group."""
        counts, begins = self.counts, self.begins[moment.runs]
        if begins < len(self.order):
            counts = np.where(self.order < begins, counts, 0)
        sums, groups = running(counts), np.flatnonzero(moment.high >= 0)
        begun = sums[self.owner.searchsorted(groups)] - below[groups]
        # Diffs of one value add up to what there is of it at the last of its entries.
        until = sums[self.ends + 1]
        low, high = (
            self.values[self.ends[until.searchsorted(begun + rank[groups], side="right")]]
            for rank in (moment.low, moment.high)
        )
        return low, high


def counts_of(runs: Sequence[ValueRun], ranges: Sequence[tuple[Index, Index]], height: int) -> Ints:
    """Return the sums of the diffs of ranges over these runs, for each of ``height`` groups."""
    counts = np.zeros(height, np.int64)
    for run, (lower, upper) in zip(runs, ranges, strict=True):
        counts += run.counts(lower, upper)
    return counts


def running(times: Ints) -> Ints:
    """Return the sums of the numbers before each, and of all.

    >>> running(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    sums = np.zeros(len(times) + 1, np.int64)
    np.cumsum(times, out=sums[1:])
    return sums


def _bisected(is_before: Callable[[Index, Index], Mask], lower: Index, upper: Index) -> Index:
    """Return the first place of each range that is not before what is searched; those that are come first.

    ``is_before`` takes some places and the numbers of their ranges. Cost: the logarithm of the longest range, for each range.
    """
    lower, upper = lower.copy(), upper.copy()
    searched = np.flatnonzero(lower < upper)
    while len(searched):
        middle = (lower[searched] + upper[searched]) >> 1
        before = is_before(middle, searched)
        lower[searched[before]] = middle[before] + 1
        upper[searched[~before]] = middle[~before]
        searched = searched[lower[searched] < upper[searched]]
    return lower
