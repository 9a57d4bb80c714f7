"""The rows of groups: which groups exist, their keys and aggregates, and the difference that an epoch makes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from ...data.columns.comparisons import differ
from ...data.columns.kernels import Index, Ints, Keys, Mask, at, column_of_words, gather, is_one_word
from ...data.columns.whole_columns import AnyColumn, IntColumn
from ...data.delta import Delta
from ...state.run import Run
from .accumulators import LENGTH
from .aggregate_contract import AggregateState, Change, Sums
from .group_spec import Finishing, GroupSpec
from .kept_results import Before, KeptResults


class GroupRows:
    """The rows of the groups of an operator, made of key words and additive columns.

    ``discarding``: groups exist while any sum is not zero. ``has_first_row``: the only group exists also without rows.
    """

    def __init__(
        self, spec: GroupSpec, parts: Sequence[AggregateState], *, discarding: bool, has_first_row: bool
    ) -> None:
        self.kept_results = KeptResults(parts)
        self.finished_by_copy = all(column.copies is not None for column in spec.finished)
        self._spec = spec
        self._aggregates = tuple(zip(parts, spec.aggregates, strict=True))
        self._finishing = Finishing(spec)
        self._discarding = discarding
        self._has_first_row = has_first_row
        self._one_word = is_one_word(list(spec.keys.values()))

    def exist(self, sums: Sums, height: int) -> Mask:
        """Return which of ``height`` groups with these additive columns exist."""
        if self._has_first_row:
            return np.ones(height, np.bool_)
        if self._discarding:
            changed = np.zeros(height, np.bool_)
            for column in sums.values():
                changed |= column != 0
            return changed
        lengths = sums.get(LENGTH)
        return np.zeros(height, np.bool_) if lengths is None else lengths != 0

    def keys(
        self, keys: Keys, places: Index | None, payload: Callable[[], pl.DataFrame]
    ) -> Sequence[AnyColumn]:
        """Return the key columns of groups, or of those at some places: from their words or, where these are a hash, ``payload``."""
        if self._one_word:
            ((name, dtype),) = self._spec.keys.items()
            return [column_of_words(keys if places is None else keys.take(places), name, dtype)]
        return payload().get_columns() if self._spec.keys else []

    def aggregates(self, change: Change, previous: Before | None = None) -> list[AnyColumn]:
        """Return the aggregates of each row of a change; those of groups before it may be kept."""
        values: list[AnyColumn] = []
        for number, (part, aggregate) in enumerate(self._aggregates):
            try:
                results = None if previous is None else self.kept_results.changed(number, change, previous)
                values.append(part.change(change) if results is None else results)
            except (Exception, pl.exceptions.PanicException) as error:
                raise self._spec.error_of(aggregate, error) from error
        return values

    def finished(
        self, keys: Sequence[AnyColumn], values: Sequence[AnyColumn], height: int
    ) -> list[AnyColumn]:
        """Return the output columns: keys, and the columns computed from the aggregates."""
        if not self.finished_by_copy:
            return [*keys, *self._finishing.computed([*keys, *values], height)]
        by_name = {column.name: column for column in values}
        finished = [*keys]
        for column in self._spec.finished:
            copied, name = by_name[column.copies or ""], column.name
            finished.append(
                IntColumn(name, copied.values) if isinstance(copied, IntColumn) else copied.alias(name)
            )
        return finished

    def difference(
        self,
        keys: Keys,
        names: pl.DataFrame,
        sums: tuple[Sums, Sums],
        *,
        is_first: bool,
        previous: Before | None,
        staged: Run | None,
    ) -> Delta:
        """Return minus the rows of groups before an epoch, plus those after it, where they exist and differ.

        ``names`` are the key columns where words are a hash, ``sums`` the additive columns before and after. If it is the first
        epoch, no group existed before. Kept results are those of ``previous``, and then those of the run that is ``staged``.
        """
        size = len(keys.first)
        existed = np.zeros(size, np.bool_) if is_first else self.exist(sums[0], size)
        exist = self.exist(sums[1], size)
        change = change_of(keys, sums, existed, exist)
        names_of_rows = self.keys(keys, change.groups, lambda: gather(names, change.groups))
        results = self.aggregates(change, previous)
        if self.kept_results.keeps_any:
            self.kept_results.keep(staged, change, results, previous)
        columns = self.finished(names_of_rows, results, len(change.groups))
        same = unchanged(change, columns[len(names_of_rows) :])
        signs = np.ones(len(change.groups), np.int64)
        signs[: change.count_before] = -1
        rows = Delta.of_columns(columns, signs, is_consolidated=True)
        return rows if same is None else rows.take((~same).nonzero()[0])


def change_of(keys: Keys, sums: tuple[Sums, Sums], existed: Mask, exist: Mask) -> Change:
    """Return the rows of the groups that existed, with their sums, and of those that exist, with theirs."""
    before, after = sums
    were, are = existed.nonzero()[0], exist.nonzero()[0]
    nothing = np.zeros(len(were), np.int64)
    of_rows = {
        name: np.concatenate((_taken(before[name], were) if name in before else nothing, _taken(column, are)))
        for name, column in after.items()
    }
    return Change(keys, np.concatenate((were, are)), len(were), of_rows)


def _taken(column: Ints, positions: Index) -> Ints:
    return column if len(positions) == len(column) else column.take(positions)


def unchanged(change: Change, columns: Sequence[AnyColumn]) -> Mask | None:
    """Return which rows exist before and after, equal in these columns; None if none do."""
    groups, count, groups_in_all = change.groups, change.count_before, len(change.keys.first)
    pairs: tuple[Index, Index] | None = None
    if not 2 * count == len(groups) == 2 * groups_in_all:
        place = np.full(groups_in_all, -1)
        place[groups[:count]] = np.arange(count)
        before = place[groups[count:]]
        after = (before >= 0).nonzero()[0]
        pairs = before[after], after + count
    for column in columns:
        if not (count if pairs is None else len(pairs[0])):
            return None
        equal = (~_differ(column, pairs, count)).nonzero()[0]
        pairs = (equal, equal + count) if pairs is None else (pairs[0][equal], pairs[1][equal])
    if pairs is None:
        pairs = np.arange(count), np.arange(count, len(groups))
    if not len(pairs[0]):
        return None
    same = np.zeros(len(groups), np.bool_)
    same[pairs[0]] = same[pairs[1]] = True
    return same


def _differ(column: AnyColumn, pairs: tuple[Index, Index] | None, count: int) -> Mask:
    """Return where the rows of these pairs differ in a column; without pairs, the first rows and the others, of which there are as many."""
    if isinstance(column, IntColumn):
        values = column.values
        one, other = (values[:count], values[count:]) if pairs is None else (values[part] for part in pairs)
        unequal: Mask = one != other
        return unequal
    if pairs is None:
        return differ(column.slice(0, count), column.slice(count))
    return differ(at(column, pairs[0]), at(column, pairs[1]))
