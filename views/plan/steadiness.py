"""Nodes of a plan are steady if they compute the same results over widened columns as they did over the earlier ones.

A node is compared with its earlier node. An operation that copies columns, compares keys or counts rows does the same with
a wider type; one that computes with it (``x / 3`` of a Float32) may have other values, and so may a function that gets one
more column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.operators.group.aggregates import Column

from .nodes import (
    Assign,
    Concat,
    Explode,
    Filter,
    Group,
    Input,
    Join,
    Mapped,
    Negate,
    PlanId,
    PlanNode,
    Select,
    Top,
    Unique,
    Unnest,
    WindowedGroup,
)
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Steady:
    """The nodes whose states are unchanged, and those whose rows are unchanged."""

    states: frozenset[PlanId]
    rows: frozenset[PlanId]


def steady_nodes(now: Plan, then: Plan, places: Mapping[PlanId, PlanId]) -> Steady:
    """Return which nodes of an earlier plan compute the same as before."""
    states: set[PlanId] = set()
    rows: set[PlanId] = set()
    for place in sorted(places):
        node, before = now[place], then[places[place]]
        inputs = [
            _Input(now[one].schema, then[two].schema)
            for one, two in zip(node.inputs, before.inputs, strict=True)
        ]
        if all(source in rows and places.get(source) in before.inputs for source in node.inputs):
            keeps, gives = _does_the_same(node, inputs)
            states |= {place} if keeps else set()
            rows |= {place} if gives else set()
    return Steady(frozenset(states), frozenset(rows))


class _Input:
    """The input columns of a node, now and in the earlier plan."""

    def __init__(self, now: pl.Schema, then: pl.Schema) -> None:
        self.is_same = list(now.items()) == list(then.items())
        self.is_fuller = any(name not in now for name in then)
        self.retyped = {name: dtype for name, dtype in now.items() if then.get(name, dtype) != dtype}
        self.has_other_texts = any(dtype == pl.String for dtype in self.retyped.values())


def _does_the_same(node: PlanNode, inputs: list[_Input]) -> tuple[bool, bool]:
    """Return whether the state of a node is unchanged, and whether its rows are."""
    retyped = {name for each in inputs for name in each.retyped}
    match node.operation:
        case Input() | Negate() | Concat() | Explode() | Unnest() | Join():
            return True, True
        case Filter(condition=condition):
            same = not retyped.intersection(root_names(condition.expr))
        case Select(columns=columns):
            same = not retyped.intersection(_computed_from(columns))
        case Unique():
            return not inputs[0].is_fuller, not inputs[0].is_fuller
        case Top():
            # Ties are broken by the whole row, and names of categories have another order than their numbers.
            same = not inputs[0].is_fuller and not inputs[0].has_other_texts
        case Group() as group:
            return _groups_the_same(group, inputs[0])
        case Mapped():
            same = inputs[0].is_same
        case Assign(event_time=event_time):
            same = event_time.column not in retyped
        case WindowedGroup() as group:
            columns = (*group.key_columns, *group.aggregation.prepared, *group.trigger_inputs)
            used = {name for each in columns for name in root_names(each.expr)}
            same = retyped.isdisjoint({*used, group.event_time.column})
        case _:
            same = not retyped
    return same, same


def _computed_from(columns: Iterable[Column]) -> set[str]:
    return {name for each in columns if each.copies is None for name in root_names(each.expr)}


def _groups_the_same(group: Group, columns: _Input) -> tuple[bool, bool]:
    prepared = (*group.key_columns, *group.aggregation.prepared)
    if set(columns.retyped).intersection(_computed_from(prepared)):
        return False, False
    inputs = {each.name: columns.retyped[each.copies] for each in prepared if each.copies in columns.retyped}
    aggregates = [
        each for each in group.aggregation.aggregates if not inputs.keys().isdisjoint(each.columns_read)
    ]
    if not all(each.is_steady for each in aggregates) or (aggregates and columns.has_other_texts):
        return False, False
    rounds = any(dtype.is_float() for dtype in inputs.values())
    finishes = any(each.copies is None for each in group.aggregation.finished)
    return True, not aggregates or not (rounds or finishes)
