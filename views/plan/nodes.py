"""The operations of which plans are made: frozen, equal ones being one, each with what follows from it for its rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NewType, TypeVar

import polars as pl

from evercurrent.core.circuit.placement import ANYWHERE, Placement
from evercurrent.core.data.schema import Order
from evercurrent.core.data.tags import added_later, tagged
from evercurrent.core.eventtime.panes.panes import Mode
from evercurrent.core.eventtime.triggers.kinds import EveryEpoch, Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.group.aggregates import Aggregation, Column
from evercurrent.core.operators import linear
from evercurrent.core.operators.join import JoinColumn, JoinKind
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State

BOUNDS = ("window_start", "window_end")
"""The columns of window bounds."""

PlanId = NewType("PlanId", int)
SourceKind = Literal["append", "diffs", "upsert"]


@tagged("views.plan:EventTime")
@dataclass(frozen=True, slots=True)
class EventTime:
    """Where the event time of rows stands: in a column, plus a shift in microseconds."""

    column: str
    shift: int = 0


Place = TypeVar("Place")


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The one operator that an operation becomes, the states that it keeps for itself, and where it may run."""

    operator: Operator
    states: Sequence[State] = ()
    placement: Placement = ANYWHERE


class Traits:
    """What follows from an operation for its rows. The answers here are those of one that computes row by row."""

    __slots__ = ()

    is_grouping: ClassVar[bool] = False
    """Whether its rows are those of groups, of which there are not more and more as time goes on."""

    keeps_last: ClassVar[bool] = False
    """Whether it keeps, of the rows of its input, the last of each key and window."""

    def made(self, where: str, schema: pl.Schema) -> Made | None:
        """The operator that it becomes, whose rows have this schema; ``where`` is what messages begin with.

        None: the compiler has more to do, such as arranging rows by a key, which others may share.
        """
        return None

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """The columns of this schema that tell its rows apart, or the last of them; none where rows have no keys."""
        return ()

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """The grouping whose panes hold what panes before them held, as rows of the operation at this place may do.

        ``before`` are the groupings of which that is true of rows of its inputs.
        """
        return before[0] if before else None

    def may_retract(self, inputs_do: bool) -> bool:
        """Whether its rows may be retracted, as those of its inputs may or may not."""
        return inputs_do

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Whether its rows may stand less than zero times, though those of its inputs do not."""
        return False

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """The inputs whose rows that stand less than zero times make such rows of this operation."""
        return inputs


@tagged("views.plan:Input")
@dataclass(frozen=True, slots=True)
class Input(Traits):
    """A source: where changes enter. With ``retained`` its rows are state, which is nothing that it computes."""

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
        """The keys of an upsert source."""
        return self.keys

    def may_retract(self, inputs_do: bool) -> bool:
        """Whether rows of the source may be retracted."""
        return self.kind != "append"

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Where the retractions of a source are trusted, nothing checks them."""
        return self.trusted


@tagged("views.plan:Select")
@dataclass(frozen=True, slots=True)
class Select(Traits):
    """Columns computed row by row, replacing all; ``keeps_rows_apart`` if no two rows can become one."""

    identity: Hashable
    columns: tuple[Column, ...] = field(compare=False)
    keeps_rows_apart: bool = field(compare=False)


@tagged("views.plan:Filter")
@dataclass(frozen=True, slots=True)
class Filter(Traits):
    """Rows for which a condition is true."""

    identity: Hashable
    condition: Column = field(compare=False)


@tagged("views.plan:Explode")
@dataclass(frozen=True, slots=True)
class Explode(Traits):
    """A row per element of list columns."""

    columns: tuple[str, ...]


@tagged("views.plan:Unnest")
@dataclass(frozen=True, slots=True)
class Unnest(Traits):
    """Struct columns replaced by their fields."""

    columns: tuple[str, ...]


@tagged("views.plan:Mapped")
@dataclass(frozen=True, slots=True)
class Mapped(Traits):
    """A user's function over frames, row by row by declaration; equal only to itself."""

    function: Callable[[pl.DataFrame], pl.DataFrame]

    def made(self, where: str, schema: pl.Schema) -> Made:
        """The function over frames."""
        return Made(linear.MapBatches(where, schema, self.function))


@tagged("views.plan:Concat")
@dataclass(frozen=True, slots=True)
class Concat(Traits):
    """All rows of all inputs."""

    def made(self, where: str, schema: pl.Schema) -> Made:
        """The sum of all changes."""
        return Made(linear.Concat(schema), placement=Placement(passes=frozenset(schema)))


