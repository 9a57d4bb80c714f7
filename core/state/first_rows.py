"""The first rows of each key are kept of an input that never retracts, and no others.

A row that does not come before the last of the first rows of its key is discarded before it is hashed or sorted, by one
comparison of words. So the cost follows the rows that are among the first when they come.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ..data.columns.grouping import Groups, boundaries, group, group_columns
from ..data.columns.kernels import Index, Ints, Keys, at, frame_of, gather, keep, key_words, stack
from ..data.columns.order_words import has_order_word, order_words
from ..data.delta import Delta
from ..data.schema import DIFF, Order
from .leading_rows import come_before
from .lookup import first_rows, rows_change
from .partitioning import KeyColumns
from .run import Layout, Run, empty_run, make_run, run_of_entries, run_of_rows
from .spine import Spine

FEW = 256
"""So few rows are not compared with each other before they are sorted."""

SCANNED = (pl.String, pl.Binary, pl.Decimal, pl.Int128, pl.UInt128)
"""Types without order words whose greatest and least values polars finds in a pass."""

NO_ROWS = pl.DataFrame()

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The least and the greatest word."""


def first_rows_moved(spine: Spine, keys: KeyColumns, delta: Delta, count: int) -> Run:
    """Return the rows that become one of the first ``count`` of their key, minus those that no longer are one.

    ``delta`` has new rows, none of them a retraction. Cost: a pass over them; the rest follows the rows that may be among the first.
    """
    assert int(delta.diffs.min()) > 0, "rows are kept apart only where none is retracted"
    layout = spine.layout
    if spine.keeps_first and _are_scanned(layout, delta.frame):
        groups, first = _first_values(keys, delta.frame, layout.order[0])
        return _replaced(spine, groups.keys, frame_of([first]))
    frame = _reaching_rows(spine, keys, delta, count)
    if not frame.height:
        return empty_run(layout)
    new = run_of_rows(layout, keys, frame)
    starts = boundaries(new.keys)
    touched = new.keys.take(starts)
    if spine.keeps_first:
        return _replaced(spine, touched, gather(new.payload, starts))
    before, after = rows_change(spine, touched, count, new)
    payload = stack([before.payload, after.payload])
    return make_run(
        layout,
        touched.take(np.concatenate((before.owners, after.owners))),
        payload,
        {DIFF: np.concatenate((-before.diffs, after.diffs))},
        key_words(payload.get_columns(), payload.height),
    )


def _are_scanned(layout: Layout, rows: pl.DataFrame) -> bool:
    """Return whether these are many rows of one such value each, none of them null."""
    name = layout.order[0].column
    is_one = len(layout.payload) == 1 and layout.payload[name] in SCANNED
    return is_one and rows.height > FEW and not rows.get_column(name).has_nulls()


def _reaching_rows(spine: Spine, keys: KeyColumns, delta: Delta, count: int) -> pl.DataFrame:
    """Return the rows of a change that may be among the first ones of their key, and a few more."""
    order = spine.layout.order[0]
    dtype = spine.layout.payload[order.column]
    looked_at = delta.frame_with(dict.fromkeys((*keys.names, order.column)))
    if has_order_word(dtype):
        rows = _reaching(spine, keys, looked_at, order, count)
    elif dtype in SCANNED and not keys.names and not looked_at.get_column(order.column).has_nulls():
        rows = _scanned(spine, keys, looked_at, order, count)
    else:
        return first_among(keys, delta.frame, order, count)
    if not len(rows):
        return NO_ROWS
    return (delta if len(rows) == len(delta) else delta.take(rows)).frame


def _replaced(spine: Spine, keys: Keys, first: pl.DataFrame) -> Run:
    """Return the first of new rows of each of these keys, where it comes before the row that is there, minus that row."""
    layout = spine.layout
    held = first_rows(spine, keys, 1)
    is_moved = np.ones(len(keys), np.bool_)
    is_before = come_before(layout, gather(first, held.owners), held.payload)
    is_moved[held.owners] = is_before
    moved, owners = np.flatnonzero(is_moved), held.owners[is_before]
    # The new row of a key comes before the old one.
    places = np.argsort(np.concatenate((2 * moved, 2 * owners + 1)))
    payload = gather(stack([gather(first, moved), keep(held.payload, is_before)]), places)
    diffs = np.ones(len(places), np.int64)
    diffs[places >= len(moved)] = -1
    words = key_words(payload.get_columns(), payload.height)
    return run_of_entries(keys.take(np.concatenate((moved, owners))[places]), payload, {DIFF: diffs}, words)


def first_of_each(keys: KeyColumns, frame: pl.DataFrame, layout: Layout) -> pl.DataFrame | None:
    """Return the first row of each key of many rows that are one text each, or the like; None for others."""
    if not _are_scanned(layout, frame):
        return None
    groups, first = _first_values(keys, frame, layout.order[0])
    column = frame.get_column(first.name)
    rows = np.flatnonzero((column == first.gather(groups.numbers)).to_numpy())
    return gather(frame, np.sort(rows[np.unique(groups.numbers[rows], return_index=True)[1]]))


def first_among(keys: KeyColumns, frame: pl.DataFrame, order: Order, count: int) -> pl.DataFrame:
    """Return the rows that may be among the first ``count`` of their key in these rows: all that are, and a few more.

    Those that are equal to the last of them in the first column of the order all stay, as others decide between them. Few
    rows stay as they are, and all rows whose column has no words in this order.
    """
    column = frame.get_column(order.column)
    if frame.height <= FEW:
        return frame
    if has_order_word(column.dtype):
        words = _words(column, order)
    elif column.dtype not in SCANNED:
        return frame
    elif count == 1 and not column.has_nulls():
        groups, first = _first_values(keys, frame, order)
        return _thinned(frame, np.flatnonzero((column == first.gather(groups.numbers)).to_numpy()))
    else:
        words = _words(column.rank("dense").cast(pl.Int64), order)
    return _thinned(frame, np.sort(_within(words, _groups(keys, frame).numbers, count)))


