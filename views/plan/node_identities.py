"""What a node of a plan or of a circuit computes, from the sources on, as a number: names of views do not enter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .digests import digest_of, kind_of
from .nodes import Input, PlanId, PlanNode
from .plan import Plan


def operation_identity(node: PlanNode) -> str:
    """What a node does, whatever it does it to: its operation with all its fields, and the columns that it gives.

    Of a source also its name, and where its event time stands; not whether its rows are retained. Labels and what is
    said in messages do not count.
    """
    event_time = node.event_time if isinstance(node.operation, Input) else None
    return digest_of("operation", node.operation, node.schema, event_time)


def plan_identities(plan: Plan) -> list[str]:
    """What each node of a plan computes: equal for equal nodes of any plans, however these were declared."""
    found: list[str] = []
    for node in plan.nodes:
        found.append(digest_of(operation_identity(node), [found[source] for source in node.inputs]))
    return found


class CircuitIdentities:
    """Hands out what circuit nodes are: what they are made for, the kind of operator, and what they stand behind.

    Nodes that agree in all of that are numbered in their order: those of one plan node are told apart so. Others only
    agree where a user's functions are the same twice, and then it does not matter which is which.
    """

    def __init__(self) -> None:
        self._operations: dict[PlanId, str] = {}
        self._numbers: Counter[str] = Counter()

    def of(self, purpose: str, kind: type, inputs: Sequence[str]) -> str:
        """The identity of the next node for this purpose behind these."""
        made = digest_of("node", purpose, kind_of(kind), list(inputs))
        number, self._numbers[made] = self._numbers[made], self._numbers[made] + 1
        return digest_of(made, number) if number else made

    def operation(self, plan: Plan, place: PlanId) -> str:
        """The purpose of nodes that are made for a plan node alone."""
        if place not in self._operations:
            self._operations[place] = operation_identity(plan[place])
        return self._operations[place]

    @staticmethod
    def shared(role: str, what: object) -> str:
        """The purpose of a node that several plan nodes share, whoever asked for it first."""
        return digest_of("shared", role, what)
