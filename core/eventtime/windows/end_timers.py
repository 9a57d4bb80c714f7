"""Timers of windows in event time: at their end, and then at their closing."""

from __future__ import annotations

import numpy as np

from ...data.clock import END_OF_TIME, START_OF_TIME, Clock
from ...data.columns.kernels import Ints, Keys, Mask
from ...state.partitioning import Route
from ...state.timers import Timers

ALARM = "alarm"
"""State of a window: the instant of the timer that is set for it, above the start of time."""

NEVER = np.iinfo(np.int64).max


def closing(ends: Ints, lateness: int) -> Ints:
    """Return when windows with these ends close."""
    return np.minimum(ends + lateness, END_OF_TIME)


class EndTimers:
    """Timers of windows on a clock: one at a time for each, at its end and then, with lateness, at its closing.

    A window that grows keeps its timer, and gets the next one when that is due. The instant of a timer is kept in ``column``
    of the state of its window, counted from the start of time, so that zero stands for none.
    """

    def __init__(self, clock: Clock, route: Route | None, column: str, lateness: int | None = None) -> None:
        self.clock = clock
        self.timers = Timers(route)
        self.column = column
        self._lateness = lateness

    @property
    def is_due(self) -> bool:
        """Return whether the clock has reached a timer."""
        return self.timers.is_due(self.clock.now)

    def due(self) -> Keys:
        """Return the windows whose timers the clock has reached."""
        return self.timers.due(self.clock.now)

    def set(self, keys: Keys, ends: Ints, column_before: Ints | None, is_open: Mask) -> Ints:
        """Set timers for the open ones of these windows, and return their column, made from ``column_before``."""
        now = self.clock.now
        instants = np.where(ends > now, ends, NEVER)
        if self._lateness:
            closes = closing(ends, self._lateness)
            instants = np.where((ends <= now) & (closes > now), closes, instants)
        set_for = np.zeros(len(instants), np.int64) if column_before is None else column_before
        earliest = set_for + START_OF_TIME
        is_set = (set_for != 0) & (earliest > now)
        fresh = is_open & (instants != NEVER) & (~is_set | (instants < earliest))
        places = np.flatnonzero(fresh)
        self.timers.set(instants[places], keys.take(places))
        return np.where(fresh, instants - START_OF_TIME, np.where(is_set, set_for, 0))
