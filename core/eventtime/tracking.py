"""Which windows are open, which of them speak in this epoch, and which are closed by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ..clock import END_OF_TIME, START_OF_TIME, Clock, Now
from ..delta import Delta
from ..grouping import Groups, consolidated_rows, group
from ..kernels import Index, Ints, Keys, Mask, physical
from ..protocol import State
from ..routes import KeyColumns
from ..run import Layout, run_of_groups
from ..spine import Spine
from ..timers import Timers
from .firing import EARLY, LATE, NO_KEYS, ON_TIME, Firing, Held, Merging
from .trigger_parts import NO_TIMER, Moment
from .trigger_states import trigger_state
from .triggers import Pattern, Trigger, every_part

OPEN, END, START, ROWS, PENDING, PAST, SAID = "open", "end", "start", "rows", "pending", "past", "said"
"""State of a window: it is there; its end; where the watermark is held; its rows; something to say; the watermark's passing has been said; the
earliest end, above the start of time, of which a session has spoken."""

ALARM = "alarm"
"""State of a window: the instant of the timer that is set for it, above the start of time."""

NEVER = np.iinfo(np.int64).max

FIRST_HOLDS = 16
"""So many timers of each run are read at first to find what holds the watermark."""

TRIGGER_INPUT = "trigger:"
"""Before the name of a column: what a trigger adds up of it, an integer per row."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """What is tracked: windows by ``keys``, the columns that tell one (key, window) from another.

    ``window_end`` names the column of ends; None where windows are sessions, whose ends are told by a second
    input, or where there is one window over all time (``is_global``). Durations are microseconds. The watermark
    behind is held at the end of a window that has something to say, less a microsecond, or at its
    ``window_start`` where the panes may be dated as early as that. ``by`` are the first of the keys, if only these tell
    where windows are kept.
    """

    where: str
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
    """Windows that something happens to in this epoch, and where in them each entry of a list of keys is."""

    groups: Groups
    places: list[Index]


class TrackWindows:
    """Keep the state of every open window, and decide which of them speak. Rows go through unchanged.

    Evaluated once per epoch, at its end, for the windows that rows, the watermark, processing time or a signal
    has touched: all of them in one vectorised step, and no others. What is pending is spoken before its window
    closes. ``firing`` holds the decision until the next epoch, for the operators behind.
    """

    def __init__(
        self,
        schema: pl.Schema,
        tracking: Tracking,
        clock: Clock,
        merging: Merging | None = None,
        percentiles: Mapping[float, Clock] | None = None,
    ) -> None:
        self.schema = schema
        self.firing = Firing()
        self._key_columns = KeyColumns.of(tracking.keys, tracking.by)
        route = self._key_columns.route
        self.spine = Spine(Layout(), route)
        self.hold = Held(clock)
        self._tracking = tracking
        self.clock = clock
        self._merging = merging
        self.percentiles = dict(percentiles or {})
        self._trigger = trigger_state(tracking.trigger)
        self._ends, self._processing, self._holds = Timers(route), Timers(route), Timers(route)
        self._passing = {share: Timers(route) for share in self.percentiles}
        self._signals: Keys | None = None
        self._waits = [name for part in self._trigger.every() for name in part.timers()]
        self._counts = [name for part in self._trigger.every() for name in part.counters()]
        self._flags = [name for part in self._trigger.every() for name in part.flags()]
        triggers = list(every_part(tracking.trigger))
        self._inputs = [name for part in triggers if (name := getattr(part, "input", None))]
        self._patterns = [(part.start, part.stop) for part in triggers if isinstance(part, Pattern)]

    @property
    def states(self) -> list[State]:
        """All that outlives the epoch."""
        return [self.spine, self._ends, self._processing, self._holds, *self._passing.values(), self.hold]

    @property
    def expired(self) -> Keys:
        """The windows whose rows are forgotten with this epoch."""
        return self.firing.expired

    def signal(self, keys: Keys) -> None:
        """In the coming epoch these windows are told to speak."""
        self._signals = keys

    def forget_signals(self) -> None:
        """The epoch for which windows were told to speak is over."""
        self._signals = None

    def is_due(self, now: Now) -> bool:
        """Whether a step without rows would look at any window."""
        waits = [(self._ends, self.clock.now), (self._processing, now.instant)]
        waits += [(timers, self.percentiles[share].now) for share, timers in self._passing.items()]
        signalled = self._signals is not None and len(self._signals) > 0
        return signalled or any(
            (first := timers.first) is not None and first <= clock for timers, clock in waits
        )

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Decide what speaks and what closes; the rows go through."""
        rows = deltas[0]
        ends = deltas[1] if len(deltas) > 1 else None
        active = self._active(now, rows, ends)
        if not len(active.groups):
            self.firing = Firing()
        else:
            before = self.spine.totals(active.groups.keys)
            moment, after = self._moment(now, active, before, rows, ends)
            self._fire(active.groups.keys, moment, after)
            self._stage(active.groups, before, after, moment)
        if self.hold.is_wanted:
            self._hold(anew=len(active.groups) > 0 or not self.hold.is_found)
        return rows

    # What is touched

    def _active(self, now: Now, rows: Delta, ends: Delta | None) -> _Active:
        lists = [self._words(rows)]
        lists.append(NO_KEYS if ends is None else self._words(ends))
        moves = None if self._merging is None else self._merging.moves
        lists += [NO_KEYS, NO_KEYS] if moves is None else [moves.old, moves.new]
        lists.append(self._ends.due(self.clock.now))
        lists.append(self._processing.due(now.instant))
        lists += [timers.due(self.percentiles[share].now) for share, timers in self._passing.items()]
        lists.append(NO_KEYS if self._signals is None else self._signals)
        groups = group(Keys.concat([keys for keys in lists if len(keys)] or [NO_KEYS]))
        rank = _ranks(groups)
        cuts = np.cumsum([len(keys) for keys in lists])
        return _Active(groups, np.split(rank, cuts[:-1]))

    def _words(self, delta: Delta) -> Keys:
        if not len(delta):
            return NO_KEYS
        return self._key_columns.words(delta.frame)

    # What happens to it

    def _moment(
        self, now: Now, active: _Active, before: Mapping[str, Ints], rows: Delta, ends: Delta | None
    ) -> tuple[Moment, dict[str, Ints]]:
        """The state after the rows of the epoch, before any trigger is asked."""
        size, nothing = len(active.groups), np.zeros(len(active.groups), np.int64)
        after = {
            name: before.get(name, nothing).copy() for name in (OPEN, END, START, ROWS, PENDING, PAST, SAID)
        }
        own, told, old, new = active.places[:4]
        was_open = after[OPEN] != 0
        diffs = rows.diffs
        after[ROWS] += _sums(own, diffs, size)
        touched = np.zeros(size, np.bool_)
        touched[own] = touched[told] = touched[new] = touched[old] = True
        self._set_ends(after, own, told, rows, ends)
        after[OPEN] = np.where(touched | was_open, 1, 0)
        changed_end = touched & (~was_open | (after[END] != before.get(END, nothing)))
        open_again = after[END] > self.clock.before
        state = {name: before[name].copy() for name in before if name not in after}
        after[PAST] = self._merged(state, after, old, new, was_open)
        after[PAST] = np.where(was_open | _at(new, size), after[PAST], 1)
        after[PAST] = np.where(open_again, 0, after[PAST])
        after[OPEN][old] = 0
        after[PENDING] = np.where(touched, 1, after[PENDING])
        moment = self._seen(now, active, after, rows, own, state)
        self._trigger.merged(moment, _at(new, size))
        self._trigger.back_to_early(moment, changed_end & open_again)
        self._trigger.observe(moment, after[OPEN] != 0)
        return moment, after

    def _set_ends(
        self, after: dict[str, Ints], own: Index, told: Index, rows: Delta, ends: Delta | None
    ) -> None:
        if self._tracking.is_global:
            after[END][own] = END_OF_TIME
        elif self._tracking.window_end is not None:
            after[END][own] = physical(rows.frame.get_column(self._tracking.window_end))
        elif ends is not None:
            np.add.at(after[END], told, ends.diffs)
        if self.hold.is_wanted and self._tracking.window_start is not None:
            after[START][own] = physical(rows.frame.get_column(self._tracking.window_start))

    def _merged(
        self, state: dict[str, Ints], after: dict[str, Ints], old: Index, new: Index, was_open: Mask
    ) -> Ints:
        """Add up the trigger state of windows that are one now; returns what holds for all of them of ``PAST``."""
        if not len(old):
            return after[PAST]
        for name in self._counts:
            if name in state:
                np.add.at(state[name], new, state[name][old])
        after[SAID] = _least(after[SAID], old, new, 0)
        for name in self._waits:
            if name in state:
                state[name] = _least(state[name], old, new, NO_TIMER)
        joined = np.unique(new)
        fresh = joined[~was_open[joined]]
        for name, column in (
            *((name, state[name]) for name in self._flags if name in state),
            (PAST, after[PAST]),
        ):
            column[fresh] = 1
            np.minimum.at(column, new, column[old])
            state[name] = column
        past = state.pop(PAST)
        for column in state.values():
            column[old] = 0
        return past

    def _seen(
        self,
        now: Now,
        active: _Active,
        after: dict[str, Ints],
        rows: Delta,
        own: Index,
        state: dict[str, Ints],
    ) -> Moment:
        size = len(active.groups)
        # What came for a window that is part of another one now came for that one.
        heirs = np.arange(size)
        heirs[active.places[2]] = active.places[3]
        entries, diffs = self._news(rows, heirs[own])
        came, counts = heirs[own[entries]], np.abs(diffs)
        signalled = _at(active.places[-1], size)
        added = np.maximum(diffs, 0)
        inputs = {
            name: _sums(came, added * physical(rows.frame.get_column(TRIGGER_INPUT + name))[entries], size)
            for name in self._inputs
        }
        return Moment(
            ends=after[END],
            rows=_sums(came, counts, size),
            inputs=inputs,
            patterns={
                names: self._pattern(names, rows, entries, diffs, came, size) for names in self._patterns
            },
            signalled=signalled,
            pending=after[PENDING] != 0,
            watermark_before=self.clock.before,
            watermark=self.clock.now,
            processing_time=now.instant,
            always=self._tracking.always,
            passed={share: after[END] <= clock.now for share, clock in self.percentiles.items()},
            state=state,
        )

    def _news(self, rows: Delta, places: Index) -> tuple[Index, Ints]:
        """Which entries are news of a window, and how many rows came or went: not rows that moved with their session.

        Where a session may have been split, these are told by what a window has now and had before.
        """
        if self._merging is None:
            return np.arange(len(rows)), rows.diffs
        arrivals = self._merging.arrivals
        if (rows.diffs[:arrivals] > 0).all():
            return np.arange(arrivals), rows.diffs[:arrivals]
        start = self._tracking.keys[-1]
        columns = [column for column in rows.rows.get_columns() if column.name != start]
        columns += [pl.Series(start, places), pl.Series("instant", self._merging.instants)]
        kept, diffs = consolidated_rows(pl.DataFrame(columns), rows.diffs)
        return np.arange(len(rows)) if kept is None else kept, diffs

    def _pattern(
        self, names: tuple[str, str], rows: Delta, entries: Index, diffs: Ints, came: Index, size: int
    ) -> tuple[Mask, Mask, Mask, Mask]:
        """Which windows had a start row, a stop row, a stop row after a start row, and a start row after all stops."""
        start, stop = (physical(rows.frame.get_column(TRIGGER_INPUT + name))[entries] != 0 for name in names)
        first, last, latest = np.full(size, len(came)), np.full(size, -1), np.full(size, -1)
        begins, ends = np.flatnonzero(start & (diffs > 0)), np.flatnonzero(stop & (diffs > 0))
        np.minimum.at(first, came[begins], begins)
        np.maximum.at(last, came[ends], ends)
        np.maximum.at(latest, came[begins], begins)
        return first < len(came), last >= 0, first < last, latest > last

    # What it decides

    def _fire(self, keys: Keys, moment: Moment, after: dict[str, Ints]) -> None:
        tracking, watermark = self._tracking, self.clock.now
        is_open = after[OPEN] != 0
        closed = self._closing(after[END]) <= watermark if tracking.lateness is not None else moment.none
        closed &= is_open
        fires = closed & (moment.pending | tracking.always)
        if self._merging is not None:
            # A session without rows is none, and cannot wait: what it said is taken back.
            fires |= is_open & (after[ROWS] == 0)
        ready = self._trigger.ready(moment) & is_open
        self._trigger.fire(moment, ready)
        fires |= ready
        if tracking.always:
            # Timers begin anew at once, as no row has to come for the next one.
            self._trigger.observe(_without_rows(moment), is_open & ~closed)
        past = moment.is_past
        timing = np.where(~past, EARLY, np.where(after[PAST] == 0, ON_TIME, LATE))
        after[PENDING] = np.where(fires, 0, after[PENDING])
        if self._merging is not None:
            after[SAID] = np.where(fires, after[END] - START_OF_TIME, after[SAID])
        # What comes when the end has been passed and nothing was left to say is late.
        after[PAST] = np.where(past & (fires | (after[PENDING] == 0)), 1, after[PAST])
        gone = closed | (is_open & (after[ROWS] == 0) & (after[PENDING] == 0))
        after[OPEN] = np.where(gone, 0, after[OPEN])
        places = np.flatnonzero(fires)
        expired = closed | fires if tracking.discards else closed
        self.firing = Firing(
            keys.take(places),
            timing[places],
            closed[places],
            after[ROWS][places] != 0,
            gone[places],
            keys.take(np.flatnonzero(closed)),
            keys.take(np.flatnonzero(gone)),
            keys.take(np.flatnonzero(expired)),
            None if self._merging is None else self._merging.moves,
        )

    def _closing(self, ends: Ints) -> Ints:
        assert self._tracking.lateness is not None
        return np.minimum(ends + self._tracking.lateness, END_OF_TIME)

    # What it leaves

    def _stage(
        self,
        groups: Groups,
        before: Mapping[str, Ints],
        after: dict[str, Ints],
        moment: Moment,
    ) -> None:
        is_open = after[OPEN] != 0
        columns = {**after, **moment.state, **self._alarms(groups.keys, before, after, is_open)}
        difference = {}
        for name in dict.fromkeys((*before, *columns)):
            now = columns.get(name)
            kept = np.zeros(len(groups), np.int64) if now is None else np.where(is_open, now, 0)
            difference[name] = kept - before[name] if name in before else kept
        self.spine.stage(run_of_groups(groups, pl.DataFrame(), difference))
        self._set_processing_timers(groups.keys, before, moment, is_open)
        if self.hold.is_wanted:
            self._set_holds(groups.keys, before, after, is_open)

    def _alarms(
        self, keys: Keys, before: Mapping[str, Ints], after: dict[str, Ints], is_open: Mask
    ) -> dict[str, Ints]:
        """Have every window looked at again when its end has come, and then when it closes: one timer at a time.

        A window that grows keeps its timer, and gets the next one when that is handed out.
        """
        ends, watermark = after[END], self.clock.now
        wanted = np.where(ends > watermark, ends, NEVER)
        if self._tracking.lateness:
            closing = self._closing(ends)
            wanted = np.where((ends <= watermark) & (closing > watermark), closing, wanted)
        alarms = {ALARM: _alarm(self._ends, wanted, before.get(ALARM), watermark, is_open, keys)}
        for share, clock in self.percentiles.items():
            name, passing = f"{ALARM} {share}", self._passing[share]
            wanted = np.where(ends > clock.now, ends, NEVER)
            alarms[name] = _alarm(passing, wanted, before.get(name), clock.now, is_open, keys)
        return alarms

    def _set_processing_timers(
        self, keys: Keys, before: Mapping[str, Ints], moment: Moment, is_open: Mask
    ) -> None:
        for name in self._waits:
            at = moment.get(name)
            places = np.flatnonzero(is_open & (at != NO_TIMER) & (at != before.get(name, 0)))
            self._processing.set(at[places] + START_OF_TIME, keys.take(places))

    def _set_holds(
        self, keys: Keys, before: Mapping[str, Ints], after: dict[str, Ints], is_open: Mask
    ) -> None:
        """Take note of windows that have something to say since this epoch, or are dated otherwise."""
        stamps, nothing = self._stamps(after), np.zeros(len(keys), np.int64)
        known = {name: before.get(name, nothing) for name in (PENDING, START, END, SAID)}
        same = (known[PENDING] != 0) & (self._stamps(known) == stamps)
        fresh = np.flatnonzero(is_open & (after[PENDING] != 0) & ~same)
        self._holds.set(stamps[fresh], keys.take(fresh))

    def _hold(self, *, anew: bool) -> None:
        """Hold the watermark back for what is behind it and not spoken yet: the first of it is enough.

        That has not changed, unless it is to be found ``anew``, while nothing has happened to any window.
        """
        if not anew:
            self.hold.stage(self.hold.held_at)
            return
        take, held_at = FIRST_HOLDS, None
        while held_at is None:
            heads = self._holds.heads(END_OF_TIME)
            seen = [instants[take - 1] for instants, _ in heads if len(instants) > take]
            horizon = int(min(seen)) if seen else END_OF_TIME
            held_at = self._first_hold(
                [(at[:take], keys.take(np.arange(len(at[:take])))) for at, keys in heads], horizon
            )
            if held_at is None and not seen:
                held_at = END_OF_TIME
            take *= 4
        # What stands before it has been spoken since.
        self._holds.due(held_at - 1)
        self.hold.stage(held_at)

    def _first_hold(self, heads: list[tuple[Ints, Keys]], horizon: int) -> int | None:
        """The first instant, not after the horizon, at which one of these windows still has something to say."""
        if not heads:
            return None
        instants = np.concatenate([at for at, _ in heads])
        groups = group(Keys.concat([keys for _, keys in heads]))
        state = self.spine.totals(groups.keys, with_delta=True)
        nothing = np.zeros(len(groups), np.int64)
        known = {name: state.get(name, nothing) for name in (PENDING, START, END, SAID)}
        rank = _ranks(groups)
        holds = (known[PENDING][rank] != 0) & (self._stamps(known)[rank] == instants) & (instants <= horizon)
        return int(instants[holds].min()) if holds.any() else None

    def _stamps(self, state: Mapping[str, Ints]) -> Ints:
        """The earliest event time that a pane of these windows may have."""
        if self._tracking.window_start is not None:
            return state[START]
        # What a session will take back may be dated before what it will say.
        said = state[SAID] + START_OF_TIME
        return np.where((state[SAID] != 0) & (said < state[END]), said, state[END]) - 1


