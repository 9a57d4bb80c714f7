"""The operations of plans: frozen values, each with its traits, of which equal ones are one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NewType

import polars as pl

from evercurrent.core.circuit.placement import Placement
from evercurrent.core.data.schema import Order
from evercurrent.core.data.tags import added_later, tagged
from evercurrent.core.eventtime.panes.panes import Always, Mode
from evercurrent.core.eventtime.triggers.kinds import EveryEpoch, Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.group.aggregates import Aggregation, Column
from evercurrent.core.operators import linear
from evercurrent.core.operators.join import JoinColumn, JoinKind

from . import shapes
from .traits import GroupTraits, Made, Place, Traits

BOUNDS = ("window_start", "window_end")
"""The columns of window bounds."""

PlanId = NewType("PlanId", int)
SourceKind = Literal["append", "diffs", "upsert"]


@tagged("views.plan:EventTime")
@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of rows: a column, plus a shift in microseconds."""

    column: str
    shift: int = 0


@tagged("views.plan:Input")
@dataclass(frozen=True, slots=True)
class Input(Traits):
    """A source, where changes enter. With ``retained`` its rows are kept, which does not change its identity."""

    name: str
    kind: SourceKind
    keys: tuple[str, ...] = ()
    strict: bool = False
    trusted: bool = False
    watermark: Watermark | None = None
    bounded: bool = False
    retained: bool = field(default=False, compare=False)
    sequence: tuple[str, ...] = field(default=(), metadata=added_later())

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """Return the keys of an upsert source."""
        return self.keys

    def may_retract(self, inputs_do: bool) -> bool:
        """Return whether rows of the source may be retracted."""
        return self.kind != "append"

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Return whether the retractions of the source are trusted, so that nothing checks them."""
        return self.trusted

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Entered()


@tagged("views.plan:Select")
@dataclass(frozen=True, slots=True)
class Select(Traits):
    """Columns computed row by row, replacing all; ``keeps_rows_apart`` if no two rows can become one."""

    identity: Hashable
    columns: tuple[Column, ...] = field(compare=False)
    keeps_rows_apart: bool = field(compare=False)

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Computed(self.columns)


@tagged("views.plan:Filter")
@dataclass(frozen=True, slots=True)
class Filter(Traits):
    """Rows for which a condition is true."""

    identity: Hashable
    condition: Column = field(compare=False)

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Chosen(self.condition)


@tagged("views.plan:Explode")
@dataclass(frozen=True, slots=True)
class Explode(Traits):
    """A row per element of list columns."""

    columns: tuple[str, ...]

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Exploded(self.columns)


@tagged("views.plan:Unnest")
@dataclass(frozen=True, slots=True)
class Unnest(Traits):
    """Struct columns replaced by their fields."""

    columns: tuple[str, ...]

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Unnested(self.columns)


@tagged("views.plan:Mapped")
@dataclass(frozen=True, slots=True)
class Mapped(Traits):
    """A user's function over frames, row by row by declaration; equal only to itself."""

    function: Callable[[pl.DataFrame], pl.DataFrame]

    def made(self, where: str, schema: pl.Schema) -> Made:
        """Return the operator of the function over frames."""
        return Made(linear.MapBatches(where, schema, self.function))

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Unknown()


@tagged("views.plan:Concat")
@dataclass(frozen=True, slots=True)
class Concat(Traits):
    """All rows of all inputs."""

    def made(self, where: str, schema: pl.Schema) -> Made:
        """Return the operator that adds up all changes."""
        return Made(linear.Concat(schema), placement=Placement(passes=frozenset(schema)))

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Union()


@tagged("views.plan:Negate")
@dataclass(frozen=True, slots=True)
class Negate(Traits):
    """Every row with the opposite diff."""

    def made(self, where: str, schema: pl.Schema) -> Made:
        """Return the operator that negates changes."""
        return Made(linear.Negate(schema), placement=Placement(passes=frozenset(schema)))

    def may_retract(self, inputs_do: bool) -> bool:
        """Return True: rows may be retracted whatever the inputs do."""
        return True

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Return True: counts are negative unless the rows are added to others."""
        return True

    def why_below_zero(self, source: str) -> str:
        """Return that rows are subtracted without a check."""
        return f"minus or negate subtracts rows of {source}, whether they are there or not"

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """Return none, as it produces negative counts by itself."""
        return ()

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Negated()


@tagged("views.plan:Unique")
@dataclass(frozen=True, slots=True)
class Unique(GroupTraits):
    """Each row once."""

    def state_label(self, label: str, role: str | None) -> str:
        """Return the label alone: the node has one state."""
        return label

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Once()


@tagged("views.plan:Group")
@dataclass(frozen=True, slots=True)
class Group(GroupTraits):
    """Aggregates by key columns."""

    keys: tuple[str, ...]
    identity: Hashable
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """Return the keys of the grouping."""
        return self.keys

    def state_label(self, label: str, role: str | None) -> str:
        """Return a label with the keys alone, as the columns show what is computed."""
        return GroupTraits.state_label(self, f"group by {', '.join(self.keys) or 'nothing'}", role)

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """Return the keys of the grouping."""
        return self.keys

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Grouped(self.keys, self.key_columns)


@tagged("views.plan:Join")
@dataclass(frozen=True, slots=True)
class Join(Traits):
    """Pairs of rows of two inputs with equal keys."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool
    columns: tuple[JoinColumn, ...]

    def may_retract(self, inputs_do: bool) -> bool:
        """Return whether pairs may be retracted, as rows of the inputs; a row without a partner may, when a partner comes."""
        return inputs_do or self.kind != "inner"

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """Return both inputs; for a semi or anti join only the left one, as the right one only determines which keys exist."""
        return inputs[:1] if self.kind in ("semi", "anti") else inputs

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.Paired(self.kind, self.left_keys, self.right_keys, self.nulls_equal, self.columns)


@tagged("views.plan:Top")
@dataclass(frozen=True, slots=True)
class Top(GroupTraits):
    """The first rows of each group by an order."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    count: int

    may_keep_less: ClassVar[bool] = True

    def state_label(self, label: str, role: str | None) -> str:
        """Return the label alone: the node has one state."""
        return label

    @property
    def shape(self) -> shapes.Shape:
        """See ``Traits``."""
        return shapes.First(self.keys, self.order, self.count)


Stamp = Literal["end", "start", "earliest", "latest", "watermark"]


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


Operation = (
    Assign
    | WindowedGroup
    | LastPanes
    | LateRows
    | WithEventTime
    | InOrder
    | Input
    | Select
    | Filter
    | Explode
    | Unnest
    | Mapped
    | Concat
    | Negate
    | Unique
    | Group
    | Join
    | Top
)


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A collection as it is declared: an operation over earlier nodes.

    ``label`` describes it in one line, which the plan cuts; ``event_time`` is its event time, if it still has one.
    ``identities`` are those of its operation, by scheme, as far as they were computed (``node_identities``).
    """

    operation: Operation
    inputs: tuple[PlanId, ...]
    schema: pl.Schema = field(compare=False)
    label: str = field(compare=False)
    event_time: EventTime | None = field(compare=False, default=None)
    identities: dict[int, str] = field(compare=False, repr=False, init=False, default_factory=dict)
