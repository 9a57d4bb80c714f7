"""A run is an immutable sorted piece of state.

A run is a set of columns sorted by key. Runs *add*: equal entries of several runs are one entry with the sums of their
numbers, and an entry whose numbers are all zero does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ..data.columns.dense import Places
from ..data.columns.directory import FROM, Deferred, Directory, directory_of, search_distinct
from ..data.columns.grouping import Groups, Segments, boundaries, differing, group
from ..data.columns.kernels import Index, Ints, Keys, Words, expand, frame_of, gather, key_words, stack
from ..data.columns.order_words import has_order_word, order_words
from ..data.columns.sorting import sorted_by
from ..data.schema import DIFF, Order, empty_frame
from ..data.tags import tagged
from .entry_order import entry_order, order_by_key
from .partitioning import KeyColumns
from .row_words import DeferredWords, RowWords, has_nulls

LAST_WORD = np.uint64(2**64 - 1)

MOST_STARTS = 1 << 20
"""A run remembers where its keys begin if they are at most so many, in 8 bytes each."""

MANY_KEYS = 32
"""If there are no more entries than this for each key that is looked for, a pass over all costs less than a search for each."""

FURTHER_ENTRIES, DISTINCT_KEYS = 4, 8
"""Such a pass needs a further entry for at most so many different keys, and at most so many different keys for each that is looked for."""

READ_ONCE_BELOW = 1 << 18
"""Runs of fewer entries have their directory on their first search: many are read from end to end, or merged, and never searched."""

FEW = 256
"""Up to this many words are looked up without the directory: a binary search costs less than its steps."""


@tagged("core.run:Layout")
@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a run: the columns of its entries besides their key.

    ``payload`` are columns that go with an entry. With ``by_row``, a key may have many entries, one for each
    different row of the payload, kept in ``order`` and then by the payload's columns; otherwise one.
    """

    payload: pl.Schema = field(default_factory=pl.Schema)
    by_row: bool = False
    order: tuple[Order, ...] = ()

    def __hash__(self) -> int:
        """Return the hash, by which equal layouts share an arrangement."""
        return hash((tuple(self.payload.items()), self.by_row, self.order))

    @property
    def is_one_value(self) -> bool:
        """Return whether rows are one value, by which they are in order."""
        return len(self.payload) == 1 and self.orders_all_values

    @property
    def orders_all_values(self) -> bool:
        """Return whether rows are in the order of all of their values: then the order words of these take the place of the row."""
        if not self.by_row or {order.column for order in self.order} != {*self.payload} or not self.payload:
            return False
        return all(map(has_order_word, self.payload.dtypes()))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Run:
    """An immutable sorted piece of state.

    ``keys`` ascend, one word pair per entry; ``row_words`` are those of the payload rows where a key may have
    many entries; ``sums`` are the additive columns, int64; a missing column is zero.
    """

    keys: Keys
    payload: pl.DataFrame
    sums: Mapping[str, Ints]
    row_words: RowWords | None = None
    directory: Directory | Places | Deferred | None = None
    size: int = field(init=False, repr=False)
    """The number of entries."""
    _starts: list[Index] = field(default_factory=list, init=False, repr=False)
    _distinct: list[Directory | Places | None] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.keys.first))

    def __len__(self) -> int:
        """Return the number of entries."""
        return self.size

    @property
    def rows(self) -> Keys | None:
        """Return the words of the payload rows where a key may have many entries. Cost: none; once, if they are not made."""
        return self.row_words.keys() if isinstance(self.row_words, DeferredWords) else self.row_words

    def rows_at(self, positions: Index) -> Keys:
        """Return the words of the payload rows at these positions. Cost: at most that of making them."""
        assert self.row_words is not None, "a run of rows has the words of its rows"
        return self.row_words.take(positions)

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        held = self.keys.nbytes + sum(column.nbytes for column in self.sums.values())
        held += 0 if self.row_words is None else self.row_words.nbytes
        held += self.bytes_of_lookups
        return held + (int(self.payload.estimated_size()) if self.payload.width else 0)

    @property
    def bytes_of_lookups(self) -> int:
        """Return the size of what look-ups keep in memory beside the entries, also where these are mapped from a file."""
        lookups = (self.directory, *self._starts, *self._distinct)
        return sum(each.nbytes for each in lookups if each is not None)

    def match(self, keys: Keys) -> tuple[Index, Index]:
        """Return which of these ascending, distinct keys have an entry, and its position, in a run of one entry per key."""
        assert self.row_words is None, "keys may have many entries here: use find"
        words, targets = self.keys.first, keys.first
        if self.directory is None or len(targets) <= FEW:
            position = words.searchsorted(targets)
            hit = (words.take(position, mode="clip") == targets).nonzero()[0]
            position = position[hit]
        else:
            hit, position = self.directory.match(words, targets)
        seconds, target_seconds = self.keys.second, keys.second
        if seconds is None and target_seconds is None:
            return hit, position
        if seconds is not None and target_seconds is not None:
            agree = seconds.take(position) == target_seconds.take(hit)
        else:
            agree = self.keys.seconds_at(position) == keys.seconds_at(hit)
        if agree.all():
            return hit, position
        lower, upper = self.find(keys)
        hit = np.flatnonzero(lower < upper)
        return hit, lower[hit]

    def starts(self) -> Index:
        """Return where each key begins. Cost: a pass over all entries, once unless the keys are more than ``MOST_STARTS``."""
        if self._starts:
            return self._starts[0]
        starts = boundaries(self.keys)
        if len(starts) <= MOST_STARTS:
            self._starts.append(starts)
        return starts

    def pairs(self, keys: Keys) -> tuple[Index | None, Index]:
        """Return the pairs of keys, which may come in any order and repeatedly, with their entries: number of the key, position of the entry.

        None in place of the numbers if each key has one entry. Cost: a search for each key, and the pairs; where keys are many
        and have one entry each, a look into a table.
        """
        directory = self._of_distinct() if MANY_KEYS * len(keys) >= len(self) >= FROM else None
        if directory is not None:
            hit, positions = directory.match(self.keys.first, keys.first)
            has_one_word = self.keys.second is None and keys.second is None
            if has_one_word or (self.keys.seconds_at(positions) == keys.seconds_at(hit)).all():
                return None if len(hit) == len(keys) else hit, positions
        lower, upper = self.find(keys)
        hit = np.flatnonzero(lower < upper)
        positions, owners = expand(lower[hit], upper[hit])
        return hit[owners], positions

    def _of_distinct(self) -> Directory | Places | None:
        """Return the directory by which the only entry of each key is found; None if keys have more, or first words collide. Cost: once."""
        if not self._distinct:
            words = self.keys.first
            self._distinct.append(directory_of(words) if (words[1:] != words[:-1]).all() else None)
        return self._distinct[0]

    def find(self, keys: Keys) -> tuple[Index, Index]:
        """Return the ranges [lower, upper) of entries with these keys, which may come in any order and repeatedly."""
        words = self.keys.first
        if self.row_words is not None and len(self) >= FROM and MANY_KEYS * len(keys) >= len(self):
            ranges = self._find_many(keys)
            if ranges is not None:
                return ranges
        lower = self._search(keys.first)
        if not len(words):
            return lower, lower.copy()
        is_there = words.take(lower, mode="clip") == keys.first
        upper = lower + is_there
        # Only keys with a second entry are searched again.
        more = (is_there & (words.take(upper, mode="clip") == keys.first)).nonzero()[0]
        if len(more):
            upper[more] = self._search(keys.first[more] + np.uint64(1))
            upper[more[keys.first[more] == LAST_WORD]] = len(words)
        if self.keys.second is None and keys.second is None:
            return lower, upper
        return self._narrow(keys, lower, upper)

    def _find_many(self, keys: Keys) -> tuple[Index, Index] | None:
        """Return what ``find`` does, by a pass over all entries and a search among their keys.

        None if a search in the directory costs less, which is kept from one look-up to the next, or if words of keys collide.
        """
        starts = self.starts()
        further = len(self) - len(starts)
        if FURTHER_ENTRIES * further < len(starts) or len(starts) > DISTINCT_KEYS * len(keys):
            return None
        distinct = self.keys.first[starts]
        places = search_distinct(distinct, keys.first)
        there = np.flatnonzero(distinct.take(places, mode="clip") == keys.first)
        if self.keys.second is not None or keys.second is not None:
            seconds = self.keys.seconds_at(starts[places[there]])
            if (distinct[1:] == distinct[:-1]).any() or (seconds != keys.seconds_at(there)).any():
                return None
        starts = np.append(starts, len(self))
        lower = starts[places]
        upper = lower.copy()
        upper[there] = starts[places[there] + 1]
        return lower, upper

    def within(self, least: Words, greatest: Words) -> tuple[Index, Index]:
        """Return the ranges [lower, upper) of entries whose first words lie between these, both included."""
        upper = self._search(greatest + np.uint64(1))
        upper[greatest == LAST_WORD] = len(self)
        return self._search(least), upper

    def between(self, least: int, greatest: int) -> Run:
        """Return the entries whose first words lie between these, both included, by reference."""
        (start,), (end,) = self.within(np.array([least], np.uint64), np.array([greatest], np.uint64))
        if end - start == len(self):
            return self
        keys, rows = self.keys.cut(start, end), self.row_words
        sums = {name: column[start:end] for name, column in self.sums.items()}
        payload = self.payload.slice(start, end - start) if self.payload.width else self.payload
        if rows is not None:
            rows = rows.cut(start, end) if isinstance(rows, Keys) else rows.of_others(payload)
        return Run(keys, payload, sums, rows, Deferred.of(keys.first, is_matched=rows is None))

    def _search(self, targets: Words) -> Index:
        if self.directory is None or len(targets) <= FEW:
            return self.keys.first.searchsorted(targets)
        return self.directory.search(self.keys.first, targets)

    def _narrow(self, keys: Keys, lower: Index, upper: Index) -> tuple[Index, Index]:
        """Cut the ranges down to entries whose second word agrees too."""
        seconds, stored = keys.seconds(), self.keys.second
        if stored is None:
            return lower, np.where(seconds == 0, upper, lower)
        hit = np.flatnonzero(lower < upper)
        agree = (stored[lower[hit]] == seconds[hit]) & (stored[upper[hit] - 1] == seconds[hit])
        # A loop over colliding keys only: the null of an integer column, and otherwise one key in some 10^19.
        for k in hit[~agree]:
            stretch = stored[lower[k] : upper[k]]
            start = lower[k]
            lower[k] = start + np.searchsorted(stretch, seconds[k])
            upper[k] = start + np.searchsorted(stretch, seconds[k], side="right")
        return lower, upper


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The entries of some ascending, distinct keys in runs of one entry per key.

    ``parts`` are the runs that have some of them, each with the places of the keys that it has, and the positions of their entries.
    """

    size: int
    parts: list[tuple[Run, Index, Index]]

    @staticmethod
    def of(runs: Iterable[Run], keys: Keys) -> Matches:
        """Find the entries. Cost: a look-up of each key in each run."""
        parts = [(run, *run.match(keys)) for run in runs if run.size]
        return Matches(len(keys.first), [part for part in parts if len(part[1])])

    @property
    def entries(self) -> int:
        """The number of entries."""
        return sum([len(positions) for _, _, positions in self.parts])

    def totals(self) -> dict[str, Ints]:
        """Return the additive columns of the keys; zero where there is no entry."""
        totals: dict[str, Ints] = {}
        for run, hit, positions in self.parts:
            for name, column in run.sums.items():
                values = column.take(positions)
                if len(hit) == self.size:
                    totals[name] = totals[name] + values if name in totals else values
                    continue
                if name not in totals:
                    totals[name] = np.zeros(self.size, np.int64)
                np.add.at(totals[name], hit, values)
        return totals

    def payload(self, layout: Layout, places: Index | None = None) -> pl.DataFrame:
        """Return the payload of the keys, or of those at these places. A key that has no entry gets nulls; of several, any will do."""
        run_of, position_of = np.full(self.size, -1), np.zeros(self.size, np.intp)
        for number, (_, hit, positions) in enumerate(self.parts):
            run_of[hit], position_of[hit] = number, positions
        if places is not None:
            run_of, position_of = run_of[places], position_of[places]
        size, owners, parts = len(run_of), [], []
        for number, (run, _, _) in enumerate(self.parts):
            if len(own := np.flatnonzero(run_of == number)):
                owners.append(own)
                parts.append(gather(run.payload, position_of[own]))
        if len(parts) == 1 and len(owners[0]) == size:
            return parts[0]
        without = np.flatnonzero(run_of < 0)
        if len(without) or not parts:
            nulls = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in layout.payload.items()])
            owners.append(without)
            parts.append(gather(nulls, np.zeros(len(without), np.intp)))
        order = np.empty(size, np.intp)
        order[np.concatenate(owners)] = np.arange(size)
        return gather(stack(parts), order)


def make_run(
    layout: Layout, keys: Keys, payload: pl.DataFrame, sums: Mapping[str, Ints], rows: RowWords | None = None
) -> Run:
    """Return a run of entries in any order: sorted, equal entries added up, entries of zeros left out.

    ``rows`` are the words of the payload's rows where a key may have many entries. Cost: one sort.
    """
    if rows is None:
        groups = group(keys)
        return reduced(groups.keys, payload, sums.items(), None, groups)
    segments, keys, rows = equal_entries(layout, keys, payload, rows)
    return reduced(keys, payload, sums.items(), rows, segments)


def equal_entries(
    layout: Layout, keys: Keys, payload: pl.DataFrame, rows: RowWords
) -> tuple[Segments, Keys, RowWords]:
    """Return entries in the order of the layout, equal ones together, and the key and the words of the row of each segment. Cost: one sort."""
    if isinstance(rows, DeferredWords):
        return *_equal_values(layout, keys, payload), rows
    order = entry_order(keys, payload, rows, layout.order)
    keys, rows = keys.take(order), rows.take(order)
    differs = differing(keys)
    differs |= differing(rows)
    starts = np.flatnonzero(differs)
    if len(starts) < len(order):
        keys, rows = keys.take(starts), rows.take(starts)
    return Segments(order, starts), keys, rows


def _equal_values(layout: Layout, keys: Keys, payload: pl.DataFrame) -> tuple[Segments, Keys]:
    """Return the ``equal_entries`` of rows in the order of all their values, none of them null: equal rows have the same order words."""
    columns = [payload.get_column(order.column) for order in layout.order]
    descending = [order.descending for order in layout.order]
    entries = order_by_key(
        keys, lambda words: sorted_by([*words, *columns], [*(False for _ in words), *descending])
    )
    keys = keys.take(entries)
    differs = differing(keys)
    for column in columns:
        values = order_words(column)[entries]
        differs[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(differs)
    return Segments(entries, starts), keys.take(starts) if len(starts) < len(entries) else keys


def run_of_groups(groups: Groups, payload: pl.DataFrame, totals: Mapping[str, Ints]) -> Run:
    """Return a run with one entry per group: payload and totals have a row per group, in the order of the keys."""
    return run_of_entries(groups.keys, payload, totals, None)


def reduced(
    keys: Keys,
    payload: pl.DataFrame,
    sums: Iterable[tuple[str, Ints]],
    rows: RowWords | None,
    segments: Segments,
) -> Run:
    """Add up the entries of each segment into its first one."""
    totals = {name: segments.sums(column) for name, column in sums}
    return run_of_entries(
        keys, gather(payload, segments.first_entries) if payload.width else payload, totals, rows
    )


def run_of_entries(
    keys: Keys,
    payload: pl.DataFrame,
    totals: Mapping[str, Ints],
    rows: RowWords | None,
    directory: Directory | Places | Deferred | None = None,
) -> Run:
    """Return the run of these sorted entries, without those whose totals are all zero. ``directory``: of the keys, if there is one."""
    # A run of rows has diffs, also where it has no entries: they are read.
    columns = totals if rows is not None else {}
    counts = {name: np.count_nonzero(column) for name, column in totals.items()}
    totals = {name: column for name, column in totals.items() if counts[name]}
    # One column without zeros, as the number of rows mostly is, is enough.
    if len(keys.first) not in counts.values():
        alive = np.zeros(len(keys.first), np.bool_)
        for column in totals.values():
            alive |= column != 0
        entries = alive.nonzero()[0]
        if len(entries) < len(alive):
            keys, rows = keys.take(entries), rows.take(entries) if isinstance(rows, Keys) else rows
            totals = {name: column[entries] for name, column in (totals or columns).items()}
            payload = gather(payload, entries) if payload.width else payload
            directory = None
    totals = totals or columns
    if isinstance(rows, DeferredWords):
        rows = rows.of_others(payload)
    if rows is not None:
        # Many runs of rows are read once, from end to end.
        return Run(keys, payload, totals, rows, Deferred.of(keys.first, is_matched=False))
    if directory is None and len(keys.first) >= FROM:
        is_small = len(keys.first) < READ_ONCE_BELOW
        directory = Deferred.of(keys.first) if is_small else directory_of(keys.first)
    return Run(keys, payload, totals, rows, directory)


def empty_run(layout: Layout) -> Run:
    """Return the run without entries."""
    none = Keys(np.zeros(0, np.uint64))
    sums = {DIFF: np.zeros(0, np.int64)} if layout.by_row else {}
    return Run(none, empty_frame(layout.payload), sums, none if layout.by_row else None)


def run_of_rows(layout: Layout, keys: KeyColumns, frame: pl.DataFrame) -> Run:
    """Return the rows of a delta frame as a run by these key columns."""
    payload = frame_of([frame.get_column(name) for name in layout.payload])
    is_deferred = layout.orders_all_values and not has_nulls(payload)
    rows = DeferredWords.of(payload) if is_deferred else key_words(payload.get_columns(), frame.height)
    return make_run(layout, keys.words(frame), payload, {DIFF: frame.get_column(DIFF).to_numpy()}, rows)


def run_of_distinct_rows(layout: Layout, frame: pl.DataFrame) -> Run:
    """Return the rows of a delta frame as a run by all of their columns, in which each row is once."""
    rows = pl.DataFrame([frame.get_column(name) for name in layout.payload])
    groups = group(key_words(rows.get_columns(), frame.height))
    return run_of_groups(
        groups, gather(rows, groups.first_entries), {DIFF: groups.sums(frame.get_column(DIFF).to_numpy())}
    )