def _sums(places: Index, values: Ints, size: int) -> Ints:
    totals = np.zeros(size, np.int64)
    np.add.at(totals, places, values)
    return totals


def _at(places: Index, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return mask


def _least(timers: Ints, old: Index, new: Index, unset: int) -> Ints:
    """Of timers that become one the earliest, as far as they are set."""
    latest = np.iinfo(np.int64).max
    given = np.where(timers == unset, latest, timers)
    np.minimum.at(given, new, given[old])
    return np.where(given == latest, unset, given)


def _without_rows(moment: Moment) -> Moment:
    """The same moment as if nothing had happened in it, moving the same state."""
    none = moment.none
    return replace(
        moment,
        signalled=none,
        pending=none,
        watermark_before=moment.watermark,
        rows=np.zeros(len(moment), np.int64),
        inputs={name: np.zeros(len(moment), np.int64) for name in moment.inputs},
        patterns=dict.fromkeys(moment.patterns, (none, none, none, none)),
    )


def _ranks(groups: Groups) -> Index:
    """The number of the group of each entry."""
    rank = np.empty(len(groups.order), np.intp)
    rank[groups.order] = np.repeat(np.arange(len(groups)), np.diff(groups.starts, append=len(groups.order)))
    return rank


def _alarm(timers: Timers, wanted: Ints, known: Ints | None, until: int, on: Mask, keys: Keys) -> Ints:
    """Set the timers that are wanted earlier than those that are set; returns the column of what is set then.

    As a column of state, an instant is kept as what it is above the start of time, so that zero is none.
    """
    set_for = np.zeros(len(wanted), np.int64) if known is None else known
    earliest = set_for + START_OF_TIME
    is_set = (set_for != 0) & (earliest > until)
    fresh = on & (wanted != NEVER) & (~is_set | (wanted < earliest))
    places = np.flatnonzero(fresh)
    timers.set(wanted[places], keys.take(places))
    return np.where(fresh, wanted - START_OF_TIME, np.where(is_set, set_for, 0))
