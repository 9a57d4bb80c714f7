"""The watermark after windows, which is held back by the first window that has something to emit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME, Clock, MovedClock
from ...data.columns.grouping import group
from ...data.columns.kernels import Ints, Keys, Mask
from ...state.partitioning import ONE, Route
from ...state.protocol import KeptIn
from ...state.snapshot import Saved
from ...state.spine import Spine
from ...state.timers import Timers
from ..triggers.window_columns import EMITTED, END, PENDING, START

HELD_AT = "held_at"
"""The saved fact of a held watermark that has the instant at which windows hold it."""

FIRST_HOLDS = 16
"""The number of timers of each run that are read at first to find what holds the watermark."""


def is_held(facts: Mapping[str, Any]) -> bool:
    """Return whether these are the saved facts of a held watermark."""
    return HELD_AT in facts


def held_at_of(facts: Mapping[str, Any]) -> int:
    """Return the instant at which windows hold a saved watermark; the end of time if none does."""
    held_at: int = facts.get(HELD_AT, END_OF_TIME)
    return held_at


def with_held_at(facts: Mapping[str, Any], held_at: int) -> dict[str, Any]:
    """Return the saved facts of a watermark that windows hold at this instant."""
    return {**facts, HELD_AT: held_at}


class HeldWatermark(MovedClock):
    """The clock after windows: the watermark, held back by panes that have not been emitted yet.

    Dataflow Model, section 2.3, and Streaming 102: a watermark downstream must not pass a pane that is to come. Its state is
    two instants, and not a spine.
    """

    route: Route | None = ONE
    kept_in: KeptIn = "both"
    is_held = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed = self._staged = (START_OF_TIME, END_OF_TIME)
        self._is_found = self._was_found = False

    @property
    def before(self) -> int:
        """Return the held watermark as of the last commit."""
        self._check("before")
        return self._committed[0] if self._pinned is None else self._pinned[0]

    @property
    def now(self) -> int:
        """Return the held watermark after this epoch."""
        self._check("now")
        return self._staged[0] if self._pinned is None else self._pinned[1]

    @property
    def held_at(self) -> int:
        """Return the instant at which the watermark was held last; the end of time if nothing held it."""
        return self._staged[1]

    @property
    def is_found(self) -> bool:
        """Return whether ``held_at`` was computed here; a restored one may be from a time with other windows in this bucket."""
        return self._is_found

    @property
    def would_move(self) -> bool:
        """Return whether it is unknown what holds the watermark, or whether the clock has moved while nothing does."""
        watermark, held_at = self._committed
        return not self._is_found or min(self._clock.now, held_at) > watermark

    def stage(self, held_at: int) -> None:
        """Hold the watermark at this instant; it never moves back."""
        self._staged = max(self._committed[0], min(self._clock.now, held_at)), held_at
        self._is_found = True

    def commit(self) -> None:
        """Make what was staged the state."""
        self._committed, self._was_found = self._staged, self._is_found

    def discard(self) -> None:
        """Drop what was staged."""
        self._staged, self._is_found = self._committed, self._was_found

    def saved(self) -> Saved:
        """See ``State``: no pieces."""
        held, held_at = self._staged
        return Saved((), {"committed": held, HELD_AT: held_at})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        facts = saved.facts
        self._committed = facts.get("committed", START_OF_TIME), held_at_of(facts)
        self._was_found = False
        self.discard()

    def columns_of(self, piece: object) -> pl.DataFrame:
        """Raise, as there are no pieces."""
        raise AssertionError("a held watermark has no pieces")

    def piece_of(self, columns: pl.DataFrame) -> object:
        """Raise, as there are no pieces."""
        raise AssertionError("a held watermark has no pieces")

    entries = 0
    nbytes = 0


class WatermarkHolds:
    """Finds where windows hold the watermark back: timers at the earliest event time that a pane of each may have.

    That is the end of the window less a microsecond, or its start if panes may be dated as early (``by_start``).
    ``states`` has the state of the windows: a timer counts as long as its window has something to emit and would date it so.
    """

    def __init__(self, held: HeldWatermark, states: Spine, *, by_start: bool) -> None:
        self.timers = Timers(states.route)
        self._held = held
        self._states = states
        self._by_start = by_start

    def set(self, keys: Keys, before: Mapping[str, Ints], after: Mapping[str, Ints], is_open: Mask) -> None:
        """Set timers for windows that have something to emit since this epoch, or whose panes have other dates now."""
        stamps, nothing = self._stamps(after), np.zeros(len(keys), np.int64)
        columns_before = {name: before.get(name, nothing) for name in (PENDING, START, END, EMITTED)}
        same = (columns_before[PENDING] != 0) & (self._stamps(columns_before) == stamps)
        fresh = np.flatnonzero(is_open & (after[PENDING] != 0) & ~same)
        self.timers.set(stamps[fresh], keys.take(fresh))

    def hold(self, *, anew: bool) -> None:
        """Hold the watermark back at the first window with a pane to emit.

        That window is the same as before if no window has changed, unless it is to be found ``anew``.
        """
        if not anew:
            self._held.stage(self._held.held_at)
            return
        take, held_at = FIRST_HOLDS, None
        while held_at is None:
            heads = self.timers.heads(END_OF_TIME)
            seen = [instants[take - 1] for instants, _ in heads if len(instants) > take]
            horizon = int(min(seen)) if seen else END_OF_TIME
            held_at = self._first(
                [(at[:take], keys.take(np.arange(len(at[:take])))) for at, keys in heads], horizon
            )
            if held_at is None and not seen:
                held_at = END_OF_TIME
            take *= 4
        # Windows before it have emitted since.
        self.timers.due(held_at - 1)
        self._held.stage(held_at)

    def _first(self, heads: list[tuple[Ints, Keys]], horizon: int) -> int | None:
        """Return the first instant, not after the horizon, at which one of these windows still has something to emit."""
        if not heads:
            return None
        instants = np.concatenate([at for at, _ in heads])
        groups = group(Keys.concat([keys for _, keys in heads]))
        state = self._states.totals(groups.keys, with_delta=True)
        nothing = np.zeros(len(groups), np.int64)
        columns = {name: state.get(name, nothing) for name in (PENDING, START, END, EMITTED)}
        window = groups.numbers
        holds = (columns[PENDING][window] != 0) & (self._stamps(columns)[window] == instants)
        holds &= instants <= horizon
        return int(instants[holds].min()) if holds.any() else None

    def _stamps(self, state: Mapping[str, Ints]) -> Ints:
        """Return the earliest event time that a pane of these windows may have."""
        if self._by_start:
            return state[START]
        # The panes that a session will retract may be dated before the one that it will emit.
        emitted_end = state[EMITTED] + START_OF_TIME
        return np.where((state[EMITTED] != 0) & (emitted_end < state[END]), emitted_end, state[END]) - 1
