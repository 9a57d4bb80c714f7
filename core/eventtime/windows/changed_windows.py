"""The rows of counted windows from the first one on that an epoch changes: those before it are not read.

Rows of a key are in windows by their rank, ``size`` in each. What comes or goes moves those after it from window to window, and
none of those before it.
"""

from __future__ import annotations

import numpy as np

from ...data.columns.grouping import boundaries
from ...data.columns.kernels import Ints, Keys, gather
from ...data.columns.ordered_numbers import numbers_of
from ...state.lookup import KeyRows, rows_change_between
from ...state.ranked_runs import Moment, ValueRuns, at_ranks, counts_of
from ...state.spine import Spine
from .kinds import WINDOW_START


def changed_windows(spine: Spine, keys: Keys, value_runs: ValueRuns, size: int) -> tuple[KeyRows, KeyRows]:
    """Return the rows of the touched ``keys`` before the epoch and after it, from the start of a window on.

    Windows that start at one instant are distinguished by their order, so all of these are among them, or none. Cost: these rows, and
    some searches.
    """
    delta = spine.delta
    held = (*spine.runs, delta)
    runs, ranges = value_runs.of(held), [run.find(keys) for run in held]
    earliest = numbers_of(delta.payload.get_column(WINDOW_START))[boundaries(delta.keys)]
    until = [
        (lower, run.search(earliest, lower, upper, "left"))
        for run, (lower, upper) in zip(runs, ranges, strict=True)
    ]
    unchanged = counts_of(runs, until, len(keys))
    # The first row of the window that the first change is in; it may be a row that stays.
    rank = unchanged // size * size
    stays = rank < unchanged
    moment = Moment(len(runs), np.where(stays, rank, 0), np.where(stays, rank, -1))
    (((first, _),), read) = at_ranks(runs, until, [moment])
    spine.touched += read
    since = earliest.copy()
    since[stays] = first
    starts = [run.search(since, *each, "left") for run, each in zip(runs, until, strict=True)]
    before = counts_of(
        runs, [(lower, start) for (lower, _), start in zip(ranges, starts, strict=True)], len(keys)
    )
    rows = rows_change_between(
        spine, keys, [(start, upper) for (_, upper), start in zip(ranges, starts, strict=True)]
    )
    # What is left of a window that began at an earlier instant.
    rest = -before % size
    were, are = (_without_first(each, rest) for each in rows)
    return were, are


def _without_first(rows: KeyRows, counts: Ints) -> KeyRows:
    """Return the rows of each key but for so many of the first ones."""
    diffs = np.minimum(rows.diffs, np.maximum(places_before(rows) + rows.diffs - counts[rows.owners], 0))
    left = np.flatnonzero(diffs)
    return KeyRows(rows.owners[left], gather(rows.payload, left), diffs[left])


def places_before(rows: KeyRows) -> Ints:
    """Return how many rows of its key come before each entry."""
    before = np.cumsum(rows.diffs) - rows.diffs
    begins = np.flatnonzero(rows.owners[1:] != rows.owners[:-1]) + 1
    begins = np.concatenate((np.zeros(min(1, len(before)), np.intp), begins))
    lengths = np.diff(begins, append=len(before))
    places: Ints = before - np.repeat(before[begins], lengths)
    return places
