"""Aggregates that are the value at a rank among the values of a group: the median and quantiles.

If a batch is a large part of the rows, these are kept in one run, where the value at a rank is found by its place. Otherwise
entries near the rank are read of each run (``ranked_runs``), and only if rows may have negative counts all rows of the touched groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np
import polars as pl

from ...data.columns.dense import Places
from ...data.columns.directory import Deferred, places_of_distinct
from ...data.columns.kernels import Index, Ints, Keys, at, expand, is_ones
from ...data.columns.nulls import nulls_in
from ...data.columns.ordered_numbers import column_of_numbers
from ...data.columns.whole_columns import AnyColumn, least_and_greatest
from ...data.schema import DIFF
from ...state.lookup import KeyRows
from ...state.ranked_runs import Moment, ValueRuns, at_ranks, counts_of, running
from ...state.run import Run
from ...state.spine import Spine
from .accumulators import Sums
from .aggregate_contract import Change
from .aggregate_states import MOST_WRITTEN_OUT, RecomputedState, placed, require_few
from .aggregates import RecomputedAggregate
from .ranks import Ranks

MOST_KEYS = 1 << 20
"""The most keys whose values are kept for the next epoch, in up to 30 bytes each beside the rows."""

FEW_KEYS = 1 << 8
"""So many keys are read of several runs without merging them."""


class RankedState(RecomputedState):
    """The value at a rank of each group, over rows that have one column, of a type in ``RANKED``, and are in its order."""

    def __init__(
        self,
        aggregate: RecomputedAggregate,
        arrangement: Spine,
        *,
        keyless: bool,
        ranks: Ranks,
        may_go_below_zero: bool,
    ) -> None:
        super().__init__(aggregate, arrangement, keyless=keyless)
        (self._input,) = aggregate.inputs
        self._ranks = ranks
        self._may_go_below_zero = may_go_below_zero
        self._value_runs = ValueRuns(self._input)
        self._values_of_run: _RunValues | None = None
        """The values of all keys of the run after the last epoch, which is the one before the next."""

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``: for many keys all runs are merged, which is kept for whoever reads next."""
        spine = self._spine
        if len(keys) > FEW_KEYS or spine.version.merged or len(spine.runs) < 2:
            return self._of_run(spine.merged(), keys)
        results = self._of_several_runs(spine.runs, keys, [len(spine.runs)])
        return super().current(keys, sums) if results is None else results[0]

    def change(self, change: Change) -> AnyColumn:
        """See ``AggregateState``."""
        were, are = change.groups[: change.count_before], change.groups[change.count_before :]
        whole = self._spine.whole(change.keys)
        if whole is None:
            runs = self._spine.runs
            results = self._of_several_runs(
                (*runs, self._spine.delta), change.keys, [len(runs), len(runs) + 1]
            )
            if results is None:
                return super().change(change)
            return at(results[0], were).append(at(results[1], are))
        before, after = whole
        values = self._of_run(before, change.keys.take(were))
        self._values_of_run = self._of_all_keys(after)
        return values.append(self._of_run(after, change.keys.take(are)))

    def _of_several_runs(
        self, held: Sequence[Run], keys: Keys, counts_of_runs: Sequence[int]
    ) -> list[pl.Series] | None:
        """Return the results for these keys over so many of the runs, from the first on; the last one of these numbers is that of all.

        None if so many values have to be refused where they are read, or if counts of rows may be negative.
        """
        if self._may_go_below_zero:
            return None
        runs, ranges = self._value_runs.of(held), [run.find(keys) for run in held]
        firsts = [run.first_values(*each) for run, each in zip(runs, ranges, strict=True)]
        of_nulls = [(lower, first) for (lower, _), first in zip(ranges, firsts, strict=True)]
        of_values = [(first, upper) for (_, upper), first in zip(ranges, firsts, strict=True)]
        moments, counted = list[Moment](), list[tuple[Ints, Ints]]()
        for number in counts_of_runs:
            counts = counts_of(runs[:number], of_values[:number], len(keys))
            nulls = counts_of(runs[:number], of_nulls[:number], len(keys))
            if counts.sum(dtype=np.float64) + nulls.sum(dtype=np.float64) > MOST_WRITTEN_OUT:
                return None
            low, high = self._ranks.of(counts, nulls)
            moments.append(Moment(number, np.maximum(low, 0), np.where(counts > 0, high, -1)))
            counted.append((counts, nulls))
        pairs, read = at_ranks(runs, of_values, moments)
        self._spine.touched += read
        dtype = self._spine.layout.payload[self._input]
        return [
            self._results(column_of_numbers(low, dtype), column_of_numbers(high, dtype), *each)
            for (low, high), each in zip(pairs, counted, strict=True)
        ]

    def _of_run(self, run: Run, keys: Keys) -> pl.Series:
        of_run = self._values_of_run
        if of_run is not None and of_run.run() is run:
            places, owners = places_of_distinct(keys, of_run.keys, of_run.directory)
            return placed(at(of_run.values, places), owners, len(keys), self._of_nothing)
        return self._of_ranges(run.payload.get_column(self._input), _diffs(run), *run.find(keys))

    def _of_all_keys(self, run: Run) -> _RunValues | None:
        """Return the values of all keys of a run, for this epoch and the next one; None if these, or the rows, are too many."""
        diffs = _diffs(run)
        if int(_times(diffs).sum()) > MOST_WRITTEN_OUT:
            return None
        starts = run.starts()
        keys = run.keys.take(starts)
        if len(starts) > MOST_KEYS or (keys.first[1:] == keys.first[:-1]).any():
            return None
        ends = np.append(starts[1:], len(run))
        values = self._of_ranges(run.payload.get_column(self._input), diffs, starts, ends[: len(starts)])
        directory = Places.of(keys.first) or Deferred.of(keys.first, is_matched=False)
        return _RunValues(ref(run), keys, values, directory)

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        starts = np.searchsorted(rows.owners, np.arange(height + 1))
        return self._of_ranges(rows.payload.get_column(self._input), rows.diffs, starts[:-1], starts[1:])

    def _of_ranges(self, values: pl.Series, diffs: Ints, lower: Index, upper: Index) -> pl.Series:
        """Return the result of each group; its rows are those from one place to another, each as often as its diff."""
        ranges = _Ranges.of(values, diffs, lower, upper)
        groups = np.flatnonzero(ranges.counts)
        ranks = self._ranks.of(ranges.counts[groups], ranges.nulls[groups])
        low = at(values, ranges.places(groups, ranks[0]))
        high = at(values, ranges.places(groups, ranks[1])) if self._ranks.is_between else low
        return self._results(low, high, ranges.counts, ranges.nulls)

    def _results(self, low: pl.Series, high: pl.Series, counts: Ints, nulls: Ints) -> pl.Series:
        """Return the results of groups with so many values and nulls, of which those that have values have these at both ranks."""
        groups = np.flatnonzero(counts)
        result = self._ranks.values(low, high, counts[groups], nulls[groups])
        result = result.cast(self._aggregate.dtype).alias(self._aggregate.output)
        return placed(result, groups, len(counts), self._of_nothing)


