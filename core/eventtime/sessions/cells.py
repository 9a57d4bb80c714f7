"""Sessions as chains of cells, and the state that keeps them.

Time is cut into *cells* as wide as the gap. Rows of a key in one cell are always of one session; rows in cells
that are not neighbours never meet directly. So a session is a chain of neighbouring cells, each with rows, and
two neighbours are linked if the first row of the later one comes less than the gap after the last of the earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl

from ...data.columns.kernels import Index, Ints, Keys, Mask, expand
from ...state.partitioning import CELL, LAST, ZERO, Route
from ...state.run import Layout, Run, make_run
from ...state.spine import Spine

SPAN, BACK = "span", "back"
"""Additive columns beside ``LAST``: from the first instant of a cell to its last; from the session's start to the first."""

MOST_AHEAD = 1 << 18
"""The most cells that are looked up at once on the way to the ends of sessions."""


@dataclass(frozen=True, slots=True, eq=False)
class Extents:
    """The content of some cells: whether they have rows, their first and last instant, and the start of their session.

    The instants of a cell without rows are undefined.
    """

    exists: Mask
    first: Ints
    last: Ints
    start: Ints

    def take(self, index: Index | Mask) -> Extents:
        """Return the extents of these cells."""
        return Extents(self.exists[index], self.first[index], self.last[index], self.start[index])

    @staticmethod
    def concat(parts: list[Extents]) -> Extents:
        """Return all cells, one part after the other."""
        return Extents(
            *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Extents))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells that an epoch touches or looks at, ascending by key and cell, as they were and as they are.

    ``key`` numbers the keys of the epoch, ``number`` the cells of a key. ``touched`` is the number of the cell among
    those that rows came for, or -1. ``keeps`` is whether earlier rows are still there. ``settled`` is whether the next
    cell of the key is here too, or is known not to be linked with this one.
    """

    key: Index
    number: Ints
    touched: Index
    was: Extents
    now: Extents
    keeps: Mask
    settled: Mask

    def __len__(self) -> int:
        return len(self.key)

    def take(self, index: Index | Mask) -> Cells:
        """Return these cells."""
        return Cells(
            self.key[index],
            self.number[index],
            self.touched[index],
            self.was.take(index),
            self.now.take(index),
            self.keeps[index],
            self.settled[index],
        )

    @staticmethod
    def concat(parts: list[Cells]) -> Cells:
        """Return all cells, one part after the other."""
        return Cells(
            np.concatenate([part.key for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.touched for part in parts]),
            Extents.concat([part.was for part in parts]),
            Extents.concat([part.now for part in parts]),
            np.concatenate([part.keeps for part in parts]),
            np.concatenate([part.settled for part in parts]),
        )

    @staticmethod
    def untouched(key: Index, number: Ints, extents: Extents, settled: Mask) -> Cells:
        """Return cells for which no rows came, unchanged."""
        return Cells(key, number, np.full(len(key), -1), extents, extents, extents.exists, settled)

    @property
    def follows(self) -> Mask:
        """Return which cells directly follow their predecessor in time."""
        follows = np.zeros(len(self), np.bool_)
        np.equal(self.number[1:] - 1, self.number[:-1], out=follows[1:])
        follows[1:] &= self.key[1:] == self.key[:-1]
        return follows

    def linked(self, extents: Extents, gap: int) -> Mask:
        """Return which cells are linked with the one before them."""
        linked = self.follows
        linked[1:] &= extents.first[1:] - extents.last[:-1] < gap
        linked[1:] &= extents.exists[:-1]
        linked &= extents.exists
        return linked

    def connected(self, gap: int) -> Cells:
        """Return the cells with the starts of the sessions that they are in now.

        The first cell of a chain starts a session, unless the cell before it is not here and so has not changed. All others
        have the start of the first.
        """
        now, was = self.now, self.was
        heads = now.exists & ~self.linked(now, gap)
        inherits = was.exists & (now.first == was.first) & ~self.follows
        own = np.where(inherits, was.start, now.first)
        start = own[np.maximum.accumulate(np.where(heads, np.arange(len(self)), 0))]
        return replace(self, now=replace(now, start=np.where(now.exists, start, was.start)))

    @property
    def moved(self) -> Mask:
        """Return which cells have earlier rows and are in a session with another start now."""
        moved: Mask = self.was.exists & self.now.exists & (self.was.start != self.now.start)
        return moved

    @property
    def changed(self) -> Mask:
        """Return which cells have changed."""
        was, now = self.was, self.now
        differs = (was.first != now.first) | (was.last != now.last) | (was.start != now.start)
        changed: Mask = (was.exists != now.exists) | (now.exists & differs)
        return changed

    def open_ends(self) -> Index:
        """Return the cells that moved, and for which it is unknown whether others move with them."""
        return np.flatnonzero(self.moved & ~self.is_settled)

    @property
    def is_settled(self) -> Mask:
        """Return for which cells it is known whether a session ends with them."""
        settled = self.settled.copy()
        settled[:-1] |= self.follows[1:]
        return settled

    def tails(self, extents: Extents, gap: int) -> Mask:
        """Return the cells with which a session is known to end."""
        tails = extents.exists & self.is_settled
        tails[:-1] &= ~self.linked(extents, gap)[1:]
        return tails


class CellState:
    """The content of every cell with rows, by key and cell, an entry for each.

        words of (key, cell) = (first word of the key + cell * CELL, second word of the key + 2 * cell),  modulo 2^64

    For a key of one word that is a permutation, also with a null key; for hashed keys it is another hash. Each of cell and
    key words can be computed from the words and the number.
    """

    def __init__(self, gap: int) -> None:
        self.spine = Spine(Layout(), Route("cells", gap=gap))
        self._gap = gap

    def words(self, keys: Keys, number: Ints) -> Keys:
        """Return the words of these cells of these keys."""
        cells = number.view(np.uint64)
        first, second = cells * CELL, cells << np.uint64(1)
        return Keys(keys.first + first, second if keys.second is None else keys.second + second)

    def key_words(self, words: Keys, number: Ints) -> Keys:
        """Return the words of the keys whose cells have these words."""
        cells = number.view(np.uint64)
        return Keys(words.first - cells * CELL, words.seconds() - (cells << np.uint64(1)))

    def look_up(self, words: Keys, added: Run | None = None) -> Extents:
        """Return the content of these cells; ``added`` is what this epoch adds."""
        # Words that ascend are found in a third of the time.
        order = words.first.argsort()
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        sums = self.spine.matches(words.take(order), added).totals()
        totals = {name: column.take(places) for name, column in sums.items()}
        if LAST not in totals:
            nothing = np.zeros(len(words), np.int64)
            return Extents(np.zeros(len(words), np.bool_), nothing, nothing, nothing)
        last = totals[LAST] + ZERO
        first = last - totals[SPAN] if SPAN in totals else last
        start = first - totals[BACK] if BACK in totals else first
        return Extents(totals[LAST] != 0, first, last, start)

    def run(self, keys: Keys, cells: Cells) -> Run:
        """Return the run that brings the cells to their present content."""
        changed = cells.take(np.flatnonzero(cells.changed))
        words = self.words(keys.take(changed.key), changed.number)
        was, now = _additive_columns(changed.was), _additive_columns(changed.now)
        return make_run(
            self.spine.layout, words, pl.DataFrame(), {name: now[name] - was[name] for name in now}
        )

    def purge(self, words: Keys, extents: Extents) -> Run:
        """Return the run that purges these cells."""
        negated = {name: -column for name, column in _additive_columns(extents).items()}
        return make_run(self.spine.layout, words, pl.DataFrame(), negated)

    def with_neighbours(self, keys: Keys, cells: Cells) -> Cells:
        """Return the touched cells, and those beside them to which they may be linked, or were."""
        was, now = cells.was, cells.now
        turned = was.exists != now.exists
        begins = turned | (now.exists & (was.first != now.first))
        ends = turned | (now.exists & (was.last != now.last))
        follows = cells.follows
        followed = np.append(follows[1:], False)
        earlier = np.flatnonzero(begins & ~follows)
        later = np.flatnonzero(ends & ~followed)
        # A cell between two touched ones is looked up once.
        between = np.zeros(len(cells), np.bool_)
        between[later] = True
        shared = between[earlier - 1] & (earlier > 0)
        shared &= (cells.key[earlier] == cells.key[earlier - 1]) & (
            cells.number[earlier] == cells.number[earlier - 1] + 2
        )
        earlier = earlier[~shared]
        beside = np.concatenate([later, earlier])
        number = cells.number[beside]
        number[: len(later)] += 1
        number[len(later) :] -= 1
        extents = self.look_up(self.words(keys.take(cells.key[beside]), number))
        there = np.flatnonzero(extents.exists)
        cells = replace(cells, settled=ends)
        if not len(there):
            return cells
        neighbours = Cells.untouched(
            cells.key[beside[there]], number[there], extents.take(there), np.zeros(len(there), np.bool_)
        )
        # If two cells are added between the same two, the one after the first comes first.
        places = beside[there] + (there < len(later))
        order = np.insert(np.arange(len(cells)), places, len(cells) + np.arange(len(places)))
        return Cells.concat([cells, neighbours]).take(order)

    def whole_sessions(self, keys: Keys, cells: Cells) -> Cells:
        """Return the cells, connected, and after each that moved all others that move with it.

        Each round looks up twice as many cells, so the number of rounds is small. Cost: the cells that move.
        """
        cells = cells.connected(self._gap)
        ends = cells.open_ends()
        if not len(ends):
            return cells
        concerned = np.zeros(len(keys), np.bool_)
        concerned[cells.key[ends]] = True
        mine = concerned[cells.key]
        rest, cells = cells.take(~mine), cells.take(mine)
        ends, ahead = cells.open_ends(), 1
        while len(ends):
            cells = self._further(keys, cells, ends, ahead).connected(self._gap)
            ends = cells.open_ends()
            ahead = max(1, min(2 * ahead, MOST_AHEAD // max(1, len(ends))))
        return Cells.concat([rest, cells])

    def _further(self, keys: Keys, cells: Cells, ends: Index, ahead: int) -> Cells:
        """Return the cells, with up to ``ahead`` more after each of these ends, as far as they are linked."""
        room = np.full(len(ends), ahead)
        followed = np.flatnonzero(ends + 1 < len(cells))
        after = ends[followed] + 1
        between = cells.number[after] - cells.number[ends[followed]] - 1
        same = cells.key[after] == cells.key[ends[followed]]
        room[followed] = np.where(same, np.minimum(between, ahead), ahead)
        places, owners = expand(np.zeros(len(ends), np.intp), room)
        key, number = cells.key[ends][owners], cells.number[ends][owners] + 1 + places
        extents = self.look_up(self.words(keys.take(key), number))
        last = np.where(places == 0, cells.now.last[ends][owners], np.roll(extents.last, 1))
        breaks = np.cumsum(~(extents.exists & (extents.first - last < self._gap)))
        begins = np.cumsum(room) - room
        broken_before = np.where(begins == 0, 0, breaks[begins - 1])
        linked = np.flatnonzero(breaks == broken_before[owners])
        count = np.bincount(owners[linked], minlength=len(ends))
        settled = cells.settled.copy()
        settled[ends[count < room]] = True
        cells = replace(cells, settled=settled)
        stops = np.zeros(len(places), np.bool_)
        stopped = (count < room) & (count > 0)
        stops[(begins + count - 1)[stopped]] = True
        more = Cells.untouched(key[linked], number[linked], extents.take(linked), stops[linked])
        order = np.insert(
            np.arange(len(cells)), ends[owners[linked]] + 1, len(cells) + np.arange(len(linked))
        )
        return Cells.concat([cells, more]).take(order)


def _additive_columns(extents: Extents) -> dict[str, Ints]:
    """Return the additive columns of the cells, zero for cells without rows."""
    columns = {
        LAST: extents.last - ZERO,
        SPAN: extents.last - extents.first,
        BACK: extents.first - extents.start,
    }
    return (
        columns
        if extents.exists.all()
        else {name: column * extents.exists for name, column in columns.items()}
    )
