"""The compiled whole: nodes in dependency order, and the states behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from ..data.clock import Now, mark_read
from ..data.columns.kernels import series_of
from ..data.columns.key_hash import IN_FORCE, KeyHash, in_force
from ..data.delta import Delta
from ..state.channels import Channel, Finding, Lookup
from ..state.operator_contract import NodeId as NodeId
from ..state.operator_contract import Operator
from ..state.protocol import State
from .placement import ANYWHERE, Placement


@dataclass(frozen=True, slots=True)
class Look:
    """One thing that a node reads: its kind in a word or two, and the node that gives it."""

    what: str
    node: NodeId


@dataclass(slots=True)
class Node:
    """A place in the circuit: an operator, the nodes whose deltas it takes, and its measures.

    ``looks`` are all channels and states that its operator ``looks_at``, and ``reads`` the nodes that it thereby reads:
    those that give them and, for a look-up, those that the look-up reads. ``findings`` are its own findings. ``timed_by`` are the nodes that move the clocks that it reads.
    A node without inputs takes the rows that arrive under its name. ``identify``, if given, sets the identities when one of
    them is first read, as most circuits never need them. ``only`` is a column and a value: the node, which has one input, would emit and stage nothing for a
    change in which no row has that value in that column. ``seconds``, ``rows_in`` and
    ``rows_out`` are totals over all epochs that were committed, and ``epochs`` is the number of those in which rows came out.
    """

    name: str
    operator: Operator
    inputs: tuple[NodeId, ...]
    states: tuple[State, ...] = ()
    placement: Placement = ANYWHERE
    only: tuple[str, int | str] | None = None
    looks: tuple[Look, ...] = ()
    reads: tuple[NodeId, ...] = ()
    findings: tuple[Finding[Any], ...] = ()
    timed_by: tuple[NodeId, ...] = ()
    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    epochs: int = 0
    identify: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    _identity: str = ""
    _identity_before: str = ""
    _equality: str = ""

    @property
    def identity(self) -> str:
        """Return what identifies what it computes, from the sources on; empty if not given."""
        if self.identify is not None:
            self.identify()
        return self._identity

    @identity.setter
    def identity(self, identity: str) -> None:
        self._identity = identity

    @property
    def identity_before(self) -> str:
        """Return the identity that it had in earlier versions, by which nodes downstream are still identified.

        It is empty unless its states held more in these.
        """
        if self.identify is not None:
            self.identify()
        return self._identity_before

    @property
    def equality(self) -> str:
        """Return what all nodes that are equal to it share: the identity of the first of them."""
        if self.identify is not None:
            self.identify()
        return self._equality

    def set_identities(self, identity: str, before: str, equality: str) -> None:
        """Set all identities, which are no longer to be found."""
        self._identity, self._identity_before, self._equality = identity, before, equality
        self.identify = None


MOST_LOOKED_UP = 4_096
"""In a change of more rows than this, nodes are not chosen by values."""


class Deltas(dict[NodeId, Delta]):
    """The deltas of the nodes that were visited in an epoch; the delta of any other node is empty."""

    def __init__(self, nodes: Sequence[Node], nothing: dict[NodeId, Delta]) -> None:
        super().__init__()
        self._nodes = nodes
        self._nothing = nothing

    def __missing__(self, node: NodeId) -> Delta:
        """Return the empty delta of a node that was not visited, made once for all epochs."""
        nothing = self._nothing.get(node)
        if nothing is None:
            nothing = self._nothing[node] = Delta.empty(self._nodes[node].operator.schema)
        return nothing


@dataclass(frozen=True, slots=True)
class EpochDeltas:
    """An epoch that is not committed yet: the deltas of the nodes that were visited, and the seconds each took."""

    deltas: Deltas
    seconds: dict[NodeId, float]


class PlacementMissingError(AssertionError):
    """A node with state that does not declare which rows have to meet: a bug of this library, never a user's."""


class NotGivenError(AssertionError):
    """A node that reads something that no earlier node gives: a bug of this library, never a user's."""


