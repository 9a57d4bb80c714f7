"""Sessions as chains of cells, and the state that keeps them.

Time is cut into *cells* as wide as the gap. Rows of a key in one cell are always of one session; rows in cells
that are not neighbours never meet directly. So a session is a chain of neighbouring cells, each with rows, and
two neighbours are linked if the first row of the later one comes less than the gap after the last of the earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl

from ...columns.kernels import Index, Ints, Keys, Mask, expand
from ...state.partitioning import CELL, LAST, ZERO, Route
from ...state.run import Layout, Run, make_run
from ...state.spine import Spine

SPAN, BACK = "span", "back"
"""Additive columns beside ``LAST``: from the first instant of a cell to its last; from the session's start to the first."""

MOST_AHEAD = 1 << 18
"""So many cells at the most are looked up at once on the way to the ends of sessions."""


@dataclass(frozen=True, slots=True, eq=False)
class Extents:
    """What some cells hold: any rows at all, their first and last instant, the start of the session that they are in.

    The instants of a cell that holds nothing mean nothing.
    """

    exists: Mask
    first: Ints
    last: Ints
    start: Ints

    def take(self, index: Index | Mask) -> Extents:
        """The extents of these cells."""
        return Extents(self.exists[index], self.first[index], self.last[index], self.start[index])

    @staticmethod
    def concat(parts: list[Extents]) -> Extents:
        """All cells, one part after the other."""
        return Extents(
            *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Extents))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells that an epoch has to do with, ascending by key and cell; as they were, and as they are.

    ``key`` numbers the keys of the epoch, ``number`` the cells of a key. ``touched`` is the number of the cell among
    those that rows came for, or -1. ``keeps`` says whether rows of before are still there. ``settled`` says
    whether the next cell of the key is here too, or is known not to be linked with this one.
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
        """These cells."""
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
        """All cells, one part after the other."""
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
        """Cells for which no rows came: as they were."""
        return Cells(key, number, np.full(len(key), -1), extents, extents, extents.exists, settled)

    @property
    def follows(self) -> Mask:
        """Which cells stand behind their predecessor in time."""
        follows = np.zeros(len(self), np.bool_)
        np.equal(self.number[1:] - 1, self.number[:-1], out=follows[1:])
        follows[1:] &= self.key[1:] == self.key[:-1]
        return follows

    def linked(self, extents: Extents, gap: int) -> Mask:
        """Which cells are linked with the one before them."""
        linked = self.follows
        linked[1:] &= extents.first[1:] - extents.last[:-1] < gap
        linked[1:] &= extents.exists[:-1]
        linked &= extents.exists
        return linked

    def connected(self, gap: int) -> Cells:
        """The cells with the starts of the sessions that they are in now.

        The first cell of a chain starts a session, unless what comes before it is not here and so has not changed.
        All others take their start from the first.
        """
        now, was = self.now, self.was
        heads = now.exists & ~self.linked(now, gap)
        inherits = was.exists & (now.first == was.first) & ~self.follows
        own = np.where(inherits, was.start, now.first)
        start = own[np.maximum.accumulate(np.where(heads, np.arange(len(self)), 0))]
        return replace(self, now=replace(now, start=np.where(now.exists, start, was.start)))

    @property
    def moved(self) -> Mask:
        """Which cells hold rows of before and are in a session with another start now."""
        moved: Mask = self.was.exists & self.now.exists & (self.was.start != self.now.start)
        return moved

    @property
    def changed(self) -> Mask:
        """Which cells are not as they were."""
        was, now = self.was, self.now
        differs = (was.first != now.first) | (was.last != now.last) | (was.start != now.start)
        changed: Mask = (was.exists != now.exists) | (now.exists & differs)
        return changed

    def open_ends(self) -> Index:
        """The cells that moved, and of which it is not known whether they take others along."""
        return np.flatnonzero(self.moved & ~self.is_settled)

    @property
    def is_settled(self) -> Mask:
        """Of which cells it is known whether a session ends with them."""
        settled = self.settled.copy()
        settled[:-1] |= self.follows[1:]
        return settled

    def tails(self, extents: Extents, gap: int) -> Mask:
        """With which cells a session is known to end."""
        tails = extents.exists & self.is_settled
        tails[:-1] &= ~self.linked(extents, gap)[1:]
        return tails


