"""States of composed triggers, whose parts fire depending on other parts, and the state of a whole trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...data.columns.kernels import Mask
from ...data.instants import shown
from .kinds import AfterWatermark, AllOf, AnyOf, Repeat, Sequence, Trigger, Until
from .leaves import LEAVES, Times, TriggerContext, TriggerState


class _AfterWatermark(TriggerState):
    """Fires as ``early`` before the watermark passes the end, then once, and after that as ``late``."""

    def __init__(self, place: str, early: TriggerState | None, late: TriggerState | None) -> None:
        super().__init__(place)
        self._early, self._late = early, late
        self.parts = tuple(part for part in (early, late) if part is not None)

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        on_time = f"for the watermark to reach {shown(times.end)}"
        if self._is_over(state) and self._late is not None:
            return self._late.waits_for(state, times)
        if self._early is None:
            return [on_time]
        return ["for the first of", f"  {on_time}", *_below([self._early], state, times)]

    def waits_for_watermark(self, state: Mapping[str, int]) -> bool:
        return not self._is_over(state) or super().waits_for_watermark(state)

    def _is_over(self, state: Mapping[str, int]) -> bool:
        """Return whether a window has emitted its on-time pane."""
        return bool(state.get(f"{self.place}late"))

    def flags(self) -> list[str]:
        return [f"{self.place}done", f"{self.place}late"]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        late = self._is_late(context)
        if self._early is not None:
            self._early.observe(context, on & ~late)
        if self._late is not None:
            self._late.observe(context, on & late)

    def ready(self, context: TriggerContext) -> Mask:
        late = self._is_late(context)
        # Once on time, and then, if it has begun again, whenever there is something to emit.
        crossing = context.ends > context.watermark_before
        ready = context.is_past & ~late & (context.pending | crossing)
        if self._early is not None:
            ready |= ~late & ~context.is_past & self._early.ready(context)
        if self._late is not None:
            ready |= late & self._late.ready(context)
        return ready & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        late = self._is_late(context)
        on_time = on & ~late & context.is_past
        if self._late is None:
            self._done(context, on_time)
        else:
            _fire_again(self._late, context, on & late)
        if self._early is not None:
            _fire_again(self._early, context, on & ~late & ~context.is_past)
            self._early.reset(context, on_time)
        context.put(f"{self.place}late", on_time, 1)

    def back_to_early(self, context: TriggerContext, on: Mask) -> None:
        self.reset(context, on & self._is_late(context))

    def merged(self, context: TriggerContext, on: Mask) -> None:
        super().merged(context, on)
        if self._late is not None:
            self._late.reset(context, on & ~self._is_late(context))

    def _is_late(self, context: TriggerContext) -> Mask:
        late: Mask = context.get(f"{self.place}late") != 0
        return late


def _fire_again(part: TriggerState, context: TriggerContext, on: Mask) -> None:
    """Fire a part that begins again when it has finished."""
    part.fire(context, on)
    part.reset(context, on & part.finished(context))


def _around_watermark(place: str, trigger: AfterWatermark, parts: tuple[TriggerState, ...]) -> TriggerState:
    early = parts[0] if trigger.early is not None else None
    return _AfterWatermark(place, early, parts[-1] if trigger.late is not None else None)


class _Composed(TriggerState):
    """A trigger that fires as its parts do."""

    def __init__(self, place: str, parts: tuple[TriggerState, ...]) -> None:
        super().__init__(place)
        self.parts = parts


def _below(parts: Iterable[TriggerState], state: Mapping[str, int], times: Times) -> list[str]:
    return [f"  {line}" for part in parts for line in part.waits_for(state, times)]


class _AnyOf(_Composed):
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return ["for the first of", *_below(self.parts, state, times)]

    def ready(self, context: TriggerContext) -> Mask:
        ready = context.none
        for part in self.parts:
            ready |= part.ready(context)
        return ready & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        self._done(context, on)


class _AllOf(_Composed):
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        unready = [part for part in self.parts if not state.get(f"{part.place}was ready")]
        return ["for all of", *_below(unready, state, times)]

    def counters(self) -> list[str]:
        return []

    def flags(self) -> list[str]:
        return [f"{self.place}done", *(f"{part.place}was ready" for part in self.parts)]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        for part in self.parts:
            part.observe(context, on)
            context.put(f"{part.place}was ready", on & part.ready(context), 1)

    def ready(self, context: TriggerContext) -> Mask:
        ready = ~context.none
        for part in self.parts:
            ready &= context.get(f"{part.place}was ready") != 0
        return ready & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        self._done(context, on)


class _Sequence(_Composed):
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        current = next((part for part in self.parts if not state.get(f"{part.place}over")), self.parts[-1])
        return current.waits_for(state, times)

    def flags(self) -> list[str]:
        return [f"{self.place}done", *(f"{part.place}over" for part in self.parts)]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        for part, current in self._turns(context):
            part.observe(context, on & current)

    def ready(self, context: TriggerContext) -> Mask:
        ready = context.none
        for part, current in self._turns(context):
            ready |= current & part.ready(context)
        return ready & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        for part, current in list(self._turns(context)):
            part.fire(context, on & current)
            over = on & current & part.finished(context)
            context.put(f"{part.place}over", over, 1)
            if part is self.parts[-1]:
                self._done(context, over)

    def merged(self, context: TriggerContext, on: Mask) -> None:
        super().merged(context, on)
        before = on
        for part in self.parts:
            part.reset(context, on & ~before)
            before = before & (context.get(f"{part.place}over") != 0)

    def _turns(self, context: TriggerContext) -> Iterator[tuple[TriggerState, Mask]]:
        """Yield each part, and the windows for which it is active: all parts before it are finished and it is not."""
        before = ~context.none
        for part in self.parts:
            over = context.get(f"{part.place}over") != 0
            yield part, before & ~over
            before = before & over


class _Repeat(_Composed):
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return self.parts[0].waits_for(state, times)

    def flags(self) -> list[str]:
        return []

    def finished(self, context: TriggerContext) -> Mask:
        return context.none

    def ready(self, context: TriggerContext) -> Mask:
        return self.parts[0].ready(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        _fire_again(self.parts[0], context, on)


class _Until(_Composed):
    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        return ["for the first of", *_below(self.parts, state, times)]

    def ready(self, context: TriggerContext) -> Mask:
        part, end = self.parts
        return (part.ready(context) | end.ready(context)) & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        part, end = self.parts
        ended = on & end.ready(context)
        part.fire(context, on & ~ended)
        self._done(context, ended | (on & part.finished(context)))


Composed = Callable[[str, Any, tuple[TriggerState, ...]], TriggerState]
"""Makes the state of a composed trigger from its place in the tree, the trigger, and the states of its parts."""

_COMPOSED: dict[type[Trigger], Composed] = {
    AfterWatermark: _around_watermark,
    AnyOf: lambda place, _, parts: _AnyOf(place, parts),
    AllOf: lambda place, _, parts: _AllOf(place, parts),
    Sequence: lambda place, _, parts: _Sequence(place, parts),
    Repeat: lambda place, _, parts: _Repeat(place, parts),
    Until: lambda place, _, parts: _Until(place, parts),
}


def trigger_state(trigger: Trigger, place: str = "t") -> TriggerState:
    """Return the state of a trigger as parts that read and update columns."""
    if (leaf := LEAVES.get(type(trigger))) is not None:
        return leaf(place, trigger)
    below = tuple(trigger_state(part, f"{place}.{number}") for number, part in enumerate(trigger.components))
    composed = next(_COMPOSED[kind] for kind in type(trigger).__mro__ if kind in _COMPOSED)
    return composed(place, trigger, below)
