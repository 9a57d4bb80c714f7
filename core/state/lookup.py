"""The rows of some keys are read from several runs at once: all of them in order, or the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..data.columns.kernels import Index, Ints, Keys, expand, gather, stack
from ..data.schema import DIFF, empty_frame
from .key_rows import KeyRows as KeyRows
from .leading_rows import leading_change, leading_rows
from .near import count_reads, near
from .run import Layout, Run, equal_entries
from .run_merge import words_of_parts
from .spine import Spine

CUT, CUT_AFTER = "cut", "cut after"
"""Additive columns: they mark the last entry read of a run that has more of this key: a committed run, or the delta."""

BEFORE = "before"
"""Additive column: the diff as of the last commit."""


def all_rows(spine: Spine, keys: Keys) -> KeyRows:
    """Return all rows of these keys with positive diffs. Cost: the entries of these keys, sorted."""
    return _all(spine, keys, None, (DIFF,))[0]


def first_rows(spine: Spine, keys: Keys, count: int) -> KeyRows:
    """Return the first ``count`` rows of each of these keys, a row with diff n being n rows; the last may be cut.

    Of every run only the leading entries of a key are read, and more of them (four times as many) only while
    retractions leave too few: cost follows ``count`` and the retractions at the head, not the group. Of a spine that has
    no other rows, one entry of every run is read. Cost: none if the same was looked up last since the state changed, as it is
    by the operator that stages first rows before those that read them.
    """
    last = spine.looked_up
    if last is not None and last[0] == count and _are_same(last[1], keys):
        return last[2]
    if count == 1 and spine.keeps_first:
        rows = leading_rows(spine, keys)
    else:
        (rows,) = _first(spine, keys, count, None, (DIFF,))
    spine.looked_up = count, keys, rows
    return rows


def _are_same(ones: Keys, others: Keys) -> bool:
    return (
        len(ones) == len(others)
        and np.array_equal(ones.first, others.first)
        and np.array_equal(ones.seconds(), others.seconds())
    )


def rows_change(
    spine: Spine, keys: Keys, count: int | None, change: Run | None = None
) -> tuple[KeyRows, KeyRows]:
    """Return the ``first_rows`` of these keys, or without ``count`` all rows, before this epoch, and after it.

    ``change`` takes the place of what the epoch has staged.
    """
    delta = spine.delta if change is None else change
    moments = (BEFORE, DIFF)
    if count == 1 and spine.keeps_first:
        leading = first_rows(spine, keys, count)
        return leading, leading_change(spine, keys, leading, delta)
    if count is None:
        before, after = _all(spine, keys, delta, moments)
    else:
        before, after = _first(spine, keys, count, delta, moments)
    return before, after


def rows_change_between(
    spine: Spine, keys: Keys, ranges: Sequence[tuple[Index, Index]]
) -> tuple[KeyRows, KeyRows]:
    """Return the rows of these keys before this epoch, and after it, that are in a range of entries of each run and the delta.

    Equal rows have to be in these ranges of all runs, or of none.
    """
    before, after = _all(spine, keys, spine.delta, (BEFORE, DIFF), ranges)
    return before, after


def first_rows_after(spine: Spine, keys: Keys, count: int) -> KeyRows:
    """Return the second of ``rows_change`` for a few keys: rows that wait are looked at, and not sorted."""
    looked_up = near(spine, keys)
    (after,) = _first(looked_up, keys, count, looked_up.delta, (DIFF,))
    count_reads(spine, looked_up)
    return after


def _all(
    spine: Spine,
    keys: Keys,
    delta: Run | None,
    moments: Sequence[str],
    ranges: Sequence[tuple[Index, Index]] | None = None,
) -> list[KeyRows]:
    read = _read(spine, delta, keys, np.arange(len(keys)), None, moments, ranges)
    at_moments = []
    for moment in moments:
        diffs = read.column(moment)
        at_moments.append(read.select(np.flatnonzero(diffs > 0), diffs))
    return at_moments


def _first(spine: Spine, keys: Keys, count: int, delta: Run | None, moments: Sequence[str]) -> list[KeyRows]:
    pending, take = np.arange(len(keys)), count + 1
    parts: list[list[KeyRows]] = []
    while len(pending) or not parts:
        read = _read(spine, delta, keys, pending, take, moments)
        rows, pending = _settle(read, moments, pending, len(keys), count)
        if take > count + 1:
            # Rows that are read later were hidden behind rows that are retracted.
            spine.waste(len(read))
        parts.append(rows)
        take *= 4
    return [_together(spine.layout, rows) for rows in zip(*parts, strict=True)]


def _together(layout: Layout, parts: Sequence[KeyRows]) -> KeyRows:
    if len(parts) == 1:
        return parts[0]
    owners = np.concatenate([part.owners for part in parts])
    order = np.argsort(owners, kind="stable")
    payload = gather(stack([part.payload for part in parts]), order)
    return KeyRows(owners[order], payload, np.concatenate([part.diffs for part in parts])[order])


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Entries of some keys, equal ones added up, in the order of their keys and then of the layout.

    ``owners`` are the positions of their keys, ``places`` those of their rows among the ``rows`` that were read.
    """

    owners: Index
    places: Index
    rows: pl.DataFrame
    sums: Mapping[str, Ints]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.owners)

    def column(self, name: str) -> Ints:
        """Return an additive column; one that is not there is zero."""
        column = self.sums.get(name)
        return np.zeros(len(self), np.int64) if column is None else column

    def select(self, entries: Index, diffs: Ints) -> KeyRows:
        """Return the rows of these entries, with these of the diffs."""
        return KeyRows(self.owners[entries], gather(self.rows, self.places[entries]), diffs[entries])