@tagged("views.plan:Negate")
@dataclass(frozen=True, slots=True)
class Negate(Traits):
    """Every row with the opposite diff."""

    def made(self, where: str, schema: pl.Schema) -> Made:
        """The opposite change."""
        return Made(linear.Negate(schema), placement=Placement(passes=frozenset(schema)))

    def may_retract(self, inputs_do: bool) -> bool:
        """Rows may be retracted whatever the inputs do."""
        return True

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Rows stand less than zero times unless they are added to others."""
        return True

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """None: it makes such rows by itself."""
        return ()


@tagged("views.plan:Unique")
@dataclass(frozen=True, slots=True)
class Unique(Traits):
    """Each row once."""

    is_grouping: ClassVar[bool] = True

    def may_retract(self, inputs_do: bool) -> bool:
        """Rows may be retracted whatever the inputs do."""
        return True

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """None: what is counted is there or not."""
        return ()


@tagged("views.plan:Group")
@dataclass(frozen=True, slots=True)
class Group(Traits):
    """Aggregates by key columns."""

    keys: tuple[str, ...]
    identity: Hashable
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)

    is_grouping: ClassVar[bool] = True

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """The keys of the grouping."""
        return self.keys

    def may_retract(self, inputs_do: bool) -> bool:
        """Rows may be retracted whatever the inputs do."""
        return True

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """None: what is counted is there or not."""
        return ()


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
        """Pairs are retracted if rows of the inputs are; what shows that a row has no partner, whenever one comes."""
        return inputs_do or self.kind != "inner"

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """Of a semi or anti join the left input: the right one says only which keys there are."""
        return inputs[:1] if self.kind in ("semi", "anti") else inputs


@tagged("views.plan:Top")
@dataclass(frozen=True, slots=True)
class Top(Traits):
    """The first rows of each group by an order."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    count: int

    is_grouping: ClassVar[bool] = True

    def may_retract(self, inputs_do: bool) -> bool:
        """Rows may be retracted whatever the inputs do."""
        return True

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """None: what is counted is there or not."""
        return ()


Stamp = Literal["end", "start", "earliest", "latest", "watermark"]


@tagged("views.plan:Windowing")
@dataclass(frozen=True, slots=True)
class Windowing:
    """The four questions, as far as they are answered for a collection: where, when, how.

    ``trigger_columns`` are what triggers add up of the rows. Without ``lateness`` (microseconds) nothing closes.
    """

    window: Window
    stamp: Stamp = "end"
    trigger: Trigger = EveryEpoch()  # noqa: RUF009
    always: bool = False
    mode: Mode = "retracting"
    regroups: bool = False
    lateness: int | None = None
    info: bool = False

    @property
    def is_refined_only(self) -> bool:
        """Whether every epoch just refines the rows: then the grouping itself says all there is to say."""
        plain = isinstance(self.trigger, EveryEpoch) and not self.always and not self.info
        return plain and self.mode == "retracting" and self.stamp != "watermark"


@tagged("views.plan:Assign")
@dataclass(frozen=True, slots=True)
class Assign(Traits):
    """Each row with the windows it falls into, in two columns."""

    window: Window
    event_time: EventTime


@tagged("views.plan:WindowedGroup")
@dataclass(frozen=True, slots=True)
class WindowedGroup(Traits):
    """Aggregates by key columns and window, spoken when a trigger says so.

    ``event_time`` is that of the rows; ``trigger_columns`` are what triggers add up of them.
    """

    keys: tuple[str, ...]
    identity: Hashable
    windowing: Windowing
    event_time: EventTime
    trigger_columns: tuple[tuple[str, Hashable], ...]
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)
    trigger_inputs: tuple[Column, ...] = field(compare=False)

    is_grouping: ClassVar[bool] = True

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """The keys and the bounds of windows, where a key and window has one row and not one for each pane."""
        bounds = [name for name in BOUNDS if name in schema]
        return (*self.keys, *bounds) if last_only or self.windowing.mode == "retracting" else ()

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """Itself, if its panes accumulate."""
        return place if self.windowing.mode == "accumulating" and not self.windowing.regroups else None

    def may_retract(self, inputs_do: bool) -> bool:
        """Panes are retracted in one of three modes."""
        return self.windowing.mode == "retracting"

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """None: what is counted is there or not."""
        return ()


@tagged("views.plan:TooLate")
@dataclass(frozen=True, slots=True)
class LateRows(Traits):
    """The rows that come too late for all of their windows, or with ``each_window`` for each that they miss."""

    windowing: Windowing
    event_time: EventTime
    each_window: bool = field(default=False, metadata=added_later())

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """A late retraction may be of a row that was in time."""
        return may_retract


@tagged("views.plan:LastPanes")
@dataclass(frozen=True, slots=True)
class LastPanes(Traits):
    """The last pane of each key and window."""

    keeps_last: ClassVar[bool] = True

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """None: a pane is retracted when the next one is emitted."""
        return None

    def may_retract(self, inputs_do: bool) -> bool:
        """Rows may be retracted whatever the inputs do."""
        return True


@tagged("views.plan:Retimed")
@dataclass(frozen=True, slots=True)
class WithEventTime(Traits):
    """Rows with another event time; ``strict``: behind the watermark it is an error."""

    strict: bool
    event_time: EventTime


@tagged("views.plan:InOrder")
@dataclass(frozen=True, slots=True)
class InOrder(Traits):
    """Rows released in order of event time as the watermark passes them."""

    event_time: EventTime


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

    ``label`` says in words what it does, in a line that a plan cuts; ``event_time`` is where event time stands, if it is still there.
    """

    operation: Operation
    inputs: tuple[PlanId, ...]
    schema: pl.Schema = field(compare=False)
    label: str = field(compare=False)
    event_time: EventTime | None = field(compare=False, default=None)
