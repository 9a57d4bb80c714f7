"""The compiled whole: nodes in dependency order, and the states behind them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from .clock import Now
from .delta import Delta
from .placement import ANYWHERE, Placement
from .protocol import Operator, State

NodeId = NewType("NodeId", int)


@dataclass(slots=True)
class Node:
    """A place in the circuit: an operator, the nodes whose deltas it takes, and what was measured there.

    ``identity`` says what it computes, from the sources on; empty where nobody asked.
    A node without inputs takes what arrived from outside under its name. ``seconds``, ``rows_in`` and
    ``rows_out`` are totals over all epochs that were committed.
    """

    name: str
    operator: Operator
    inputs: tuple[NodeId, ...]
    states: tuple[State, ...] = ()
    placement: Placement = ANYWHERE
    identity: str = ""
    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An epoch that is not committed yet: the delta of every node, and the seconds each took."""

    deltas: list[Delta]
    seconds: list[float]


@dataclass(slots=True)
class Circuit:
    """Nodes as a list: every node refers to earlier ones only, so the order of the list is the order of work.

    An epoch has two phases. First every operator reads the states as of the epoch before and returns its
    delta; then all states commit, and a commit cannot fail. So a self-join needs no special case, and a
    failure anywhere leaves no trace.
    """

    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def add(
        self,
        name: str,
        operator: Operator,
        *inputs: NodeId,
        states: Sequence[State] = (),
        placement: Placement = ANYWHERE,
    ) -> NodeId:
        """Add a node behind its inputs."""
        assert all(node < len(self.nodes) for node in inputs), (name, inputs)
        self.nodes.append(Node(name, operator, inputs, tuple(states), placement))
        self.states.extend(state for state in states if all(state is not known for known in self.states))
        return NodeId(len(self.nodes) - 1)

    def evaluate(self, now: Now, arrived: Mapping[str, Delta]) -> Evaluated:
        """The first phase of an epoch: every node's delta, with what outlives the epoch staged.

        ``commit`` or ``discard`` has to follow, the latter also when this raises.
        """
        deltas: list[Delta] = []
        seconds: list[float] = []
        for node in self.nodes:
            begun = time.perf_counter()
            if node.inputs:
                deltas.append(node.operator.step(now, *[deltas[source] for source in node.inputs]))
            else:
                deltas.append(
                    node.operator.step(now, arrived.get(node.name) or Delta.empty(node.operator.schema))
                )
            seconds.append(time.perf_counter() - begun)
        return Evaluated(deltas, seconds)

    def commit(self, evaluated: Evaluated) -> None:
        """The second phase: what was staged is the state. Cannot fail."""
        deltas = evaluated.deltas
        for state in self.states:
            state.commit()
        for node, delta, taken in zip(self.nodes, deltas, evaluated.seconds, strict=True):
            node.seconds += taken
            node.rows_in += sum(len(deltas[source]) for source in node.inputs)
            node.rows_out += len(delta)

    def discard(self) -> None:
        """Leave everything as it was before ``evaluate``."""
        for state in self.states:
            state.discard()
