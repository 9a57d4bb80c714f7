"""Labels of the states of a circuit for people: what keeps each, and which views and sources it serves.

Labels are for reading: whether two states are the same follows from ``node_identities`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.state.protocol import State

from ..plan.nodes import PlanNode
from ..plan.plan import Plan
from .builder import Compiled


def state_labels(plan: Plan, compiled: Compiled, states: Mapping[str, State]) -> dict[str, list[Any]]:
    """Return, for each of these states except the ledger, what keeps it, and the views and sources that it serves.

    A state serves a view if it is kept between the view and the views and sources from which that is computed. The labels
    are JSON values with names of columns, and without expressions.
    """
    served = views_served(plan, compiled)
    names = {id(state): name for name, state in states.items() if state is not compiled.ledger}
    labels: dict[str, list[Any]] = {}
    for place, parts in compiled.parts.items():
        declared = plan[place]
        for number in parts:
            node = compiled.circuit.nodes[number]
            if node.operator.keeps_input:
                sources = [name for name, rows in compiled.retained.items() if rows.spine in node.states]
                whom = [sorted(served[number]), sources]
            elif place in plan.inputs:
                whom = [[], [plan.inputs[place].name]]
            else:
                # A clock that a trigger reads is not an input of a node: it serves the node for which it was made.
                whom = [sorted(served[number] or served[compiled.outputs[place]]), []]
            for ordinal, state in enumerate(node.states):
                if id(state) in names:
                    labels.setdefault(names[id(state)], [_kept_by(declared, node, ordinal), *whom])
    return labels


def views_served(plan: Plan, compiled: Compiled) -> Sequence[set[str]]:
    """Return the views that each circuit node serves."""
    nodes = compiled.circuit.nodes
    served: list[set[str]] = [set() for _ in nodes]
    outputs = {compiled.outputs[place] for place in plan.views.values()}
    for name, place in plan.views.items():
        served[compiled.outputs[place]].add(name)
        served[compiled.kept_at[name]].add(name)
    for number in range(len(nodes) - 1, -1, -1):
        for before in {*nodes[number].inputs, *nodes[number].reads} - outputs:
            served[before] |= served[number]
    return served


def _kept_by(declared: PlanNode, node: Node, ordinal: int) -> str:
    """What a state is, by its place among those of its node."""
    roles = (node.operator.role, *node.operator.other_roles)
    role = roles[ordinal] if ordinal < len(roles) else roles[0]
    if not declared.inputs or node.operator.keeps_input:
        return role or "rows"
    return declared.operation.state_label(declared.label, role)
