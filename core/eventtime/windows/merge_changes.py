"""The changes of merging windows in an epoch, from the rows of the touched keys before it and after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from ...data.columns.kernels import Index, Ints, Mask, gather
from ...data.columns.sorting import SIGN, sorted_by
from ...data.delta import Delta
from ...state.lookup import KeyRows
from ...state.partitioning import KeyColumns
from ..triggers.firing import Moves
from .row_windows import bounds_of

NO_WINDOW = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class MergedRows:
    """The rows of some keys at one moment, and for each of them the bounds of the merged window that it is in."""

    rows: KeyRows
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, entries: Index) -> KeyRows:
        """Return these rows."""
        rows = self.rows
        return KeyRows(rows.owners[entries], gather(rows.payload, entries), rows.diffs[entries])


@dataclass(frozen=True, slots=True, eq=False)
class OwnWindows:
    """The windows of rows before others are looked at, at one moment: whether each has rows, and what it is merged into."""

    exists: Mask
    start: Ints
    end: Ints

    @staticmethod
    def of(moment: MergedRows, numbers: Index, count: int) -> OwnWindows:
        """Return ``count`` own windows, given the number of that of each row."""
        exists, start, end = np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64)
        exists[numbers], start[numbers], end[numbers] = True, moment.starts, moment.ends
        return OwnWindows(exists, start, end)


@dataclass(frozen=True, eq=False)
class MergeChanges:
    """The own windows of the touched keys before and after an epoch, and the changes of merged windows that follow.

    Own windows ascend by key, start and end. ``keys`` has a row for each key, ``owners`` the place of that of each own
    window, and ``keeps`` whether rows from before the epoch are still in it. ``came`` has the own window of each row
    that came or went, ``moved_rows`` the positions of earlier rows whose merged window has another start now, and
    ``moved`` their own windows. ``goes`` is whether any row went. ``ids`` are the columns that identify a merged window: those of the key, and last its start.
    """

    keys: pl.DataFrame
    ids: pl.Schema
    owners: Index
    was: OwnWindows
    now: OwnWindows
    keeps: Mask
    came: Index
    moved_rows: Index
    moved: Index
    goes: bool

    @staticmethod
    def of(
        before: MergedRows, after: MergedRows, change: KeyRows, keys: pl.DataFrame, ids: pl.Schema
    ) -> MergeChanges:
        """Return the changes between two moments; ``change`` are the rows that came or went, in any order."""
        sides = [(rows.owners, *bounds_of(rows)) for rows in (before.rows, after.rows, change)]
        owners, *bounds = (np.concatenate(columns) for columns in zip(*sides, strict=True))
        numbers, first = numbered(owners, *bounds)
        count = len(first)
        in_before, in_after, came = np.split(numbers, np.cumsum([len(before), len(after)]))
        was, now = OwnWindows.of(before, in_before, count), OwnWindows.of(after, in_after, count)
        kept_rows = np.zeros(count, np.int64)
        np.add.at(kept_rows, in_before, before.rows.diffs)
        np.add.at(kept_rows, came, np.minimum(change.diffs, 0))
        moves = was.exists & now.exists & (was.start != now.start)
        goes = bool((change.diffs < 0).any())
        moved_rows = np.flatnonzero(moves[in_before])
        moved = in_before[moved_rows]
        return MergeChanges(keys, ids, owners[first], was, now, kept_rows > 0, came, moved_rows, moved, goes)

    @property
    def arrivals(self) -> int:
        """The number of leading entries of the output that came or went in this epoch; the others have moved."""
        return len(self.came)

    @property
    def instants(self) -> Ints:
        """The numbers of the own windows of the rows that are emitted, by which equal rows of different ones differ."""
        return np.concatenate([self.came, self.moved, self.moved])

    @property
    def starts(self) -> tuple[Ints, Ints, Ints]:
        """Return the starts of the merged windows of the rows that came or went, and of those that moved, before and after."""
        came, moved = self.came, self.moved
        present = np.where(self.now.exists, self.now.start, self.was.start)
        return present[came], self.was.start[moved], self.now.start[moved]

    @cached_property
    def moves(self) -> Moves | None:
        """Return the windows that merged into others in this epoch; None if there are none.

        A window whose start is still that of a window is that one. Any other went where the earliest of its rows
        went that are left.
        """
        windows, heirs = self._merged, self._heirs
        went = np.flatnonzero((heirs != windows.starts) & (heirs != NO_WINDOW))
        if not len(went):
            return None
        owners, new = windows.owners[went], heirs[went]
        words = KeyColumns.of(tuple(self.ids), tuple(self.ids)[:-1]).words
        return Moves(words(self._windows(owners, windows.starts[went])), words(self._windows(owners, new)))

    @cached_property
    def left(self) -> Mask:
        """Return which of the earlier rows that moved are not where most of their window is now, since it was split."""
        windows, heirs = self._merged, self._heirs
        heir = np.zeros(len(self.owners), np.int64)
        heir[windows.was_own] = heirs[windows.was_number]
        left: Mask = (self.keeps & (self.now.start != heir))[self.moved]
        return left

    @cached_property
    def may_split(self) -> bool:
        """Whether rows went, or a window was split."""
        return self.goes or bool(self.left.any())

    def ends(self) -> Delta:
        """Return how far the end of each window moved, in microseconds, counted from 0 for a new one and to 0 for a removed one."""
        windows = self._merged
        before, after = np.zeros(windows.count, np.int64), np.zeros(windows.count, np.int64)
        before[windows.was_number] = self.was.end[windows.was_own]
        after[windows.now_number] = self.now.end[windows.now_own]
        turned = np.flatnonzero(before != after)
        if not len(turned):
            return Delta.empty(self.ids)
        ids = self._windows(windows.owners[turned], windows.starts[turned])
        return Delta.of(ids, (after - before)[turned])

    @cached_property
    def _heirs(self) -> Ints:
        """Return the start of the window that each merged window is now; ``NO_WINDOW`` if none of its rows are left."""
        windows = self._merged
        first = np.full(windows.count, NO_WINDOW)
        occupied = np.flatnonzero((self.now.exists & self.keeps)[windows.was_own])
        np.minimum.at(first, windows.was_number[occupied], windows.was_own[occupied])
        has_rows = np.flatnonzero(first != NO_WINDOW)
        heirs = first.copy()
        heirs[has_rows] = self.now.start[first[has_rows]]
        heirs[windows.now_number] = windows.starts[windows.now_number]
        return heirs

    @cached_property
    def _merged(self) -> _MergedWindows:
        was, now = np.flatnonzero(self.was.exists), np.flatnonzero(self.now.exists)
        owners = np.concatenate([self.owners[was], self.owners[now]])
        starts = np.concatenate([self.was.start[was], self.now.start[now]])
        numbers, first = numbered(owners, starts)
        return _MergedWindows(
            owners[first], starts[first], was, numbers[: len(was)], now, numbers[len(was) :]
        )

    def _windows(self, owners: Index, starts: Ints) -> pl.DataFrame:
        """Return merged windows, given by the places of their keys and their starts, as the columns that identify them."""
        *names, start = self.ids
        key_columns = gather(self.keys, owners).get_columns() if names else []
        return pl.DataFrame([*key_columns, pl.Series(start, starts).cast(self.ids[start])])


@dataclass(frozen=True, slots=True, eq=False)
class _MergedWindows:
    """The merged windows before and after an epoch, each once, and the own windows that are in them."""

    owners: Index
    starts: Ints
    was_own: Index
    was_number: Index
    now_own: Index
    now_number: Index

    @property
    def count(self) -> int:
        return len(self.owners)


def numbered(*columns: Ints | Index) -> tuple[Index, Index]:
    """Return the number of each entry among the different ones in ascending order, and an entry of each number."""
    order = sorted_by([column.view(np.uint64) ^ SIGN for column in columns])
    differs = np.zeros(len(order), np.bool_)
    differs[:1] = True
    for column in columns:
        ordered = column[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(len(order), np.intp)
    numbers[order] = np.cumsum(differs) - 1
    return numbers, order[differs]
