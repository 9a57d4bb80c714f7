"""The forms of states' entries: two states with the same identity and different forms are not the same state.

An identity says what a node computes. How it keeps that depends on the compiler: a version that keeps a sum in another form
must not read the state of an earlier one as if it were empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ..plan.digests import digest_of
from .builder import Compiled

DIGITS = 8
"""The hexadecimal digits of a form's digest that are kept, beside the identity of the state."""


def state_forms(compiled: Compiled, states: Mapping[str, State]) -> dict[str, str]:
    """Return the form of each state that may have several, as a digest."""
    names = {id(state): name for name, state in states.items()}
    return {
        names[id(state)]: digest_of(*form)[:DIGITS]
        for node in compiled.circuit.nodes
        for state in node.states
        if (form := _form(node, state)) is not None
    }


def _form(node: Node, state: State) -> tuple[object, ...] | None:
    match state:
        case Spine(layout=layout):
            sums = node.operator.kept_sums if state is node.states[0] else ()
            order = [[each.column, each.descending, each.nulls_last] for each in layout.order]
            return "entries", layout.payload, layout.by_row, order, sums
        case SourceClock(specification=specification):
            return "clock", specification
        case _:
            return None
