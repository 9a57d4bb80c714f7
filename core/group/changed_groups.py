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
    nothing = np.zeros(len(existed), np.int64)
    both = {
        name: np.concatenate((_taken(before.get(name, nothing), were), _taken(column, are)))
        for name, column in after.items()
    }
    return Change(keys, np.concatenate((were, are)), len(were), both)


def _taken(column: Ints, positions: Index) -> Ints:
    return column if len(positions) == len(column) else column[positions]


def unchanged(change: Change, columns: Sequence[AnyColumn]) -> Mask | None:
    """Return which rows exist before and after, equal in these columns; None if none do."""
    groups, count, groups_in_all = change.groups, change.count_before, len(change.keys.first)
    if 2 * count == len(groups) == 2 * groups_in_all:
        before, after = np.arange(count), np.arange(count, len(groups))
    else:
        place = np.full(groups_in_all, -1)
        place[groups[:count]] = np.arange(count)
        before = place[groups[count:]]
        after = np.flatnonzero(before >= 0)
        before, after = before[after], after + count
    for column in columns:
        if not len(after):
            return None
        if isinstance(column, IntColumn):
            is_equal = column.values[before] == column.values[after]
        else:
            is_equal = ~differ(at(column, before), at(column, after))
        equal = is_equal.nonzero()[0]
        before, after = before[equal], after[equal]
    if not len(after):
        return None
    same = np.zeros(len(groups), np.bool_)
    same[before] = same[after] = True
    return same