def _thinned(frame: pl.DataFrame, rows: Index) -> pl.DataFrame:
    """Return these rows if they are far fewer, otherwise all."""
    return gather(frame, rows) if 2 * len(rows) <= frame.height else frame


def _first_values(keys: KeyColumns, frame: pl.DataFrame, order: Order) -> tuple[Groups, pl.Series]:
    """Return the groups of rows by key, and the first value of each in a column without nulls. Cost: a pass over them.

    Of a group of one row the value is taken as it is.
    """
    groups = _groups(keys, frame)
    column = frame.get_column(order.column)
    numbers = groups.numbers
    compared = np.flatnonzero((np.bincount(numbers) > 1)[numbers])
    place = np.empty(len(groups), np.intp)
    place[numbers] = np.arange(frame.height)
    if not len(compared):
        return groups, column.gather(place)
    values = pl.DataFrame([pl.Series("group", numbers[compared]), at(column, compared).alias("value")])
    value = pl.col("value")
    firsts = values.lazy().group_by("group").agg(value.max() if order.descending else value.min()).collect()
    place[firsts.get_column("group").to_numpy()] = frame.height + np.arange(firsts.height)
    every = pl.concat([column, firsts.get_column("value").alias(column.name)])
    return groups, at(every, place)


def _reaching(spine: Spine, keys: KeyColumns, frame: pl.DataFrame, order: Order, count: int) -> Index:
    """Return the rows that may be among the first ones of their key: all that are, and a few more."""
    words = _words(frame.get_column(order.column), order)
    if not keys.names:
        return _reaching_all(spine, keys, frame, words, order, count)
    groups = _groups(keys, frame)
    if 2 * count * len(groups) > frame.height:
        return np.arange(frame.height)
    numbers = groups.numbers
    rows = np.flatnonzero(words <= _bounds(spine, groups, order, count)[numbers])
    if len(rows) <= 2 * count * len(groups):
        return rows
    return rows[_within(words[rows], numbers[rows], count)]


def _reaching_all(
    spine: Spine, keys: KeyColumns, frame: pl.DataFrame, words: Ints, order: Order, count: int
) -> Index:
    """Return the same for rows that all have one key: only the words are looked at."""
    one = group(keys.words(frame.head(1)))
    rows = np.flatnonzero(words <= _bounds(spine, one, order, count)[0])
    if len(rows) <= count:
        return rows
    reaching = words[rows]
    bound: np.int64 = np.partition(reaching, count - 1)[count - 1]
    return rows[reaching <= bound]


def _scanned(spine: Spine, keys: KeyColumns, frame: pl.DataFrame, order: Order, count: int) -> Index:
    """Return the same for rows that all have one key, by values without order words, none of them null."""
    column = frame.get_column(order.column)
    rows = np.arange(len(column))
    held = first_rows(spine, keys.words(frame.head(1)), count)
    last = held.payload.get_column(order.column).tail(1)
    if int(held.diffs.sum()) >= count and not last.has_nulls():
        rows = _not_after(column, last, order)
        column = column[rows]
    if len(rows) <= count:
        return rows
    first = column.top_k(count) if order.descending else column.bottom_k(count)
    return rows[_not_after(column, first.sort(descending=order.descending).tail(1), order)]


def _not_after(column: pl.Series, bound: pl.Series, order: Order) -> Index:
    """Return the places of the values that do not come after a bound, a column of one value."""
    return np.flatnonzero((column >= bound if order.descending else column <= bound).to_numpy())


def _words(column: pl.Series, order: Order) -> Ints:
    """Return words that never decrease in the order; a null has the word of the first or the last value."""
    words = order_words(column)
    words = ~words if order.descending else words
    if column.has_nulls():
        words = np.where(column.is_null().to_numpy(), LAST if order.nulls_last else FIRST, words)
    return words


def _groups(keys: KeyColumns, frame: pl.DataFrame) -> Groups:
    if keys.is_plain:
        return group_columns([frame.get_column(name) for name in keys.names], frame.height)
    return group(keys.words(frame))


def _bounds(spine: Spine, groups: Groups, order: Order, count: int) -> Ints:
    """Return the word of the last of the first rows of each group; the greatest word where there are fewer of them."""
    rows = first_rows(spine, groups.keys, count)
    bounds = np.full(len(groups), LAST)
    if len(rows.owners):
        words = _words(rows.payload.get_column(order.column), order)
        ends = np.flatnonzero(np.append(rows.owners[1:] != rows.owners[:-1], True))
        row_counts = np.bincount(rows.owners, rows.diffs, len(groups))
        ends = ends[row_counts[rows.owners[ends]] >= count]
        bounds[rows.owners[ends]] = words[ends]
    return bounds


def _within(words: Ints, numbers: Index, count: int) -> Index:
    """Return the entries whose word is at most that of the ``count``-th entry of their group. Cost: a pass, or one sort."""
    if count == 1:
        least = np.full(int(numbers.max(initial=0)) + 1, LAST)
        np.minimum.at(least, numbers, words)
        return np.flatnonzero(words <= least[numbers])
    order = np.lexsort((words, numbers))
    groups, ordered = numbers[order], words[order]
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    sizes = np.diff(starts, append=len(order))
    bounds = ordered[starts + np.minimum(count, sizes) - 1]
    return order[ordered <= np.repeat(bounds, sizes)]
