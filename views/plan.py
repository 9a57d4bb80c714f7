"""The declared views before compiling: frozen nodes, equal ones being one; no state and no data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NewType

import networkx as nx
import polars as pl

from evercurrent.core.aggregates import Aggregation, Column
from evercurrent.core.eventtime.panes import Mode
from evercurrent.core.eventtime.triggers import EveryEpoch, Trigger
from evercurrent.core.eventtime.watermarks import Watermark
from evercurrent.core.eventtime.windows import Window
from evercurrent.core.operators.join import JoinColumn, JoinKind
from evercurrent.core.schema import Order
from evercurrent.core.tags import tagged

LABEL = 60
"""Labels of nodes are cut to so many characters."""

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


@tagged("views.plan:Input")
@dataclass(frozen=True, slots=True)
class Input:
    """A source: where changes enter. With ``retained`` its rows are state, which is nothing that it computes."""

    name: str
    kind: SourceKind
    keys: tuple[str, ...] = ()
    strict: bool = False
    trusted: bool = False
    watermark: Watermark | None = None
    bounded: bool = False
    retained: bool = field(default=False, compare=False)

    @property
    def may_retract(self) -> bool:
        """Whether rows may be taken back."""
        return self.kind != "append"


@tagged("views.plan:Select")
@dataclass(frozen=True, slots=True)
class Select:
    """Columns computed row by row, replacing all; ``keeps_rows_apart`` if no two rows can become one."""

    identity: Hashable
    columns: tuple[Column, ...] = field(compare=False)
    keeps_rows_apart: bool = field(compare=False)


@tagged("views.plan:Filter")
@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which a condition is true."""

    identity: Hashable
    condition: Column = field(compare=False)


@tagged("views.plan:Explode")
@dataclass(frozen=True, slots=True)
class Explode:
    """A row per element of list columns."""

    columns: tuple[str, ...]


@tagged("views.plan:Unnest")
@dataclass(frozen=True, slots=True)
class Unnest:
    """Struct columns replaced by their fields."""

    columns: tuple[str, ...]


@tagged("views.plan:Mapped")
@dataclass(frozen=True, slots=True)
class Mapped:
    """A user's function over frames, row by row by declaration; equal only to itself."""

    function: Callable[[pl.DataFrame], pl.DataFrame]


@tagged("views.plan:Concat")
@dataclass(frozen=True, slots=True)
class Concat:
    """All rows of all inputs."""


@tagged("views.plan:Negate")
@dataclass(frozen=True, slots=True)
class Negate:
    """Every row with the opposite diff."""


@tagged("views.plan:Unique")
@dataclass(frozen=True, slots=True)
class Unique:
    """Each row once."""


@tagged("views.plan:Group")
@dataclass(frozen=True, slots=True)
class Group:
    """Aggregates by key columns."""

    keys: tuple[str, ...]
    identity: Hashable
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)


@tagged("views.plan:Join")
@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows of two inputs with equal keys."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool
    columns: tuple[JoinColumn, ...]


