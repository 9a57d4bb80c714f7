"""States of the parts of triggers: columns with a row per window, updated for all windows in one vectorised step.

Every part of a trigger has its own state columns, named after its place in the tree. All are int64 and zero
at first, so that the state of a window is an entry of a spine that adds up, and a window that is gone is an entry of
zeros. Masks select the windows for which a part waits, would fire, or has fired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...data.clock import START_OF_TIME
from ...data.columns.kernels import Ints, Mask
from ...data.instants import shown
from .inputs import MOST
from .kinds import (
    AfterCount,
    AfterPercentile,
    AfterSum,
    AtPeriod,
    EveryEpoch,
    Pattern,
    Punctuation,
    Signal,
    Trigger,
)

Maker = TypeVar("Maker", bound="LeafMaker")

NO_TIMER = 0
"""A timer that is not set. One that is set is kept as its instant less ``START_OF_TIME``, which is positive."""


@dataclass(slots=True, eq=False)
class TriggerContext:
    """The changes of some windows in this epoch, and the state of their trigger, which is to be updated.

    ``rows`` counts rows that came or went, ``inputs`` are sums of trigger columns. ``passed`` has, by the share of rows of
    a percentile watermark, which windows it has passed.
    """

    ends: Ints
    rows: Ints
    inputs: Mapping[str, Ints]
    patterns: Mapping[tuple[str, str], tuple[Mask, Mask, Mask, Mask]]
    signalled: Mask
    pending: Mask
    watermark_before: int
    watermark: int
    processing_time: int
    always: bool
    passed: Mapping[float, Mask] = field(default_factory=dict)
    state: dict[str, Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def is_past(self) -> Mask:
        """Return which windows the watermark has passed."""
        past: Mask = self.ends <= self.watermark
        return past

    @property
    def none(self) -> Mask:
        """Return a mask in which nothing is true."""
        return np.zeros(len(self.ends), np.bool_)

    def get(self, name: str) -> Ints:
        """Return a state column; zeros if it was never set."""
        column = self.state.get(name)
        return np.zeros(len(self.ends), np.int64) if column is None else column

    def put(self, name: str, on: Mask, values: Ints | int) -> None:
        """Set a state column where the mask is true."""
        if on.any():
            self.state[name] = np.where(on, values, self.get(name))


@dataclass(frozen=True, slots=True)
class Times:
    """The end of a window, and the times that decide when its trigger fires, for explanations.

    ``percentiles`` has the watermark of a share of the rows, by the share.
    """

    end: int
    watermark: int
    processing_time: int
    percentiles: Mapping[float, int]


class TriggerState(ABC):
    """The state of a part of a trigger, with its place in the tree."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.parts: tuple[TriggerState, ...] = ()

    def every(self) -> Iterator[TriggerState]:
        """Yield this part and all below it."""
        yield self
        for part in self.parts:
            yield from part.every()

    def waits_for(self, state: Mapping[str, int], times: Times) -> list[str]:
        """Explain line by line what a window waits for, given its state; the parts of a part are indented below it."""
        if state.get(f"{self.place}done"):
            return ["for nothing more: this part has finished"]
        return self.unfinished(state, times)

    @abstractmethod
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        """Explain line by line what a window waits for whose part has not finished."""

    def waits_for_watermark(self, state: Mapping[str, int]) -> bool:
        """Return whether a window waits for the watermark to pass its end."""
        return any(part.waits_for_watermark(state) for part in self.parts)

    def counters(self) -> list[str]:
        """Return the state columns that add up when windows merge."""
        return []

    def timers(self) -> list[str]:
        """Return the state columns that are timers in processing time; merged windows keep the earliest."""
        return []

    def flags(self) -> list[str]:
        """Return the state columns that hold for merged windows only if they held for all of them."""
        return [f"{self.place}done"]

    def finished(self, context: TriggerContext) -> Mask:
        """Return for which windows this part will not fire again."""
        is_finished: Mask = context.get(f"{self.place}done") != 0
        return is_finished

    def observe(self, context: TriggerContext, on: Mask) -> None:
        """Update the state by the changes of the windows for which this part is active."""
        for part in self.parts:
            part.observe(context, on)

    @abstractmethod
    def ready(self, context: TriggerContext) -> Mask:
        """Return for which windows this part would fire now."""

    @abstractmethod
    def fire(self, context: TriggerContext, on: Mask) -> None:
        """Update the state of windows that have emitted."""

    def reset(self, context: TriggerContext, on: Mask) -> None:
        """Begin again, as for a new window."""
        for name in (*self.counters(), *self.timers(), *self.flags()):
            context.put(name, on, 0)
        for part in self.parts:
            part.reset(context, on)

    def back_to_early(self, context: TriggerContext, on: Mask) -> None:
        """Return to the early phase: the windows end later now, and the watermark is before their ends again."""
        for part in self.parts:
            part.back_to_early(context, on)

    def merged(self, context: TriggerContext, on: Mask) -> None:
        """Update the state of windows into which the states of several were added up."""
        for part in self.parts:
            part.merged(context, on)

    def _done(self, context: TriggerContext, on: Mask) -> None:
        context.put(f"{self.place}done", on, 1)


