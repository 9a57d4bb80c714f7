"""Identities of nodes of plans and circuits: digests of what they compute from the sources on, without names of views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .digest_scheme import scheme
from .digests import digest_of, kind_of
from .nodes import PlanId, PlanNode
from .plan import Plan


def operation_identity(node: PlanNode) -> str:
    """Return the identity of a node's operation, apart from its inputs: all of its fields and its output columns.

    The name of a source and its event time column count; whether its rows are retained, labels and texts of messages do
    not. It is computed once by each scheme: readers of a checkpoint and runners of stages compile the same plan again.
    """
    identity = node.identities.get(scheme())
    if identity is None:
        event_time = None if node.inputs else node.event_time
        identity = digest_of("operation", node.operation, node.schema, event_time)
        node.identities[scheme()] = identity
    return identity


def plan_identities(plan: Plan) -> list[str]:
    """Return the identity of each node of a plan, equal for equal nodes of any plans, however these were declared."""
    identities: list[str] = []
    for node in plan.nodes:
        identities.append(digest_of(operation_identity(node), [identities[source] for source in node.inputs]))
    return identities


class CircuitIdentities:
    """The identities of circuit nodes, from their purpose, the kind of operator, and their inputs.

    Nodes that agree in all of these are numbered in their order, which distinguishes the nodes of one plan node. Others
    agree only where a user's functions are the same twice, and then it does not matter which is which.
    """

    def __init__(self) -> None:
        self._operations: dict[PlanId, str] = {}
        self._numbers: Counter[str] = Counter()

    def of(self, purpose: str, kind: type, inputs: Sequence[str]) -> str:
        """Return the identity of the next node for this purpose over these inputs."""
        identity = self.unnumbered(purpose, kind, inputs)
        number, self._numbers[identity] = self._numbers[identity], self._numbers[identity] + 1
        return digest_of(identity, number) if number else identity

    def operation(self, plan: Plan, place: PlanId) -> str:
        """Return the purpose of circuit nodes made for one plan node only."""
        if place not in self._operations:
            self._operations[place] = operation_identity(plan[place])
        return self._operations[place]

    @staticmethod
    def unnumbered(purpose: str, kind: type, inputs: Sequence[str]) -> str:
        """Return the identity of the first node for this purpose over these inputs, also for further ones."""
        return digest_of("node", purpose, kind_of(kind), list(inputs))

    @staticmethod
    def shared(role: str, what: object) -> str:
        """Return the purpose of a circuit node that several plan nodes share, whichever of them was compiled first."""
        return digest_of("shared", role, what)
