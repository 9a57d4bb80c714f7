"""Identities of nodes of plans and circuits: digests of what they compute from the sources on, without names of views."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from threading import RLock

import polars as pl

from evercurrent.core.circuit.circuit import Node

from ..expressions import Expression
from .digest_scheme import FOURTH, scheme, written_by
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


def identify_functions(node: PlanNode) -> None:
    """Compute the identity of an operation with functions now, as it is to hold for the rows that come.

    What a function refers to may be changed after that, such as a global variable of a notebook: a function that is then declared
    computes something else, and has to have another identity.
    """
    if scheme() not in node.identities and _has_functions(node.operation):
        operation_identity(node)


_WITHOUT_FUNCTIONS = frozenset({str, int, float, bool, bytes, type(None), Expression, pl.Schema})


def _has_functions(value: object) -> bool:
    """Return whether a value is a function, or an object of this library that holds one."""
    if type(value) in _WITHOUT_FUNCTIONS or isinstance(value, Expression | type):
        return False
    if is_dataclass(value):
        return callable(value) or any(_has_functions(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, tuple | list):
        return any(map(_has_functions, value))
    return callable(value)


def plan_identities(plan: Plan, places: Iterable[PlanId] | None = None) -> dict[PlanId, str]:
    """Return the identity of each of these nodes, equal for equal nodes of any plans, however these were declared.

    ``places`` are in order, with all nodes upstream; without them, those that the plan's views and sources need: a plan keeps nodes
    of views that were dropped, as collections may refer to them.
    """
    identities: dict[PlanId, str] = {}
    for place in plan.needed() if places is None else places:
        node = plan[place]
        identities[place] = digest_of(operation_identity(node), [identities[each] for each in node.inputs])
    return identities


Purpose = Callable[[], str]
"""Finds the purpose of a circuit node, when its identity is first needed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Unidentified:
    """A circuit node without identities, with all that these are made of."""

    node: Node
    kind: type
    """The class of its operator when it was compiled, which may be replaced by one that checks it."""
    purpose: Purpose
    purpose_before: Purpose | None
    inputs: tuple[Node, ...]
    made_for: Hashable


class CircuitIdentities:
    """The identities of circuit nodes, from their purpose, the kind of operator, and their inputs.

    Nodes that agree in all of these and were made for one plan node are numbered in their order, as they may compute different
    things. Those of several plan nodes are equal: a user's functions are the same twice, for example. They are numbered too, so that each
    keeps states of its own, but nodes downstream are identified by what equal ones share: so these have the same
    identity whichever views come and go beside them. Which state is whose is found in ``equal_nodes``.

    None is computed before one of them is read: then all nodes so far get theirs, in their order, by the scheme that was in
    force when the circuit was begun. Nodes may be read in any thread. Operations with functions are the exception.
    """

    def __init__(self) -> None:
        self._numbers: Counter[Hashable] = Counter()
        self._unidentified: deque[_Unidentified] = deque()
        self._scheme = scheme()
        self._lock = RLock()

    def promise(
        self,
        node: Node,
        purpose: Purpose,
        inputs: Sequence[Node],
        made_for: Hashable,
        purpose_before: Purpose | None = None,
    ) -> None:
        """Have a node, the next one of its circuit, identified by this purpose over these inputs when that is needed.

        ``made_for`` is the plan node, or what several of them share. ``purpose_before`` is the one that it had in earlier
        versions, if its states held more in these.
        """
        node.identify = self._identify
        self._unidentified.append(
            _Unidentified(node, type(node.operator), purpose, purpose_before, tuple(inputs), made_for)
        )

    def _identify(self) -> None:
        with self._lock, written_by(self._scheme):
            while self._unidentified:
                # Those of the inputs were made before, as inputs come first.
                each = self._unidentified[0]
                behind = [self._as_input(source) for source in each.inputs]
                kind, before = each.kind, ""
                if each.purpose_before is not None:
                    before = self._unnumbered(each.purpose_before(), kind, behind)
                identity, equality = self._next(each.purpose(), kind, behind, each.made_for)
                each.node.set_identities(identity, before, equality)
                self._unidentified.popleft()

    def _as_input(self, node: Node) -> str:
        """Return how nodes downstream identify a node."""
        return node.identity_before or (node.identity if self._scheme <= FOURTH else node.equality)

    def _next(self, purpose: str, kind: type, inputs: Sequence[str], made_for: Hashable) -> tuple[str, str]:
        """Return the identity of the next node for this purpose over these inputs, and what equal nodes share."""
        unnumbered = self._unnumbered(purpose, kind, inputs)
        if self._scheme <= FOURTH:
            number = self._number(unnumbered)
            identity = digest_of(unnumbered, number) if number else unnumbered
            return identity, identity
        part = self._number((unnumbered, made_for))
        equality = digest_of(unnumbered, part) if part else unnumbered
        number = self._number(equality)
        return digest_of(equality, "equal", number) if number else equality, equality

    def _number(self, counted: Hashable) -> int:
        """Return how often this was counted before."""
        self._numbers[counted] += 1
        return self._numbers[counted] - 1

    @staticmethod
    def operation(node: PlanNode) -> Purpose:
        """Return the purpose of circuit nodes made for one plan node only."""
        return lambda: operation_identity(node)

    @staticmethod
    def _unnumbered(purpose: str, kind: type, inputs: Sequence[str]) -> str:
        """Return the identity of the first node for this purpose over these inputs, also for further ones."""
        return digest_of("node", purpose, kind_of(kind), list(inputs))

    @staticmethod
    def shared(role: str, what: object) -> Purpose:
        """Return the purpose of a circuit node that several plan nodes share, whichever of them was compiled first.

        With functions it is computed now, see ``identify_functions``.
        """
        if _has_functions(what):
            digest = digest_of("shared", role, what)
            return lambda: digest
        return lambda: digest_of("shared", role, what)