LeafMaker = Callable[[str, Any], TriggerState]
"""Makes the state of a trigger from its place in the tree and the trigger."""

LEAVES: dict[type[Trigger], LeafMaker] = {}
"""The makers of the states of all kinds of triggers without parts: see ``state_of``."""


def state_of(kind: type[Trigger]) -> Callable[[Maker], Maker]:
    """Register a class, or a function, that makes the state of a kind of trigger."""

    def remember(made_by: Maker) -> Maker:
        LEAVES[kind] = made_by
        return made_by

    return remember


class Leaf(TriggerState):
    """A part that waits for one thing, and fires once."""

    def fire(self, context: TriggerContext, on: Mask) -> None:
        """Finish, since a leaf fires once."""
        for name in (*self.counters(), *self.timers()):
            context.put(name, on, 0)
        self._done(context, on)


class EveryEpochState(TriggerState):
    """Fires whenever rows came or went."""

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return ["for the end of an epoch that brings rows"]

    def flags(self) -> list[str]:
        return []

    def finished(self, context: TriggerContext) -> Mask:
        return context.none

    def ready(self, context: TriggerContext) -> Mask:
        return context.rows > 0

    def fire(self, context: TriggerContext, on: Mask) -> None:
        """Do nothing, as there is no state."""


class CountingState(Leaf):
    """Fires when a sum over the rows since the last time reaches a limit."""

    def __init__(self, place: str, limit: int, input: str | None) -> None:
        super().__init__(place)
        self._limit = limit
        self._input = input

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        so_far = state.get(f"{self.place}sum", 0)
        missing = self._limit - so_far
        unit = ("row" if missing == 1 else "rows") if self._input is None else f"of {self._input}"
        return [f"for {missing:,} more {unit}: {so_far:,} of {self._limit:,} are there"]

    def counters(self) -> list[str]:
        return [f"{self.place}sum"]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        added = context.rows if self._input is None else context.inputs[self._input]
        name = f"{self.place}sum"
        context.put(name, on & (added != 0), np.clip(context.get(name), -MOST, MOST) + added)

    def ready(self, context: TriggerContext) -> Mask:
        enough: Mask = context.get(f"{self.place}sum") >= self._limit
        return enough & ~self.finished(context)


class PunctuationState(CountingState):
    """Fires when a row came in which a column is true."""

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return [f"for a row in which {self._input!r} is true"]