def _diffs(run: Run) -> Ints:
    return run.sums.get(DIFF, np.zeros(len(run), np.int64))


def _times(diffs: Ints) -> Ints:
    """Return how often each row is a value: never where its diff is negative, and at most once more than what is refused."""
    least, greatest = least_and_greatest(diffs) if len(diffs) else (0, 0)
    if least >= 0 and greatest <= MOST_WRITTEN_OUT:
        return diffs
    return np.minimum(np.maximum(diffs, 0), MOST_WRITTEN_OUT + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _RunValues:
    """The value of each key of a run, whose first words are distinct."""

    run: ReferenceType[Run]
    keys: Keys
    values: pl.Series
    directory: Places | Deferred | None


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Rows in an order, of which each group has those from ``lower`` on, with ``counts`` values and ``nulls``.

    A row is one value, but for those of the groups in ``others``.
    """

    lower: Index
    counts: Ints
    nulls: Ints
    others: _CountedRows | None

    @staticmethod
    def of(values: pl.Series, diffs: Ints, lower: Index, upper: Index) -> _Ranges:
        """Return the ranges. Cost: the groups, and the rows of those that have a row that is not one value; a look at all diffs."""
        counts, nulls = upper - lower, np.zeros(len(lower), np.int64)
        odd = _rows_that_are_not_one_value(values, diffs)
        first = odd.searchsorted(lower)
        groups = (
            np.flatnonzero((first < len(odd)) & (odd.take(first, mode="clip") < upper)) if len(odd) else odd
        )
        if not len(groups):
            return _Ranges(lower, counts, nulls, None)
        numbers = np.full(len(lower), -1)
        numbers[groups] = np.arange(len(groups))
        others = _CountedRows.of(values, diffs, lower[groups], upper[groups], numbers)
        counts[groups], nulls[groups] = others.sums(others.ends), others.sums(others.null_ends)
        if float(counts.sum(dtype=np.float64)) + float(nulls.sum(dtype=np.float64)) > MOST_WRITTEN_OUT:
            require_few(np.maximum(diffs[expand(lower, upper)[0]], 0))
        return _Ranges(lower, counts, nulls, others)

    def places(self, groups: Index, ranks: Ints) -> Index:
        """Return the rows in which these groups have the values at these ranks."""
        places: Index = self.lower[groups] + ranks
        if self.others is not None:
            numbers = self.others.numbers[groups]
            here = np.flatnonzero(numbers >= 0)
            places[here] = self.others.places(numbers[here], ranks[here])
        return places


def _rows_that_are_not_one_value(values: pl.Series, diffs: Ints) -> Index:
    """Return the rows that are null, or there more than once, or not at all."""
    if values.has_nulls():
        return np.flatnonzero(nulls_in(values) | (diffs != 1))
    return np.zeros(0, np.intp) if is_ones(diffs) else np.flatnonzero(diffs != 1)


@dataclass(frozen=True, slots=True, eq=False)
class _CountedRows:
    """The ``rows`` of some groups, one group after the other from ``begins`` on, which are there as often as their diffs.

    ``ends`` counts the values before each row, and all, ``null_ends`` the nulls. ``numbers`` has the number here of each group
    of the ranges, -1 for one that is not here.
    """

    rows: Index
    begins: Index
    ends: Ints
    null_ends: Ints
    numbers: Index

    @staticmethod
    def of(values: pl.Series, diffs: Ints, lower: Index, upper: Index, numbers: Index) -> _CountedRows:
        """Return the rows of these ranges."""
        rows, _ = expand(lower, upper)
        times, begins = _times(diffs[rows]), running(upper - lower)
        is_null = nulls_in(at(values, rows)) if values.has_nulls() else np.zeros(len(rows), np.bool_)
        ends, null_ends = running(np.where(is_null, 0, times)), running(np.where(is_null, times, 0))
        return _CountedRows(rows, begins, ends, null_ends, numbers)

    def sums(self, ends: Ints) -> Ints:
        """Return the number of values or nulls of each group, of which these are the numbers before each row."""
        sums: Ints = ends[self.begins[1:]] - ends[self.begins[:-1]]
        return sums

    def places(self, groups: Index, ranks: Ints) -> Index:
        """Return the rows in which these groups have the values at these ranks."""
        begins = self.begins[groups]
        target_counts = self.ends[begins] + ranks
        # Most rows are one value.
        near = np.minimum(begins + ranks, len(self.rows) - 1)
        elsewhere = np.flatnonzero((self.ends[near] > target_counts) | (self.ends[near + 1] <= target_counts))
        near[elsewhere] = np.searchsorted(self.ends, target_counts[elsewhere], side="right") - 1
        places: Index = self.rows[near]
        return places
