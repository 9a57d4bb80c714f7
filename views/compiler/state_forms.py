"""What the entries of states are: two states of one identity and of different forms are not the same state.

Identities say what a node computes. How it keeps that follows from the compiler, and one that keeps a sum otherwise must
not read the state of another one as if nothing had been added up.
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
"""So much of a digest is kept of a form: the identity of the state stands beside it."""


def state_forms(compiled: Compiled, states: Mapping[str, State]) -> dict[str, str]:
    """Of the states that may have several forms: which one it is, as a number."""
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
