"""The cut of a circuit into stages: which nodes run in one task, and which rows are exchanged between stages, by which columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..state.partitioning import ONE
from .circuit import Circuit, NodeId

Columns = tuple[str, ...]
"""Rows that are equal in these columns are in one bucket; without columns all rows are in the first."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The delta of a node that is sent to a later stage, cut into that stage's buckets by the words of some columns.

    ``route`` None: equal rows go to the same bucket. ``combined_for`` is the operator for which rows are pre-aggregated
    before they are sent. With ``arrives`` it is the input of a source node.
    """

    producer: NodeId
    stage: int
    route: Columns | None
    combined_for: NodeId | None = None
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The nodes that run in one task, for each bucket.

    ``nodes`` are in order of execution. Those that are not ``owned`` have run in an earlier stage, which keeps their
    state; they run again since a node here reads it. ``single`` nodes run for the first bucket only. ``inputs`` has for
    each input of a node the exchange that it comes from, or None if it comes from a node in the same task. ``gives`` are
    the exchanges that later stages need; ``views`` names the views whose deltas are made here, by node.
    """

    number: int
    nodes: tuple[NodeId, ...]
    owned: frozenset[NodeId]
    single: frozenset[NodeId]
    inputs: dict[NodeId, tuple[Exchange | None, ...]]
    gives: tuple[Exchange, ...] = ()
    views: dict[str, NodeId] = field(default_factory=dict)
    has_timers: bool = False

    @property
    def takes(self) -> tuple[Exchange, ...]:
        """Return the exchanges from earlier stages, each once."""
        exchanges = (
            exchange for inputs in self.inputs.values() for exchange in inputs if exchange is not None
        )
        return tuple(dict.fromkeys(exchanges))

    def in_bucket(self, bucket: int) -> tuple[NodeId, ...]:
        """Return the nodes that run for a bucket."""
        return self.nodes if bucket == 0 else tuple(node for node in self.nodes if node not in self.single)


@dataclass(frozen=True, slots=True)
class Cut:
    """All stages, in the order in which they run. The first has no buckets and no state: it runs where rows arrive.

    ``stage_of`` is the stage that keeps the state of a node, ``cut_by`` the columns by which its output is cut.
    """

    stages: tuple[Stage, ...]
    stage_of: dict[NodeId, int]
    cut_by: dict[NodeId, Columns | None]


def cut(circuit: Circuit, views: dict[str, NodeId]) -> Cut:
    """Cut a circuit into as few stages as its exchanges require.

    A node runs as early as it can: in the stage of its inputs if rows that have to meet are together there, else in the
    next one. So all nodes that are ready run in one task, whatever their keys: a stage is not bound to a key, and each
    exchange has columns of its own. ``views`` gives the node whose output is the delta of a view.
    """
    cutter = _Cutter(circuit, frozenset(views.values()))
    for place in range(len(circuit.nodes)):
        cutter.place(NodeId(place))
    return cutter.finished(views)


