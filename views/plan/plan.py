"""The declared views before compiling: frozen nodes, equal ones being one; no state and no data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NewType

import polars as pl

from evercurrent.core.data.schema import Order
from evercurrent.core.data.tags import added_later, tagged
from evercurrent.core.eventtime.panes.panes import Mode
from evercurrent.core.eventtime.triggers.kinds import EveryEpoch, Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.group.aggregates import Aggregation, Column
from evercurrent.core.operators.join import JoinColumn, JoinKind

from ..concurrency.turns import Guard
from .declared_calls import DeclaredCall

if TYPE_CHECKING:
    import networkx as nx

LABEL = 60
"""Labels of nodes are cut to so many characters."""

STEPS = 4
"""So many steps back to a view or a source are named in a message; of those before them only the source."""

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
    sequence: tuple[str, ...] = field(default=(), metadata=added_later())

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
class LateRows:
    """The rows that come too late for all of their windows, or with ``each_window`` for each that they miss."""

    windowing: Windowing
    event_time: EventTime
    each_window: bool = field(default=False, metadata=added_later())


@tagged("views.plan:LastPanes")
@dataclass(frozen=True, slots=True)
class LastPanes:
    """The last pane of each key and window."""


@tagged("views.plan:Retimed")
@dataclass(frozen=True, slots=True)
class WithEventTime:
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


_adding = Guard()


class Plan:
    """All collections that were declared, each once, every node behind its inputs."""

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []
        self.views: dict[str, PlanId] = {}
        self._known: dict[PlanNode, PlanId] = {}
        self._names: dict[PlanId, list[str]] = {}
        self._traits: list[_Traits] = []
        self._sources: dict[PlanId, frozenset[PlanId]] = {}
        self.calls: list[DeclaredCall] = []
        """How its collections were declared, in this process."""
        self.sources: dict[str, Any] = {}
        """The collections that these calls begin with, by name."""

    def __getstate__(self) -> dict[str, object]:
        """All of it but the calls: tasks elsewhere compile the plan, and declare nothing."""
        return {**self.__dict__, "calls": [], "sources": {}}

    def add(self, node: PlanNode) -> PlanId:
        """The place of this node; an equal one that is already there is that node."""
        with _adding.lock:  # One for all plans, as these are pickled.
            known = self._known.get(node)
            if known is None:
                known = self._known[node] = PlanId(len(self.nodes))
                label = node.label if len(node.label) <= LABEL else node.label[: LABEL - 1] + "…"
                self.nodes.append(replace(node, label=label))
                self._traits.append(_traits(known, node, [self._traits[source] for source in node.inputs]))
            return known

    def add_view(self, name: str, place: PlanId) -> None:
        """Give the rows of a node a name."""
        # Others look at these meanwhile: they get new ones.
        self.views = {**self.views, name: place}
        self._names.setdefault(place, []).append(name)

    def __getitem__(self, node: PlanId) -> PlanNode:
        """The node at this place."""
        return self.nodes[node]

    def views_at(self, place: PlanId) -> list[str]:
        """The names of the views that are this node."""
        return list(self._names.get(place, ()))

    def name_of(self, place: PlanId) -> str:
        """The node as it is called in messages: a source or view by its name, else what it does, and to what."""
        steps: list[str] = []
        for _ in range(STEPS):
            node = self.nodes[place]
            if isinstance(node.operation, Input) or place in self._names:
                break
            steps.append(f"({node.label})")
            place = node.inputs[0]
        if place in self._names:
            return " of ".join([*steps, f"view {self._names[place][0]!r}"])
        origin = self._traits[place].origin
        operation = self.nodes[origin].operation
        assert isinstance(operation, Input), operation
        return " of ".join([*steps, *(["…"] if origin != place else []), f"source {operation.name!r}"])

    def keys_of(self, place: PlanId) -> tuple[str, ...]:
        """The columns that tell the rows of a grouped node apart; none for any other node."""
        operation = self.nodes[place].operation
        is_latest = isinstance(operation, LastPanes)
        if is_latest:
            operation = self.nodes[self.nodes[place].inputs[0]].operation
        if isinstance(operation, Group):
            return operation.keys
        if isinstance(operation, WindowedGroup):
            bounds = [name for name in BOUNDS if name in self.nodes[place].schema]
            is_one = is_latest or operation.windowing.mode == "retracting"
            return (*operation.keys, *bounds) if is_one else ()
        return operation.keys if isinstance(operation, Input) else ()

    def sources_of(self, place: PlanId) -> list[Input]:
        """The sources from which the rows of a node come."""
        if place not in self._sources:
            self._sources[place] = self._found_sources(place)
        operations = (self.nodes[at].operation for at in self._sources[place])
        found = [operation for operation in operations if isinstance(operation, Input)]
        return sorted(found, key=lambda source: source.name)

    def behind(self, place: PlanId) -> set[PlanId]:
        """A node and all that its rows come from."""
        return self._upstream(place, lambda at: self.nodes[at].inputs)

    def _found_sources(self, place: PlanId) -> frozenset[PlanId]:
        # What was found for a node is kept: asked of every node of a chain, the walk is one step each.
        passed = self._upstream(place, lambda at: () if at in self._sources else self.nodes[at].inputs)
        found = {at for at in passed if not self.nodes[at].inputs}
        return frozenset(found.union(*(self._sources[at] for at in passed if at in self._sources)))

    def _upstream(self, place: PlanId, onward: Callable[[PlanId], Sequence[PlanId]]) -> set[PlanId]:
        """A node and all that is come to from it, going on from each to the nodes that are said."""
        found: set[PlanId] = set()
        wanted = [place]
        while wanted:
            at = wanted.pop()
            if at not in found:
                found.add(at)
                wanted.extend(onward(at))
        return found

    def is_grouped(self, place: PlanId) -> bool:
        """Whether a grouping stands between the sources and a node, so that rows do not add up without end."""
        return self._traits[place].is_grouped

    def may_retract(self, place: PlanId) -> bool:
        """Whether rows of a node may be taken back: of a source that does, or of anything that refines its rows."""
        return self._traits[place].may_retract

    def counts_again(self, place: PlanId) -> PlanId | None:
        """A windowed grouping behind a node whose panes hold what those before them held; None if there is none."""
        return self._traits[place].repeats

    def below_zero_by(self, place: PlanId) -> list[PlanId]:
        """The nodes by which rows of this one may come to stand less than zero times; none: no row ever does.

        Subtraction, late rows of what may be taken back (these may be retractions of rows that were in time), and sources
        whose retractions are trusted. Behind what counts rows, or takes those that are there, no count is below zero.
        """
        return sorted(
            at
            for at in self._upstream(place, lambda at: _below_zero_from(self.nodes[at]))
            if self._takes_below_zero(at)
        )

    def _takes_below_zero(self, place: PlanId) -> bool:
        """Whether rows of a node may stand less than zero times, though those of its inputs do not."""
        match self.nodes[place].operation:
            case Input(trusted=trusted):
                return trusted
            case LateRows():
                return self.may_retract(place)
            case operation:
                return isinstance(operation, Negate)

    def graph(self) -> nx.DiGraph[int]:
        """Return what is needed for the views and sources as a graph along which deltas flow."""
        import networkx as nx  # 0.4 s, for the few who hand a plan on to it

        graph: nx.DiGraph[int] = nx.DiGraph()
        for place in self.needed():
            node = self.nodes[place]
            graph.add_node(
                place,
                label=node.label,
                operation=node.operation,
                schema=node.schema,
                views=self.views_at(place),
            )
            graph.add_edges_from((source, place) for source in node.inputs)
        return graph

    def needed(self) -> list[PlanId]:
        """The nodes behind the views and sources, in the order in which they can be computed."""
        wanted = list(self.views.values())
        wanted += [
            PlanId(place) for place, node in enumerate(self.nodes) if isinstance(node.operation, Input)
        ]
        found: set[PlanId] = set()
        while wanted:
            place = wanted.pop()
            if place not in found:
                found.add(place)
                wanted += self.nodes[place].inputs
        return sorted(found)


def _below_zero_from(node: PlanNode) -> Sequence[PlanId]:
    """The inputs whose rows that stand less than zero times make such rows of a node."""
    match node.operation:
        case Negate() | Group() | WindowedGroup() | Unique() | Top():
            return ()
        case Join(kind="semi" | "anti"):
            return node.inputs[:1]
        case _:
            return node.inputs


@dataclass(frozen=True, slots=True)
class _Traits:
    """What follows for a node from the nodes that it is over, noted when it is declared.

    ``origin`` is the source of its first input, ``repeats`` a grouping whose panes would be counted again.
    """

    origin: PlanId
    is_grouped: bool
    may_retract: bool
    repeats: PlanId | None


def _traits(place: PlanId, node: PlanNode, inputs: Sequence[_Traits]) -> _Traits:
    operation = node.operation
    groups = isinstance(operation, Group | WindowedGroup | Unique | Top)
    if isinstance(operation, WindowedGroup):
        known = operation.windowing
        repeats = place if known.mode == "accumulating" and not known.regroups else None
    elif isinstance(operation, LastPanes):
        repeats = None
    else:
        repeats = next((each.repeats for each in inputs if each.repeats is not None), None)
    return _Traits(
        origin=inputs[0].origin if inputs else place,
        is_grouped=groups or (bool(inputs) and all(each.is_grouped for each in inputs)),
        may_retract=_may_retract(operation, any(each.may_retract for each in inputs)),
        repeats=repeats,
    )


def _may_retract(operation: Operation, inputs_do: bool) -> bool:
    """Whether rows of an operation may be taken back, as those of its inputs may or may not."""
    match operation:
        case Input():
            return operation.may_retract
        case WindowedGroup(windowing=windowing):
            return windowing.mode == "retracting"
        case (
            Select()
            | Filter()
            | Explode()
            | Unnest()
            | Mapped()
            | Concat()
            | Assign()
            | WithEventTime()
            | InOrder()
            | LateRows()
            | Join(kind="inner")
        ):
            return inputs_do
        case _:
            return True
