"""The state of each kind of aggregate, with the arrangements of rows that it needs in the circuit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.columns.kernels import Keys
from evercurrent.core.data.schema import Order
from evercurrent.core.group.accumulators import AdditiveState
from evercurrent.core.group.aggregate_contract import AggregateState
from evercurrent.core.group.aggregate_states import (
    FirstByState,
    InputState,
    RecomputedState,
    RecomputedUserState,
    RetractableAggregate,
)
from evercurrent.core.group.aggregates import (
    Additive,
    AggregateTraits,
    Column,
    Custom,
    Distinct,
    FirstBy,
    RecomputedAggregate,
    SuppliedValue,
)
from evercurrent.core.group.head_states import HeadState
from evercurrent.core.group.heads import HeadOrder
from evercurrent.core.group.ranked_states import RANKED, RankedState
from evercurrent.core.group.user_states import StateForm
from evercurrent.core.state.channels import Finding
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout
from evercurrent.core.state.spine import Spine

from ..expressions.elementwise import elementwise
from ..expressions.order_insensitive import computes, ranked

Made = tuple[NodeId, AggregateState]
"""The last node that was added for an aggregate, and its state."""

Maker = TypeVar("Maker", bound=Callable[..., Made])

MAKERS: dict[type[AggregateTraits], Callable[[GroupRows, Any], Made]] = {}
"""What makes the state of each kind of aggregate: see ``made_for``."""


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
    ) -> tuple[NodeId, Spine]:
        """Add an arrangement of the rows of a node by key."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """The prepared rows of groups, over which the state of an aggregate is made.

    ``of_nothing``: groups without rows are needed too. ``retracts``: rows may be retracted; ``may_go_below_zero``: also
    those that are not there. If keys expire, all state has to be by key.
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
    ) -> tuple[NodeId, Spine]:
        """Return an arrangement of these columns by group, in this order and then by the columns themselves."""
        payload = {name: self.types[name] for name in (*(part.column for part in order), *names)}
        implied = order or tuple(Order(name) for name in names if not self.types[name].is_nested())
        layout = Layout(pl.Schema(payload), by_row=True, order=implied)
        return self.nodes.arranged(
            self.prepared, self.types, self.keys, layout, where,
            expired=self.expired, by=self.by, holds_rows=holds_rows,
        )  # fmt: skip


def made_for(kind: type[AggregateTraits]) -> Callable[[Maker], Maker]:
    """Register the function that makes the state of a kind of aggregate."""

    def remember(made_by: Maker) -> Maker:
        MAKERS[kind] = made_by
        return made_by

    return remember


@made_for(SuppliedValue)
def _supplied(rows: GroupRows, aggregate: SuppliedValue) -> Made:
    return rows.prepared, InputState(aggregate)


@made_for(Additive)
def _additive(rows: GroupRows, aggregate: Additive) -> Made:
    return rows.prepared, AdditiveState(aggregate, rows.types[aggregate.input] if aggregate.input else None)


@made_for(Distinct)
def _distinct(rows: GroupRows, aggregate: Distinct) -> Made:
    names = dict.fromkeys((*rows.keys, aggregate.input))
    pairs = [Column(name, pl.col(name), copies=name) for name in names]
    projected = rows.nodes.projected(rows.prepared, rows.where, rows.types, pairs)
    schema = rows.nodes.schema_of(projected)
    by = rows.keys if rows.by is None else rows.by
    return rows.nodes.distinct(projected, schema, by), InputState(aggregate)


@made_for(FirstBy)
def _first_by(rows: GroupRows, aggregate: FirstBy) -> Made:
    head = None
    if not (rows.retracts and rows.may_go_below_zero):
        head = HeadOrder.of(aggregate, rows.types)
    holds_rows = head is None or rows.retracts
    node, spine = rows.ordered([aggregate.input], aggregate.order, aggregate.where, holds_rows=holds_rows)
    if head is None:
        return node, FirstByState(aggregate, spine)
    return node, HeadState(head, spine, retracts=rows.retracts)


@made_for(RecomputedAggregate)
def _recomputed(rows: GroupRows, aggregate: RecomputedAggregate) -> Made:
    names, order = aggregate.inputs, aggregate.order
    node, spine = rows.ordered(names, order)
    twice = computes(aggregate.expr)
    is_ranked = not order and len(names) == 1 and rows.types[names[0]] in RANKED
    ranks = ranked(aggregate.expr) if is_ranked else None
    aggregate = replace(aggregate, expr=elementwise(aggregate.expr))
    if ranks is not None:
        return node, RankedState(aggregate, spine, keyless=rows.keyless, ranks=ranks)
    return node, RecomputedState(aggregate, spine, keyless=rows.keyless, twice=twice)


@made_for(Custom)
def _custom(rows: GroupRows, aggregate: Custom) -> Made:
    if aggregate.remove is None:
        node, spine = rows.ordered([aggregate.input], (Order(aggregate.input),))
        return node, RecomputedUserState(aggregate, spine, keyless=rows.keyless)
    route = KeyColumns.of(rows.keys, rows.by).route
    form = StateForm(aggregate.serializer, rows.allow_pickle)
    return rows.prepared, RetractableAggregate(aggregate, keyless=rows.keyless, form=form, route=route)
