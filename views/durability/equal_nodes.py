"""Equal nodes of a plan that has changed: which of their states is whose.

Nodes are equal if functions of users are the same twice: two views with equal definitions, each with a function object of its
own; or if values are looked up in another order (``is_in``). They compute the same, but their states may have come about in
other ways, as a view may be filled with rows that a user gives. So each view goes on with the states that it had, and the names
of these follow: they are numbered anew in each plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checkpoint import Commit
from ..compiler.builder import Compiled
from ..plan.digests import digest_of
from ..plan.plan import Plan
from .renamed_records import Record, renamed_commit, renamed_record


def equal_nodes(plan: Plan, compiled: Compiled) -> dict[str, list[Any]]:
    """Return, for each node with states that has equal ones, what they share, its number, and the views that need its states.

    These are all views downstream, so that a view that is dropped changes nothing for the others. Cost: nothing without equal
    nodes, otherwise the nodes upstream of each view.
    """
    nodes = [node for node in compiled.circuit.nodes if node.states]
    counts = Counter(node.equality for node in nodes)
    equal = {node.identity: node.equality for node in nodes if counts[node.equality] > 1}
    if not equal:
        return {}
    served: dict[str, set[str]] = {identity: set() for identity in equal}
    for view, place in plan.views.items():
        needed = (number for at in plan.behind(place) for number in compiled.requested.get(at, ()))
        for number in (*needed, compiled.kept_at[view]):
            identity = compiled.circuit.nodes[number].identity
            if identity in served:
                served[identity].add(view)
    numbered = enumerate(equal.items())
    return {
        identity: [equality, number, sorted(served[identity])] for number, (identity, equality) in numbered
    }


@dataclass(frozen=True, slots=True)
class Renaming:
    """The present names of equal nodes of a record: none for a node that is gone, several for one that became several."""

    names: Mapping[str, Sequence[str]]

    @property
    def is_needed(self) -> bool:
        """Whether any name differs."""
        return any(list(names) != [before] for before, names in self.names.items())

    @property
    def moved(self) -> frozenset[str]:
        """The names under which another node is now, or none."""
        present = frozenset(name for before, names in self.names.items() for name in names if name != before)
        return present.union(before for before, names in self.names.items() if before not in names)

    def of(self, identity: str) -> list[str]:
        """Return the present names of a node; one that is gone has a name that no node has."""
        names = self.names.get(identity, (identity,))
        return [*names] or [digest_of("gone", identity)]

    def of_state(self, name: str) -> list[str]:
        """Return the present names of a state."""
        identity, colon, ordinal = name.partition(":")
        return [f"{each}{colon}{ordinal}" for each in self.of(identity)]

    def record(self, was: Record) -> Record:
        """Return a record with the present names. Sources have names of their own, so none is equal to another one."""
        return renamed_record(was, self.of_state, self.of)

    def commit(self, was: Commit) -> Commit:
        """Return a commit with the present names."""
        return renamed_commit(was, self.of_state, self.of)


UNCHANGED = Renaming({})
"""The renaming between plans of which the names are the same."""


@dataclass(frozen=True, slots=True)
class _Node:
    identity: str
    views: frozenset[str]
    """The unchanged views for which it is needed."""


def renaming(
    was: Record, now: Record, changed: Collection[str] = (), filled_later: Collection[str] | None = None
) -> Renaming:
    """Return the present names of the equal nodes of a record of a plan.

    Each view that is unchanged in both, and not ``changed``, goes on with the states that it had. A node that serves several
    such views, which had states of their own, gets the first of these if none of the views was ``filled_later``: then all have
    come about in the same way. If it is unknown which were (None), or one was, it has no state. Nodes that serve new views only
    get what is left, as views may have another name now. ``now`` has views, states and equal nodes.
    """
    unchanged = {
        name
        for name, view in now["views"].items()
        if name not in changed and name in was["views"] and was["views"][name]["identity"] == view["identity"]
    }
    then, present = _by_equality(was), _by_equality(now)
    owners = [{state.partition(":")[0] for state in record["states"]} for record in (was, now)]
    names: dict[str, list[str]] = {}
    for equality in sorted({*then, *present}):
        listed = [*then.get(equality, ()), *present.get(equality, ())]
        served = unchanged.intersection(*[{view for _, views in listed for view in views}])
        old, new = (
            _nodes(equality, each.get(equality), served, owned)
            for each, owned in zip((then, present), owners, strict=True)
        )
        if not new:
            continue  # What is gone keeps its names, which nothing else has.
        sources = dict(_matched(old, new, filled_later))
        names |= {
            node.identity: [each.identity for each in new if sources.get(each.identity) == node.identity]
            for node in old
        }
    return Renaming(names)


def _by_equality(record: Record) -> dict[str, list[tuple[str, Sequence[str]]]]:
    groups: dict[str, list[tuple[str, Sequence[str]]]] = {}
    in_order = sorted(record.get("equal", {}).items(), key=lambda each: each[1][1])
    for identity, (equality, _, views) in in_order:
        groups.setdefault(equality, []).append((identity, views))
    return groups


def _nodes(
    equality: str,
    listed: Iterable[tuple[str, Sequence[str]]] | None,
    served: set[str],
    owners: Collection[str],
) -> list[_Node]:
    """Return the equal nodes of a record in their order. One without equals is not listed, and serves all of the views."""
    if listed is None:
        return [_Node(equality, frozenset(served))] if equality in owners else []
    return [_Node(identity, frozenset(served.intersection(views))) for identity, views in listed]


def _matched(
    old: Sequence[_Node], new: Sequence[_Node], filled_later: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the present nodes, each with the one whose states it goes on with."""
    free = list(old)
    waiting: list[_Node] = []
    for node in new:
        same = next((each for each in free if each.views == node.views), None)
        if same is None:
            waiting.append(node)
        else:
            free.remove(same)
            yield node.identity, same.identity
    for node in filter(lambda each: each.views, waiting):
        source = next((each for each in old if node.views <= each.views), None)
        if source is None and filled_later is not None and node.views.isdisjoint(filled_later):
            source = next((each for each in old if node.views & each.views), None)
        if source is not None:
            yield node.identity, source.identity
