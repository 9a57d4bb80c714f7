"""A brute-force simulator of windows, triggers, panes and lateness, in plain Python: the oracle of event time.

Shares nothing with the engine. Written from the Dataflow Model, Streaming 102 and the rulings on the acceptance
cases. Instants are integers of any unit. Everything is looked at anew in every epoch: all windows are visited, all
sessions of a key are found by sorting its rows, all values are computed from lists of rows.

An epoch: rows (judged against the watermark before it), then the watermark, then the triggers, then the purge.

Choices where the texts leave room:

- An epoch's change is consolidated first: a row that comes and goes within it was never there. (Whether it was
  *seen* is left open: the random histories have no such row.)
- A window is there while it holds rows or has something to emit. One whose rows have all been retracted emits once
  more, only to take back (retracting), and is forgotten with its trigger and its indices.
- Something to emit: rows came or went since the last firing, or the bounds changed. A firing that emits nothing
  (equal value) is a firing all the same, and the first one after the end is the on-time one.
- A session keeps its trigger while its start stays. If its start is no start any more, the session that has the
  first of its remaining rows takes over trigger and panes. If no row is left, there is no session that could wait:
  what it emitted is taken back in the same epoch.
- Rows that go are counted for the session that held them, also those that go to a session that was split off; that one
  has seen them come.
- The panes of a session that another one replaced are taken back when that one emits, not before. If it emits
  the same value for the same bounds as a pane that was not taken back, that pane stands.
- A session that changed behind the watermark can be ``ON_TIME`` only if nothing that it came from has been
  emitted since the watermark passed; behind a watermark a new one is late.
- The index of panes begins anew if the bounds are not those of the window's last pane.
- Discarding: a pane is of the rows that came since the last firing less those that went, whatever session they were
  in then; if all of that and the number of rows is zero, there is nothing to emit. Under ``always`` a pane of no rows
  is emitted too, as long as the window holds rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from eventtime.simulated_triggers import EveryEpoch, Row, Seen, Trigger
from eventtime.simulated_windows import (
    END_OF_TIME,
    START_OF_TIME,
    Aggregate,
    Bounds,
    Global,
    Sessions,
    Window,
)

Mode = Literal["discarding", "accumulating", "retracting"]
Key = tuple[Any, ...]
Output = tuple[Any, ...]


@dataclass(frozen=True)
class Pipeline:
    """What is computed, where, when and how. ``keys`` are columns; no ``lateness``: nothing ever closes."""

    window: Window
    aggregates: Mapping[str, Aggregate]
    keys: tuple[str, ...] = ()
    trigger: Trigger = field(default_factory=EveryEpoch)
    mode: Mode = "retracting"
    lateness: int | None = None
    always: bool | str = False
    pane_info: bool = False
    time: str = "at"


@dataclass(frozen=True)
class Pane:
    """One emission of a window of a key: its aggregated values, and its pane information."""

    key: Key
    bounds: Bounds
    values: Output
    index: int
    nonspeculative_index: int
    timing: str
    is_last: bool
    processing_time: int
    watermark: int
    earliest: int
    latest: int

    @property
    def is_first(self) -> bool:
        """Whether it is the first of its exact window."""
        return self.index == 0

    @property
    def info(self) -> Output:
        """The columns of pane information."""
        has_watermark = START_OF_TIME < self.watermark < END_OF_TIME
        counted = (self.index, self.nonspeculative_index, self.timing, self.is_first, self.is_last)
        return (*counted, self.processing_time, self.watermark if has_watermark else None)


@dataclass(eq=False)
class Held:
    """A row that was accepted, the watermark when it came, and whether a pane with it was emitted."""

    row: Row
    instant: int
    watermark: int
    is_emitted: bool = False


@dataclass(eq=False)
class Open:
    """A window of a key that holds rows or has something to emit."""

    key: Key
    bounds: Bounds
    trigger: Trigger
    is_past_emitted: bool
    rows: list[Held] = field(default_factory=list)
    gone: list[Row] = field(default_factory=list)
    emitted: list[Pane] = field(default_factory=list)
    counted: list[Pane] = field(default_factory=list)
    pending: bool = False
    # What the epoch brought:
    came: int = 0
    added: tuple[Row, ...] = ()
    is_changed: bool = False

    @property
    def end(self) -> int:
        return self.bounds[1]

    def change(self) -> None:
        """There is something to emit, and it is of this epoch."""
        self.pending = self.is_changed = True

    def put(self, held: Held) -> None:
        """A row comes."""
        self.came += 1
        self.added += (held.row,)
        self.change()

    def take(self, held: Held) -> None:
        """A row goes."""
        self.rows.remove(held)
        if held.is_emitted:
            self.gone.append(held.row)
        self.came += 1
        self.change()

    def absorb(self, others: Sequence[Open], *, is_new: bool) -> None:
        """Take over what windows were that are part of this one now; if it is new, it was nothing itself."""
        joined = [*others] if is_new else [self, *others]
        self.trigger, *rest = (window.trigger for window in joined)
        for trigger in rest:
            self.trigger.join(trigger)
        self.is_past_emitted = all(window.is_past_emitted for window in joined)
        for other in others:
            self.gone += other.gone
            self.emitted += other.emitted
            self.came += other.came
        self.change()

    def seen(
        self, before: int, watermark: int, processing_time: int, *, always: bool, signalled: bool
    ) -> Seen:
        """The epoch as the trigger sees it."""
        return Seen(
            end=self.end,
            watermark_before=before,
            watermark=watermark,
            processing_time=processing_time,
            came=self.came,
            added=self.added,
            pending=self.pending,
            changed=self.is_changed,
            always=always,
            signalled=signalled,
        )


@dataclass(frozen=True)
class Outcome:
    """What an epoch gave: rows with diffs, the panes emitted and taken back, the rows refused as too late."""

    delta: Counter[Output]
    panes: list[Pane]
    taken_back: list[Pane]
    late: Counter[Output]


class Simulator:
    """Runs one pipeline over epochs."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.watermark = START_OF_TIME
        self.open: dict[Key, dict[Any, Open]] = {}
        self.contents: Counter[Output] = Counter()

    def step(
        self,
        changes: Iterable[tuple[Row, int]] = (),
        watermark: int | None = None,
        processing_time: int = 0,
        *,
        signals: Callable[[Key, Bounds], bool] = lambda key, bounds: False,
    ) -> Outcome:
        """One epoch: rows with diffs, then the watermark, then the triggers of all windows, then the purge."""
        before = self.watermark
        late = self._apply(consolidated(changes), before)
        self.watermark = before if watermark is None else max(before, watermark)
        outcome = Outcome(Counter(), [], [], late)
        for window in [window for windows in self.open.values() for window in windows.values()]:
            signalled = signals(window.key, window.bounds)
            seen = window.seen(
                before,
                self.watermark,
                processing_time,
                always=self.pipeline.always is True,
                signalled=signalled,
            )
            self._end_epoch(window, seen, outcome)
        for output, diff in list(outcome.delta.items()):
            self.contents[output] += diff
            if not diff:
                del outcome.delta[output]
            if not self.contents[output]:
                del self.contents[output]
        return outcome

    @property
    def remembered(self) -> int:
        """How many windows and rows are held."""
        return sum(1 + len(window.rows) for windows in self.open.values() for window in windows.values())

    # Rows

    def _apply(self, changes: Mapping[Output, tuple[Row, int]], before: int) -> Counter[Output]:
        """Bring the rows into their windows; returns those that are too late for all of them."""
        late: Counter[Output] = Counter()
        arrivals: dict[Key, list[Held]] = {}
        for identity, (row, diff) in changes.items():
            window, instant = self.pipeline.window, row[self.pipeline.time]
            bounds = [window.of_row(row, instant)] if isinstance(window, Sessions) else window.of(instant)
            usable = [each for each in bounds if not self._is_closed(each[1], before)]
            if bounds and not usable:
                late[identity] += diff
            key = tuple(row[name] for name in self.pipeline.keys)
            for each in usable:
                for _ in range(abs(diff)):
                    if diff < 0:
                        self._take(key, each, row)
                    elif isinstance(self.pipeline.window, Sessions):
                        arrivals.setdefault(key, []).append(Held(row, row[self.pipeline.time], before))
                    else:
                        self._put(key, each, Held(row, row[self.pipeline.time], before), before)
        if isinstance(self.pipeline.window, Sessions):
            for key in {*arrivals, *self.open}:
                self._find_sessions(key, arrivals.get(key, []), self.pipeline.window, before)
        return late

    def _is_closed(self, end: int, watermark: int) -> bool:
        lateness = self.pipeline.lateness
        return lateness is not None and min(end + lateness, END_OF_TIME) <= watermark

    def _new(self, key: Key, bounds: Bounds, before: int) -> Open:
        return Open(key, bounds, self.pipeline.trigger.fresh(), is_past_emitted=bounds[1] <= before)

    def _known_by(self, bounds: Bounds) -> int | Bounds:
        """Return what identifies a window among those of its key: of a session, which may become longer, its start."""
        return bounds[0] if isinstance(self.pipeline.window, Sessions) else bounds

    def _put(self, key: Key, bounds: Bounds, held: Held, before: int) -> None:
        windows = self.open.setdefault(key, {})
        window = windows.setdefault(self._known_by(bounds), self._new(key, bounds, before))
        window.rows.append(held)
        window.put(held)

    def _take(self, key: Key, bounds: Bounds, row: Row) -> None:
        windows = self.open.get(key, {})
        looked_at = (
            list(windows.values())
            if isinstance(self.pipeline.window, Sessions)
            else [windows[self._known_by(bounds)]]
        )
        candidates = [(window, held) for window in looked_at for held in window.rows if held.row == row]
        assert candidates, f"{row} is retracted and is not there"
        window, held = min(candidates, key=lambda pair: pair[1].is_emitted)
        window.take(held)

    # Sessions

    def _find_sessions(self, key: Key, arrivals: list[Held], kind: Sessions, before: int) -> None:
        """Sort all rows of a key, cut them where they are apart, and see what became of the sessions before."""
        old = self.open.get(key, {})
        rows = sorted([*arrivals, *(held for window in old.values() for held in window.rows)], key=_instant)
        sessions = {session[0].instant: session for session in _cut(rows, kind)}
        arrived = {id(held) for held in arrivals}
        home = {id(held): start for start, session in sessions.items() for held in session}
        self.open[key] = {start: window for start, window in old.items() if not window.rows}
        replaced: dict[int, list[Open]] = {}
        for start, window in old.items():
            if start not in sessions and window.rows:
                heir = home[id(min(window.rows, key=_instant))]
                replaced.setdefault(heir, []).append(window)
        for start, session in sessions.items():
            bounds = (start, max(end for _, end in _own_windows(session, kind)))
            window = old.get(start) or self._new(key, bounds, before)
            joined = [*([window] if start in old else []), *replaced.get(start, [])]
            held_before = {id(held) for each in joined for held in each.rows}
            if start in replaced:
                window.absorb(replaced[start], is_new=start not in old)
            window.came += len(held_before ^ ({id(held) for held in session} - arrived))
            window.added += tuple(held.row for held in session if id(held) not in held_before | arrived)
            _settle(window, bounds, session, arrived, before)
            self.open[key][start] = window

    # Triggers and panes

    def _end_epoch(self, window: Open, seen: Seen, outcome: Outcome) -> None:
        """What a window does at the end of an epoch: emit, close, or wait."""
        always = self.pipeline.always is True
        closes = self._is_closed(window.end, self.watermark)
        window.trigger.observe(seen)
        ready = window.trigger.ready(seen)
        if ready:
            window.trigger.fire(seen)
        is_gone = isinstance(self.pipeline.window, Sessions) and not window.rows
        if ready or is_gone or (closes and (window.pending or always)):
            timing = "EARLY" if not seen.is_past else "LATE" if window.is_past_emitted else "ON_TIME"
            window.is_past_emitted |= seen.is_past
            window.pending = False
            self._emit(window, timing, seen, outcome, is_last=closes)
        # What comes when the end has been passed and nothing was left to emit is late.
        window.is_past_emitted |= seen.is_past and not window.pending
        if always:
            window.trigger.observe(seen.without_rows())
        window.came, window.added, window.is_changed = 0, (), False
        if closes or not (window.rows or window.pending):
            del self.open[window.key][self._known_by(window.bounds)]

    def _emit(self, window: Open, timing: str, seen: Seen, outcome: Outcome, *, is_last: bool) -> None:
        again = self.pipeline.always is True or (self.pipeline.always == "on_time" and timing == "ON_TIME")
        values = self._values(window, again)
        equal = [pane for pane in window.emitted if (pane.bounds, pane.values) == (window.bounds, values)]
        stands = equal[:1] if self.pipeline.mode != "discarding" and not again else []
        if self.pipeline.mode == "retracting":
            for pane in window.emitted:
                if pane not in stands:
                    outcome.taken_back.append(pane)
                    outcome.delta[self._output(pane)] -= 1
        if stands:
            window.emitted = stands
            return
        window.emitted = []
        if values is not None:
            pane_now = self._pane(window, values, timing, seen, is_last=is_last)
            window.emitted = [pane_now]
            outcome.panes.append(pane_now)
            outcome.delta[self._output(pane_now)] += 1
        for held in window.rows:
            held.is_emitted = True
        window.gone = []

    def _values(self, window: Open, again: bool) -> Output | None:
        """The values to emit; None where there is nothing."""
        if self.pipeline.mode != "discarding":
            return self._computed([held.row for held in window.rows]) if window.rows else None
        came, gone = [held.row for held in window.rows if not held.is_emitted], list(window.gone)
        for row in list(came):
            if row in gone:
                came.remove(row)
                gone.remove(row)
        if not (came or gone or (again and window.rows)):
            return None
        if not gone:
            return self._computed(came)
        differences = tuple(map(_minus, self._computed(came), self._computed(gone)))
        differs = any(differences) or len(came) != len(gone) or again
        return differences if differs else None

    def _computed(self, rows: list[Row]) -> Output:
        return tuple(aggregate(rows) for aggregate in self.pipeline.aggregates.values())

    def _pane(self, window: Open, values: Output, timing: str, seen: Seen, *, is_last: bool) -> Pane:
        before = [pane for pane in window.counted if pane.bounds == window.bounds]
        index = before[-1].index + 1 if before else 0
        nonspeculative_before = before[-1].nonspeculative_index if before else -1
        punctual = [held.instant for held in window.rows if held.instant >= held.watermark]
        pane = Pane(
            key=window.key,
            bounds=window.bounds,
            values=values,
            index=index,
            nonspeculative_index=nonspeculative_before + (timing != "EARLY"),
            timing=timing,
            is_last=is_last,
            processing_time=seen.processing_time,
            watermark=self.watermark,
            earliest=min(punctual, default=window.end - 1),
            latest=max((held.instant for held in window.rows), default=window.end - 1),
        )
        window.counted = [pane]
        return pane

    def _output(self, pane: Pane) -> Output:
        bounds = () if isinstance(self.pipeline.window, Global) else pane.bounds
        return (*pane.key, *bounds, *pane.values, *(pane.info if self.pipeline.pane_info else ()))