class _Cutter:
    def __init__(self, circuit: Circuit, shown: frozenset[NodeId]) -> None:
        self.nodes = circuit.nodes
        self.level: dict[NodeId, int] = {}
        self.cut_by: dict[NodeId, Columns | None] = {}
        self.readers: dict[NodeId, list[NodeId]] = {}
        self.again: dict[int, set[NodeId]] = {}
        self.takers: dict[NodeId, list[NodeId]] = {}
        """The nodes that take the output of a node."""
        self.shown = shown
        """The nodes whose outputs are deltas of views."""
        for place, node in enumerate(self.nodes):
            for source in node.inputs:
                self.takers.setdefault(source, []).append(NodeId(place))

    def place(self, node: NodeId) -> None:
        """Find the stage of a node, after those of all nodes before it."""
        level = max([self._after_inputs(node), *self._after_clocks(node), *self._with_what_it_reads(node)])
        self.level[node] = level
        for read in self._all_read(node):
            if self.level[read] < level:
                self._bring(read, level)
            self.readers.setdefault(read, []).append(node)
        self.cut_by[node] = self._cut_of(node)

    # Where a node can run

    def _after_inputs(self, node: NodeId) -> int:
        """Return the first stage in which the node has its input."""
        by, inputs = self.nodes[node].placement.by, self.nodes[node].inputs
        least = 0 if by is None else 1
        return max([least, *(self.level[one] + (not self._meets(node, one)) for one in inputs)])

    def _after_clocks(self, node: NodeId) -> list[int]:
        """Return the stages after those that move its clocks, if it reads these after the rows of the epoch have moved them."""
        awaits = self.nodes[node].operator.awaits_clocks
        return [self.level[place] + 1 for place in self.nodes[node].timed_by if awaits]

    def _with_what_it_reads(self, node: NodeId) -> list[int]:
        return [self.level[read] for read in self.nodes[node].reads]

    def _all_read(self, node: NodeId) -> list[NodeId]:
        """Return the nodes that have to be in the same task: those that it reads, those that these read, and so on."""
        read_nodes: list[NodeId] = []
        pending = list(self.nodes[node].reads)
        while pending:
            read = pending.pop()
            if read not in read_nodes:
                read_nodes.append(read)
                pending += self.nodes[read].reads
        return read_nodes

    def _bring(self, read: NodeId, level: int) -> None:
        """Run a node in a later stage: only there if no node has read it yet, else there once more."""
        taken_earlier = any(self.level.get(other, level) < level for other in self.takers.get(read, ()))
        if not self.readers.get(read) and not taken_earlier and not self._moves_clock(read):
            self.level[read] = level
        else:
            self.again.setdefault(level, set()).add(read)

    def _moves_clock(self, node: NodeId) -> bool:
        return self.nodes[node].operator.moved_clock is not None

    def _meets(self, node: NodeId, source: NodeId) -> bool:
        """Return whether rows that have to meet for a node do so where the output of another one is."""
        placement, cut_columns = self.nodes[node].placement, self.cut_by[source]
        if placement.by is None:
            return True
        if cut_columns is None or self.level[source] == 0:
            return False
        if placement.any_part:
            return set(cut_columns) <= set(placement.by)
        return cut_columns == placement.by

    def _cut_of(self, node: NodeId) -> Columns | None:
        """Return the columns by which the output of a node is cut; None if unknown."""
        placement, inputs = self.nodes[node].placement, self.nodes[node].inputs
        if self.level[node] == 0:
            return None
        if placement.meets_by is not None:
            return placement.meets_by
        cuts = [self.cut_by[source] if self._is_local(node, source) else placement.by for source in inputs]
        if placement.any_part and all(place is not None for place in cuts):
            return cuts[0]
        if placement.by is not None:
            return placement.by
        same = cuts[0] if cuts and all(place == cuts[0] for place in cuts) else None
        return same if same is not None and placement.passes.issuperset(same) else None

    def _is_local(self, node: NodeId, source: NodeId, level: int | None = None) -> bool:
        """Return whether a node takes the output of another one in the same task."""
        at = self.level[node] if level is None else level
        there = self.level[source] == at or source in self.again.get(at, ())
        return there and (at == 0 or self._meets(node, source))

    # The result

    def finished(self, views: dict[str, NodeId]) -> Cut:
        last = max(self.level.values(), default=0)
        owned: dict[int, list[NodeId]] = {}
        for node, level in self.level.items():
            owned.setdefault(level, []).append(node)
        stages = [self._stage(number, frozenset(owned.get(number, ()))) for number in range(last + 1)]
        exchanges: dict[int, list[Exchange]] = {}
        for stage in stages:
            for exchange in stage.takes:
                exchanges.setdefault(0 if exchange.arrives else self.level[exchange.producer], []).append(
                    exchange
                )
        by_stage: dict[int, dict[str, NodeId]] = {}
        for name, node in views.items():
            by_stage.setdefault(self.level[node], {})[name] = node
        finished = tuple(
            replace(
                stage,
                gives=tuple(dict.fromkeys(exchanges.get(stage.number, []))),
                views=by_stage.get(stage.number, {}),
            )
            for stage in stages
        )
        return Cut(finished, dict(self.level), dict(self.cut_by))

    def _stage(self, number: int, owned: frozenset[NodeId]) -> Stage:
        nodes = tuple(sorted(owned | self.again.get(number, set())))
        return Stage(
            number=number,
            nodes=nodes,
            owned=owned,
            single=frozenset(self._single(nodes)),
            inputs={node: self._inputs(node, number) for node in nodes},
            has_timers=any(self.nodes[node].operator.has_timers for node in owned),
        )

    def _single(self, nodes: tuple[NodeId, ...]) -> set[NodeId]:
        """Return the nodes with one state for all rows, and those that take all their inputs from such nodes in the same task."""
        single: set[NodeId] = set()
        for node in nodes:
            placement, inputs = self.nodes[node].placement, self.nodes[node].inputs
            follows = bool(inputs) and all(one in single and one in nodes for one in inputs)
            if placement.by == () or ((placement.by is None or placement.any_part) and follows):
                single.add(node)
        return single

    def _inputs(self, node: NodeId, number: int) -> tuple[Exchange | None, ...]:
        placement, inputs = self.nodes[node].placement, self.nodes[node].inputs
        route = None if placement.any_part else placement.by
        if not inputs:
            return (Exchange(node, number, route, arrives=True),)
        return tuple(
            None
            if self._is_local(node, source, number)
            else Exchange(source, number, route, self._combines(node, place))
            for place, source in enumerate(inputs)
        )

    def _combines(self, node: NodeId, place: int) -> NodeId | None:
        operator = self.nodes[node].operator
        needs_all = operator.passes_input and (node in self.takers or node in self.shown)
        return node if place == 0 and operator.may_combine and not needs_all else None


def mark_routes(circuit: Circuit, cut: Cut) -> None:
    """Set the routes of states whose entries' buckets depend on the cut."""
    for stage in cut.stages:
        for place in stage.owned:
            node = circuit.nodes[place]
            by = cut.cut_by[place]
            for state in node.states:
                if place in stage.single:
                    state.route = ONE
                elif (route := node.operator.route_of_states(by)) is not None:
                    state.route = route
