"""The nodes of a stage in one bucket: those with work to do, and the states that they need for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from evercurrent.core.circuit.circuit import Circuit, Deltas, NodeId
from evercurrent.core.circuit.stages import Exchange, Stage
from evercurrent.core.state.protocol import State


class StageNodes:
    """What follows from the cut alone for one stage in one bucket, so that an epoch costs the nodes that it touches.

    ``ids`` are the ids of states, by ``id`` of the state.
    """

    def __init__(self, circuit: Circuit, stage: Stage, bucket: int, ids: Mapping[int, str]) -> None:
        self._circuit = circuit
        self._ids = ids
        self.places = stage.in_bucket(bucket)
        self._within = frozenset(self.places)
        nodes = circuit.nodes
        self.timed = tuple(place for place in self.places if nodes[place].operator.has_timers)
        """The nodes that may act because of time alone."""
        self._entrances: dict[Exchange, list[NodeId]] = {}
        for place in self.places:
            for exchange in dict.fromkeys(stage.inputs[place]):
                if exchange is not None:
                    self._entrances.setdefault(exchange, []).append(place)
        self._gives: dict[NodeId, list[tuple[int, Exchange]]] = {}
        for number, exchange in enumerate(stage.gives):
            if not exchange.arrives:
                self._gives.setdefault(exchange.producer, []).append((number, exchange))
        self._views: dict[NodeId, list[tuple[int, str]]] = {}
        for number, (view, place) in enumerate(stage.views.items()):
            self._views.setdefault(place, []).append((number, view))
        self._owned = {
            ids[id(state)]
            for place in self._within & stage.owned
            for state in nodes[place].states
            if state.kept_in != "driver"
        }
        self._states: dict[NodeId, dict[str, State]] = {}

    def visits(self, entering: Iterable[Exchange], due: Iterable[NodeId], deltas: Deltas) -> Iterator[NodeId]:
        """Yield the nodes to visit, in order: those with rows, those ``due``, and what these reach.

        The caller steps each one and adds to ``deltas``.
        """
        entered = (place for exchange in entering for place in self._entrances.get(exchange, ()))
        return self._circuit.visits({*entered, *due}, deltas, self._within)

    def given_by(self, deltas: Mapping[NodeId, object]) -> Iterator[Exchange]:
        """Yield the exchanges by which the rows of visited nodes leave the stage, in the order of the stage."""
        return (
            each for _, each in sorted((one for at in deltas for one in self._gives.get(at, ())), key=_first)
        )

    def views_of(self, deltas: Mapping[NodeId, object]) -> Iterator[str]:
        """Yield the views whose deltas are those of visited nodes, in the order of the stage."""
        return (each for _, each in sorted(one for at in deltas for one in self._views.get(at, ())))

    def owned_among(self, restored: Iterable[str]) -> Iterator[str]:
        """Yield those of these states that the stage keeps, by their ids."""
        return (name for name in restored if name in self._owned)

    def states_for(self, place: NodeId) -> dict[str, State]:
        """Return the states that a visit of a node needs, by id: its own, and those of the nodes that it reads."""
        if place not in self._states:
            self._states[place] = self._states_needed(place)
        return self._states[place]

    def _states_needed(self, place: NodeId) -> dict[str, State]:
        needed, pending = dict[NodeId, None](), [place]
        while pending:
            at = pending.pop()
            if at not in needed:
                needed[at] = None
                pending += self._circuit.nodes[at].reads
        states = (state for at in sorted(needed) for state in self._circuit.nodes[at].states)
        return {self._ids[id(state)]: state for state in states if state.kept_in != "driver"}


def _first(numbered: tuple[int, Exchange]) -> int:
    return numbered[0]
