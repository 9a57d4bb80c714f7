"""The changes of sessions in an epoch: which merged into which, and how far their ends moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from ...data.columns.kernels import Index, Ints, Mask, frame_of, gather
from ...data.delta import Delta
from ...state.partitioning import KeyColumns
from ..triggers.firing import Moves
from .batches import Batch
from .cells import Cells


@dataclass(frozen=True, eq=False)
class Changes:
    """The cells of an epoch, and the changes of sessions that follow from them.

    ``ids`` are the columns that identify a session: those of the key, by which it is kept, and last its start.
    ``instants`` are the event times of the rows that are emitted.
    """

    batch: Batch
    cells: Cells
    ids: pl.Schema
    gap: int
    instants: Ints

    @property
    def arrivals(self) -> int:
        """The number of leading entries of the output that came or went in this epoch; the others have moved."""
        return len(self.batch.diffs)

    @property
    def may_split(self) -> bool:
        """Whether rows went, without which no session is split."""
        return not (self.batch.diffs > 0).all()

    @cached_property
    def moves(self) -> Moves | None:
        """Return the sessions that merged into others in this epoch; None if there are none.

        If a session is split, the part with its start is still that session. If no part has it, the session went where the
        earliest of its rows went. Cost: the cells of keys whose sessions moved.
        """
        cells = self.cells
        concerned = np.zeros(len(self.batch.keys), np.bool_)
        left = ~cells.now.exists | (cells.now.start != cells.was.start)
        concerned[cells.key[cells.was.exists & left]] = True
        cells = cells.take(np.flatnonzero(concerned[cells.key] & cells.was.exists))
        if not len(cells):
            return None
        starts = np.flatnonzero(_differs(cells.key, cells.was.start))
        stays = np.logical_or.reduceat(cells.now.exists & (cells.now.start == cells.was.start), starts)
        heirs = np.where(cells.now.exists & cells.keeps, np.arange(len(cells)), len(cells))
        heir = np.minimum.reduceat(heirs, starts)
        went = np.flatnonzero(~stays & (heir < len(cells)))
        if not len(went):
            return None
        keys = cells.key[starts[went]]
        old, new = cells.was.start[starts[went]], cells.now.start[heir[went]]
        ids = KeyColumns.of(tuple(self.ids), tuple(self.ids)[:-1])
        words = ids.words(self._sessions(np.tile(keys, 2), np.concatenate([old, new])))
        return Moves(words.cut(0, len(went)), words.cut(len(went), len(words)))

    def ends(self) -> Delta:
        """Return how far the end of each session moved, in microseconds, counted from 0 for a new one and to 0 for a removed one."""
        cells, gap = self.cells, self.gap
        # The new and the old content, cell by cell, so that most entries of one session are together.
        tails = np.empty(2 * len(cells), np.bool_)
        tails[::2], tails[1::2] = cells.tails(cells.now, gap), cells.tails(cells.was, gap)
        places = np.flatnonzero(tails)
        if not len(places):
            return Delta.empty(self.ids)
        cell, old = places >> 1, (places & 1).astype(np.bool_)
        starts = np.where(old, cells.was.start[cell], cells.now.start[cell])
        ends = np.where(old, -(cells.was.last[cell] + gap), cells.now.last[cell] + gap)
        keys = cells.key[cell]
        first = np.flatnonzero(_differs(keys, starts))
        moved = np.add.reduceat(ends, first)
        turned = np.flatnonzero(moved)
        first = first[turned]
        return Delta.of(self._sessions(keys[first], starts[first]), moved[turned])

    def _sessions(self, keys: Index, starts: Ints) -> pl.DataFrame:
        """Return sessions, given by the numbers of their keys and their starts, as the columns that identify them."""
        *names, start = self.ids
        columns = frame_of([self.batch.frame.get_column(name) for name in names])
        named = gather(columns, self.batch.rows_of_keys[keys]).get_columns() if names else []
        return frame_of([*named, pl.Series(start, starts).cast(self.ids[start])])


def _differs(keys: Index, starts: Ints) -> Mask:
    """Return where a key and instant differ from those before; true for the first."""
    differs = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=differs[1:])
    differs[1:] |= starts[1:] != starts[:-1]
    return differs
