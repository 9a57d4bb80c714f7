"""A watermark for each partition of a source, and the least of them for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.clock import START_OF_TIME
from ...data.columns.grouping import Groups, group_columns
from ...data.columns.kernels import Index, Keys, Mask, gather, stack
from ...data.errors import InputError
from ...data.instants import shown, spelled
from ...data.schema import require_columns
from ...data.tags import tagged
from ...state.run import Layout, Run
from ...state.run_columns import columns_of_run, run_of_columns
from ...state.snapshot import NOTHING, PAYLOAD, Saved
from .kinds import Arrived, Watermark

MARK, SEEN = "mark", "seen"
"""Columns of a partition: the highest mark of its rows, and the processing time at which the last ones came."""

NAMED = 5
"""The most partitions that a description names."""


@tagged("core.eventtime.partition_watermarks:ByPartition")
@dataclass(frozen=True)
class ByPartition(Watermark):
    """W = the least of the watermarks of all partitions that are not idle.

    A partition is a value of ``column`` (null is one too), known from its first row on. It is idle when no row of it
    came for ``idle_after`` of processing time, and counts again with its next row: as W never moves back, its rows behind W
    are late. If all are idle, those that had rows last still count, so that the number of epochs does not matter. W is
    unknown before ``at_least`` partitions have had rows. More than ``limit`` partitions are an error, unless some are
    idle: then those that have been idle for longest are dropped.

    ``inner`` is the watermark of each partition, which follows from the marks of its rows.
    Cost: the rows, and the number of partitions.
    """

    column: str
    inner: Watermark
    idle_after: int | None
    at_least: int
    limit: int

    @property
    def follows_processing_time(self) -> bool:
        """Return whether partitions become idle."""
        return self.idle_after is not None

    @property
    def columns_read(self) -> tuple[str, ...] | None:
        """Return the column of partitions, and those that the watermark of a partition needs."""
        inner = self.inner.columns_read
        return None if inner is None else tuple(dict.fromkeys((self.column, *inner)))

    def start(self) -> Run:
        """Return no partitions."""
        none = np.zeros(0, np.int64)
        return Run(Keys(np.zeros(0, np.uint64)), pl.DataFrame(), {MARK: none, SEEN: none})

    def advanced(self, memory: Run, arrived: Arrived) -> tuple[Run, int]:
        """Return the partitions with these rows, and the least of their watermarks."""
        if len(arrived.times):
            memory = self._within_limit(self._updated(memory, arrived), arrived)
        if len(memory) < max(self.at_least, 1):
            return memory, START_OF_TIME
        return memory, self.inner.of(int(memory.sums[MARK][self._counting(memory, arrived.instant)].min()))

    def held(self, memory: Run) -> tuple[int, int]:
        """Return the number and the bytes of the partitions."""
        return len(memory), memory.nbytes

    def memory_saved(self, where: str, memory: Run) -> Saved:
        """Return the partitions as a piece."""
        return Saved((memory,), {}) if len(memory) else NOTHING

    def memory_restored(self, saved: Saved) -> Run:
        """Return the partitions."""
        return saved.pieces[0] if saved.pieces else self.start()

    def columns_of(self, piece: Run) -> pl.DataFrame:
        """Return the partitions as the columns of a run."""
        return columns_of_run(piece)

    def piece_of(self, columns: pl.DataFrame) -> Run:
        """Return the partitions of these columns, whose values have their original type."""
        name = PAYLOAD + self.column
        return run_of_columns(Layout(pl.Schema({self.column: columns.schema[name]})), columns)

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Check that the column exists."""
        require_columns(f"{where}: watermark=by_partition()", schema, [self.column])
        self.inner.require(where, schema, appends=appends)

    def described(self, memory: Run, highest: int, instant: int) -> list[str]:
        """Describe which partition holds the watermark, and which are idle."""
        if len(memory) < max(self.at_least, 1):
            return [
                f"it waits for {max(self.at_least, 1)} partitions of {self.column!r}, and {len(memory)} have been seen"
            ]
        marks, counting = memory.sums[MARK], self._counting(memory, instant)
        slowest = int(np.flatnonzero(counting)[marks[counting].argmin()])
        lines = [
            f"it is the least of the partitions that are not idle ({int(counting.sum())}): {self._named(memory, slowest)}",
            *(
                f"  there {line}"
                for line in self.inner.described(int(marks[slowest]), int(marks[slowest]), instant)
            ),
        ]
        idle = np.flatnonzero(~counting)
        if len(idle):
            idle = idle[np.argsort(memory.sums[SEEN][idle], kind="stable")]
            named = "; ".join(self._named(memory, place) for place in idle[-NAMED:][::-1].tolist())
            assert self.idle_after is not None
            lines.append(
                f"idle partitions, without rows for {spelled(self.idle_after)} ({len(idle)}): {named}"
            )
            lines[-1] += "; ..." if len(idle) > NAMED else ""
        return lines

    def _named(self, memory: Run, place: int) -> str:
        value = memory.payload.item(place, 0)
        mark, seen = int(memory.sums[MARK][place]), int(memory.sums[SEEN][place])
        return f"{self.column} = {value!r} at {shown(self.inner.of(mark))}, last seen {shown(seen)}"

    def _idle(self, memory: Run, instant: int) -> Mask:
        if self.idle_after is None:
            return np.zeros(len(memory), np.bool_)
        idle: Mask = memory.sums[SEEN] <= instant - self.idle_after
        return idle

    def _counting(self, memory: Run, instant: int) -> Mask:
        """Return the partitions that are not idle; if all are, those that became idle last."""
        idle, seen = self._idle(memory, instant), memory.sums[SEEN]
        return seen == seen.max() if idle.all() else ~idle

    def _updated(self, memory: Run, arrived: Arrived) -> Run:
        column = arrived.column(self.column)
        groups = group_columns([column], len(column))
        marks = groups.greatest(self.inner.marks(arrived))
        positions = memory.match(groups.keys)[0] if len(memory) else np.zeros(0, np.intp)
        if len(positions) < len(groups):
            new = np.setdiff1d(np.arange(len(groups)), positions)
            memory = _with_new(memory, groups, new, gather(pl.DataFrame([column]), groups.first_entries[new]))
        positions, places = memory.match(groups.keys)
        highest, seen = memory.sums[MARK].copy(), memory.sums[SEEN].copy()
        highest[places] = np.maximum(highest[places], marks[positions])
        seen[places] = np.maximum(seen[places], arrived.instant)
        return Run(memory.keys, memory.payload, {MARK: highest, SEEN: seen})

    def _within_limit(self, memory: Run, arrived: Arrived) -> Run:
        excess = len(memory) - self.limit
        if excess <= 0:
            return memory
        idle = np.flatnonzero(self._idle(memory, arrived.instant))
        if len(idle) < excess:
            raise InputError(
                f"{arrived.where}: column {self.column!r} has {len(memory)} partitions, of which {len(memory) - len(idle)}"
                f" are not idle; the limit is {self.limit}. Give by_partition() a column of fewer values, or a higher"
                " limit=; nothing has changed"
            )
        order = np.lexsort((memory.sums[MARK][idle], memory.sums[SEEN][idle]))
        remaining = np.setdiff1d(np.arange(len(memory)), idle[order[:excess]])
        return _taken(memory, remaining)


def _with_new(memory: Run, groups: Groups, new: Index, values: pl.DataFrame) -> Run:
    """Return the partitions and these new ones, whose watermarks are unknown yet."""
    keys = Keys.concat([memory.keys, groups.keys.take(new)])
    order = np.lexsort((keys.seconds(), keys.first))
    nothing = np.full(len(new), START_OF_TIME)
    sums = {name: np.concatenate((column, nothing))[order] for name, column in memory.sums.items()}
    payload = stack([memory.payload, values]) if memory.payload.width else values
    return Run(keys.take(order), gather(payload, order), sums)


def _taken(memory: Run, entries: Index) -> Run:
    sums = {name: column[entries] for name, column in memory.sums.items()}
    return Run(memory.keys.take(entries), gather(memory.payload, entries), sums)
