"""The declared views before compiling: frozen nodes, equal ones being one; no state and no data."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Literal, NewType

import networkx as nx
import polars as pl

from evercurrent.core.aggregates import Aggregation, Column
from evercurrent.core.operators.join import JoinColumn, JoinKind
from evercurrent.core.schema import Order

LABEL = 60
"""Labels of nodes are cut to so many characters."""

PlanId = NewType("PlanId", int)
SourceKind = Literal["append", "diffs", "upsert"]


@dataclass(frozen=True, slots=True)
class Input:
    """A source: where changes enter."""

    name: str
    kind: SourceKind
    keys: tuple[str, ...] = ()
    strict: bool = False
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """Columns computed row by row, replacing all; ``keeps_rows_apart`` if no two rows can become one."""

    identity: Hashable
    columns: tuple[Column, ...] = field(compare=False)
    keeps_rows_apart: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which a condition is true."""

    identity: Hashable
    condition: Column = field(compare=False)


@dataclass(frozen=True, slots=True)
class Explode:
    """A row per element of list columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unnest:
    """Struct columns replaced by their fields."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A user's function over frames, row by row by declaration; equal only to itself."""

    function: Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Concat:
    """All rows of all inputs."""


@dataclass(frozen=True, slots=True)
class Negate:
    """Every row with the opposite diff."""


@dataclass(frozen=True, slots=True)
class Unique:
    """Each row once."""


@dataclass(frozen=True, slots=True)
class Group:
    """Aggregates by key columns."""

    keys: tuple[str, ...]
    identity: Hashable
    key_columns: tuple[Column, ...] = field(compare=False)
    aggregation: Aggregation = field(compare=False)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows of two inputs with equal keys."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool
    columns: tuple[JoinColumn, ...]


@dataclass(frozen=True, slots=True)
class Top:
    """The first rows of each group by an order."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    count: int


Operation = (
    Input | Select | Filter | Explode | Unnest | Mapped | Concat | Negate | Unique | Group | Join | Top
)


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A collection as it is declared: an operation over earlier nodes.

    ``label`` says in words what it does, in a line that a plan cuts; ``event_time`` names the column of event time, if it is still there.
    """

    operation: Operation
    inputs: tuple[PlanId, ...]
    schema: pl.Schema = field(compare=False)
    label: str = field(compare=False)
    event_time: str | None = field(compare=False, default=None)


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
        return operation.keys if isinstance(operation, Input) else ()

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
