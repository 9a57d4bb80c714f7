"""Users' functions with a declared version count by it and not by their code, so that a repaired function keeps its state.

A plan that only adds versions to the functions of a checkpoint's plan is the same plan, so a version can be given to an
unchanged function, which can be changed after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import not_kept, tagged
from evercurrent.core.operators.group.aggregates import AggregateTraits, Aggregation

from .digests import digest_of
from .function_digests import are_one_function
from .node_identities import operation_identity
from .nodes import Group, Mapped, Operation, PlanId, PlanNode, WindowedGroup
from .plan import Plan

MOST_TRIED = 64
"""The most combinations of functions with and without versions that a node is compared with."""


@tagged("views.function_versions:Versioned")
@dataclass(frozen=True, slots=True)
class Versioned:
    """A function that counts by its role and its version."""

    role: str
    version: str
    function: Callable[..., Any] = field(metadata=not_kept())

    def __call__(self, *args: Any) -> Any:
        """Return the function's result."""
        return self.function(*args)


def versioned(where: str, role: str, version: str | int | None, function: Any) -> Any:
    """Return the function with its version; itself without one.

    Raises:
        PlanError: the version is neither a text nor a whole number.
    """
    if version is None or function is None:
        return function
    if isinstance(version, bool) or not isinstance(version, str | int) or version == "":
        raise PlanError(
            f"{where}: version={version!r}; give a text or a whole number, and another one whenever the results are to change"
        )
    return Versioned(role, str(version), function)


def functions_of(operation: Operation) -> Iterator[tuple[str, Any]]:
    """Yield the functions of users in an operation, with their names in messages."""
    match operation:
        case Mapped(function=function):
            bare = unwrapped(function)
            yield f"map_batches {getattr(bare, '__name__', type(bare).__name__)}", function
        case Group(aggregation=aggregation) | WindowedGroup(aggregation=aggregation):
            for each in aggregation.aggregates:
                if each.functions:
                    inputs = ", ".join(map(repr, each.columns_read))
                    yield f"aggregate of {inputs} ({', '.join(aggregation.schema)})", each.functions


def function_digests(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the digests of the functions of each view, by view and by their names in messages."""
    by_view: dict[str, dict[str, str]] = {}
    if not any(True for place in plan.needed() for _ in functions_of(plan[place].operation)):
        return by_view
    for name, place in plan.views.items():
        digests = {
            what: digest_of(function)[:8]
            for at in sorted(plan.behind(place))
            for what, function in functions_of(plan[at].operation)
        }
        if digests:
            by_view[name] = digests
    return by_view


def require_one_function(one: PlanNode, other: PlanNode) -> None:
    """Check that two nodes with the same identity have the same functions, if versions and not code determine the identity.

    Raises:
        PlanError: they have different functions.
    """
    if not _has_version(one.operation):
        return  # Their code is part of their identity.
    pairs = zip(functions_of(one.operation), functions_of(other.operation), strict=True)
    for (what, first), (_, second) in pairs:
        if digest_of(unwrapped(first)) != digest_of(unwrapped(second)):
            raise PlanError(
                f"{what}: two functions have the same version in the same place; give each one of its own"
            )


def have_one_function(one: Operation, other: Operation) -> bool:
    """Return whether two operations with the same digest have functions, and these are the same, perhaps defined twice."""
    pairs = [
        (unwrapped(first), unwrapped(second))
        for (_, first), (_, second) in zip(functions_of(one), functions_of(other), strict=True)
    ]
    return bool(pairs) and all(are_one_function(*pair) for pair in pairs)


def unwrapped(value: Any) -> Any:
    """Return a function, an operation or a part of one without versions."""
    match value:
        case Versioned(function=function):
            return function
        case tuple():
            return tuple(map(unwrapped, value))
        case AggregateTraits():
            return value.with_functions(unwrapped)
        case Aggregation():
            return replace(value, aggregates=unwrapped(value.aggregates))
        case Mapped():
            return replace(value, function=unwrapped(value.function))
        case Group() | WindowedGroup():
            return replace(
                value, identity=unwrapped(value.identity), aggregation=unwrapped(value.aggregation)
            )
        case _:
            return value


def without_versions(plan: Plan, views: Mapping[str, str]) -> tuple[Plan, dict[PlanId, PlanId]] | None:
    """Return the plan as it was before functions had versions, if that gives more views the identity in ``views``.

    ``views`` are the identities on record. The result also maps each node that is needed to its node in that plan.
    """
    needed = plan.needed()
    if not any(_has_version(plan[place].operation) for place in needed):
        return None
    options = _identities(plan, needed)
    bare: set[PlanId] = set()
    for name, place in plan.views.items():
        bare |= options[place].get(views.get(name, ""), frozenset())
    if not bare:
        return None
    bare_plan, places = Plan(), dict[PlanId, PlanId]()
    for place in needed:
        node = plan[place]
        operation = unwrapped(node.operation) if place in bare else node.operation
        places[place] = bare_plan.add(
            replace(node, operation=operation, inputs=tuple(places[source] for source in node.inputs))
        )
    for name, place in plan.views.items():
        bare_plan.add_view(name, places[place])
    return bare_plan, places


def _has_version(operation: Operation) -> bool:
    return any(unwrapped(function) != function for _, function in functions_of(operation))


def _identities(plan: Plan, places: Iterable[PlanId]) -> dict[PlanId, dict[str, frozenset[PlanId]]]:
    """Return the possible earlier identities of each of these nodes, with the nodes whose functions had no version in each."""
    identities: dict[PlanId, dict[str, frozenset[PlanId]]] = {}
    for place in places:
        node = plan[place]
        kinds = [(operation_identity(node), frozenset[PlanId]())]
        if _has_version(node.operation):
            bare = replace(node, operation=unwrapped(node.operation))
            kinds.append((operation_identity(bare), frozenset({place})))
        bare_nodes: dict[str, frozenset[PlanId]] = {}
        for (kind, own), *inputs in islice(
            product(kinds, *(identities[source].items() for source in node.inputs)), MOST_TRIED
        ):
            identity = digest_of(kind, [each for each, _ in inputs])
            bare_nodes.setdefault(identity, own.union(*(nodes for _, nodes in inputs)))
        identities[place] = bare_nodes
    return identities
