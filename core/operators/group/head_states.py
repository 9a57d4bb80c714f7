"""The state of an aggregate that shows a value of the first row of its group, kept beside the rows or in place of them."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...data.columns.kernels import Index, Keys, series_of
from ...data.columns.whole_columns import AnyColumn
from ...data.schema import DIFF
from ...state.lookup import KeyRows, first_rows, first_rows_after
from ...state.spine import Spine
from .accumulators import LENGTH, Sums
from .aggregate_contract import Change, FirstRows
from .aggregate_states import ReadAggregateState
from .heads import HeadOrder, Heads, earlier_of, first_of, is_before

GONE = "gone:"
"""The prefix of columns with the first of the retracted rows, in parts of a change that are combined later."""


class HeadState(ReadAggregateState):
    """Computes the value in the first row of each group from additive columns of the group.

    If no row is ever retracted, the arrangement holds only rows that an earlier version kept. With ``retracts`` it holds all
    rows, none with a negative count; it is read for groups of which a row is retracted that does not come after the first
    one. If an earlier version wrote the group and it has not been touched since, its first row is read there, too.
    """

    _count = 1

    def __init__(self, order: HeadOrder, arrangement: Spine, *, retracts: bool = False) -> None:
        self.order = order
        self._spine = arrangement
        self._retracts = retracts

    @property
    def first_rows(self) -> FirstRows:
        """Return itself."""
        return self

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``."""
        return series_of(self.order.shown(self.kept(keys, sums)))

    def change(self, change: Change) -> AnyColumn:
        """See ``AggregateState``."""
        if self._retracts or not self._spine.runs:
            return self.order.shown(self.order.kept(change.sums, len(change.groups)))
        both = [slice(0, change.count_before), slice(change.count_before, len(change.groups))]
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
        return self._with_stored(self.order.kept(sums, len(keys)), keys, sums)

    def _with_stored(self, heads: Heads, keys: Keys, sums: Sums) -> Heads:
        """Return the first rows of groups, those that only the arrangement has included."""
        if heads.has.all():
            return heads
        lacking = np.flatnonzero(~heads.has & (sums.get(LENGTH, np.zeros(len(keys), np.int64)) != 0))
        if not len(lacking) or not self._spine.runs:
            return heads
        stored = first_rows(self._spine, keys.take(lacking), 1)
        earlier = first_of(self.order.words(stored.payload), lacking[stored.owners], len(keys))
        return earlier_of(heads, earlier)

    def moved(self, rows: pl.DataFrame, groups: Index, keys: Keys, sums: Sums) -> tuple[Sums, Sums]:
        """Return the additions to the additive columns of groups that these rows cause; ``groups`` has the group of each row.

        ``sums`` are the additive columns of these groups before. Also return what these should have held, which differs if
        an earlier version kept the first row in the arrangement; otherwise nothing is returned for it.
        """
        from_sums = self.order.kept(sums, len(keys))
        heads = self._with_stored(from_sums, keys, sums)
        added, retracted = self._firsts(rows, groups, len(keys))
        first = earlier_of(added, heads)
        if retracted is not None:
            first = self._without(retracted, first, keys)
        now, nothing = self.order.sums(first), np.zeros(len(keys), np.int64)
        moved = {name: column - sums.get(name, nothing) for name, column in now.items()}
        return moved, self.order.sums(heads) if (from_sums.has != heads.has).any() else {}

    def columns_of(self, rows: pl.DataFrame, groups: Index, count: int) -> list[pl.Series]:
        """Return the first rows of groups among these rows as columns, for parts of a change that are combined later."""
        added, retracted = self._firsts(rows, groups, count)
        columns = self.order.columns_of(added)
        if not self._retracts:
            return columns
        gone = self.order.none(count) if retracted is None else retracted
        return [*columns, *(column.alias(GONE + column.name) for column in self.order.columns_of(gone))]

    def _firsts(self, rows: pl.DataFrame, groups: Index, count: int) -> tuple[Heads, Heads | None]:
        """Return the first of the added rows of each group, and of the retracted ones; the rows may have been combined before."""
        if self.order.names[0] in rows.columns:
            added = self.order.first_of_parts(rows, groups, count)
            return added, self.order.first_of_parts(rows, groups, count, GONE) if self._retracts else None
        if not self._retracts:
            return self.order.first(rows, groups, count), None
        diffs = rows.get_column(DIFF).to_numpy()
        if (diffs > 0).all():
            return self.order.first(rows, groups, count), None
        return self.order.first_of_changes(rows, diffs, groups, count)

    def _without(self, retracted: Heads, first: Heads, keys: Keys) -> Heads:
        """Return the first rows, given the first of the retracted ones: they are read where one of these does not come later.

        As no count is negative, any other first row is still there: its group has it, or it is new and nothing retracts it.
        """
        chosen = np.flatnonzero(retracted.has & ~(first.has & is_before(first, retracted)))
        if not len(chosen):
            return first
        after = first_rows_after(self._spine, keys.take(chosen), 1)
        return first.replaced(chosen, first_of(self.order.words(after.payload), after.owners, len(chosen)))

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        raise AssertionError("values are computed from additive columns")
