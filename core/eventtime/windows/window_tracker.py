"""Which windows are open, which of them emit in this epoch, and which are closed by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME, Clock, MovedClock, Now
from ...data.columns.grouping import Groups, group
from ...data.columns.kernels import Index, Ints, Keys, Mask, frame_of, gather, physical
from ...data.delta import Delta
from ...data.tags import tagged
from ...state.channels import Finding
from ...state.operator_contract import Operator
from ...state.partitioning import KeyColumns
from ...state.protocol import State
from ...state.run import Layout, run_of_groups
from ...state.spine import Spine
from ...state.timers import Timers
from ..triggers.combinators import trigger_state
from ..triggers.firing import EARLY, LATE, NO_KEYS, ON_TIME, Firing, Merging, Moves
from ..triggers.inputs import TriggerInputs
from ..triggers.kinds import Trigger
from ..triggers.leaves import NO_TIMER, TriggerContext
from ..triggers.window_columns import (
    EMITTED,
    END,
    OPEN,
    PAST,
    PENDING,
    ROWS,
    START,
    TriggerColumns,
    merge_states,
)
from .end_timers import ALARM, EndTimers, closing
from .holds import HeldWatermark, WatermarkHolds

TRIGGER_INPUT = "trigger:"
"""The prefix of a column with a trigger's summand of a row, an integer."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """The specification of a tracker: windows by ``keys``, the columns that identify a (key, window).

    ``window_end`` names the column of ends; None for sessions, whose ends add up from a second input, and for one window
    over all time (``is_global``). Durations are microseconds. The watermark after the windows is held at the end of a
    window that has something to emit, less a microsecond, or at its ``window_start`` if panes may be dated as early as
    that. ``by`` are the first of the keys, if only these determine the bucket of a window.
    """

    keys: tuple[str, ...]
    window_end: str | None
    is_global: bool
    trigger: Trigger
    lateness: int | None
    always: bool = False
    discards: bool = False
    window_start: str | None = None
    by: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False)
class _Active:
    """The windows that change in this epoch, and the position among them of each entry of a list of keys."""

    groups: Groups
    places: list[Index]


@tagged("core.eventtime.tracking:TrackWindows")
class TrackWindows(Operator):
    """Keeps the state of every open window, and decides which of them emit. Rows pass unchanged.

    It is evaluated once per epoch, at its end, in one vectorised step for the windows that rows, the watermark, processing
    time or a signal have touched, and no others. A pending pane is emitted before its window closes. The finding ``firing``
    has the decisions, and ``expired`` the windows whose rows are purged when the epoch is over: those that close and, if
    panes discard, all that emit.
    """

    may_wake = True
    has_timers = True
    awaits_clocks = True
    role = "open windows"
    is_replayable = False

    def __init__(
        self,
        schema: pl.Schema,
        tracking: Tracking,
        clock: Clock,
        merging: Finding[Merging] | None = None,
        percentiles: Mapping[float, Clock] | None = None,
    ) -> None:
        self.schema = schema
        self.firing = Finding("firing", Firing())
        self.expired = Finding("expired", NO_KEYS)
        self.gives = (self.firing, self.expired)
        self._key_columns = KeyColumns.of(tracking.keys, tracking.by)
        route = self._key_columns.route
        self.spine = Spine(Layout(), route)
        self.hold = HeldWatermark(clock)
        self._tracking = tracking
        self.clock = clock
        self._merging = merging
        self.looks_at = () if merging is None else (merging,)
        self.percentiles = dict(percentiles or {})
        self.clocks = (clock, *self.percentiles.values())
        self._trigger = trigger_state(tracking.trigger)
        self._trigger_columns = TriggerColumns.of(self._trigger)
        self._inputs = TriggerInputs(tracking.trigger, TRIGGER_INPUT, tracking.keys)
        self._ends = EndTimers(clock, route, ALARM, tracking.lateness)
        self._percentile_ends = [
            EndTimers(percentile, route, f"{ALARM} {share}") for share, percentile in self.percentiles.items()
        ]
        self._processing = Timers(route)
        self._holds = WatermarkHolds(self.hold, self.spine, by_start=tracking.window_start is not None)
        self._signals: Keys | None = None
        self._awaits_signal = any(part.awaits_signal for part in tracking.trigger.every_part())

    @property
    def other_roles(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of its states but the windows themselves."""
        shares = (f"timers of {share:.0%} of the rows" for share in self.percentiles)
        timers = (
            "timers of window ends",
            "timers of processing time",
            "timers that hold the watermark",
            *shares,
        )
        return (*timers, "held watermark")

    @property
    def states(self) -> list[State]:
        """Return its states."""
        ends, holds = self._ends.timers, self._holds.timers
        percentiles = [each.timers for each in self._percentile_ends]
        # Checkpoints identify them by their places in this list.
        return [self.spine, ends, self._processing, holds, *percentiles, self.hold]

    def signal(self, keys: Keys) -> None:
        """Signal these windows in the coming epoch."""
        self._signals = keys

    def forget_signals(self) -> None:
        """Clear the signals, as their epoch is over."""
        self._signals = None

    @property
    def moved_clock(self) -> MovedClock | None:
        """Return the watermark after its windows, if an operator reads it."""
        return self.hold if self.hold.is_read else None

    def is_due(self, now: Now) -> bool:
        """Return whether a step without rows would evaluate any window."""
        return (
            (self._signals is not None and len(self._signals) > 0)
            or self._processing.is_due(now.instant)
            or self._ends.is_due
            or any(ends.is_due for ends in self._percentile_ends)
        )

    def wakes_on_time(self, now: Now) -> bool:
        """Return whether a window is to be evaluated, or whether the watermark that the windows hold back moves."""
        return self.is_due(now) or (self.hold.is_read and self.hold.would_move)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Decide which windows fire and close, and return the rows unchanged."""
        rows = deltas[0]
        ends = deltas[1] if len(deltas) > 1 else None
        active = self._active(now, rows, ends)
        if len(active.groups):
            before = self.spine.totals(active.groups.keys)
            context, after = self._context(now, active, before, rows, ends)
            firing = self._fire(active.groups.keys, context, after)
            if self._awaits_signal:
                firing = self._with_emptied(firing, active, after, rows)
            self.firing.set(firing)
            self._stage(active.groups, before, after, context)
        if self.hold.is_read:
            self._holds.hold(anew=len(active.groups) > 0 or not self.hold.is_found)
        return rows

    # Touched windows

    def _active(self, now: Now, rows: Delta, ends: Delta | None) -> _Active:
        lists = [self._words(rows)]
        lists.append(NO_KEYS if ends is None else self._words(ends))
        moves = self._moves
        lists += [NO_KEYS, NO_KEYS] if moves is None else [moves.old, moves.new]
        lists.append(self._ends.due())
        lists.append(self._processing.due(now.instant))
        lists += [ends.due() for ends in self._percentile_ends]
        lists.append(NO_KEYS if self._signals is None else self._signals)
        groups = group(Keys.concat([keys for keys in lists if len(keys)] or [NO_KEYS]))
        cuts = np.cumsum([len(keys) for keys in lists])
        return _Active(groups, np.split(groups.numbers, cuts[:-1]))

    @property
    def _moves(self) -> Moves | None:
        """Return the windows that merged into others in this epoch."""
        return None if self._merging is None else self._merging.value.moves

    def _words(self, delta: Delta) -> Keys:
        if not len(delta):
            return NO_KEYS
        return self._key_columns.words_of(delta)

    # Changes of their states

    def _context(
        self, now: Now, active: _Active, before: Mapping[str, Ints], rows: Delta, ends: Delta | None
    ) -> tuple[TriggerContext, dict[str, Ints]]:
        """Return the state after the rows of the epoch, before triggers are evaluated."""
        size, nothing = len(active.groups), np.zeros(len(active.groups), np.int64)
        after = {
            name: before.get(name, nothing).copy()
            for name in (OPEN, END, START, ROWS, PENDING, PAST, EMITTED)
        }
        own, ended, old, new = active.places[:4]
        was_open = after[OPEN] != 0
        np.add.at(after[ROWS], own, rows.diffs)
        touched = np.zeros(size, np.bool_)
        touched[own] = touched[ended] = touched[new] = touched[old] = True
        self._set_ends(after, own, ended, rows, ends)
        after[OPEN] = np.where(touched | was_open, 1, 0)
        changed_end = touched & (~was_open | (after[END] != before.get(END, nothing)))
        open_again = after[END] > self.clock.before
        state = {name: before[name].copy() for name in before if name not in after}
        merge_states(self._trigger_columns, after, state, old, new, was_open)
        after[PAST] = np.where(was_open | _at(new, size), after[PAST], 1)
        after[PAST] = np.where(open_again, 0, after[PAST])
        after[OPEN][old] = 0
        after[PENDING] = np.where(touched, 1, after[PENDING])
        context = self._seen(now, active, after, rows, own, state)
        self._trigger.merged(context, _at(new, size))
        self._trigger.back_to_early(context, changed_end & open_again)
        self._trigger.observe(context, after[OPEN] != 0)
        return context, after

    def _set_ends(
        self, after: dict[str, Ints], own: Index, ended: Index, rows: Delta, ends: Delta | None
    ) -> None:
        if self._tracking.is_global:
            after[END][own] = END_OF_TIME
        elif self._tracking.window_end is not None:
            after[END][own] = physical(rows.column(self._tracking.window_end))
        elif ends is not None:
            np.add.at(after[END], ended, ends.diffs)
        if self.hold.is_read and self._tracking.window_start is not None:
            after[START][own] = physical(rows.column(self._tracking.window_start))

    def _seen(
        self,
        now: Now,
        active: _Active,
        after: dict[str, Ints],
        rows: Delta,
        own: Index,
        state: dict[str, Ints],
    ) -> TriggerContext:
        size = len(active.groups)
        # Rows and signals of a window that has merged into another one are for that one.
        heirs = np.arange(size)
        heirs[active.places[2]] = active.places[3]
        merging = None if self._merging is None else self._merging.value
        inputs = self._inputs.of(rows, heirs[own], size, merging)
        return TriggerContext(
            ends=after[END],
            rows=inputs.rows,
            inputs=inputs.sums,
            patterns=inputs.patterns,
            signalled=_at(heirs[active.places[-1]], size),
            pending=after[PENDING] != 0,
            watermark_before=self.clock.before,
            watermark=self.clock.now,
            processing_time=now.instant,
            always=self._tracking.always,
            passed={share: after[END] <= clock.now for share, clock in self.percentiles.items()},
            state=state,
        )

    # Decisions

    def _fire(self, keys: Keys, context: TriggerContext, after: dict[str, Ints]) -> Firing:
        tracking, watermark = self._tracking, self.clock.now
        is_open = after[OPEN] != 0
        closed = context.none
        if tracking.lateness is not None:
            closed = (closing(after[END], tracking.lateness) <= watermark) & is_open
        fires = closed & (context.pending | tracking.always)
        if self._merging is not None:
            # A session without rows does not exist, so its panes are retracted at once.
            fires |= is_open & (after[ROWS] == 0)
        ready = self._trigger.ready(context) & is_open
        self._trigger.fire(context, ready)
        fires |= ready
        if tracking.always:
            # Timers begin again at once, as the next one needs no further row.
            self._trigger.observe(_without_rows(context), is_open & ~closed)
        past = context.is_past
        timing = np.where(~past, EARLY, np.where(after[PAST] == 0, ON_TIME, LATE))
        after[PENDING] = np.where(fires, 0, after[PENDING])
        if self._merging is not None:
            after[EMITTED] = np.where(fires, after[END] - START_OF_TIME, after[EMITTED])
        # Rows that come after the end has been passed, with nothing left to emit, make a late pane.
        after[PAST] = np.where(past & (fires | (after[PENDING] == 0)), 1, after[PAST])
        gone = closed | (is_open & (after[ROWS] == 0) & (after[PENDING] == 0))
        after[OPEN] = np.where(gone, 0, after[OPEN])
        places = np.flatnonzero(fires)
        self.expired.set(keys.take(np.flatnonzero(closed | fires if tracking.discards else closed)))
        return Firing(
            keys.take(places),
            timing[places],
            closed[places],
            after[ROWS][places] != 0,
            gone[places],
            keys.take(np.flatnonzero(closed)),
            keys.take(np.flatnonzero(gone)),
            self._moves,
        )

    def _with_emptied(
        self, firing: Firing, active: _Active, after: Mapping[str, Ints], rows: Delta
    ) -> Firing:
        """Return the firing with the windows that have lost all their rows in this epoch and stay open, named by these rows."""
        own = active.places[0]
        row = np.full(len(active.groups), -1)
        row[own] = np.arange(len(own))
        places = np.flatnonzero((row >= 0) & (after[OPEN] != 0) & (after[ROWS] == 0))
        if not len(places):
            return firing
        names = frame_of(rows.columns(self._tracking.keys))
        return replace(firing, emptied=active.groups.keys.take(places), names=gather(names, row[places]))

    # Staging

    def _stage(
        self,
        groups: Groups,
        before: Mapping[str, Ints],
        after: dict[str, Ints],
        context: TriggerContext,
    ) -> None:
        is_open = after[OPEN] != 0
        columns = {**after, **context.state}
        for ends in (self._ends, *self._percentile_ends):
            ends_before = before.get(ends.column)
            columns[ends.column] = ends.set(groups.keys, after[END], ends_before, is_open)
        difference = {}
        for name in dict.fromkeys((*before, *columns)):
            now = columns.get(name)
            remaining = np.zeros(len(groups), np.int64) if now is None else np.where(is_open, now, 0)
            difference[name] = remaining - before[name] if name in before else remaining
        self.spine.stage(run_of_groups(groups, pl.DataFrame(), difference))
        self._set_processing_timers(groups.keys, before, context, is_open)
        if self.hold.is_read:
            self._holds.set(groups.keys, before, after, is_open)

    def _set_processing_timers(
        self, keys: Keys, before: Mapping[str, Ints], context: TriggerContext, is_open: Mask
    ) -> None:
        for name in self._trigger_columns.timers:
            at = context.get(name)
            places = np.flatnonzero(is_open & (at != NO_TIMER) & (at != before.get(name, 0)))
            self._processing.set(at[places] + START_OF_TIME, keys.take(places))


def _at(places: Index, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return mask


def _without_rows(context: TriggerContext) -> TriggerContext:
    """Return the same context as if nothing had happened, which updates the same state."""
    none = context.none
    return replace(
        context,
        signalled=none,
        pending=none,
        watermark_before=context.watermark,
        rows=np.zeros(len(context), np.int64),
        inputs={name: np.zeros(len(context), np.int64) for name in context.inputs},
        patterns=dict.fromkeys(context.patterns, (none, none, none, none)),
    )
