"""The groups that an epoch changes: those that existed and those that exist, and which of them have the same row as before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..columns.comparisons import differ
from ..columns.kernels import Index, Ints, Keys, Mask, at
from ..columns.whole_columns import AnyColumn, IntColumn
from .aggregate_contract import Change, Sums


def change_of(keys: Keys, sums: tuple[Sums, Sums], existed: Mask, exists: Mask) -> Change:
    """Return the rows of the groups that existed, with their sums, and of those that exist, with theirs."""
    before, after = sums
    were, are = existed.nonzero()[0], exists.nonzero()[0]
    return Change(
        keys,
        np.concatenate((were, are)),
        len(were),
        {name: _taken(column, were) for name, column in before.items()},
        {name: _taken(column, are) for name, column in after.items()},
    )


def _taken(column: Ints, positions: Index) -> Ints:
    return column if len(positions) == len(column) else column[positions]


def unchanged(change: Change, columns: Sequence[AnyColumn]) -> Mask | None:
    """Return which rows exist before and after, equal in these columns; None if none do."""
    groups, count, groups_in_all = change.groups, change.count_before, len(change.keys.first)
    pairs: tuple[Index, Index] | None = None
    if not 2 * count == len(groups) == 2 * groups_in_all:
        place = np.full(groups_in_all, -1)
        place[groups[:count]] = np.arange(count)
        before = place[groups[count:]]
        after = np.flatnonzero(before >= 0)
        pairs = before[after], after + count
    for column in columns:
        if not (count if pairs is None else len(pairs[0])):
            return None
        equal = np.flatnonzero(~_differ(column, pairs, count))
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
