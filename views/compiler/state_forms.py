"""The forms of states' entries: two states with the same identity and different forms are not the same state.

An identity determines what a node computes. How it keeps that depends on the compiler: a version that keeps a sum in another form
must not read the state of an earlier one as if it were empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ..plan.digests import digest_of
from .builder import Compiled

DIGITS = 8
"""The hexadecimal digits of a form's digest that are kept, beside the identity of the state."""

OR = "|"
"""Between the form that a state is written in and those of earlier versions that are read as well."""


def is_read(written: str, form: str) -> bool:
    """Return whether a state that was written in one form is read where a state has another one."""
    return written.partition(OR)[0] in form.split(OR)


def state_forms(compiled: Compiled, states: Mapping[str, State]) -> dict[str, str]:
    """Return the form of each state that may have several, as a digest, followed by those that can be read as well."""
    names = {id(state): name for name, state in states.items()}
    return {
        names[id(state)]: OR.join(digest_of(*form)[:DIGITS] for form in forms)
        for node in compiled.circuit.nodes
        for state in node.states
        if (forms := _forms(node, state))
    }


def _forms(node: Node, state: State) -> list[tuple[object, ...]]:
    if isinstance(state, Spine):
        layout = state.layout
        order = [[each.column, each.descending, each.nulls_last] for each in layout.order]
        is_first = state is node.states[0]
        sums = [node.operator.kept_sums, *node.operator.read_sums] if is_first else [()]
        return [("entries", layout.payload, layout.by_row, order, each) for each in sums]
    clock = node.operator.moved_clock
    return [clock.form] if clock is not None and id(clock) == id(state) and clock.form else []
