"""The operations of plans on event time: windows, panes, late rows, and rows in the order of their time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import polars as pl

from evercurrent.core.data.tags import added_later, tagged
from evercurrent.core.eventtime.panes.panes import Always, Mode
from evercurrent.core.eventtime.triggers.kinds import EveryEpoch, Trigger
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.operators.group.aggregates import Aggregation, Column

from . import shapes
from .traits import GroupTraits, Place, Traits

BOUNDS = ("window_start", "window_end")
"""The columns of window bounds."""

Stamp = Literal["end", "start", "earliest", "latest", "watermark"]


@tagged("views.plan:EventTime")
@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of rows: a column, plus a shift in microseconds."""

    column: str
    shift: int = 0


@tagged("views.plan:Windowing")
@dataclass(frozen=True, slots=True)
class Windowing:
    """The windowing of a collection: the where, when and how of the Dataflow Model, as far as they are declared.

    ``trigger_columns`` are the columns that triggers add up. Without ``lateness`` (microseconds) no window closes.
    """

    window: Window
    stamp: Stamp = "end"
    trigger: Trigger = EveryEpoch()  # noqa: RUF009
    always: Always = False
    mode: Mode = "retracting"
    regroups: bool = False
    lateness: int | None = None
    info: bool = False

    @property
    def is_refined_only(self) -> bool:
        """Return whether every epoch only refines the rows: then the grouping emits them and no panes are needed."""
        plain = self.trigger.refines_only and not self.always and not self.info
        return plain and self.mode == "retracting" and self.stamp != "watermark"


@tagged("views.plan:Assign")
@dataclass(frozen=True, slots=True)
class Assign(Traits):
    """Each row with the windows that it falls into, in two columns."""

    window: Window
    event_time: EventTime

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Assigned(self.window, self.event_time)


@tagged("views.plan:WindowedGroup")
@dataclass(frozen=True, slots=True)
class WindowedGroup(GroupTraits):
    """Aggregates by key columns and window, emitted in panes when a trigger fires.

    ``event_time`` is that of the rows; ``trigger_columns`` are the columns that triggers add up.
    """

    keys: tuple[str, ...]
    identity: Hashable
    windowing: Windowing
    event_time: EventTime
    trigger_columns: tuple[tuple[str, Hashable], ...]
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)
    trigger_inputs: tuple[Column, ...] = field(compare=False)

    may_keep_less: ClassVar[bool] = True

    @property
    def prepared(self) -> tuple[Column, ...]:
        """Return what its aggregates are computed from."""
        return self.aggregation.prepared

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """Return the keys of the grouping, without the bounds of windows."""
        return self.keys

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """Return the keys and the bounds of windows, where each key and window has one row and not one for each pane."""
        bounds = [name for name in BOUNDS if name in schema]
        return (*self.keys, *bounds) if last_only or self.windowing.mode == "retracting" else ()

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """Return itself, if its panes accumulate."""
        return place if self.windowing.mode == "accumulating" and not self.windowing.regroups else None

    def may_retract(self, inputs_do: bool) -> bool:
        """Return whether panes are retracted, as they are in one of three modes."""
        return self.windowing.mode == "retracting"

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Panes(self.windowing.window, self.keys, self.key_columns, self.event_time)


@tagged("views.plan:TooLate")
@dataclass(frozen=True, slots=True)
class LateRows(Traits):
    """The rows that come too late for all of their windows, or with ``each_window`` for each that they miss."""

    windowing: Windowing
    event_time: EventTime
    each_window: bool = field(default=False, metadata=added_later())

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Return whether rows may be retracted: a late retraction may be of a row that was in time."""
        return may_retract

    def why_below_zero(self, source: str) -> str:
        """Return that retractions may be late."""
        return f"late rows of {source} may be retractions of rows that were in time"

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.TooLate()


@tagged("views.plan:LastPanes")
@dataclass(frozen=True, slots=True)
class LastPanes(Traits):
    """The last pane of each key and window."""

    keeps_last: ClassVar[bool] = True

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """Return None: a pane is retracted when the next one is emitted."""
        return None

    def may_retract(self, inputs_do: bool) -> bool:
        """Return True: rows may be retracted whatever the inputs do."""
        return True

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.LastOnes()


@tagged("views.plan:Retimed")
@dataclass(frozen=True, slots=True)
class WithEventTime(Traits):
    """Rows with another event time; with ``strict`` a time behind the watermark is an error."""

    strict: bool
    event_time: EventTime

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Retimed()


@tagged("views.plan:InOrder")
@dataclass(frozen=True, slots=True)
class InOrder(Traits):
    """Rows released in order of event time as the watermark passes them."""

    event_time: EventTime

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.InTurn()
