"""The first row of each key is found without a sort, in a state that keeps no others and from which nobody retracts.

An epoch adds the row that now comes first, and retracts the one that it replaces, which comes later. So the first entry that a run has
of a key, whatever epochs were merged into it, is a row that was added; and the first of these entries, one of each run, is the
row that is there. A state in which an earlier version kept all rows is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from ..data.columns.comparisons import differ
from ..data.columns.kernels import Index, Keys, Mask, gather, key_words, stack
from ..data.schema import DIFF, Order, empty_frame
from .key_rows import KeyRows
from .run import Layout, Run
from .spine import Spine


def leading_rows(spine: Spine, keys: Keys) -> KeyRows:
    """Return the first row of each of these keys as of the last commit. Cost: a look-up of each key in every run."""
    return _leading(spine, spine.runs, keys)


def leading_change(spine: Spine, keys: Keys, before: KeyRows, delta: Run) -> KeyRows:
    """Return the first row of each of these keys after an epoch that adds a run, given those before it. Cost: a look-up in that run."""
    moved = _leading(spine, (delta,), keys)
    if not len(moved.owners):
        return before
    entry = np.full(len(keys), -1)
    entry[before.owners] = np.arange(len(before.owners))
    entry[moved.owners] = len(before.owners) + np.arange(len(moved.owners))
    return _rows_of(entry, stack([before.payload, moved.payload]))


def come_before(layout: Layout, ones: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Return which rows of one frame come before those of another in the order of the entries of a run; equal rows do not."""
    before = np.zeros(ones.height, np.bool_)
    tied = np.arange(ones.height)
    for order in _orders(layout):
        one, other = (_at(rows.get_column(order.column), tied) for rows in (ones, others))
        before[tied[_is_before(one, other, order)]] = True
        tied = tied[~differ(one, other)]
        if not len(tied):
            return before
    if any(dtype.is_nested() for dtype in layout.payload.dtypes()):
        mine, theirs = (key_words(gather(rows, tied).get_columns(), len(tied)) for rows in (ones, others))
        is_less = mine.first < theirs.first
        before[tied] = is_less | ((mine.first == theirs.first) & (mine.seconds() < theirs.seconds()))
    return before


def _leading(spine: Spine, runs: Iterable[Run], keys: Keys) -> KeyRows:
    entry = np.full(len(keys), -1)
    rows = empty_frame(spine.layout.payload)
    for run in runs:
        lower, upper = run.find(keys)
        owners = np.flatnonzero(lower < upper)
        spine.touched += len(owners)
        if not len(owners):
            continue
        assert (run.sums[DIFF].take(lower[owners]) > 0).all(), "a row that comes first in a run was added"
        own_rows = gather(run.payload, lower[owners])
        earlier = entry[owners]
        entry[owners] = rows.height + np.arange(len(owners))
        both = np.flatnonzero(earlier >= 0)
        if len(both):
            is_first = come_before(spine.layout, gather(own_rows, both), gather(rows, earlier[both]))
            later = both[~is_first]
            entry[owners[later]] = earlier[later]
        rows = stack([rows, own_rows]) if rows.height else own_rows
    return _rows_of(entry, rows)


def _rows_of(entry: Index, rows: pl.DataFrame) -> KeyRows:
    """Return the rows of keys, given the number of the row of each; -1: it has none."""
    owners = np.flatnonzero(entry >= 0)
    return KeyRows(owners, gather(rows, entry[owners]), np.ones(len(owners), np.int64))


def _orders(layout: Layout) -> list[Order]:
    """Return the order of the entries of a key, as far as values decide it."""
    ordered = {order.column for order in layout.order}
    others = [name for name, dtype in layout.payload.items() if name not in ordered and not dtype.is_nested()]
    return [*layout.order, *map(Order, others)]


def _at(column: pl.Series, rows: Index) -> pl.Series:
    return column if len(rows) == len(column) else column[rows]


def _is_before(one: pl.Series, other: pl.Series, order: Order) -> Mask:
    is_before = one > other if order.descending else one < other
    if not (one.has_nulls() or other.has_nulls()):
        return is_before.to_numpy()
    first, second = (other, one) if order.nulls_last else (one, other)
    return (is_before.fill_null(False) | (first.is_null() & second.is_not_null())).to_numpy()
