"""Compilers that share, order, call and split otherwise than ours, as another version of it may."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.placement import ANYWHERE, Placement
from evercurrent.core.operators.group.aggregate_contract import AggregateState
from evercurrent.core.operators.group.aggregates import Additive, Aggregate, Custom, RecomputedAggregate
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State
from evercurrent.views.compiler import compiler as compiling
from evercurrent.views.compiler.compiler import Compiler
from evercurrent.views.plan.digests import digest_of
from evercurrent.views.plan.nodes import Group, PlanId, PlanNode
from evercurrent.views.plan.plan import Plan

AS_WHOLES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "sum": pl.Expr.sum, "count": pl.Expr.count, "null_count": pl.Expr.null_count, "any": pl.Expr.any, "all": pl.Expr.all,
}  # fmt: skip
"""Aggregates that polars computes from all rows as we do from sums, of whole numbers and truth values."""


@dataclass(frozen=True)
class Kind:
    """In what a compiler differs from ours.

    ``shares``: what is equal is made once. ``order``: a seed for the order of nodes. ``renamed``: a seed and the share of
    the nodes that are known by other identities, perhaps only those ``of`` an operator, and with ``spreads`` all that stands behind these. ``splits``: what ours
    adds up is computed from rows.
    """

    shares: bool = True
    order: int | None = None
    renamed: tuple[int, float] | None = None
    of: type | None = None
    spreads: bool = False
    splits: bool = False


OURS = Kind()


@contextmanager
def compiled_by(kind: Kind) -> Iterator[None]:
    """All plans are compiled by such a compiler."""

    class Other(Compiler):
        def add(
            self,
            name: str,
            operator: Operator,
            *inputs: NodeId,
            states: Sequence[State] = (),
            placement: Placement = ANYWHERE,
            **options: Any,
        ) -> NodeId:
            made = super().add(name, operator, *inputs, states=states, placement=placement, **options)
            if kind.spreads:
                _rename(kind, self.compiled.circuit.nodes[made])
            return made

        def once(
            self,
            role: str,
            source: NodeId,
            what: tuple[Hashable, ...],
            make: Callable[[], tuple[NodeId, Any]],
        ) -> tuple[NodeId, Any]:
            if not kind.shares:
                self._shared.clear()
            return super().once(role, source, what, make)

        def part(self, aggregate: Aggregate, *args: Any, **options: Any) -> tuple[NodeId, AggregateState]:
            if kind.splits and isinstance(aggregate, Custom):
                aggregate = replace(aggregate, remove=None)
            return super().part(aggregate, *args, **options)

        def _group(self, where: str, node: PlanNode, source: NodeId, grouped: Group) -> NodeId:
            if kind.splits:
                made = tuple(map(_as_whole, grouped.aggregation.aggregates))
                grouped = replace(grouped, aggregation=replace(grouped.aggregation, aggregates=made))
            return super()._group(where, node, source, grouped)

    compile_plan = compiling.compile_plan

    def compiled(*args: Any, **options: Any) -> Any:
        made = compile_plan(*args, **options)
        for node in made.circuit.nodes if not kind.spreads else ():
            _rename(kind, node)
        return made

    def needed(plan: Plan) -> list[PlanId]:
        return NEEDED(plan) if kind.order is None else _reordered(plan, NEEDED(plan), Random(kind.order))

    with ExitStack() as patches:
        patches.enter_context(patch.object(compiling, "Compiler", Other))
        patches.enter_context(patch.object(Plan, "needed", needed))
        for module in CALLERS:
            patches.enter_context(patch(f"{module}.compile_plan", compiled))
        yield


NEEDED = Plan.needed
CALLERS = (
    "evercurrent.views.durability.piecewise_fill", "evercurrent.views.durability.time_travel", "evercurrent.views.engine.epoch_runner", "evercurrent.views.partitioned.clocks",
    "evercurrent.views.partitioned.checkpoint_reader", "evercurrent.views.partitioned.stage_runner", "identity.editing",
)  # fmt: skip
"""Who compiles plans."""


def _rename(kind: Kind, node: Any) -> None:
    if kind.renamed is not None and isinstance(node.operator, kind.of or object):
        seed, share = kind.renamed
        if Random(f"{seed} {node.identity}").random() < share:
            node.identity = digest_of("renamed", seed, node.identity)


def _reordered(plan: Plan, places: Sequence[PlanId], random: Random) -> list[PlanId]:
    """Another order in which all nodes stand behind their inputs."""
    waiting, found = list(places), list[PlanId]()
    while waiting:
        ready = [place for place in waiting if set(plan[place].inputs) <= set(found)]
        chosen = random.choice(ready)
        waiting.remove(chosen)
        found.append(chosen)
    return found


def _as_whole(aggregate: Aggregate) -> Aggregate:
    """An aggregate that we add up, computed from all rows of the group."""
    if not isinstance(aggregate, Additive) or aggregate.kind not in AS_WHOLES or aggregate.input is None:
        return aggregate
    if not (aggregate.dtype.is_integer() or aggregate.dtype == pl.Boolean):
        return aggregate
    return RecomputedAggregate(
        aggregate.output,
        aggregate.dtype,
        (aggregate.input,),
        AS_WHOLES[aggregate.kind](pl.col(aggregate.input)),
    )