class CellState:
    """What every cell with rows holds, by key and cell: one entry for each.

        words of (key, cell) = (first word of the key + cell * CELL, second word of the key + 2 * cell),  modulo 2^64

    For a key of one word that is a permutation, also beside null; for hashed keys a hash again. Cell and key words
    can be told from the words of the other two.
    """

    def __init__(self, gap: int) -> None:
        self.spine = Spine(Layout(), Route("cells", gap=gap))
        self._gap = gap

    def words(self, keys: Keys, number: Ints) -> Keys:
        """The words of these cells of these keys."""
        cells = number.view(np.uint64)
        first, second = cells * CELL, cells << np.uint64(1)
        return Keys(keys.first + first, second if keys.second is None else keys.second + second)

    def key_words(self, words: Keys, number: Ints) -> Keys:
        """The words of the keys whose cells have these words."""
        cells = number.view(np.uint64)
        return Keys(words.first - cells * CELL, words.seconds() - (cells << np.uint64(1)))

    def look_up(self, words: Keys, added: Run | None = None) -> Extents:
        """What these cells hold; ``added`` is what this epoch adds."""
        totals = self.spine.totals(words)
        if added is not None and len(added):
            hit, position = added.match(words)
            for name, column in added.sums.items():
                total = totals.setdefault(name, np.zeros(len(words), np.int64))
                total[hit] += column[position]
        if LAST not in totals:
            nothing = np.zeros(len(words), np.int64)
            return Extents(np.zeros(len(words), np.bool_), nothing, nothing, nothing)
        last = totals[LAST] + ZERO
        first = last - totals[SPAN] if SPAN in totals else last
        start = first - totals[BACK] if BACK in totals else first
        return Extents(totals[LAST] != 0, first, last, start)

    def run(self, keys: Keys, cells: Cells) -> Run:
        """The run that makes the cells what they are now."""
        changed = cells.take(np.flatnonzero(cells.changed))
        words = self.words(keys.take(changed.key), changed.number)
        was, now = _kept(changed.was), _kept(changed.now)
        return make_run(
            self.spine.layout, words, pl.DataFrame(), {name: now[name] - was[name] for name in now}
        )

    def purge(self, words: Keys, extents: Extents) -> Run:
        """The run that takes these cells away."""
        kept = {name: -column for name, column in _kept(extents).items()}
        return make_run(self.spine.layout, words, pl.DataFrame(), kept)

    def with_neighbours(self, keys: Keys, cells: Cells) -> Cells:
        """The touched cells, and those beside them to which they may be linked, or were."""
        was, now = cells.was, cells.now
        turned = was.exists != now.exists
        begins = turned | (now.exists & (was.first != now.first))
        ends = turned | (now.exists & (was.last != now.last))
        follows = cells.follows
        followed = np.append(follows[1:], False)
        earlier = np.flatnonzero(begins & ~follows)
        later = np.flatnonzero(ends & ~followed)
        # Where one cell lies between two touched ones, it is asked for once.
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
        found = self.look_up(self.words(keys.take(cells.key[beside]), number))
        there = np.flatnonzero(found.exists)
        cells = replace(cells, settled=ends)
        if not len(there):
            return cells
        neighbours = Cells.untouched(
            cells.key[beside[there]], number[there], found.take(there), np.zeros(len(there), np.bool_)
        )
        # Where two come to stand between the same cells, the one behind the first goes first.
        places = beside[there] + (there < len(later))
        order = np.insert(np.arange(len(cells)), places, len(cells) + np.arange(len(places)))
        return Cells.concat([cells, neighbours]).take(order)

    def whole_sessions(self, keys: Keys, cells: Cells) -> Cells:
        """The cells, connected, and behind each that moved all others that move with it.

        Twice as many cells are looked up in every round, so their number does not count. Cost: the cells that move.
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
        """The cells, with up to so many more behind each of these ends, as far as they are linked."""
        room = np.full(len(ends), ahead)
        followed = np.flatnonzero(ends + 1 < len(cells))
        after = ends[followed] + 1
        between = cells.number[after] - cells.number[ends[followed]] - 1
        same = cells.key[after] == cells.key[ends[followed]]
        room[followed] = np.where(same, np.minimum(between, ahead), ahead)
        places, owners = expand(np.zeros(len(ends), np.intp), room)
        key, number = cells.key[ends][owners], cells.number[ends][owners] + 1 + places
        found = self.look_up(self.words(keys.take(key), number))
        last = np.where(places == 0, cells.now.last[ends][owners], np.roll(found.last, 1))
        breaks = np.cumsum(~(found.exists & (found.first - last < self._gap)))
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
        more = Cells.untouched(key[linked], number[linked], found.take(linked), stops[linked])
        order = np.insert(
            np.arange(len(cells)), ends[owners[linked]] + 1, len(cells) + np.arange(len(linked))
        )
        return Cells.concat([cells, more]).take(order)


def _kept(extents: Extents) -> dict[str, Ints]:
    """The additive columns of the cells, zero where there is nothing."""
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
