"""The rows of sessions, so that they can be found again by cell when a session's start moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.clock import Epoch
from ...data.columns.grouping import group
from ...data.columns.kernels import (
    Index,
    Ints,
    Keys,
    Mask,
    Words,
    expand,
    frame_of,
    gather,
    key_words,
    physical,
    stack,
)
from ...data.schema import DIFF
from ...state.negative_counts import retracted_entries
from ...state.partitioning import Route
from ...state.run import Layout, Run, make_run
from ...state.spine import Spine

LOW = np.uint64(2**32 - 1)
"""The half of a first word that distinguishes rows of a cell; the other half is the cell's."""


@dataclass(frozen=True, slots=True, eq=False)
class CellEntries:
    """Entries of some cells: the position of the cell among those looked up, the entry's words, row and diff."""

    owners: Index
    words: Keys
    rows: pl.DataFrame
    diffs: Ints

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, index: Index) -> CellEntries:
        """Return these entries."""
        return CellEntries(
            self.owners[index], self.words.take(index), gather(self.rows, index), self.diffs[index]
        )


class RowState:
    """Rows by cell, an entry for each, without an order, as all rows of a cell move together.

        words of a row = (upper half of the cell's first word and half a word of the row's own, a word of the row's own)

    With ``retractable`` rows, equal ones have equal words, made of all their columns; else every row that
    comes has words of its own, made of epoch and position. Cells that share the upper half of a word are distinguished by
    their rows.
    """

    def __init__(
        self, schema: pl.Schema, keys: Sequence[str], time: str, gap: int, *, retractable: bool
    ) -> None:
        self.spine = Spine(Layout(schema), Route("columns", tuple(keys)))
        self._keys = tuple(keys)
        self._time = time
        self._gap = gap
        self._retractable = retractable

    def run(self, epoch: Epoch, cells: Words, rows: pl.DataFrame, diffs: Ints) -> Run:
        """Return the run that adds these rows; ``cells`` are the first words of their cells."""
        if self._retractable:
            words = key_words(rows.get_columns(), len(diffs))
            low, second = words.first >> np.uint64(32), words.first if words.second is None else words.second
        else:
            second = np.arange(len(diffs), dtype=np.uint64) | np.uint64(int(epoch) << 32)
            # Later rows come after earlier ones, which saves merges a sort, until epoch numbers wrap.
            low = (second & np.uint64(2**20 - 1)) | np.uint64((int(epoch) & (2**12 - 1)) << 20)
        return make_run(self.spine.layout, Keys((cells & ~LOW) | low, second), rows, {DIFF: diffs})

    def read(
        self, cells: Words, keys: Keys, number: Ints, runs: Sequence[Run], *, whole: bool = True
    ) -> CellEntries:
        """Return all entries of these cells, which have these first words and belong to these keys, in these runs.

        If not ``whole``, only with the columns of key and time. Cost: the entries of these cells.
        """
        names = [*self.spine.layout.payload] if whole else [*self._keys, self._time]
        owners, words, rows, diffs = [], [], [], []
        lower, upper = np.empty(len(cells), np.intp), np.empty(len(cells), np.intp)
        # Words that ascend are found in a third of the time.
        order = cells.argsort()
        least = (cells & ~LOW).take(order)
        for run in runs:
            if not len(run):
                continue
            lower[order], upper[order] = run.within(least, least | LOW)
            positions, owner = expand(lower, upper)
            if len(positions):
                payload = run.payload if whole else frame_of([run.payload.get_column(name) for name in names])
                owners.append(owner)
                words.append(run.keys.take(positions))
                rows.append(gather(payload, positions))
                diffs.append(run.sums[DIFF][positions])
        if not owners:
            nothing = pl.DataFrame(schema={name: self.spine.layout.payload[name] for name in names})
            return CellEntries(
                np.zeros(0, np.intp), Keys(np.zeros(0, np.uint64)), nothing, np.zeros(0, np.int64)
            )
        self.spine.touched += sum(map(len, owners))
        entries = CellEntries(np.concatenate(owners), Keys.concat(words), stack(rows), np.concatenate(diffs))
        is_of_session = self._is_of(entries, keys, number)
        return entries if is_of_session.all() else entries.take(np.flatnonzero(is_of_session))

    def present(self, entries: CellEntries) -> CellEntries:
        """Return the present rows, each once: entries of several runs are added up."""
        if (entries.diffs > 0).all():
            return entries
        groups = group(entries.words)
        totals = groups.sums(entries.diffs)
        there = np.flatnonzero(totals)
        rows = entries.take(groups.first_entries[there])
        return CellEntries(rows.owners, rows.words, rows.rows, totals[there])

    def counts_of_retracted(self, added: Run) -> tuple[pl.DataFrame, Ints]:
        """Return the rows that this run retracts, and their counts after it. Cost: a look-up of each."""
        entries, counts = retracted_entries(added)
        if len(entries):
            counts = counts + self.spine.totals(added.keys.take(entries)).get(DIFF, 0)
        return gather(added.payload, entries), counts

    def instants(self, entries: CellEntries) -> Ints:
        """Return the event times of these rows."""
        return physical(entries.rows.get_column(self._time))

    def purge(self, entries: CellEntries) -> Run:
        """Return the run that purges these entries."""
        return make_run(self.spine.layout, entries.words, entries.rows, {DIFF: -entries.diffs})

    def _is_of(self, entries: CellEntries, keys: Keys, number: Ints) -> Mask:
        """Return which entries belong to the cell that was looked up, and not to one that shares its upper half."""
        owners = entries.owners
        words = key_words([entries.rows.get_column(name) for name in self._keys], len(entries))
        is_of_session: Mask = words.first == keys.first[owners]
        if words.second is not None or keys.second is not None:
            is_of_session &= words.seconds() == keys.seconds()[owners]
        is_of_session &= self.instants(entries) // self._gap == number[owners]
        return is_of_session
