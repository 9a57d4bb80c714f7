"""The operations of plans: frozen values, each with its traits, of which equal ones are one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NewType

import polars as pl

from evercurrent.core.circuit.placement import Placement
from evercurrent.core.data.schema import Order
from evercurrent.core.data.tags import added_later, tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.operators import linear
from evercurrent.core.operators.group.aggregates import Aggregation, Column
from evercurrent.core.operators.join import JoinColumn, JoinKind

from ..connectors.change_formats import ChangeFormat
from . import shapes
from .event_time_nodes import BOUNDS as BOUNDS
from .event_time_nodes import Assign as Assign
from .event_time_nodes import EventTime as EventTime
from .event_time_nodes import InOrder as InOrder
from .event_time_nodes import LastPanes as LastPanes
from .event_time_nodes import LateRows as LateRows
from .event_time_nodes import Stamp as Stamp
from .event_time_nodes import WindowedGroup as WindowedGroup
from .event_time_nodes import Windowing as Windowing
from .event_time_nodes import WithEventTime as WithEventTime
from .traits import GroupTraits, Made, Place, Traits

PlanId = NewType("PlanId", int)
SourceKind = Literal["append", "diffs", "upsert"]


@tagged("views.plan:Input")
@dataclass(frozen=True, slots=True)
class Input(Traits):
    """A source, where changes enter.

    That its rows are kept (``retained``), and in which ``format`` they come, does not change its identity.
    """

    name: str
    kind: SourceKind
    keys: tuple[str, ...] = ()
    strict: bool = False
    trusted: bool = False
    watermark: Watermark | None = None
    bounded: bool = False
    retained: bool = field(default=False, compare=False)
    sequence: tuple[str, ...] = field(default=(), metadata=added_later())
    format: ChangeFormat | None = field(default=None, compare=False)

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

    may_keep_less: ClassVar[bool] = True

    @property
    def prepared(self) -> tuple[Column, ...]:
        """Return what its aggregates are computed from."""
        return self.aggregation.prepared

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
