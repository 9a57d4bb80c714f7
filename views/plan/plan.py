"""The plan of declared views before compiling: frozen nodes, of which equal ones are one, without state and data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import InputError

from ..concurrency.turns import Guard
from .declared_calls import DeclaredCalls
from .nodes import Input, PlanId, PlanNode, WindowedGroup
from .noted_objects import NotedObjects

if TYPE_CHECKING:
    import networkx as nx

LABEL = 60
"""The most characters of a node's label."""

STEPS = 4
"""The most operations between a node and a view or source that a message names; beyond them it names only the source."""

FEW_NODES = 64
"""So many nodes that nothing needs are kept in any case."""

_adding = Guard()


class Plan:
    """The declared collections that are there, each once, every node after its inputs.

    Nodes that neither views nor sources need, and on which no collection stands that somebody holds, are forgotten when there are as
    many of them as others. So memory follows what is declared now, however many views came and went.
    """

    def __init__(self) -> None:
        self.nodes: dict[PlanId, PlanNode] = {}
        """By their places, which ascend and are never given again."""
        self.added: int = 0
        """How many nodes were ever added."""
        self.views: dict[str, PlanId] = {}
        self.inputs: dict[PlanId, Input] = {}
        """Its sources, by their places."""
        self.windowed: dict[PlanId, WindowedGroup] = {}
        """Its groupings over windows, by their places."""
        self.refuses_retractions: bool = False
        """Whether strict sources, too, refuse a retraction of a row that is not there, so that no such row ends a run."""
        self.replacing: set[str] = set()
        """The views that were declared to take the place of others of their names, which may be in a checkpoint."""
        self.edits: int = 0
        """How often names of views and sources were given or taken away."""
        self._known: dict[PlanNode, PlanId] = {}
        self._names: dict[PlanId, tuple[str, ...]] = {}
        self._consequences: dict[PlanId, _Consequences] = {}
        self._sources: dict[PlanId, frozenset[PlanId]] = {}
        self._collections: NotedObjects[PlanId] = NotedObjects()
        self._declaring = 0
        self._most_nodes = FEW_NODES
        self.calls: DeclaredCalls = DeclaredCalls()
        """How its collections were declared, in this process."""
        self.sources: dict[str, Any] = {}
        """The collections that these calls begin with, by name."""

    def __getstate__(self) -> dict[str, object]:
        """Return copies of all of it except calls and collections: tasks in other processes compile the plan and declare nothing.

        Other threads may add nodes while it is being pickled.
        """
        copies = {
            name: each.copy() if isinstance(each, dict | set) else each
            for name, each in self.__dict__.items()
        }
        return {
            **copies,
            "calls": DeclaredCalls(),
            "sources": {},
            "_collections": NotedObjects(),
            "_declaring": 0,
        }

    def forked(self) -> Plan:
        """Return a copy that goes its own way; nodes are shared, as they never change."""
        with _adding.lock:
            other = copy.copy(self)  # As it is pickled.
            other.sources = dict(self.sources)
            return other

    def add(self, node: PlanNode) -> PlanId:
        """Return the place of this node; an equal one that is already there is that node."""
        with _adding.lock:  # One for all plans, as these are pickled.
            place = self._known.get(node)
            if place is None:
                place = PlanId(self.added)
                self.added += 1
                label = node.label if len(node.label) <= LABEL else node.label[: LABEL - 1] + "…"
                inputs = [self._consequences[source] for source in node.inputs]
                self._consequences[place] = _consequences(place, node, inputs)
                self.nodes[place] = replace(node, label=label)
                if isinstance(node.operation, Input):
                    self.inputs = {**self.inputs, place: node.operation}
                elif isinstance(node.operation, WindowedGroup):
                    self.windowed[place] = node.operation
                # The last step: an interrupt before it leaves a node that nothing needs.
                self._known[node] = place
            return place

    def hold(self, collection: object, place: PlanId) -> None:
        """Keep a node, and what is upstream of it, as long as somebody holds a collection that stands on it."""
        self._collections.put(collection, place)

    @contextmanager
    def declaring(self) -> Iterator[None]:
        """Keep all nodes inside the block, in which some are added; afterwards, those that are needed if there are many others."""
        with _adding.lock:
            self._declaring += 1
        try:
            yield
        finally:
            with _adding.lock:
                self._declaring -= 1
                if not self._declaring and len(self.nodes) > self._most_nodes:
                    self._forget_unneeded()

    def _forget_unneeded(self) -> None:
        remaining = self._behind(
            [*self.views.values(), *self.inputs, *(at for _, at in self._collections.items())]
        )
        # Other threads may be reading these, so they are replaced and not changed; after an interrupt in between nothing refers to a
        # node that is gone, as the nodes come after all that refers to them.
        self._known = {node: at for node, at in self._known.items() if at in remaining}
        self.windowed = {at: grouped for at, grouped in self.windowed.items() if at in remaining}
        # Other threads add to these without the lock.
        self._sources = {at: sources for at, sources in self._sources.copy().items() if at in remaining}
        self.nodes = {at: node for at, node in self.nodes.items() if at in remaining}
        self._consequences = {at: each for at, each in self._consequences.items() if at in remaining}
        self._most_nodes = 2 * len(remaining) + FEW_NODES

    def add_view(self, name: str, place: PlanId) -> None:
        """Give the rows of a node a name."""
        # Other threads may be reading these, so they are replaced and not changed.
        self.views = {**self.views, name: place}
        self.edits += 1
        self._names = {**self._names, place: (*self._names.get(place, ()), name)}

    def remove_view(self, name: str) -> None:
        """Take the name of a view away. Its node stays as long as collections refer to it, and is compiled where it is needed."""
        place = self.views[name]
        self.edits += 1
        self.views = {other: at for other, at in self.views.items() if other != name}
        left = tuple(other for other in self._names[place] if other != name)
        others = {at: names for at, names in self._names.items() if at != place}
        self._names = {**others, place: left} if left else others

    def remove_source(self, name: str) -> None:
        """Take a source away. The same one declared again is another node, on which no earlier collection stands."""
        with _adding.lock:
            self.edits += 1
            (place,) = (at for at, declared in self.inputs.items() if declared.name == name)
            self.inputs = {at: declared for at, declared in self.inputs.items() if at != place}
            del self._known[self.nodes[place]]
            del self.sources[name]

    def retain_sources(self) -> None:
        """Have the rows of all sources kept, which changes no identity."""
        with _adding.lock:
            self.edits += 1
            self.inputs = {place: replace(source, retained=True) for place, source in self.inputs.items()}
            for place, source in self.inputs.items():
                self.nodes[place] = replace(self.nodes[place], operation=source)

    def named(self) -> Named:
        """Return the names that are given, to which ``return_to`` returns."""
        return Named(self.views, self.inputs, dict(self.sources), self.calls.count)

    def return_to(self, before: Named) -> None:
        """Give the names that were given before, as a change of declarations has failed."""
        with _adding.lock:
            self.edits += 1
            for place in before.inputs.keys() - self.inputs.keys():
                self._known[self.nodes[place]] = place
            for place in self.inputs.keys() - before.inputs.keys():
                # It is not there yet if an interrupt was the reason of the failure.
                self._known.pop(self.nodes[place], None)
            self.views, self.inputs, self.sources = before.views, before.inputs, before.sources
            # Other threads may have declared collections meanwhile, and no views.
            self.calls.forget_names_since(before.calls)
            names: dict[PlanId, tuple[str, ...]] = {}
            for name, place in before.views.items():
                names[place] = (*names.get(place, ()), name)
            self._names = names

    def removed_sources(self, place: PlanId) -> list[str]:
        """Return the names of the sources upstream of a node that were taken away."""
        operations = (self.nodes[at].operation for at in self.behind(place) if at not in self.inputs)
        return sorted(each.name for each in operations if isinstance(each, Input))

    def __getitem__(self, node: PlanId) -> PlanNode:
        """Return the node at this place."""
        return self.nodes[node]

    def place_of(self, view: str) -> PlanId:
        """Return the node of a view.

        Raises:
            InputError: there is no such view, or not any more: another thread may have dropped it since the caller had it.
        """
        place = self.views.get(view)
        if place is None:
            raise InputError(f"view {view!r} is not there: it is being declared, or was dropped")
        return place

    def views_at(self, place: PlanId) -> list[str]:
        """Return the names of the views that are this node."""
        return list(self._names.get(place, ()))

    def name_of(self, place: PlanId) -> str:
        """Return the name of a node in messages: that of a source or view, else its operation and its input."""
        steps: list[str] = []
        for _ in range(STEPS):
            node = self.nodes[place]
            if not node.inputs or place in self._names:
                break
            steps.append(f"({node.label})")
            place = node.inputs[0]
        if place in self._names:
            return " of ".join([*steps, f"view {self._names[place][0]!r}"])
        origin = self._consequences[place].origin
        declared = self.nodes[origin].operation
        assert isinstance(declared, Input), "the first input of a node begins with a source"
        source = f"source {declared.name!r}"
        return " of ".join([*steps, *(["…"] if origin != place else []), source])

    def keys_of(self, place: PlanId) -> tuple[str, ...]:
        """Return the key columns of a grouped node; none for any other node."""
        node = self.nodes[place]
        if node.operation.keeps_last:
            return self.nodes[node.inputs[0]].operation.keys_of_rows(node.schema, last_only=True)
        return node.operation.keys_of_rows(node.schema)

    def sources_of(self, place: PlanId) -> list[Input]:
        """Return the sources from which the rows of a node come."""
        places = self._sources.get(place)
        if places is None:
            places = self._sources[place] = self._sources_upstream(place)
        return sorted((self.inputs[at] for at in places), key=lambda source: source.name)

    def behind(self, place: PlanId) -> set[PlanId]:
        """Return a node and all nodes upstream of it."""
        return self._behind([place])

    def _behind(self, places: Iterable[PlanId]) -> set[PlanId]:
        """Return these nodes and all nodes upstream of them."""
        return self._upstream(places, lambda at: self.nodes[at].inputs)

    def _sources_upstream(self, place: PlanId) -> frozenset[PlanId]:
        # The sources of each node are kept, so that the walk is one step for each node of a chain.
        cached = self._sources  # Another thread may replace them meanwhile.
        upstream = self._upstream([place], lambda at: () if at in cached else self.nodes[at].inputs)
        sources = {at for at in upstream if not self.nodes[at].inputs}
        return frozenset(sources.union(*(cached[at] for at in upstream if at in cached)))

    def _upstream(
        self, places: Iterable[PlanId], onward: Callable[[PlanId], Sequence[PlanId]]
    ) -> set[PlanId]:
        """Return these nodes and all nodes reached from them by ``onward``."""
        reached: set[PlanId] = set()
        pending = list(places)
        while pending:
            at = pending.pop()
            if at not in reached:
                reached.add(at)
                pending.extend(onward(at))
        return reached

    def is_grouped(self, place: PlanId) -> bool:
        """Return whether a grouping is between the sources and a node, so that its rows do not grow without end."""
        return self._consequences[place].is_grouped

    def may_retract(self, place: PlanId) -> bool:
        """Return whether rows of a node may be retracted, by a source or by an operation that refines its rows."""
        return self._consequences[place].may_retract

    def counts_again(self, place: PlanId) -> PlanId | None:
        """Return a windowed grouping upstream of a node whose panes repeat what earlier ones held; None if there is none."""
        return self._consequences[place].repeats

    def below_zero_by(self, place: PlanId) -> list[PlanId]:
        """Return the nodes that may give rows of this one negative counts; none if no count is ever negative.

        These are subtractions, late rows where rows may be retracted (they may be retractions of rows that were in time),
        and sources whose retractions are trusted. Downstream of a grouping or a distinct no count is negative.
        """
        return sorted(
            at
            for at in self._upstream([place], lambda at: self._hands_on_below_zero(self.nodes[at]))
            if self.nodes[at].operation.may_go_below_zero(self.may_retract(at))
        )

    @staticmethod
    def _hands_on_below_zero(node: PlanNode) -> Sequence[PlanId]:
        return node.operation.hands_on_below_zero(node.inputs)

    def graph(self) -> nx.DiGraph[int]:
        """Return the nodes needed for the views and sources as a graph along which deltas flow."""
        import networkx as nx  # It takes 0.4 s, and few callers need it.

        graph: nx.DiGraph[int] = nx.DiGraph()
        for place in self.needed():
            node = self.nodes[place]
            graph.add_node(
                place,
                label=node.label,
                operation=node.operation,
                schema=node.schema,
                views=self.views_at(place),
            )
            graph.add_edges_from((source, place) for source in node.inputs)
        return graph

    def needed(self) -> list[PlanId]:
        """Return the nodes needed for the views and sources, in the order in which they can be computed."""
        return sorted(self._behind([*self.views.values(), *self.inputs]))


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """The views and sources of a plan at some time, and how many calls had declared it."""

    views: dict[str, PlanId]
    inputs: dict[PlanId, Input]
    sources: dict[str, Any]
    calls: int


@dataclass(frozen=True, slots=True)
class _Consequences:
    """The traits of a node that follow from its inputs, computed when it is declared.

    ``origin`` is the source of its first input, ``repeats`` a grouping whose panes would be counted again.
    """

    origin: PlanId
    is_grouped: bool
    may_retract: bool
    repeats: PlanId | None


def _consequences(place: PlanId, node: PlanNode, inputs: Sequence[_Consequences]) -> _Consequences:
    operation = node.operation
    inputs_retract = any(each.may_retract for each in inputs)
    repeats = [each.repeats for each in inputs if each.repeats is not None]
    return _Consequences(
        origin=inputs[0].origin if inputs else place,
        is_grouped=operation.is_grouping or (bool(inputs) and all(each.is_grouped for each in inputs)),
        may_retract=operation.may_retract(inputs_retract),
        repeats=operation.counts_again(place, repeats),
    )
