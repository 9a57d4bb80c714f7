"""The trigger whose state and times of firing are those of a user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.clock import START_OF_TIME
from ...data.columns.kernels import Mask
from ...data.columns.nulls import nulls_as
from ...data.errors import InputError, first_line
from ...data.tags import tagged
from .kinds import Trigger
from .leaves import NO_TIMER, Leaf, Times, TriggerContext, state_of


@tagged("core.eventtime.triggers:Custom")
@dataclass(frozen=True, slots=True)
class Custom(Trigger):
    """A user's trigger: four hooks over frames with a row per window that has changed.

    The frame has the columns of ``state`` (Int64, 0 at first) and ``rows``, ``end``, ``watermark`` and
    ``processing_time``. ``on_rows``, ``on_fire`` and ``on_merge`` return new state columns, ``should_fire`` a
    Boolean column. With a state column ``wake_at``, the hooks are called again when processing time reaches it.
    """

    name: str
    state: tuple[str, ...]
    on_rows: Callable[[pl.DataFrame], pl.DataFrame]
    should_fire: Callable[[pl.DataFrame], pl.Series]
    on_fire: Callable[[pl.DataFrame], pl.DataFrame]
    on_merge: Callable[[pl.DataFrame], pl.DataFrame] | None = None

    def __str__(self) -> str:
        return f"custom_trigger {self.name}"


@state_of(Custom)
class CustomState(Leaf):
    """Fires when a user's hook returns true."""

    def __init__(self, place: str, trigger: Custom) -> None:
        super().__init__(place)
        self._trigger = trigger

    def unfinished(self, state: Mapping[str, int], times: Times) -> list[str]:
        own = self._column("")
        columns = {name.removeprefix(own): value for name, value in state.items() if name.startswith(own)}
        return [f"for trigger {self._trigger.name!r}, whose state is {columns}"]

    def _column(self, name: str) -> str:
        """Return the name of a user's state column, distinct from our own."""
        return f"{self.place}state {name}"

    def counters(self) -> list[str]:
        return [self._column(name) for name in self._trigger.state if name != "wake_at"]

    def timers(self) -> list[str]:
        return [self._column("wake_at")] if "wake_at" in self._trigger.state else []

    def observe(self, context: TriggerContext, on: Mask) -> None:
        self._moved(context, on & (context.rows > 0), self._trigger.on_rows)

    def ready(self, context: TriggerContext) -> Mask:
        answer = self._called(self._trigger.should_fire, self._frame(context))
        if not isinstance(answer, pl.Series) or answer.dtype != pl.Boolean or len(answer) != len(context):
            raise InputError(
                f"trigger {self._trigger.name!r}: should_fire gave {answer!r:.60}; return a Boolean column, a row per window"
            )
        fires: Mask = nulls_as(False, answer).to_numpy()
        return fires & ~self.finished(context)

    def fire(self, context: TriggerContext, on: Mask) -> None:
        self._moved(context, on, self._trigger.on_fire)
        self._done(context, on)

    def merged(self, context: TriggerContext, on: Mask) -> None:
        if self._trigger.on_merge is not None:
            self._moved(context, on, self._trigger.on_merge)

    def _frame(self, context: TriggerContext) -> pl.DataFrame:
        columns = {name: context.get(self._column(name)) for name in self._trigger.state}
        if "wake_at" in columns:
            at = columns["wake_at"]
            columns["wake_at"] = np.where(at == NO_TIMER, 0, at + START_OF_TIME)
        of_pane = {"rows": context.rows, "end": context.ends}
        clocks = {
            "watermark": np.full(len(context), context.watermark),
            "processing_time": np.full(len(context), context.processing_time),
        }
        return pl.DataFrame({**columns, **of_pane, **clocks})

    def _moved(self, context: TriggerContext, on: Mask, hook: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        if not on.any():
            return
        moved = self._called(hook, self._frame(context))
        assert isinstance(moved, pl.DataFrame)
        for name in self._trigger.state:
            values = moved.get_column(name).cast(pl.Int64).to_numpy()
            if name == "wake_at":
                values = np.where(values == 0, NO_TIMER, values - START_OF_TIME)
            context.put(self._column(name), on, values)

    def _called(self, hook: Callable[[pl.DataFrame], object], frame: pl.DataFrame) -> object:
        try:
            answer = hook(frame)
            if hook is not self._trigger.should_fire and (
                not isinstance(answer, pl.DataFrame)
                or answer.height != frame.height
                or not set(self._trigger.state) <= set(answer.columns)
            ):
                raise TypeError(
                    f"it gave {answer!r:.60} and not a frame with the state columns, a row per window"
                )
            if isinstance(answer, pl.DataFrame):
                self._require_integers(answer)
        except Exception as error:
            raise InputError(
                f"trigger {self._trigger.name!r}: a hook raised {type(error).__name__}: {first_line(error)}; nothing has changed"
            ) from error
        return answer

    def _require_integers(self, frame: pl.DataFrame) -> None:
        for name in self._trigger.state:
            column = frame.get_column(name)
            if not column.dtype.is_integer() or column.has_nulls():
                type_text = f"{column.dtype}{' with nulls' if column.has_nulls() else ''}"
                raise TypeError(f"state column {name!r} is {type_text} and not Int64 without nulls")
