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

    def observe(self, moment: TriggerContext, on: Mask) -> None:
        late = self._is_late(moment)
        if self._early is not None:
            self._early.observe(moment, on & ~late)
        if self._late is not None:
            self._late.observe(moment, on & late)

    def ready(self, moment: TriggerContext) -> Mask:
        late = self._is_late(moment)
        # Once on time, and then, if it has begun again, whenever there is something to emit.
        crossing = moment.ends > moment.watermark_before
        ready = moment.is_past & ~late & (moment.pending | crossing)
        if self._early is not None:
            ready |= ~late & ~moment.is_past & self._early.ready(moment)
        if self._late is not None:
            ready |= late & self._late.ready(moment)
        return ready & ~self.finished(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        late = self._is_late(moment)
        on_time = on & ~late & moment.is_past
        if self._late is None:
            self._done(moment, on_time)
        else:
            _fire_again(self._late, moment, on & late)
        if self._early is not None:
            _fire_again(self._early, moment, on & ~late & ~moment.is_past)
            self._early.reset(moment, on_time)
        moment.put(f"{self.place}late", on_time, 1)

    def back_to_early(self, moment: TriggerContext, on: Mask) -> None:
        self.reset(moment, on & self._is_late(moment))

    def merged(self, moment: TriggerContext, on: Mask) -> None:
        super().merged(moment, on)
        if self._late is not None:
            self._late.reset(moment, on & ~self._is_late(moment))

    def _is_late(self, moment: TriggerContext) -> Mask:
        late: Mask = moment.get(f"{self.place}late") != 0
        return late


def _fire_again(part: TriggerState, moment: TriggerContext, on: Mask) -> None:
    """Fire a part that begins again when it has finished."""
    part.fire(moment, on)
    part.reset(moment, on & part.finished(moment))


class _AnyOf(TriggerState):
    def ready(self, moment: TriggerContext) -> Mask:
        ready = moment.none
        for part in self.parts:
            ready |= part.ready(moment)
        return ready & ~self.finished(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        self._done(moment, on)


class _AllOf(TriggerState):
    def counters(self) -> list[str]:
        return []

    def flags(self) -> list[str]:
        return [f"{self.place}done", *(f"{part.place}was ready" for part in self.parts)]

    def observe(self, moment: TriggerContext, on: Mask) -> None:
        for part in self.parts:
            part.observe(moment, on)
            moment.put(f"{part.place}was ready", on & part.ready(moment), 1)

    def ready(self, moment: TriggerContext) -> Mask:
        ready = ~moment.none
        for part in self.parts:
            ready &= moment.get(f"{part.place}was ready") != 0
        return ready & ~self.finished(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        self._done(moment, on)


class _Sequence(TriggerState):
    def flags(self) -> list[str]:
        return [f"{self.place}done", *(f"{part.place}over" for part in self.parts)]

    def observe(self, moment: TriggerContext, on: Mask) -> None:
        for part, current in self._turns(moment):
            part.observe(moment, on & current)

    def ready(self, moment: TriggerContext) -> Mask:
        ready = moment.none
        for part, current in self._turns(moment):
            ready |= current & part.ready(moment)
        return ready & ~self.finished(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        for part, current in list(self._turns(moment)):
            part.fire(moment, on & current)
            over = on & current & part.finished(moment)
            moment.put(f"{part.place}over", over, 1)
            if part is self.parts[-1]:
                self._done(moment, over)

    def merged(self, moment: TriggerContext, on: Mask) -> None:
        super().merged(moment, on)
        before = on
        for part in self.parts:
            part.reset(moment, on & ~before)
            before = before & (moment.get(f"{part.place}over") != 0)

    def _turns(self, moment: TriggerContext) -> Iterator[tuple[TriggerState, Mask]]:
        """Yield each part, and the windows for which it is active: all parts before it are finished and it is not."""
        before = ~moment.none
        for part in self.parts:
            over = moment.get(f"{part.place}over") != 0
            yield part, before & ~over
            before = before & over


class _Repeat(TriggerState):
    def flags(self) -> list[str]:
        return []

    def finished(self, moment: TriggerContext) -> Mask:
        return moment.none

    def ready(self, moment: TriggerContext) -> Mask:
        return self.parts[0].ready(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        _fire_again(self.parts[0], moment, on)


class _Until(TriggerState):
    def ready(self, moment: TriggerContext) -> Mask:
        part, end = self.parts
        return (part.ready(moment) | end.ready(moment)) & ~self.finished(moment)

    def fire(self, moment: TriggerContext, on: Mask) -> None:
        part, end = self.parts
        ended = on & end.ready(moment)
        part.fire(moment, on & ~ended)
        self._done(moment, ended | (on & part.finished(moment)))


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
