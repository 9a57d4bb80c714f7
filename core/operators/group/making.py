"""The state of an aggregate is made over the prepared rows of groups, with what it needs in the circuit.

Each kind of aggregate has a function for that: ``made_for``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import polars as pl

from ...data.columns.kernels import Keys
from ...data.schema import Order
from ...state.channels import Finding
from ...state.operator_contract import NodeId
from ...state.run import Layout
from ...state.spine import Spine
from .aggregate_contract import AggregateState
from .aggregates import AggregateTraits, Column

Made = tuple[NodeId, AggregateState]
"""The last node that was added for an aggregate, and its state."""

Maker = TypeVar("Maker", bound=Callable[..., Made])

MAKERS: dict[type[AggregateTraits], Callable[[GroupRows, Any], Made]] = {}
"""The functions that make the state of each kind of aggregate: see ``made_for``."""


class Nodes(Protocol):
    """Adds nodes to a circuit, each once for all that need the same."""

    def schema_of(self, node: NodeId) -> pl.Schema:
        """Return the columns of a node."""
        ...

    def projected(self, source: NodeId, where: str, schema: pl.Schema, columns: Sequence[Column]) -> NodeId:
        """Add a node with these columns of another one."""
        ...

    def distinct(self, source: NodeId, schema: pl.Schema, by: tuple[str, ...] | None = None) -> NodeId:
        """Add a node that has each row once."""
        ...

    def arranged(
        self,
        source: NodeId,
        schema: pl.Schema,
        keys: Sequence[str],
        layout: Layout,
        where: str | None = None,
        *,
        expired: Finding[Keys] | None = None,
        by: tuple[str, ...] | None = None,
        holds_rows: bool = True,
        first: int | None = None,
    ) -> tuple[NodeId, Spine]:
        """Add an arrangement of the rows of a node by key."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """The prepared rows of groups, over which the state of an aggregate is made.

    ``of_nothing``: groups without rows are needed too. ``retracts``: rows may be retracted; ``may_go_below_zero``: also
    those that are not there. ``in_windows``: keys contain windows. If keys expire, all state has to be by key.
    """

    nodes: Nodes
    prepared: NodeId
    types: pl.Schema
    keys: tuple[str, ...]
    where: str
    expired: Finding[Keys] | None
    of_nothing: bool
    by: tuple[str, ...] | None
    retracts: bool
    may_go_below_zero: bool
    in_windows: bool
    allow_pickle: bool

    @property
    def keyless(self) -> bool:
        """Return whether there is a result for a group without rows."""
        return self.of_nothing or not self.keys

    def state(self, aggregate: AggregateTraits) -> Made:
        """Add what an aggregate needs to the circuit, and return its state."""
        of_state = aggregate if self.expired is None else aggregate.by_key
        return MAKERS[type(of_state)](self, of_state)

    def ordered(
        self,
        names: Sequence[str],
        order: tuple[Order, ...],
        where: str | None = None,
        *,
        holds_rows: bool = True,
        first: int | None = None,
    ) -> tuple[NodeId, Spine]:
        """Return an arrangement of these columns by group, in this order and then by the columns themselves.

        With ``first``, of rows that are never retracted, it has only this many of each group.
        """
        payload = {name: self.types[name] for name in (*(part.column for part in order), *names)}
        implied = order or tuple(Order(name) for name in names if not self.types[name].is_nested())
        layout = Layout(pl.Schema(payload), by_row=True, order=implied)
        return self.nodes.arranged(
            self.prepared, self.types, self.keys, layout, where,
            expired=self.expired, by=self.by, holds_rows=holds_rows, first=first,
        )  # fmt: skip


def made_for(kind: type[AggregateTraits]) -> Callable[[Maker], Maker]:
    """Register the function that makes the state of a kind of aggregate."""

    def remember(made_by: Maker) -> Maker:
        MAKERS[kind] = made_by
        return made_by

    return remember
