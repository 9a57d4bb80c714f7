"""Sessions: spans of a key's event time without a gap, maintained while rows come and go in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...data.clock import Clock, Now
from ...data.columns.kernels import Ints, expand, frame_of, stack
from ...data.delta import Delta
from ...data.tags import tagged
from ...state.channels import Finding
from ...state.negative_counts import NeverBelowZero
from ...state.operator_contract import Operator
from ...state.partitioning import Route
from ...state.protocol import State
from ...state.run import Run, empty_run
from ...state.timers import Timers
from ..triggers.firing import MergedEnds, Merging, NothingMerged
from .batches import Batch
from .cells import Cells, CellState
from .changes import Changes
from .rows import RowState

START, END = "window_start", "window_end"


@tagged("core.eventtime.sessions:Sessions")
class Sessions(Operator):
    """Adds to every row the start of its session.

        session of a key = a maximal sequence of its rows, by time, each less than the gap after the one before
                         = [first instant, last instant + gap)

    Rows come with the start and the end of their proto-session, [instant, instant + gap), in ``window_start`` and
    ``window_end``. They are emitted with ``window_start`` only, the start of their session: its end is not in them, so
    that a session that grows at its end moves no row. If the start changes (by an earlier row, a merge, a split, a
    deletion), its rows are retracted and emitted again.

    With ``lateness``, a session is closed when the clock passes its end plus the lateness: all of its state is purged, and
    nothing is emitted for that. Without, it is kept.

    No row has a negative count: the input guarantees that, or ``never_below_zero`` refuses the epoch.

    The changes of sessions in an epoch are the finding ``changes``, and ``merging`` has them for operators on any kind of
    merging windows. Cost: the delta, and the cells and rows of sessions whose start changes or that close.
    """

    may_wake = True
    has_timers = True
    awaits_clocks = True
    gains_by_buckets = True
    role = "sessions"
    other_roles = ("rows of sessions", "timers of sessions")

    def __init__(
        self,
        schema: pl.Schema,
        keys: Sequence[str],
        gap: int,
        *,
        lateness: int | None,
        clock: Clock,
        may_retract: bool,
        never_below_zero: NeverBelowZero | None = None,
    ) -> None:
        self.schema = pl.Schema({name: dtype for name, dtype in schema.items() if name != END})
        self.ids = pl.Schema({name: schema[name] for name in (*keys, START)})
        self._keys = tuple(keys)
        self._gap = gap
        self._lateness = lateness
        self._clock = clock
        self.clocks = () if lateness is None else (clock,)
        self._may_retract = may_retract
        self._never_below_zero = never_below_zero
        self._cells = CellState(gap)
        self._rows = RowState(self.schema, keys, START, gap, retractable=may_retract)
        self._timers = Timers(Route("cell timers", gap=gap, lateness=lateness or 0))
        self._nothing = Delta.empty(self.schema)
        self.changes = Finding[MergedEnds | None]("ends", None)
        self.merging = Finding[Merging]("moves", NothingMerged())
        self.gives = (self.changes, self.merging)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        timers = [] if self._lateness is None else [self._timers]
        return [self._cells.spine, self._rows.spine, *timers]

    def is_due(self, now: Now) -> bool:
        """Return whether a step without rows might close a session."""
        return self._timers.is_due(self._clock.now)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows that came or went, and those whose session has another start now."""
        delta = deltas[0].net(may_retract=self._may_retract)
        if not len(delta):
            self._stage(None, None)
            return self._nothing
        batch = Batch.of(delta.frame, delta.diffs, self._keys, START, self._gap)
        words = self._cells.words(batch.keys.take(batch.key), batch.number)
        rows = frame_of([batch.frame.get_column(name) for name in self.schema])
        added = self._rows.run(now.epoch, batch.of_rows(words.first), rows, batch.diffs)
        if self._never_below_zero is not None:
            self._never_below_zero.require(*self._rows.counts_of_retracted(added))
        cells = batch.touched(self._cells.look_up(words))
        cells = batch.without_retracted(cells, words.first, self._rows, added)
        cells = self._cells.whole_sessions(batch.keys, self._cells.with_neighbours(batch.keys, cells))
        run = self._cells.run(batch.keys, cells)
        self._set_timers(batch, cells)
        self._stage(run, added)
        out, instants = self._output(batch, cells, rows)
        changes = Changes(batch, cells, self.ids, self._gap, instants)
        self.changes.set(changes)
        self.merging.set(changes)
        return out

    def _output(self, batch: Batch, cells: Cells, rows: pl.DataFrame) -> tuple[Delta, Ints]:
        """Return the rows that came or went, with their present sessions, and earlier rows that moved; with their instants."""
        starts = np.empty(len(batch.segments), np.int64)
        own = cells.touched >= 0
        starts[cells.touched[own]] = cells.now.start[own]
        came = self._with_start(rows, batch.of_rows(starts))
        moved = cells.take(np.flatnonzero(cells.moved))
        if not len(moved):
            return Delta.of(came, batch.diffs), batch.instants
        keys = batch.keys.take(moved.key)
        words = self._cells.words(keys, moved.number)
        entries = self._rows.read(words.first, keys, moved.number, self._rows.spine.runs)
        entries = self._rows.present(entries)
        instants = self._rows.instants(entries)
        old = self._with_start(entries.rows, moved.was.start[entries.owners])
        new = self._with_start(entries.rows, moved.now.start[entries.owners])
        out = Delta.of(stack([came, old, new]), np.concatenate([batch.diffs, -entries.diffs, entries.diffs]))
        return out, np.concatenate([batch.instants, instants, instants])

    def _with_start(self, rows: pl.DataFrame, starts: Ints) -> pl.DataFrame:
        column = pl.Series(START, starts).cast(self.schema[START])
        return frame_of([column if one.name == START else one for one in rows.get_columns()])

    # Closing

    def _set_timers(self, batch: Batch, cells: Cells) -> None:
        """Set timers for the cells with which sessions end now, at the instants when these may close."""
        if self._lateness is None:
            return
        ended = cells.tails(cells.was, self._gap) & (cells.was.last <= cells.now.last)
        ends = np.flatnonzero(cells.tails(cells.now, self._gap) & ~ended)
        words = self._cells.words(batch.keys.take(cells.key[ends]), cells.number[ends])
        self._timers.set(cells.now.last[ends] + self._gap + self._lateness, words)

    def _stage(self, run: Run | None, added: Run | None) -> None:
        purged = self._closed(run, added) if self._lateness is not None else None
        gone, gone_rows = purged if purged is not None else (None, None)
        cells, rows = self._cells.spine, self._rows.spine
        if run is not None and added is not None:
            cells.stage(run, gone)
            rows.stage(added, gone_rows)
        elif gone is not None and gone_rows is not None:
            cells.stage(empty_run(cells.layout), gone)
            rows.stage(empty_run(rows.layout), gone_rows)

    def _closed(self, run: Run | None, added: Run | None) -> tuple[Run, Run] | None:
        """Return the runs that purge the cells and the rows of all sessions that are closed by the clock."""
        assert self._lateness is not None
        due = self._timers.due(self._clock.now)
        if not len(due):
            return None
        extents = self._cells.look_up(due, run)
        there = np.flatnonzero(extents.exists)
        words, extents = due.take(there), extents.take(there)
        number = extents.last // self._gap
        keys = self._cells.key_words(words, number)
        after = self._cells.look_up(self._cells.words(keys, number + 1), run)
        tails = ~(after.exists & (after.first - extents.last < self._gap))
        closes = extents.last + self._gap + self._lateness
        is_closed = closes <= self._clock.now
        again = np.flatnonzero(tails & ~is_closed)
        self._timers.set(closes[again], words.take(again))
        over = np.flatnonzero(tails & is_closed)
        if not len(over):
            return None
        # All cells from the one of a session's start to its last hold rows.
        number, owners = expand(extents.start[over] // self._gap, number[over] + 1)
        keys = keys.take(over).take(owners)
        words = self._cells.words(keys, number)
        cells = self._cells.look_up(words, run)
        runs = self._rows.spine.runs
        rows = self._rows.read(words.first, keys, number, runs if added is None else (*runs, added))
        return self._cells.purge(words, cells), self._rows.purge(rows)


@tagged("core.eventtime.sessions:SessionEnds")
class SessionEnds(Operator):
    """Emits how far the ends of sessions moved, as the diffs of their ids, which add up to the end of each.

    The same for windows that a user's function merges, whose operator is ``MergeWindows``.

        ends(A)[key, start] = last instant of that session + gap, in microseconds since 1970-01-01 UTC

    Rows are the keys and ``window_start``, ``ids``. They are made from the findings of ``Sessions`` in the same epoch; its
    output is the input here, so that this operator is visited. The closing of a session moves no end.
    Cost: the sessions whose end moved.
    """

    def __init__(self, ids: pl.Schema, changes: Finding[MergedEnds | None]) -> None:
        self.schema = ids
        self._changes = changes
        self.looks_at = (changes,)
        self._nothing = Delta.empty(ids)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change of the ends."""
        changes = self._changes.value
        return self._nothing if changes is None else changes.ends()
