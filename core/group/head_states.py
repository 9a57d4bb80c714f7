"""The state of an aggregate that shows a value of the first row of its group, if no row is ever retracted."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..columns.kernels import Index, Keys
from ..state.lookup import Found, first_rows
from ..state.spine import Spine
from .accumulators import LENGTH, Sums
from .aggregate_states import Change, ReadAggregateState
from .heads import HeadOrder, Heads, earlier_of, first_of


class HeadState(ReadAggregateState):
    """Computes the value in the first row of each group from additive columns of the group.

    The arrangement holds only rows that an earlier version kept. If a group has not been touched since, its first row is
    read there.
    """

    _count = 1

    def __init__(self, order: HeadOrder, arrangement: Spine) -> None:
        self.order = order
        self._spine = arrangement

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``."""
        return self.order.shown(self.kept(keys, sums))

    def change(self, change: Change) -> pl.Series:
        """See ``AggregateState``."""
        if not self._spine.runs:
            return self.order.shown(self.order.kept(change.sums, len(change)))
        both = [slice(0, change.count_before), slice(change.count_before, len(change))]
        parts = [
            self.current(
                change.keys.take(change.groups[part]),
                {name: column[part] for name, column in change.sums.items()},
            )
            for part in both
        ]
        return parts[0].append(parts[1])

    def kept(self, keys: Keys, sums: Sums) -> Heads:
        """Return the first rows of these groups, whose additive columns are given, as of the last commit."""
        heads = self.order.kept(sums, len(keys))
        if not self._spine.runs:
            return heads
        lacking = np.flatnonzero(~heads.has & (sums.get(LENGTH, np.zeros(len(keys), np.int64)) != 0))
        found = first_rows(self._spine, keys.take(lacking), 1)
        earlier = first_of(self.order.words(found.payload), lacking[found.owners], len(keys))
        return earlier_of(heads, earlier)

    def moved(self, new: Heads, keys: Keys, sums: Sums) -> tuple[Sums, Sums]:
        """Return the additions to the additive columns of groups, given the first of the new rows of each group.

        ``sums`` are the additive columns of these groups before. Also return what these should have held, which differs if
        an earlier version kept the first row in the arrangement; without such rows nothing is returned for it.
        """
        kept = self.kept(keys, sums)
        now, nothing = self.order.sums(earlier_of(new, kept)), np.zeros(len(keys), np.int64)
        added = {name: column - sums.get(name, nothing) for name, column in now.items()}
        return added, self.order.sums(kept) if self._spine.runs else {}

    def first(self, rows: pl.DataFrame, groups: Index, count: int) -> Heads:
        """Return the first of these rows in each group; the rows may have been combined before."""
        if self.order.names[0] in rows.columns:
            return self.order.first_of_parts(rows, groups, count)
        return self.order.first(rows, groups, count)

    def _values(self, found: Found, height: int) -> pl.Series:
        raise AssertionError("values are computed from additive columns")