def consolidated(changes: Iterable[tuple[Row, int]]) -> dict[Output, tuple[Row, int]]:
    """Each row once, with the sum of its diffs, zeros left out."""
    sums: dict[Output, tuple[Row, int]] = {}
    for row, diff in changes:
        identity = tuple(row.values())
        sums[identity] = (row, sums.get(identity, (row, 0))[1] + diff)
    return {identity: (row, diff) for identity, (row, diff) in sums.items() if diff}


def _instant(held: Held) -> int:
    return held.instant


def _own_windows(rows: Sequence[Held], kind: Sessions) -> list[Bounds]:
    return [kind.of_row(held.row, held.instant) for held in rows]


def _cut(rows: Sequence[Held], kind: Sessions) -> list[list[Held]]:
    """Rows in order of time, cut where one is apart from those before."""
    sessions: list[list[Held]] = []
    for held in rows:
        (own,) = _own_windows([held], kind)
        if sessions and not kind.is_apart(own, _own_windows(sessions[-1], kind)):
            sessions[-1].append(held)
        else:
            sessions.append([held])
    return sessions


def _settle(window: Open, bounds: Bounds, session: list[Held], arrived: set[int], before: int) -> None:
    """The session has these rows and bounds from now on."""
    is_same = {id(held) for held in window.rows} == {id(held) for held in session}
    if not is_same or bounds != window.bounds:
        window.change()
    window.rows, window.bounds = session, bounds
    for held in session:
        if id(held) in arrived:
            window.put(held)
    if window.end > before:
        window.is_past_emitted = False
        window.trigger.ends_later()


def _minus(came: Any, gone: Any) -> Any:
    """What adds up is all that can be taken back from a discarding pane."""
    difference: int = came - gone
    return difference


def batch(pipeline: Pipeline, rows: Iterable[tuple[Row, int]]) -> Counter[Output]:
    """What is computed of all rows at once: the results that every order, split and trigger must come to."""
    plain = replace(
        pipeline, trigger=EveryEpoch(), mode="retracting", lateness=None, always=False, pane_info=False
    )
    return Simulator(plain).step(rows).delta
