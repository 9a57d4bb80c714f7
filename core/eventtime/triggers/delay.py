"""The trigger that waits for a length of processing time from the first row of a pane on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...data.clock import START_OF_TIME
from ...data.columns.kernels import Mask
from ...data.instants import shown, spelled
from ...data.tags import tagged
from .kinds import Trigger
from .leaves import NO_TIMER, Leaf, Times, TriggerContext, state_of


@tagged("core.eventtime.triggers:AfterProcessingTime")
@dataclass(frozen=True, slots=True)
class AfterProcessingTime(Trigger):
    """Fires when so many microseconds of processing time have passed since the first row that no pane has. Finishes."""

    delay: int

    def __str__(self) -> str:
        return f"after_processing_time {spelled(self.delay)}"


@state_of(AfterProcessingTime)
class AfterProcessingTimeState(Leaf):
    """Fires when its timer is due, which the first row has set."""

    def __init__(self, place: str, trigger: AfterProcessingTime) -> None:
        super().__init__(place)
        self._delay = trigger.delay

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        at = state.get(f"{self.place}at", NO_TIMER)
        return ["for rows" if at == NO_TIMER else f"for processing time to reach {shown(at + START_OF_TIME)}"]

    def timers(self) -> list[str]:
        return [f"{self.place}at"]

    def observe(self, context: TriggerContext, on: Mask) -> None:
        name = f"{self.place}at"
        without_timer = on & (context.get(name) == NO_TIMER) & ~self.finished(context)
        if not context.always:
            without_timer &= context.pending
        context.put(name, without_timer, context.processing_time + self._delay - START_OF_TIME)

    def ready(self, context: TriggerContext) -> Mask:
        at = context.get(f"{self.place}at")
        reached: Mask = (at != NO_TIMER) & (at <= context.processing_time - START_OF_TIME)
        return reached & ~self.finished(context)
