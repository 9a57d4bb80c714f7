"""Upserts by sequence: the row with the greatest sequence is kept for each key, whatever the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.grouping import Groups, boundaries, group
from ..data.columns.kernels import Index, Ints, Keys, Mask, gather, keep, key_words, stack, with_plain_zeros
from ..data.columns.whole_columns import ones
from ..data.delta import Delta
from ..data.schema import DIFF, Order, with_diff
from ..data.tags import tagged
from ..state.lookup import first_rows
from ..state.operator_contract import KeyedOperator
from ..state.partitioning import KeyColumns
from ..state.protocol import State
from ..state.run import Layout, Run, make_run, run_of_groups, run_of_rows
from ..state.spine import Spine

STOOD, SUPERSEDED = "stood", "superseded"
"""Additive columns: the mark of the row kept for a key before this epoch; the count of rows superseded on arrival."""


@tagged("core.operators.sequenced:SequencedUpsert")
class SequencedUpsert(KeyedOperator):
    """Rows replace the row of their key if their sequence is greater; a row with diff -1 deletes what is older.

    The change kept for a key is the greatest of all that have come for it, so it does not depend on their order or
    their batches. Of equal sequences a deletion wins over rows, and of rows the first by their columns. A change
    that is not kept is not an error: it is counted (``superseded``) and not entered in the ledger.

    State: the row of each key, or its deletion (``deletions``), without which an older row that comes later would count as
    a new one. So the key and the sequence of a deleted row are kept.
    Cost: the delta.
    """

    role = "rows"
    other_roles = ("deletions", "counts of superseded rows")

    def __init__(self, schema: pl.Schema, keys: Sequence[str], sequence: Sequence[str]) -> None:
        super().__init__(schema, KeyColumns.of(keys))
        self.spine = Spine(Layout(schema, by_row=True))
        marks = pl.Schema({name: schema[name] for name in (*keys, *sequence)})
        self.deletions = Spine(Layout(marks, by_row=True))
        self.superseded = Spine(Layout())
        newest = (*(Order(name, descending=True) for name in sequence), Order(DIFF))
        self._contest = Layout(with_diff(schema), by_row=True, order=newest)
        self._nothing = Delta.empty(schema)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        return [self.spine, self.deletions, self.superseded]

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return minus the rows kept before, plus those kept now."""
        (delta,) = deltas
        if not len(delta):
            return self._nothing
        groups = group(self._keys.words_of(delta))
        before, owners = self._standing(groups.keys)
        contest = self._contested(delta, groups, before, owners)
        first = boundaries(contest.keys)
        stood = contest.sums.get(STOOD, np.zeros(len(contest), np.int64))[first] > 0
        self._count(groups, groups.sums(ones(len(delta))), ~stood)
        gone, come = keep(before, ~stood[owners]), gather(contest.payload, first[~stood])
        self._stage(self.deletions, keep(gone, _are_deletions(gone)), keep(come, _are_deletions(come)))
        change = self._stage(self.spine, keep(gone, ~_are_deletions(gone)), keep(come, ~_are_deletions(come)))
        return Delta(change, is_consolidated=True)

    def _standing(self, keys: Keys) -> tuple[pl.DataFrame, Index]:
        """Return the kept changes of keys, rows with diff 1 and deletions with diff -1, and the position of each one's key."""
        rows, deletions = first_rows(self.spine, keys, 1), first_rows(self.deletions, keys, 1)
        standing = stack([_changes(rows.payload, 1), self._deletions(_changes(deletions.payload, -1))])
        return standing, np.concatenate((rows.owners, deletions.owners))

    def _deletions(self, marks: pl.DataFrame) -> pl.DataFrame:
        """Return deletions with the columns of rows: key and sequence are set, the others null."""
        of = self.deletions.layout.payload
        columns = [
            marks.get_column(name)
            if name in of
            else pl.Series(name, [None], dtype).new_from_index(0, marks.height)
            for name, dtype in self.schema.items()
        ]
        return pl.DataFrame([*columns, marks.get_column(DIFF)])

    def _contested(self, delta: Delta, groups: Groups, before: pl.DataFrame, owners: Index) -> Run:
        """Return the earlier and the new changes of each key, by its number, the one to be kept first."""
        come = pl.DataFrame([with_plain_zeros(column) for column in delta.frame.get_columns()])
        deletes = _are_deletions(come)
        numbers = groups.numbers
        parts, numbered = [before, come], [owners, numbers]
        if deletes.any():
            parts[1:] = [keep(come, ~deletes), self._deletions(keep(come, deletes))]
            numbered[1:] = [numbers[~deletes], numbers[deletes]]
        changes = stack(parts)
        stood = np.zeros(changes.height, np.int64)
        stood[: before.height] = 1
        rows = key_words(changes.get_columns(), changes.height)
        sums = {DIFF: np.ones(changes.height, np.int64), STOOD: stood}
        return make_run(self._contest, Keys(np.concatenate(numbered).astype(np.uint64)), changes, sums, rows)

    def _count(self, groups: Groups, changes: Ints, is_new: Mask) -> None:
        """Stage the number of superseded changes of each key, given how many it has."""
        lost = changes - is_new
        if lost.any():
            self.superseded.stage(run_of_groups(groups, pl.DataFrame(), {SUPERSEDED: lost}))

    def _stage(self, spine: Spine, gone: pl.DataFrame, come: pl.DataFrame) -> pl.DataFrame:
        """Stage removed and added entries, and return them with their diffs."""
        entries = stack([_changes(gone, -1), _changes(come, 1)])
        if entries.height:
            spine.stage(run_of_rows(spine.layout, self._keys, entries))
        return entries


def _are_deletions(changes: pl.DataFrame) -> Mask:
    deletions: Mask = changes.get_column(DIFF).to_numpy() < 0
    return deletions


def _changes(rows: pl.DataFrame, diff: int) -> pl.DataFrame:
    """Return the rows, all with this diff."""
    columns = [column for column in rows.get_columns() if column.name != DIFF]
    return pl.DataFrame([*columns, pl.Series(DIFF, [diff], pl.Int64).new_from_index(0, rows.height)])