def _require_placement(
    name: str, operator: Operator, states: Sequence[State], placement: Placement, reads: Sequence[NodeId]
) -> None:
    """Check that a node with state declares which of its rows have to meet.

    The driver of buckets merges what they add to a ledger or a clock. Any other state is kept by some columns: rows that are
    equal in these have to meet (``by``), or the node runs where a node is that it ``reads``. Without that, the node would be
    right in one bucket and wrong in several.

    Raises:
        PlacementMissingError: it does not; names the node.
    """
    if placement.by is not None or reads:
        return
    if any(state.kept_in == "buckets" for state in states):
        raise PlacementMissingError(
            f"node {name!r} ({type(operator).__name__}) has state but no placement: with several buckets rows that belong "
            "together would not meet; add it with Placement(by=...), the columns by which its state is kept, or let it read the state of another node"
        )


@dataclass(slots=True)
class _Links:
    """Which nodes are visited because of others.

    ``behind`` are the nodes that take the output of a node, except those that take only rows with a certain value, which
    are in ``chosen``, by column and value. ``readers`` are those that read its state or findings, ``entrances`` the nodes
    by the name under which rows arrive, ``waking`` those that may act without rows.
    """

    behind: list[list[NodeId]] = field(default_factory=list)
    chosen: list[dict[str, dict[int | str, list[NodeId]]]] = field(default_factory=list)
    readers: list[list[NodeId]] = field(default_factory=list)
    entrances: dict[str, list[NodeId]] = field(default_factory=dict)
    waking: set[NodeId] = field(default_factory=set)

    def grow(self, nodes: Sequence[Node]) -> None:
        """Add the links of nodes that were added since."""
        for place in map(NodeId, range(len(self.behind), len(nodes))):
            node = nodes[place]
            self.behind.append([])
            self.chosen.append({})
            self.readers.append([])
            for source in dict.fromkeys(node.inputs):
                if node.only is None:
                    self.behind[source].append(place)
                else:
                    column, value = node.only
                    self.chosen[source].setdefault(column, {}).setdefault(value, []).append(place)
            for read in node.reads:
                self.readers[read].append(place)
            if not node.inputs:
                self.entrances.setdefault(node.name, []).append(place)
            if node.operator.may_wake:
                self.waking.add(place)

    def reached(self, place: NodeId, delta: Delta) -> Sequence[NodeId]:
        """Return the nodes that have something to do because of a change."""
        if not delta.height:
            return ()
        chosen = self.chosen[place]
        return [*self.behind[place], *self._chosen_by(chosen, delta)] if chosen else self.behind[place]

    @staticmethod
    def _chosen_by(chosen: Mapping[str, Mapping[int | str, list[NodeId]]], delta: Delta) -> Iterator[NodeId]:
        for column, nodes in chosen.items():
            if delta.height > MOST_LOOKED_UP:
                values: Iterable[int | str] = nodes
            else:
                values = series_of(delta.column(column)).unique().to_list()
            for value in values:
                yield from nodes.get(value, ())


