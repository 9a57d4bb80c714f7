"""Several runs are merged into one with the sum of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..data.columns.grouping import group_stretches
from ..data.columns.kernels import Index, Ints, Keys, gather, stack
from .row_words import RowWords, deferred_for
from .run import Layout, Run, make_run, reduced, run_of_entries

FEW_NEW = 4
"""Runs are added to a large one in place of a merge if at most one in this many of their keys is new to it."""

FEW_ENTRIES = 1024
"""Runs of fewer entries are merged by a sort: it costs less than the steps of adding a run to another."""

MOST_OF_A_KEY = 64
"""Whether keys have most entries is only looked up where they would need no more than this each, on average."""


def merge(layout: Layout, runs: Sequence[Run]) -> Run:
    """Return one run with the sum of all of these. Cost: one merge of their entries."""
    if len(runs) == 1:
        return runs[0]
    if not layout.by_row and len(runs[0]) >= max(FEW_ENTRIES, sum(map(len, runs[1:]))):
        added = added_to(runs[0], merge(layout, runs[1:]))
        if added is not None:
            return added
    keys = Keys.concat([run.keys for run in runs])
    payload = stack([run.payload for run in runs]) if layout.payload else runs[0].payload
    names = dict.fromkeys(name for run in runs for name in run.sums)
    if layout.by_row:
        sums = {name: _stacked(runs, name) for name in names}
        rows = deferred_for(payload, [run.row_words for run in runs])
        return make_run(
            layout, keys, payload, sums, rows or Keys.concat([words_of_rows(run) for run in runs])
        )
    groups = group_stretches(keys)
    del keys
    # One column at a time: a merge of large runs needs no second copy of all of them.
    columns = ((name, _stacked(runs, name)) for name in names)
    return reduced(groups.keys, payload, columns, None, groups)


def have_most_entries(keys: Keys, runs: Sequence[Run]) -> bool:
    """Return whether these ascending, distinct keys have more than half of the entries of the runs; false for few keys. Cost: a search for each."""
    size = sum(map(len, runs))
    if len(keys) * MOST_OF_A_KEY < size:
        return False
    ranges = [run.find(keys) for run in runs]
    return 2 * sum([int((upper - lower).sum()) for lower, upper in ranges]) > size


def added_to(large: Run, small: Run) -> Run | None:
    """Return the same as ``merge`` of two runs of one entry per key, in less time; None if many keys are new or some of their words collide."""
    keys, words = large.keys, small.keys
    if (keys.second is None) != (words.second is None):
        return None
    hit, position = large.match(words)
    is_new = np.ones(len(small), np.bool_)
    is_new[hit] = False
    new = np.flatnonzero(is_new)
    if len(new) * FEW_NEW > len(small):
        return None
    at = np.searchsorted(keys.first, words.first[new])
    if (keys.first[np.minimum(at, len(large) - 1)] == words.first[new]).any():
        return None
    order = np.insert(np.arange(len(large)), at, len(large) + np.arange(len(new)))
    totals = {}
    for name in dict.fromkeys((*large.sums, *small.sums)):
        column, more = large.sums.get(name), small.sums.get(name)
        column = np.zeros(len(large), np.int64) if column is None else column.copy()
        if more is not None:
            np.add.at(column, position, more.take(hit) if len(new) else more)
        if len(new):
            added = np.zeros(len(new), np.int64) if more is None else more[new]
            column = np.concatenate((column, added))[order]
        totals[name] = column
    if not len(new):
        return run_of_entries(keys, large.payload, totals, None, large.directory)
    second = None
    if keys.second is not None and words.second is not None:
        second = np.concatenate((keys.second, words.second[new]))[order]
    payload = large.payload
    if payload.width:
        payload = gather(stack([payload, gather(small.payload, new)]), order)
    first = np.concatenate((keys.first, words.first[new]))[order]
    return run_of_entries(Keys(first, second), payload, totals, None)


def _stacked(runs: Sequence[Run], name: str) -> Ints:
    return np.concatenate([run.sums.get(name, np.zeros(len(run), np.int64)) for run in runs])


def words_of_parts(payload: pl.DataFrame, parts: Sequence[tuple[Run, Index]]) -> RowWords:
    """Return the words of rows that are these entries of runs, one part after the other."""
    rows = deferred_for(payload, [run.row_words for run, _ in parts])
    return rows or Keys.concat([run.rows_at(positions) for run, positions in parts])


def words_of_rows(run: Run) -> Keys:
    """Return the words of the rows of a run of rows."""
    assert run.rows is not None, "a run of rows has the words of its rows"
    return run.rows
