"""States of composed triggers, whose parts fire depending on other parts, and the state of a whole trigger."""

from __future__ import annotations

from collections.abc import Iterator

from ...columns.kernels import Mask
from .kinds import AfterWatermark, AllOf, AnyOf, Repeat, Sequence, Trigger, Until, parts_of
from .leaves import LEAVES, TriggerContext, TriggerState


class _AfterWatermark(TriggerState):
    """Fires as ``early`` before the watermark passes the end, then once, and after that as ``late``."""

    def __init__(self, place: str, early: TriggerState | None, late: TriggerState | None) -> None:
        super().__init__(place)
        self._early, self._late = early, late
        self.parts = tuple(part for part in (early, late) if part is not None)

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


class _AnyOf(TriggerState):
    def ready(self, context: TriggerContext) -> Mask:
        ready = context.none
        for part in self.parts:
            ready |= part.ready(context)
        return ready & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        self._done(context, on)


class _AllOf(TriggerState):
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


class _Sequence(TriggerState):
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


class _Repeat(TriggerState):
    def flags(self) -> list[str]:
        return []

    def finished(self, context: TriggerContext) -> Mask:
        return context.none

    def ready(self, context: TriggerContext) -> Mask:
        return self.parts[0].ready(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        _fire_again(self.parts[0], context, on)


class _Until(TriggerState):
    def ready(self, context: TriggerContext) -> Mask:
        part, end = self.parts
        return (part.ready(context) | end.ready(context)) & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        part, end = self.parts
        ended = on & end.ready(context)
        part.fire(context, on & ~ended)
        self._done(context, ended | (on & part.finished(context)))


_COMPOSED: dict[type, type[TriggerState]] = {
    AnyOf: _AnyOf,
    AllOf: _AllOf,
    Sequence: _Sequence,
    Repeat: _Repeat,
    Until: _Until,
}


def trigger_state(trigger: Trigger, place: str = "t") -> TriggerState:
    """Return the state of a trigger as parts that read and update columns."""
    if (leaf := LEAVES.get(type(trigger))) is not None:
        return leaf(place, trigger)
    below = [trigger_state(part, f"{place}.{number}") for number, part in enumerate(parts_of(trigger))]
    match trigger:
        case AfterWatermark(early, late):
            return _AfterWatermark(
                place, below[0] if early is not None else None, below[-1] if late is not None else None
            )
        case _:
            part = _COMPOSED[type(trigger)](place)
            part.parts = tuple(below)
            return part
