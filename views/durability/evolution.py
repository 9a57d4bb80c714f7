"""Sources whose columns differ from those in a checkpoint, and the plan as it was over the earlier columns.

A new column is null in all earlier rows, a removed one was used by no remaining view, and one of a wider type holds the
same values. So a view that is declared by the same calls is the same view, and the states of its nodes are valid wherever
their input is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import polars as pl

from evercurrent.core.state.ledger import Ledger

from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..dataframe.source import Source, with_other_columns
from ..expressions.dtype_reading import dtype_of_text
from ..plan.declared_calls import Replay
from ..plan.function_versions import without_versions
from ..plan.node_identities import plan_identities
from ..plan.nodes import PlanId, PlanNode
from ..plan.plan import Plan
from ..plan.widening import widens

Record = Mapping[str, Any]

MOST_TRIED = 2000
"""The most places that are tried for removed columns, as earlier versions did not record the order of columns."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The columns of a source before and now: some are new, some are gone, some are of a wider type."""

    name: str
    before: pl.Schema
    after: pl.Schema

    @property
    def description(self) -> str:
        """The changes in words, column by column."""
        names = [*self.before, *(name for name in self.after if name not in self.before)]
        return ", ".join(
            f"column {name!r} is new"
            if name not in self.before
            else f"column {name!r} is gone"
            if name not in self.after
            else f"column {name!r} is {self.after[name]}, was {self.before[name]}"
            for name in names
            if self.before.get(name) != self.after.get(name)
        )


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """The plan that the same calls make over the earlier columns.

    ``places`` maps nodes of the present plan to its nodes, ``failed`` gives by view the reason why it has none.
    """

    changes: Mapping[str, SourceChange]
    plan: Plan
    compiled: Compiled
    places: Mapping[PlanId, PlanId]
    failed: Mapping[str, str] = field(default_factory=dict)


def source_changes(record: Record, now: Record, plan: Plan) -> dict[str, SourceChange]:
    """Return the sources of a checkpoint that have other columns now, and are otherwise unchanged."""
    changes = {}
    for place, source in plan.inputs.items():
        if source.name in record["sources"]:
            was, is_now = (each["sources"][source.name] for each in (record, now))
            order = record.get("order", {}).get(source.name)
            if was["identity"] == is_now["identity"]:
                continue
            if (before := _columns_before(plan[place], was, is_now, order)) is not None:
                changes[source.name] = SourceChange(source.name, before, plan[place].schema)
    return changes


def _columns_before(node: PlanNode, was: Record, now: Record, order: list[str] | None) -> pl.Schema | None:
    """Return the columns that a source had in the checkpoint; None if it differs in more than its columns."""
    others = [each for each in {**was, **now} if each not in ("identity", "columns", "retained")]
    if any(was.get(each, []) != now.get(each, []) for each in others):
        return None
    try:
        types = {name: dtype_of_text(text) for name, text in was["columns"].items()}
    except ValueError:
        return None
    if any(name in types and not widens(types[name], dtype) for name, dtype in node.schema.items()):
        return None
    for schema in (
        [pl.Schema({name: types[name] for name in order})] if order else _orders(types, node.schema)
    ):
        if _identity_of(node, schema) == was["identity"]:
            return schema
    return None


def _orders(types: Mapping[str, pl.DataType], now: pl.Schema) -> Iterator[pl.Schema]:
    """Yield the present columns, with removed ones in all places where they may have been."""
    present, removed = [name for name in now if name in types], [name for name in types if name not in now]
    for tried, places in enumerate(combinations(range(len(types)), len(removed))):
        if tried == MOST_TRIED:
            return
        remaining, missing = iter(present), iter(removed)
        names = [next(missing) if at in places else next(remaining) for at in range(len(types))]
        yield pl.Schema({name: types[name] for name in names})


def _identity_of(node: PlanNode, schema: pl.Schema) -> str:
    plan = Plan()
    place = plan.add(PlanNode(node.operation, (), schema, node.label, node.event_time))
    return plan_identities(plan, [place])[place]


def earlier_plan(plan: Plan, changes: Mapping[str, SourceChange]) -> EarlierPlan:
    """Return the plan over the earlier columns, with the pairs of its nodes and the present ones."""
    earlier = Plan()
    begun: dict[int, Source] = {}
    for name, source in plan.sources.items():
        types = changes[name].before if name in changes else source.schema
        begun[id(source)] = with_other_columns(earlier, source, types)
    replay = Replay(plan.calls, begun)
    places: dict[PlanId, PlanId] = {
        source._place: begun[id(source)]._place for source in plan.sources.values()
    }
    failed: dict[str, str] = {}
    for call in plan.calls:
        if call.method:
            continue
        name, before = call.result.name, replay.of(call.result)
        if before is None:
            failed[name] = replay.failed[id(call.result)]
        else:
            earlier.add_view(name, before._place)
            places |= _paired(plan, earlier, call.result._place, before._place)
    return EarlierPlan(changes, earlier, compile_plan(earlier, Ledger(0)), places, failed)


def plan_without_versions(earlier: EarlierPlan | Plan, views: Mapping[str, str]) -> EarlierPlan | None:
    """Return a plan, earlier or present, without versions of its functions; None if that restores no view on record.

    ``views`` are the identities of views on record.
    """
    plan = earlier if isinstance(earlier, Plan) else earlier.plan
    earlier_plan_and_places = without_versions(plan, views)
    if earlier_plan_and_places is None:
        return None
    bare, moved = earlier_plan_and_places
    compiled = compile_plan(bare, Ledger(0))
    if isinstance(earlier, Plan):
        return EarlierPlan({}, bare, compiled, moved)
    places = {place: moved[before] for place, before in earlier.places.items()}
    return EarlierPlan(earlier.changes, bare, compiled, places, earlier.failed)


def _paired(now: Plan, then: Plan, place: PlanId, before: PlanId) -> dict[PlanId, PlanId]:
    """Pair the nodes upstream of two nodes, one of which was the other, as far as they have the same form."""
    pairs: dict[PlanId, PlanId] = {}
    waiting = [(place, before)]
    while waiting:
        one, two = waiting.pop()
        node, other = now[one], then[two]
        if one in pairs or type(node.operation) is not type(other.operation):
            continue
        if len(node.inputs) == len(other.inputs):
            pairs[one] = two
            waiting += zip(node.inputs, other.inputs, strict=True)
    return pairs