def _read(
    spine: Spine,
    delta: Run | None,
    keys: Keys,
    chosen: Index,
    take: int | None,
    moments: Sequence[str],
    ranges: Sequence[tuple[Index, Index]] | None = None,
) -> _Entries:
    """Return the entries of the chosen keys, without those whose sums are zero.

    ``ranges`` are those of the keys in the runs, if not all of their entries are read.
    """
    chosen_keys = keys if len(chosen) == len(keys) else keys.take(chosen)
    owners, payloads, entries, diffs, before, cuts, later = [], [], [], [], [], [], []
    for number, run in enumerate(spine.runs if delta is None else (*spine.runs, delta)):
        lower, upper = run.find(chosen_keys) if ranges is None else ranges[number]
        end = upper if take is None else np.minimum(upper, lower + take)
        positions, owner = expand(lower, end)
        if not len(positions):
            continue
        owners.append(chosen[owner])
        payloads.append(gather(run.payload, positions))
        entries.append((run, positions))
        diffs.append(run.sums[DIFF][positions])
        if BEFORE in moments:
            before.append(np.zeros_like(diffs[-1]) if run is delta else diffs[-1])
        if take is None:
            continue
        cut = np.zeros(len(positions), np.int64)
        cut[(np.cumsum(end - lower) - 1)[end < upper]] = 1
        none = np.zeros_like(cut)
        cuts.append(none if run is delta else cut)
        later.append(cut if run is delta else none)
    if not owners:
        return _Entries(np.zeros(0, np.intp), np.zeros(0, np.intp), empty_frame(spine.layout.payload), {})
    spine.touched += sum(map(len, owners))
    numbered = Keys(np.concatenate(owners).astype(np.uint64))
    sums = {DIFF: np.concatenate(diffs)}
    sums |= {} if take is None else {CUT: np.concatenate(cuts)}
    if before:
        sums |= {BEFORE: np.concatenate(before)}
    if delta is not None and take is not None:
        sums |= {CUT_AFTER: np.concatenate(later)}
    rows = stack(payloads)
    segments, numbered, _ = equal_entries(spine.layout, numbered, rows, words_of_parts(rows, entries))
    totals = {name: segments.sums(column) for name, column in sums.items()}
    there = np.logical_or.reduce([column != 0 for column in totals.values()]).nonzero()[0]
    of_entries = {name: column[there] for name, column in totals.items() if column.any()}
    places = segments.first_entries[there]
    return _Entries(numbered.first[there].astype(np.intp), places, rows, of_entries)


def _settle(
    read: _Entries, moments: Sequence[str], pending: Index, size: int, count: int
) -> tuple[list[KeyRows], Index]:
    """Return the rows that are final at each moment, and the keys that have to be read further.

    A row is final if it is not behind an entry at which a run was cut: that run may hold entries
    that come before it, or that cancel it.
    """
    owners = read.owners
    committed = _frontier(read, size, (CUT,))
    settled = np.ones(size, np.bool_)
    taken_counts = []
    for moment in moments:
        after = moment == DIFF and CUT_AFTER in read.sums
        frontier = _frontier(read, size, (CUT, CUT_AFTER)) if after else committed
        certain = np.arange(len(read)) <= frontier[owners]
        places = np.where(certain, np.maximum(read.column(moment), 0), 0)
        running = np.cumsum(places)
        total = np.bincount(owners, places, size).astype(np.int64)
        settled &= (frontier == len(read)) | (total >= count)
        before = np.cumsum(total) - total
        left = count - (running - places - before[owners])
        taken_counts.append(np.maximum(np.minimum(left, places), 0))
    final_rows = [read.select(np.flatnonzero((part > 0) & settled[owners]), part) for part in taken_counts]
    return final_rows, pending[~settled[pending]]


def _frontier(read: _Entries, size: int, columns: tuple[str, ...]) -> Index:
    """Return for each key the first entry at which a run was cut, by these columns; the end where none was."""
    frontier = np.full(size, len(read))
    for column in columns:
        if column in read.sums:
            cuts = np.flatnonzero(read.sums[column])[::-1]
            first = np.full(size, len(read))
            first[read.owners[cuts]] = cuts
            frontier = np.minimum(frontier, first)
    return frontier
