"""Functions of users that count by a version that they say, and not by their code: a repair keeps what they have computed.

A plan whose functions have versions that the one of a checkpoint did not have is that plan without them: so a version can be
given to a function that is as it was, and the function be changed from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import not_kept, tagged
from evercurrent.core.group.aggregates import Aggregation, Custom

from .digests import digest_of
from .node_identities import operation_identity
from .nodes import Group, Mapped, Operation, PlanId, PlanNode, WindowedGroup
from .plan import Plan

MOST_TRIED = 64
"""Of so many combinations of functions with and without versions it is asked whether a node was one of them."""

PARTS = ("create", "add", "merge", "extract", "remove")
"""The functions of an aggregate."""


@tagged("views.function_versions:Versioned")
@dataclass(frozen=True, slots=True)
class Versioned:
    """A function that counts by what it is for and its version."""

    role: str
    version: str
    function: Callable[..., Any] = field(metadata=not_kept())

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        return self.function(*args)


def versioned(where: str, role: str, version: str | int | None, function: Any) -> Any:
    """The function with its version; itself without one.

    Raises:
        PlanError: the version is no text and no whole number.
    """
    if version is None or function is None:
        return function
    if isinstance(version, bool) or not isinstance(version, str | int) or version == "":
        raise PlanError(
            f"{where}: version={version!r}; give a text or a whole number, another one whenever what is computed is to be another"
        )
    return Versioned(role, str(version), function)


def functions_of(operation: Operation) -> Iterator[tuple[str, Any]]:
    """The functions of users in an operation, with what they are called in messages."""
    match operation:
        case Mapped(function=function):
            bare = unwrapped(function)
            yield f"map_batches {getattr(bare, '__name__', type(bare).__name__)}", function
        case Group(aggregation=aggregation) | WindowedGroup(aggregation=aggregation):
            for each in aggregation.aggregates:
                if isinstance(each, Custom):
                    parts = tuple(getattr(each, name) for name in PARTS)
                    yield f"aggregate of {each.input!r} ({', '.join(aggregation.schema)})", parts


def function_digests(plan: Plan) -> dict[str, dict[str, str]]:
    """What the functions are that each view is computed with, by view and by what they are called."""
    found: dict[str, dict[str, str]] = {}
    if not any(True for node in plan.nodes for _ in functions_of(node.operation)):
        return found
    for name, place in plan.views.items():
        digests = {
            what: digest_of(function)[:8]
            for at in sorted(plan.behind(place))
            for what, function in functions_of(plan[at].operation)
        }
        if digests:
            found[name] = digests
    return found


def require_one_function(one: PlanNode, other: PlanNode) -> None:
    """Check that two nodes of one identity have the same functions, as versions say it of them.

    Raises:
        PlanError: they have others.
    """
    if not _has_version(one.operation):
        return  # What they compute makes their identity.
    pairs = zip(functions_of(one.operation), functions_of(other.operation), strict=True)
    for (what, first), (_, second) in pairs:
        if digest_of(unwrapped(first)) != digest_of(unwrapped(second)):
            raise PlanError(
                f"{what}: two functions have the same version in the same place; give each one of its own"
            )


def unwrapped(value: Any) -> Any:
    """A function, an operation or a part of one without versions."""
    match value:
        case Versioned(function=function):
            return function
        case tuple():
            return tuple(map(unwrapped, value))
        case Custom():
            return replace(value, **{name: unwrapped(getattr(value, name)) for name in PARTS})
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
    """The plan as it was before functions had versions, if that makes more of the views what they are in ``views``.

    These are the identities of views on record. Also returned: which node is which.
    """
    if not any(_has_version(node.operation) for node in plan.nodes):
        return None
    options = _identities(plan)
    bare: set[PlanId] = set()
    for name, place in plan.views.items():
        bare |= options[place].get(views.get(name, ""), frozenset())
    if not bare:
        return None
    made, places = Plan(), dict[PlanId, PlanId]()
    for number, node in enumerate(plan.nodes):
        place = PlanId(number)
        operation = unwrapped(node.operation) if place in bare else node.operation
        places[place] = made.add(
            replace(node, operation=operation, inputs=tuple(places[source] for source in node.inputs))
        )
    for name, place in plan.views.items():
        made.add_view(name, places[place])
    return made, places


def _has_version(operation: Operation) -> bool:
    return any(unwrapped(function) != function for _, function in functions_of(operation))


def _identities(plan: Plan) -> list[dict[str, frozenset[PlanId]]]:
    """What each node may have been: identities, by the nodes whose functions had no version then."""
    found: list[dict[str, frozenset[PlanId]]] = []
    for number, node in enumerate(plan.nodes):
        kinds = [(operation_identity(node), frozenset[PlanId]())]
        if _has_version(node.operation):
            bare = replace(node, operation=unwrapped(node.operation))
            kinds.append((operation_identity(bare), frozenset({PlanId(number)})))
        made: dict[str, frozenset[PlanId]] = {}
        for (kind, own), *inputs in islice(
            product(kinds, *(found[source].items() for source in node.inputs)), MOST_TRIED
        ):
            identity = digest_of(kind, [each for each, _ in inputs])
            made.setdefault(identity, own.union(*(nodes for _, nodes in inputs)))
        found.append(made)
    return found
