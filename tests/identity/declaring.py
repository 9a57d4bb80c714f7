"""Engines made of texts, and what their nodes are, for the tests of identities."""

from __future__ import annotations

from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.compiler.builder import Compiled
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.plan.node_identities import plan_identities
from evercurrent.views.plan.nodes import PlanId
from evercurrent.views.plan.plan import Plan
from strategies import Program


def declared(program: Program, lines: list[str] | None = None, *, others: bool = False) -> ec.Engine:
    """An engine with the views of a program: those of some lines, in their order; perhaps behind other declarations."""
    engine = ec.Engine()
    names = list(program.sources)
    if others:
        one = engine.source("other", {"z": pl.Int64()})
        engine.view("first", one.unique())
        names.reverse()
    named: dict[str, Any] = {name: engine.source(name, program.sources[name], kind="diffs") for name in names}
    if others:
        engine.view("second", named[names[0]].unique())
    chosen = Program(program.sources, tuple(program.lines if lines is None else lines))
    for name, collection in chosen.run(named).items():
        engine.view(name, collection)
    return engine


def compiled_of(engine: ec.Engine) -> Compiled:
    """A circuit of its own for the plan of an engine."""
    return compile_plan(engine._plan, Ledger(1000))


def identities_of_views(engine: ec.Engine) -> dict[str, str]:
    """What each view computes."""
    identities = plan_identities(engine._plan)
    return {name: identities[place] for name, place in engine._plan.views.items()}


def states_of_views(engine: ec.Engine) -> dict[str, set[str]]:
    """The identities of all nodes upstream of each view, with the one that keeps it."""
    compiled = compiled_of(engine)
    nodes = compiled.circuit.nodes
    found: dict[str, set[str]] = {}
    for name in engine._plan.views:
        waiting, seen = [compiled.kept_at[name]], set()
        while waiting:
            number = waiting.pop()
            if number not in seen:
                seen.add(number)
                waiting += nodes[number].inputs
        found[name] = {nodes[number].identity for number in seen}
    return found


def same(one: Plan, here: int, other: Plan, there: int) -> bool:
    """Whether two nodes of two plans are equal, inputs and all."""
    first, second = one[PlanId(here)], other[PlanId(there)]
    return (
        first.operation == second.operation
        and first.schema == second.schema
        and len(first.inputs) == len(second.inputs)
        and all(same(one, a, other, b) for a, b in zip(first.inputs, second.inputs, strict=True))
    )
