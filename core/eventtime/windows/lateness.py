"""Rows that come too late are kept out of closed windows, and entered into the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.clock import START_OF_TIME, Clock, Now
from ...data.columns.grouping import group
from ...data.columns.json_texts import shown_row
from ...data.columns.kernels import Ints, Mask, frame_of, gather, keep, key_words, physical, series_of
from ...data.delta import Delta
from ...data.errors import InputError
from ...data.instants import instants_in, shown
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.ledger import MISSED, Ledger, Refused
from ...state.operator_contract import Operator

LastEnd = Callable[[Ints], Ints]
"""Returns the end of a row's last window, given its instant; for rows that may be in several windows."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """The rule for late rows: a row is too late if its window's end plus ``allowed`` microseconds is behind the watermark.

    ``event_time`` is the column of instants, needed if a row may be in several windows: it is late if all of them are
    closed, and misses those that are. ``view`` is the view that the ledger names.
    """

    view: str
    source: str
    allowed: int
    window_start: str = "window_start"
    window_end: str = "window_end"
    event_time: str | None = None
    shift: int = 0


@tagged("core.eventtime.lateness:DropLate")
class DropLate(Operator):
    """Passes rows whose window is still open; the others are refused into the ledger, with the windows that they missed.

    Rows are compared with the watermark before this epoch, as they come before the watermark of their own epoch. A session is
    taken as that of the row alone, so that lateness does not depend on other rows. A row in several windows has one entry in
    the ledger, which shows whether it is in others: each pair of a row and a window is passed on, or is in the ledger.
    """

    is_replayable = False

    def __init__(
        self,
        schema: pl.Schema,
        lateness: Lateness,
        clock: Clock,
        ledger: Ledger,
        last_end: LastEnd | None = None,
    ) -> None:
        self.schema = schema
        self._lateness = lateness
        self._clock = clock
        self.clocks = (clock,)
        self._ledger = ledger
        self._last_end = last_end

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows that are in time."""
        (delta,) = deltas
        late = too_late(delta, self._lateness, self._clock)
        if late is None:
            return delta
        refused = keep(delta.frame, late)
        if self._last_end is None:
            self._refuse(now, refused, "its window was closed")
        else:
            lost = self._are_lost(refused, self._last_end)
            missed = (
                "all of its windows were closed",
                "some of its windows were closed, and it is in the others",
            )
            self._refuse(now, self._with_windows(keep(refused, lost)), missed[0])
            self._refuse(now, self._with_windows(keep(refused, ~lost)), missed[1], elsewhere=True)
        return delta.where(~late)

    def _are_lost(self, copies: pl.DataFrame, last_end: LastEnd) -> Mask:
        lost: Mask = (
            last_end(_instants(copies, self._lateness)) <= self._clock.before - self._lateness.allowed
        )
        return lost

    def _refuse(self, now: Now, rows: pl.DataFrame, why: str, *, elsewhere: bool = False) -> None:
        if rows.height:
            reason = f"too late for {self._lateness.view}: {why}"
            source, behind = self._lateness.source, self._clock.before
            self._ledger.stage(Refused(now.epoch, source, reason, rows, behind, elsewhere))

    def _with_windows(self, copies: pl.DataFrame) -> pl.DataFrame:
        """Return each row once, in the last of the windows that it missed, with all of these in a column."""
        bounds = [self._lateness.window_start, self._lateness.window_end]
        copies = Delta(copies).consolidate().frame
        rows = copies.drop(bounds)
        groups = group(key_words(rows.get_columns(), rows.height))
        numbered = copies.select(*bounds, pl.Series(MISSED, groups.numbers))
        missed = (
            numbered.sort(MISSED, bounds[0])
            .group_by(MISSED, maintain_order=True)
            .agg(pl.struct(bounds).alias("windows"))
            .get_column("windows")
        )
        last = missed.list.last().struct.unnest()
        first_copies = gather(copies, groups.first_entries)
        columns = [
            last.get_column(each.name) if each.name in bounds else each for each in first_copies.get_columns()
        ]
        # The rows are in the order in which they came, not in that of their hashes.
        entries = frame_of([*columns[:-1], missed.alias(MISSED), columns[-1]])
        return gather(entries, np.argsort(groups.first_entries))


