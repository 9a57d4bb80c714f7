"""The rows of an epoch by key and cell, and the cells that they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ...data.columns.grouping import DenseGroups, Groups, Segments, group
from ...data.columns.kernels import Index, Ints, Keys, Words, key_words, physical
from ...state.run import Run
from .cells import Cells, Extents
from .rows import RowState

Number = TypeVar("Number", np.int64, np.uint64)

FOREVER = np.iinfo(np.int64).max

WORD = 64
"""Bits into which key, cell and position of a row are packed, where there is room for all three."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The rows of an epoch, brought together by key and cell.

    ``keys`` are the words of the different keys, and ``rows_of_keys`` a row of each. ``segments`` are the cells of the
    rows, ascending by the number of the key and of the cell.
    """

    frame: pl.DataFrame
    diffs: Ints
    instants: Ints
    keys: Keys
    rows_of_keys: Index
    segments: Segments
    key: Index
    number: Ints

    def of_rows(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return a value for each row from a value for each cell."""
        counts = np.diff(self.segments.starts, append=len(self.diffs))
        spread = np.empty(len(self.diffs), values.dtype)
        spread[self.segments.order] = np.repeat(values, counts)
        return spread

    @staticmethod
    def of(frame: pl.DataFrame, diffs: Ints, keys: Sequence[str], time: str, gap: int) -> Batch:
        """Return the rows of this frame by these key columns and by time."""
        groups = group(key_words([frame.get_column(name) for name in keys], len(diffs)))
        instants = physical(frame.get_column(time))
        order, starts, key, number = _by_cell(_numbers(groups), len(groups), instants // gap)
        segments = Segments(order, starts)
        return Batch(frame, diffs, instants, groups.keys, groups.first_entries, segments, key, number)

    def touched(self, was: Extents) -> Cells:
        """Return the touched cells, as they were and with the rows that came."""
        order, starts = self.segments.order, self.segments.starts
        instants, comes = self.instants[order], self.diffs[order] > 0
        early = late = instants
        if not comes.all():
            early, late = np.where(comes, instants, FOREVER), np.where(comes, instants, -FOREVER)
        first, last = np.minimum.reduceat(early, starts), np.maximum.reduceat(late, starts)
        exists = was.exists | (last != -FOREVER)
        first = np.where(was.exists, np.minimum(first, was.first), first)
        last = np.where(was.exists, np.maximum(last, was.last), last)
        now = Extents(exists, first, last, was.start)
        nothing = np.zeros(len(starts), np.bool_)
        return Cells(self.key, self.number, np.arange(len(starts)), was, now, was.exists, nothing)

    def without_retracted(self, cells: Cells, words: Words, rows: RowState, added: Run) -> Cells:
        """Return the touched cells with their remaining first and last instants, if rows at either end went.

        ``words`` are the first words of these cells. Cost: all rows of the cells of which the first or last row went.
        """
        order, starts = self.segments.order, self.segments.starts
        goes = self.diffs[order] < 0
        if not goes.any():
            return cells
        owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))[goes]
        instants = self.instants[order][goes]
        at_end = (instants <= cells.was.first[owners]) | (instants >= cells.was.last[owners])
        cells_to_read = np.unique(owners[at_end])
        if not len(cells_to_read):
            return cells
        where = words[cells_to_read], self.keys.take(cells.key[cells_to_read]), cells.number[cells_to_read]
        old = rows.read(*where, rows.spine.runs, whole=False)
        new = rows.read(*where, [added], whole=False)
        groups = group(Keys.concat([old.words, new.words]))
        before = groups.sums(np.concatenate([old.diffs, np.zeros_like(new.diffs)]))
        after = groups.sums(np.concatenate([old.diffs, new.diffs]))
        left = groups.first_entries[after > 0]
        owners = cells_to_read[np.concatenate([old.owners, new.owners])]
        instants = np.concatenate([rows.instants(old), rows.instants(new)])[left]
        keeps, exists = cells.keeps.copy(), cells.now.exists.copy()
        first, last = cells.now.first.copy(), cells.now.last.copy()
        keeps[cells_to_read], exists[cells_to_read], first[cells_to_read], last[cells_to_read] = (
            False,
            False,
            FOREVER,
            -FOREVER,
        )
        keeps[owners[groups.first_entries[(before > 0) & (after > 0)]]] = True
        exists[owners[left]] = True
        np.minimum.at(first, owners[left], instants)
        np.maximum.at(last, owners[left], instants)
        return replace(cells, keeps=keeps, now=Extents(exists, first, last, cells.now.start))


def _numbers(groups: Groups) -> Index:
    """Return the number of the group of each entry."""
    if isinstance(groups, DenseGroups):
        rank = np.zeros(len(groups.counts), np.intp)
        rank[groups.used] = np.arange(len(groups))
        return rank[groups.codes]
    numbers = np.empty(len(groups.order), np.intp)
    numbers[groups.order] = np.repeat(
        np.arange(len(groups)), np.diff(groups.starts, append=len(groups.order))
    )
    return numbers


def _by_cell(keys: Index, count: int, cells: Ints) -> tuple[Index, Index, Index, Ints]:
    """Return rows in the order of their keys and cells: positions, the beginnings of cells, and the key and cell of each.

    Key, cell and position are packed into one word and sorted by value if they fit into it.
    """
    least = int(cells.min())
    low, middle = len(keys).bit_length(), (int(cells.max()) - least).bit_length()
    if low + middle + count.bit_length() > WORD:
        order = np.lexsort((cells, keys))
        starts = np.flatnonzero(
            (np.diff(keys[order], prepend=-1) != 0) | (np.diff(cells[order], prepend=0) != 0)
        )
        return order, starts, keys[order[starts]], cells[order[starts]]
    packed = (keys << (low + middle)) | ((cells - least) << low) | np.arange(len(keys))
    packed = packed.view(np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << low) - 1)).view(np.int64)
    packed >>= np.uint64(low)
    starts = np.flatnonzero(np.concatenate(([True], packed[1:] != packed[:-1])))
    packed = packed[starts]
    key = (packed >> np.uint64(middle)).view(np.int64)
    return order, starts, key, (packed & np.uint64((1 << middle) - 1)).view(np.int64) + least
