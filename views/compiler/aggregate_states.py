"""The state of each kind of aggregate that the library has, with the arrangements of rows that it needs in the circuit."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from evercurrent.core.data.schema import Order
from evercurrent.core.operators.group.accumulators import AdditiveState
from evercurrent.core.operators.group.aggregate_states import (
    FirstByState,
    InputState,
    RecomputedState,
    RecomputedUserState,
    RetractableAggregate,
)
from evercurrent.core.operators.group.aggregates import (
    Additive,
    Column,
    Custom,
    Distinct,
    FirstBy,
    RecomputedAggregate,
    SuppliedValue,
)
from evercurrent.core.operators.group.head_states import HeadState
from evercurrent.core.operators.group.heads import HeadOrder
from evercurrent.core.operators.group.making import GroupRows as GroupRows
from evercurrent.core.operators.group.making import Made, made_for
from evercurrent.core.operators.group.ranked_states import RankedState
from evercurrent.core.operators.group.ranks import RANKED
from evercurrent.core.operators.group.user_states import StateForm
from evercurrent.core.state.partitioning import KeyColumns

from ..expressions.elementwise import elementwise
from ..expressions.order_insensitive import computes, ranked


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
    # Checkpoints have no sums of first rows for windows whose rows may be retracted, so these are read from the arrangement.
    if not rows.retracts or not (rows.may_go_below_zero or rows.in_windows):
        head = HeadOrder.of(aggregate, rows.types)
    holds_rows = head is None or rows.retracts
    # Rows of keys that expire are purged, all of them or none.
    was_first = (head is None or head.has_wide_words) and not rows.retracts and rows.expired is None
    first = 1 if was_first else None
    node, spine = rows.ordered(
        [aggregate.input], aggregate.order, aggregate.where, holds_rows=holds_rows, first=first
    )
    if head is None:
        return node, FirstByState(aggregate, spine)
    return node, HeadState(head, spine, retracts=rows.retracts)


@made_for(RecomputedAggregate)
def _recomputed(rows: GroupRows, aggregate: RecomputedAggregate) -> Made:
    names, order = aggregate.inputs, aggregate.order
    node, spine = rows.ordered(names, order)
    twice = computes(aggregate.expr)
    is_ranked = not order and len(names) == 1 and isinstance(rows.types[names[0]], RANKED)
    ranks = ranked(aggregate.expr) if is_ranked else None
    aggregate = replace(aggregate, expr=elementwise(aggregate.expr))
    if ranks is not None:
        below_zero = rows.retracts and rows.may_go_below_zero
        return node, RankedState(
            aggregate, spine, keyless=rows.keyless, ranks=ranks, may_go_below_zero=below_zero
        )
    return node, RecomputedState(aggregate, spine, keyless=rows.keyless, twice=twice)


@made_for(Custom)
def _custom(rows: GroupRows, aggregate: Custom) -> Made:
    if aggregate.remove is None:
        node, spine = rows.ordered([aggregate.input], (Order(aggregate.input),))
        return node, RecomputedUserState(aggregate, spine, keyless=rows.keyless)
    route = KeyColumns.of(rows.keys, rows.by).route
    form = StateForm(aggregate.serializer, rows.allow_pickle)
    return rows.prepared, RetractableAggregate(aggregate, keyless=rows.keyless, form=form, route=route)