@dataclass(slots=True)
class Circuit:
    """Nodes as a list: every node refers to earlier ones only, so the order of the list is the order of execution.

    An epoch has two phases. First operators read the states as of the epoch before and return their
    deltas; then all states commit, and a commit cannot fail. So a self-join needs no special case, and a
    failure anywhere leaves no trace.

    A node is visited in an epoch that brings it rows, in which a node that it ``reads`` is visited,
    or in which it wakes by itself (``may_wake``); so an epoch costs the nodes that it touches, and no others. In epoch 0
    all are visited, and in every epoch if ``visits_all``, which changes no delta and no state. ``key_hash`` is the hash of
    the keys in its states, by default the one in force when it is made.
    """

    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    visits_all: bool = False
    key_hash: KeyHash = field(default_factory=in_force)
    _givers: dict[int, NodeId] = field(default_factory=dict)
    """Which node gives each state and channel, by their ids: the first one of those that share it."""
    _findings: list[Finding[Any]] = field(default_factory=list)
    _links: _Links = field(default_factory=_Links)
    _nothing: dict[NodeId, Delta] = field(default_factory=dict)
    _active_before: set[NodeId] | None = None
    """The waking nodes that had something to do in the last epoch: they and their readers are visited in the next one too."""

    def add(
        self,
        name: str,
        operator: Operator,
        *inputs: NodeId,
        states: Sequence[State] = (),
        placement: Placement = ANYWHERE,
        only: tuple[str, int | str] | None = None,
    ) -> NodeId:
        """Add a node after its inputs, and after all nodes that its operator reads.

        Raises:
            NotGivenError: no node gives what the operator reads.
            PlacementMissingError: the node has state, and does not declare which rows have to meet.
        """
        assert all(node < len(self.nodes) for node in inputs), (name, inputs)
        looks = tuple(Look(_kind(each), self._giver(name, operator, each)) for each in operator.looks_at)
        reads = self._read(operator, looks)
        _require_placement(name, operator, states, placement, reads)
        number = NodeId(len(self.nodes))
        self.states += [state for state in dict.fromkeys(states) if id(state) not in self._givers]
        for channel in (*states, *operator.gives):
            self._givers.setdefault(id(channel), number)
        findings = tuple(each for each in operator.gives if isinstance(each, Finding))
        self._findings += findings
        looks = tuple(dict.fromkeys(looks))
        timed_by = self._timed_by(operator)
        self.nodes.append(
            Node(name, operator, inputs, tuple(states), placement, only, looks, reads, findings, timed_by)
        )
        return number

    @property
    def gains_by_buckets(self) -> bool:
        """Whether one of its operators gains by several buckets."""
        return any(node.operator.gains_by_buckets for node in self.nodes)

    def _giver(self, name: str, operator: Operator, channel: State | Channel) -> NodeId:
        """Return the node that gives something that a new node reads."""
        if id(channel) not in self._givers:
            raise NotGivenError(
                f"node {name!r} ({type(operator).__name__}) reads {_kind(channel)}, which no earlier node gives; first add "
                "the node that gives it, with it among its states or in what its operator gives"
            )
        return self._givers[id(channel)]

    def _timed_by(self, operator: Operator) -> tuple[NodeId, ...]:
        """The nodes that move the clocks that a new node reads. From now on these clocks are read."""
        read = [base for clock in operator.clocks for base in mark_read(clock)]
        return tuple(dict.fromkeys(self._givers[id(base)] for base in read if id(base) in self._givers))

    def _read(self, operator: Operator, looks: Sequence[Look]) -> tuple[NodeId, ...]:
        """Return the nodes that a node reads by these, each once."""
        nodes: dict[NodeId, None] = {}
        for channel, look in zip(operator.looks_at, looks, strict=True):
            nodes[look.node] = None
            if isinstance(channel, Lookup):
                nodes |= dict.fromkeys(self.nodes[look.node].reads)
        return tuple(nodes)

    def evaluate(self, now: Now, arrived: Mapping[str, Delta]) -> EpochDeltas:
        """Run the first phase of an epoch: return the deltas of the nodes, with all changes of states staged.

        ``commit`` or ``discard`` has to follow, the latter also if this raises.
        """
        self._links.grow(self.nodes)
        evaluated = EpochDeltas(self.empty_deltas(), {})
        due, stale = self._due(now, arrived)
        self._active_before = None
        before = IN_FORCE.set(self.key_hash)
        try:
            self._active_before = self._stepped(now, arrived, evaluated, due, stale)
        finally:
            IN_FORCE.reset(before)
        return evaluated

    def _due(self, now: Now, arrived: Mapping[str, Delta]) -> tuple[set[NodeId], set[NodeId]]:
        """Return the nodes that are visited because of rows that arrive, and those because of the last epoch."""
        links = self._links
        if now.epoch == 0 or self.visits_all:
            return set(map(NodeId, range(len(self.nodes)))), set()
        due = {
            place
            for name, delta in arrived.items()
            if delta.height
            for place in links.entrances.get(name, ())
        }
        # A reader may retract in this epoch what windows emitted in the last one (``PendingRows``): one visit, no more.
        # After a failure, or a start, it is unknown which they are.
        return due, set(links.waking if self._active_before is None else self._active_before)

    def _stepped(
        self,
        now: Now,
        arrived: Mapping[str, Delta],
        evaluated: EpochDeltas,
        due: set[NodeId],
        stale: set[NodeId],
    ) -> set[NodeId]:
        """Step these nodes and those that they reach, in order, and return the waking nodes that had something to do."""
        nodes, links, deltas, active = self.nodes, self._links, evaluated.deltas, set[NodeId]()
        waking = links.waking
        waiting = [*(due | stale | waking)]
        heapify(waiting)
        while waiting:
            place = heappop(waiting)
            if place in deltas:
                continue  # It was in the queue twice.
            node = nodes[place]
            acts = place in due or (place in waking and node.operator.wakes_on_time(now))
            if not (acts or place in stale):
                continue
            if acts and place in waking:
                active.add(place)
            begun = time.perf_counter()
            if node.inputs:
                delta = node.operator.step(now, *map(deltas.__getitem__, node.inputs))
            else:
                rows = arrived.get(node.name)
                delta = node.operator.step(now, rows if rows is not None and rows.height else deltas[place])
            evaluated.seconds[place] = time.perf_counter() - begun
            deltas[place] = delta
            if delta.height:
                # Few nodes have others that take only some of their rows.
                reached = links.reached(place, delta) if links.chosen[place] else links.behind[place]
                for other in reached:
                    due.add(other)
                    heappush(waiting, other)
            for other in links.readers[place]:
                (due if acts else stale).add(other)
                heappush(waiting, other)
        return active

    def visits(self, due: Iterable[NodeId], deltas: Deltas, within: Container[NodeId]) -> Iterator[NodeId]:
        """Yield nodes that have something to do, in order, and those among ``within`` that this reaches.

        The caller steps each one and adds to ``deltas``. ``due`` has to include the nodes that wake by themselves.
        """
        self._links.grow(self.nodes)
        waiting = sorted(due)
        while waiting:
            place = heappop(waiting)
            if place in deltas:
                continue  # It was in the queue twice.
            yield place
            for other in (*self._links.reached(place, deltas[place]), *self._links.readers[place]):
                if other in within:
                    heappush(waiting, other)

    def empty_deltas(self) -> Deltas:
        """Return the deltas of an epoch in which no node was visited yet."""
        return Deltas(self.nodes, self._nothing)

    def commit(self, evaluated: EpochDeltas) -> None:
        """Run the second phase, in which staged changes become the state. It cannot fail."""
        deltas, touched = evaluated.deltas, dict[NodeId, None]()
        for place, delta in deltas.items():
            node = self.nodes[place]
            touched |= dict.fromkeys(node.reads)  # Their spines count entries that were read in vain.
            touched[place] = None
            node.seconds += evaluated.seconds[place]
            for source in node.inputs:
                if source in deltas:
                    node.rows_in += deltas[source].height
            node.rows_out += delta.height
            node.epochs += delta.height > 0
        for place in touched:
            for state in self.nodes[place].states:
                state.commit()
            for finding in self.nodes[place].findings:
                finding.clear()

    def settle(self) -> None:
        """Commit an epoch of which only some nodes were stepped, and not by ``evaluate``. It cannot fail."""
        for state in self.states:
            state.commit()
        self._clear_findings()

    def discard(self) -> None:
        """Discard the epoch: everything is as it was before ``evaluate``."""
        for state in self.states:
            state.discard()
        self._clear_findings()
        self._active_before = None

    def _clear_findings(self) -> None:
        for finding in self._findings:
            finding.clear()


def _kind(channel: State | Channel) -> str:
    """Return the kind of something that a node reads, in a word or two."""
    return channel.kind if isinstance(channel, Channel) else "state"
