"""Rows that come too late: kept out of windows that are closed, and entered into the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..clock import START_OF_TIME, Clock, Now
from ..delta import Delta
from ..errors import InputError
from ..instants import instants_in, shown
from ..kernels import Ints, Mask, keep, physical
from ..ledger import Ledger, Refused
from ..schema import DIFF
from ..tags import tagged

LastWindow = Callable[[Ints, Ints], Mask]
"""Of copies of rows, given their instants and the starts of their windows: which stand in the last window of their row."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """When a row is too late: its window's end plus ``allowed`` microseconds is behind the watermark.

    ``event_time`` is the column of instants, needed where a row may stand in several windows: it is late if it
    stands in none that is open. ``view`` says in the ledger for whom the row was too late.
    """

    view: str
    source: str
    allowed: int
    window_start: str = "window_start"
    window_end: str = "window_end"
    event_time: str | None = None
    shift: int = 0


@tagged("core.eventtime.lateness:DropLate")
class DropLate:
    """Rows whose window is still open; the others are refused into the ledger.

    Judged by the watermark before this epoch: rows come before the watermark of their own epoch. A session is
    judged as that of the row alone, so that what is late does not depend on what else has come.
    """

    def __init__(
        self,
        schema: pl.Schema,
        lateness: Lateness,
        clock: Clock,
        ledger: Ledger,
        last_window: LastWindow | None = None,
    ) -> None:
        self.schema = schema
        self._lateness = lateness
        self._clock = clock
        self._ledger = ledger
        self._last_window = last_window

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The rows that are in time."""
        (delta,) = deltas
        late = too_late(delta, self._lateness, self._clock)
        if late is None:
            return delta
        lost = late
        if self._last_window is not None:
            starts = physical(delta.frame.get_column(self._lateness.window_start))
            lost = late & self._last_window(_instants(delta.frame, self._lateness), starts)
        if lost.any():
            self._ledger.stage(
                Refused(
                    now.epoch,
                    self._lateness.source,
                    f"too late for {self._lateness.view}: its window was closed",
                    keep(delta.frame, lost),
                    self._clock.before,
                )
            )
        return Delta(keep(delta.frame, ~late), delta.is_consolidated)


@tagged("core.eventtime.lateness:LateRows")
class LateRows:
    """The rows whose window is closed: what ``DropLate`` keeps out."""

    def __init__(
        self, schema: pl.Schema, lateness: Lateness, clock: Clock, last_window: LastWindow | None
    ) -> None:
        self.schema = schema
        self._lateness = lateness
        self._clock = clock
        self._last_window = last_window
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The rows that are too late."""
        (delta,) = deltas
        late = too_late(delta, self._lateness, self._clock)
        if late is None:
            return self._nothing
        if self._last_window is not None:
            starts = physical(delta.frame.get_column(self._lateness.window_start))
            late &= self._last_window(_instants(delta.frame, self._lateness), starts)
        return Delta(keep(delta.frame, late), delta.is_consolidated) if late.any() else self._nothing


@tagged("core.eventtime.lateness:HoldAt")
class HoldAt:
    """Add the instant at which the watermark would be held for a row: its event time, unless it is behind already.

    Then it is the end of the window less a microsecond, as no watermark can be held at what it has passed. Without
    a clock, it is the event time in any case.
    """

    def __init__(
        self, schema: pl.Schema, name: str, event_time: str, shift: int, clock: Clock | None
    ) -> None:
        self.schema = schema
        self._name = name
        self._event_time = event_time
        self._shift = shift
        self._clock = clock

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The rows with the column."""
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
            pl.DataFrame([*frame.get_columns()[:-1], column, frame.get_column(DIFF)]), delta.is_consolidated
        )


def too_late(delta: Delta, lateness: Lateness, clock: Clock) -> Mask | None:
    """Which rows stand in a window that is closed; None: none of them."""
    if not len(delta) or clock.before == START_OF_TIME:
        return None
    ends = physical(delta.frame.get_column(lateness.window_end))
    late: Mask = ends <= clock.before - lateness.allowed
    return late if late.any() else None


def _instants(frame: pl.DataFrame, lateness: Lateness) -> Ints:
    assert lateness.event_time is not None, "rows in several windows are told apart by their instants"
    return instants_in(frame.get_column(lateness.event_time))[0] + lateness.shift


@tagged("core.eventtime.lateness:RequireInTime")
class RequireInTime:
    """The rows as they come; one that is dated behind the watermark is an error."""

    def __init__(self, where: str, schema: pl.Schema, event_time: str, clock: Clock) -> None:
        self.schema = schema
        self._where = where
        self._event_time = event_time
        self._clock = clock

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The change itself."""
        (delta,) = deltas
        if len(delta) and self._clock.before > START_OF_TIME:
            times, _ = instants_in(delta.frame.get_column(self._event_time))
            behind = np.flatnonzero(times < self._clock.before)
            if len(behind):
                row = delta.rows.row(int(behind[0]), named=True)
                raise InputError(
                    f"{self._where}: column {self._event_time!r}: the row {row} is dated behind the watermark, "
                    f"{shown(self._clock.before)}; nothing has changed. Move times forward only, or leave out strict=True"
                )
        return delta