@tagged("core.eventtime.lateness:LateRows")
class KeepLateRows(Operator):
    """Emits the rows of which all windows are closed, in the last of these; or each in each window that it misses.

    The latter are the rows that ``DropLate`` refuses; without ``last_end`` both are the same.
    """

    is_replayable = False

    def __init__(self, schema: pl.Schema, lateness: Lateness, clock: Clock, last_end: LastEnd | None) -> None:
        self.schema = schema
        self._lateness = lateness
        self._clock = clock
        self.clocks = (clock,)
        self._last_end = last_end
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows that are too late."""
        (delta,) = deltas
        late = too_late(delta, self._lateness, self._clock)
        if late is None:
            return self._nothing
        if self._last_end is not None:
            ends = physical(delta.column(self._lateness.window_end))
            late &= ends == self._last_end(_instants(delta.frame, self._lateness))
        return Delta(keep(delta.frame, late), delta.is_consolidated) if late.any() else self._nothing


@tagged("core.eventtime.lateness:HoldAt")
class HoldAt(Operator):
    """Adds the instant at which the watermark would be held for a row: its event time, unless that has been passed.

    Then it is the end of the window less a microsecond, as a watermark cannot be held at an instant that it has passed.
    Without a clock, it is always the event time.
    """

    is_replayable = False

    def __init__(
        self, schema: pl.Schema, name: str, event_time: str, shift: int, clock: Clock | None
    ) -> None:
        self.schema = schema
        self._name = name
        self._event_time = event_time
        self._shift = shift
        self._clock = clock
        self.clocks = () if clock is None else (clock,)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows with the column."""
        (delta,) = deltas
        frame = delta.frame
        ends = frame.get_column("window_end")
        dtype = ends.dtype
        times = instants_in(frame.get_column(self._event_time))[0] + self._shift
        held = times
        if self._clock is not None:
            held = np.where(times >= self._clock.before, times, physical(ends) - 1)
        column = pl.Series(self._name, held).cast(dtype)
        return Delta(
            frame_of([*frame.get_columns()[:-1], column, frame.get_column(DIFF)]), delta.is_consolidated
        )


def too_late(delta: Delta, lateness: Lateness, clock: Clock) -> Mask | None:
    """Return which rows are in a closed window; None if none are."""
    if not len(delta) or clock.before == START_OF_TIME:
        return None
    ends = physical(delta.column(lateness.window_end))
    late: Mask = ends <= clock.before - lateness.allowed
    return late if late.any() else None


def _instants(frame: pl.DataFrame, lateness: Lateness) -> Ints:
    assert lateness.event_time is not None, "rows in several windows are told apart by their instants"
    return instants_in(frame.get_column(lateness.event_time))[0] + lateness.shift


@tagged("core.eventtime.lateness:RequireInTime")
class RequireInTime(Operator):
    """Passes rows on; one that is dated behind the watermark is an error."""

    is_replayable = False

    def __init__(self, where: str, schema: pl.Schema, event_time: str, clock: Clock) -> None:
        self.schema = schema
        self._where = where
        self._event_time = event_time
        self._clock = clock
        self.clocks = (clock,)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change itself."""
        (delta,) = deltas
        if len(delta) and self._clock.before > START_OF_TIME:
            times, _ = instants_in(series_of(delta.column(self._event_time)))
            behind = np.flatnonzero(times < self._clock.before)
            if len(behind):
                row = shown_row(delta.rows, int(behind[0]))
                raise InputError(
                    f"{self._where}: column {self._event_time!r}: the row {row} is dated behind the watermark, "
                    f"{shown(self._clock.before)}; nothing has changed. Move times forward only, or leave out strict=True"
                )
        return delta