@tagged("views.plan:Top")
@dataclass(frozen=True, slots=True)
class Top:
    """The first rows of each group by an order."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    count: int


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
class Assign:
    """Each row with the windows it falls into, in two columns."""

    window: Window
    event_time: EventTime


@tagged("views.plan:WindowedGroup")
@dataclass(frozen=True, slots=True)
class WindowedGroup:
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


@tagged("views.plan:TooLate")
@dataclass(frozen=True, slots=True)
class TooLate:
    """The rows that come too late for their windows."""

    windowing: Windowing
    event_time: EventTime


@tagged("views.plan:Retimed")
@dataclass(frozen=True, slots=True)
class Retimed:
    """Rows with another event time; ``strict``: behind the watermark it is an error."""

    strict: bool
    event_time: EventTime


@tagged("views.plan:InOrder")
@dataclass(frozen=True, slots=True)
class InOrder:
    """Rows released in order of event time as the watermark passes them."""

    event_time: EventTime


Operation = (
    Assign
    | WindowedGroup
    | TooLate
    | Retimed
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


class Plan:
    """All collections that were declared, each once, every node behind its inputs."""

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []
        self.views: dict[str, PlanId] = {}
        self._known: dict[PlanNode, PlanId] = {}

    def add(self, node: PlanNode) -> PlanId:
        """The place of this node; an equal one that is already there is that node."""
        if node not in self._known:
            self._known[node] = PlanId(len(self.nodes))
            label = node.label if len(node.label) <= LABEL else node.label[: LABEL - 1] + "…"
            self.nodes.append(replace(node, label=label))
        return self._known[node]

    def __getitem__(self, node: PlanId) -> PlanNode:
        """The node at this place."""
        return self.nodes[node]

    def views_at(self, place: PlanId) -> list[str]:
        """The names of the views that are this node."""
        return [name for name, target in self.views.items() if target == place]

    def name_of(self, place: PlanId) -> str:
        """The node as it is called in messages: a source or view by its name, else what it does."""
        node = self.nodes[place]
        if isinstance(node.operation, Input):
            return f"source {node.operation.name!r}"
        if names := self.views_at(place):
            return f"view {names[0]!r}"
        return f"({node.label}) of {self.name_of(node.inputs[0])}"

    def keys_of(self, place: PlanId) -> tuple[str, ...]:
        """The columns that tell the rows of a grouped node apart; none for any other node."""
        operation = self.nodes[place].operation
        if isinstance(operation, Group):
            return operation.keys
        if isinstance(operation, WindowedGroup):
            bounds = [name for name in BOUNDS if name in self.nodes[place].schema]
            return (*operation.keys, *bounds) if operation.windowing.mode == "retracting" else ()
        return operation.keys if isinstance(operation, Input) else ()

    def sources_of(self, place: PlanId) -> list[Input]:
        """The sources from which the rows of a node come."""
        operations = (self.nodes[at].operation for at in self._upstream(place, lambda node: node.inputs))
        found = [operation for operation in operations if isinstance(operation, Input)]
        return sorted(found, key=lambda source: source.name)

    def _upstream(self, place: PlanId, onward: Callable[[PlanNode], Sequence[PlanId]]) -> set[PlanId]:
        """A node and all that is come to from it, going on from each to the nodes that are said."""
        found: set[PlanId] = set()
        wanted = [place]
        while wanted:
            at = wanted.pop()
            if at not in found:
                found.add(at)
                wanted.extend(onward(self.nodes[at]))
        return found

    def is_grouped(self, place: PlanId) -> bool:
        """Whether a grouping stands between the sources and a node, so that rows do not add up without end."""
        node = self.nodes[place]
        if isinstance(node.operation, Group | WindowedGroup | Unique | Top):
            return True
        return bool(node.inputs) and all(self.is_grouped(source) for source in node.inputs)

    def may_retract(self, place: PlanId) -> bool:
        """Whether rows of a node may be taken back: of a source that does, or of anything that refines its rows."""
        node = self.nodes[place]
        match node.operation:
            case Input() as source:
                return source.may_retract
            case (
                Select()
                | Filter()
                | Explode()
                | Unnest()
                | Mapped()
                | Concat()
                | Assign()
                | Retimed()
                | InOrder()
                | TooLate()
            ):
                return any(self.may_retract(source) for source in node.inputs)
            case Join(kind="inner" | "semi" as kind):
                return kind == "semi" or any(self.may_retract(source) for source in node.inputs)
            case WindowedGroup(windowing=windowing):
                return windowing.mode == "retracting"
            case _:
                return True

    def below_zero_by(self, place: PlanId) -> list[PlanId]:
        """The nodes by which rows of this one may come to stand less than zero times; none: no row ever does.

        Subtraction, late rows of what may be taken back (these may be retractions of rows that were in time), and sources
        whose retractions are trusted. Behind what counts rows, or takes those that are there, no count is below zero.
        """
        return sorted(at for at in self._upstream(place, _below_zero_from) if self._takes_below_zero(at))

    def _takes_below_zero(self, place: PlanId) -> bool:
        """Whether rows of a node may stand less than zero times, though those of its inputs do not."""
        match self.nodes[place].operation:
            case Input(trusted=trusted):
                return trusted
            case TooLate():
                return self.may_retract(place)
            case operation:
                return isinstance(operation, Negate)

    def graph(self) -> nx.DiGraph[int]:
        """What is needed for the views and sources, as a graph along which deltas flow."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        wanted = list(self.views.values())
        wanted += [
            PlanId(place) for place, node in enumerate(self.nodes) if isinstance(node.operation, Input)
        ]
        while wanted:
            place = wanted.pop()
            if place in graph and "label" in graph.nodes[place]:
                continue
            node = self.nodes[place]
            graph.add_node(
                place,
                label=node.label,
                operation=node.operation,
                schema=node.schema,
                views=self.views_at(place),
            )
            for source in node.inputs:
                graph.add_edge(source, place)
                wanted.append(source)
        return graph

    def needed(self) -> list[PlanId]:
        """The nodes behind the views and sources, in the order in which they can be computed."""
        return [PlanId(place) for place in sorted(self.graph().nodes)]


def _below_zero_from(node: PlanNode) -> Sequence[PlanId]:
    """The inputs whose rows that stand less than zero times make such rows of a node."""
    match node.operation:
        case Negate() | Group() | WindowedGroup() | Unique() | Top():
            return ()
        case Join(kind="semi" | "anti"):
            return node.inputs[:1]
        case _:
            return node.inputs