@state_of(AtPeriod)
class AtPeriodState(Leaf):
    """Fires when its timer is due, which rows have set."""

    def __init__(self, place: str, trigger: AtPeriod) -> None:
        super().__init__(place)
        self._trigger = trigger

    def timers(self) -> list[str]:
        return [f"{self.place}at"]

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        at = state.get(f"{self.place}at", NO_TIMER)
        if at == NO_TIMER:
            return ["for rows, which set its timer"]
        return [
            f"for processing time to reach {shown(at + START_OF_TIME)}: it was {shown(times.processing_time)} in the last epoch; "
            "an epoch has to come, with rows or by engine.tick()"
        ]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        name, timer = f"{self.place}at", self._trigger
        without_timer = on & (context.get(name) == NO_TIMER) & ~self.finished(context)
        if not context.always:
            without_timer &= context.pending
        periods = (context.processing_time - timer.aligned_to) // timer.period + 1
        context.put(name, without_timer, timer.aligned_to + periods * timer.period - START_OF_TIME)

    def ready(self, context: TriggerContext) -> Mask:
        at = context.get(f"{self.place}at")
        reached: Mask = (at != NO_TIMER) & (at <= context.processing_time - START_OF_TIME)
        return reached & ~self.finished(context)


@state_of(Pattern)
class PatternState(Leaf):
    """Fires when a stop has come after a start."""

    def __init__(self, place: str, trigger: Pattern) -> None:
        super().__init__(place)
        self._columns = (trigger.start, trigger.stop)

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        start, stop = self._columns
        if state.get(f"{self.place}begun"):
            return [f"for a row with {stop!r}"]
        return [f"for a row with {start!r} and after it one with {stop!r}"]

    def counters(self) -> list[str]:
        return [f"{self.place}begun", f"{self.place}ended", f"{self.place}begun anew"]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        started, stopped, in_order, anew = context.patterns[self._columns]
        begun = context.get(f"{self.place}begun") != 0
        context.put(f"{self.place}ended", on & (in_order | (begun & stopped)), 1)
        context.put(f"{self.place}begun", on & started, 1)
        context.put(f"{self.place}begun anew", on & (started | stopped), anew.astype(np.int64))

    def fire(self, context: TriggerContext, on: Mask) -> None:
        context.put(f"{self.place}ended", on, 0)
        self._done(context, on)

    def reset(self, context: TriggerContext, on: Mask) -> None:
        """Begin again; a start after the last stop begins the next pattern."""
        anew = on & self.finished(context) & (context.get(f"{self.place}begun anew") != 0)
        super().reset(context, on)
        for name in ("begun", "begun anew"):
            context.put(f"{self.place}{name}", anew, 1)

    def ready(self, context: TriggerContext) -> Mask:
        ended: Mask = context.get(f"{self.place}ended") != 0
        ready: Mask = ended & ~self.finished(context)
        return ready


@state_of(AfterPercentile)
class PercentileState(Leaf):
    """Fires when the watermark of a share of the rows has passed the end of the window."""

    def __init__(self, place: str, trigger: AfterPercentile) -> None:
        super().__init__(place)
        self._share = trigger.share

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        at = shown(times.percentiles[self._share])
        return [f"for the watermark of {self._share:.0%} of the rows, which is at {at}, to pass the end"]

    def ready(self, context: TriggerContext) -> Mask:
        return context.passed[self._share] & context.pending & ~self.finished(context)


class SignalState(Leaf):
    """Fires on a signal."""

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return ["for a call of view.fire(...)"]

    def ready(self, context: TriggerContext) -> Mask:
        return context.signalled & ~self.finished(context)


LEAVES.update(
    {
        EveryEpoch: lambda place, _: EveryEpochState(place),
        Signal: lambda place, _: SignalState(place),
        AfterCount: lambda place, trigger: CountingState(place, trigger.count, None),
        AfterSum: lambda place, trigger: CountingState(place, trigger.limit, trigger.input),
        Punctuation: lambda place, trigger: PunctuationState(place, 1, trigger.input),
    }
)
