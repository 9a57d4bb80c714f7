"""A circuit cut into stages: what runs in one task, and what rows pass on from stage to stage, by which columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..state.partitioning import ONE
from .circuit import Circuit, NodeId

Columns = tuple[str, ...]
"""Rows that are equal in these are in one bucket; no columns: all rows are in the first."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The delta of a node on its way to a later stage, cut into that stage's buckets by the words of some columns.

    ``route`` None: equal rows go to the same bucket. ``combined_for`` is the grouping for which rows are added up
    before they go. Where ``arrives``, it is what comes from outside for a source node.
    """

    producer: NodeId
    stage: int
    route: Columns | None
    combined_for: NodeId | None = None
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The nodes that run in one task, for each bucket.

    ``nodes`` are in the order of work. Those that are not ``owned`` have run in an earlier stage, which keeps their
    state; they run again as something here reads it. ``single`` run for the first bucket alone. ``inputs`` says for
    each input of a node what it is taken from: an exchange, or, None, the node in the same task. ``gives`` is what
    later stages need; ``views`` names the views whose deltas are made here, by node.
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
        """What comes from earlier stages, each once."""
        found = (exchange for inputs in self.inputs.values() for exchange in inputs if exchange is not None)
        return tuple(dict.fromkeys(found))

    def in_bucket(self, bucket: int) -> tuple[NodeId, ...]:
        """The nodes that run for a bucket."""
        return self.nodes if bucket == 0 else tuple(node for node in self.nodes if node not in self.single)


@dataclass(frozen=True, slots=True)
class Cut:
    """All stages, in the order in which they run. The first has no buckets and no state: it runs where rows arrive.

    ``stage_of`` tells the stage that keeps the state of a node, ``cut_by`` the columns by which its output is cut.
    """

    stages: tuple[Stage, ...]
    stage_of: dict[NodeId, int]
    cut_by: dict[NodeId, Columns | None]


def cut(circuit: Circuit, views: dict[str, NodeId]) -> Cut:
    """Cut a circuit into as few stages as its exchanges ask for.

    A node runs as early as it can: with what it takes its input from, if rows that have to meet are together there,
    else in the stage after. So all that is ready runs in one task, whatever it is by: a stage is a number of buckets,
    and each exchange has columns of its own. ``views`` gives the node whose output is the delta of a view.
    """
    cutter = _Cutter(circuit)
    for place in range(len(circuit.nodes)):
        cutter.place(NodeId(place))
    return cutter.finished(views)


class _Cutter:
    def __init__(self, circuit: Circuit) -> None:
        self.nodes = circuit.nodes
        self.level: dict[NodeId, int] = {}
        self.cut_by: dict[NodeId, Columns | None] = {}
        self.readers: dict[NodeId, list[NodeId]] = {}
        self.again: dict[int, set[NodeId]] = {}
        self.takers: dict[NodeId, list[NodeId]] = {}
        """The nodes that take the output of a node."""
        for place, node in enumerate(self.nodes):
            for source in node.inputs:
                self.takers.setdefault(source, []).append(NodeId(place))

    def place(self, node: NodeId) -> None:
        """Find the stage of a node, all before it having theirs."""
        level = max([self._after_inputs(node), *self._after_clocks(node), *self._with_what_it_reads(node)])
        self.level[node] = level
        for read in self._all_read(node):
            if self.level[read] < level:
                self._bring(read, level)
            self.readers.setdefault(read, []).append(node)
        self.cut_by[node] = self._cut_of(node)

    # Where it can run

    def _after_inputs(self, node: NodeId) -> int:
        """The first stage in which the node has its input."""
        by, inputs = self.nodes[node].placement.by, self.nodes[node].inputs
        least = 0 if by is None else 1
        return max([least, *(self.level[one] + (not self._meets(node, one)) for one in inputs)])

    def _after_clocks(self, node: NodeId) -> list[int]:
        """The stages after all those that move the clocks whose time after the rows it reads."""
        awaits = self.nodes[node].operator.awaits_clocks
        return [self.level[place] + 1 for place in self.nodes[node].timed_by if awaits]

    def _with_what_it_reads(self, node: NodeId) -> list[int]:
        return [self.level[read] for read in self.nodes[node].reads]

    def _all_read(self, node: NodeId) -> list[NodeId]:
        """What has to be in the same task: what it reads, what that reads, and so on."""
        found: list[NodeId] = []
        wanted = list(self.nodes[node].reads)
        while wanted:
            read = wanted.pop()
            if read not in found:
                found.append(read)
                wanted += self.nodes[read].reads
        return found

    def _bring(self, read: NodeId, level: int) -> None:
        """Have a node at hand in a later stage: there alone if nobody has read it, else there once more."""
        taken_earlier = any(self.level.get(other, level) < level for other in self.takers.get(read, ()))
        if not self.readers.get(read) and not taken_earlier and not self._moves_clock(read):
            self.level[read] = level
        else:
            self.again.setdefault(level, set()).add(read)

    def _moves_clock(self, node: NodeId) -> bool:
        return self.nodes[node].operator.moved_clock is not None

    def _meets(self, node: NodeId, source: NodeId) -> bool:
        """Whether rows that have to meet for a node do so where the output of another one is."""
        placement, known = self.nodes[node].placement, self.cut_by[source]
        if placement.by is None:
            return True
        if known is None or self.level[source] == 0:
            return False
        if placement.any_part:
            return set(known) <= set(placement.by)
        return known == placement.by

    def _cut_of(self, node: NodeId) -> Columns | None:
        """By which columns the output of a node is cut; None: by none that are known."""
        placement, inputs = self.nodes[node].placement, self.nodes[node].inputs
        if self.level[node] == 0:
            return None
        if placement.meets_by is not None:
            return placement.meets_by
        known = [self.cut_by[source] if self._is_local(node, source) else placement.by for source in inputs]
        if placement.any_part and all(place is not None for place in known):
            return known[0]
        if placement.by is not None:
            return placement.by
        same = known[0] if known and all(place == known[0] for place in known) else None
        return same if same is not None and placement.passes.issuperset(same) else None

    def _is_local(self, node: NodeId, source: NodeId, level: int | None = None) -> bool:
        """Whether a node takes the output of another one in the same task."""
        at = self.level[node] if level is None else level
        there = self.level[source] == at or source in self.again.get(at, ())
        return there and (at == 0 or self._meets(node, source))

    # What comes of it

    def finished(self, views: dict[str, NodeId]) -> Cut:
        last = max(self.level.values(), default=0)
        owned: dict[int, list[NodeId]] = {}
        for node, level in self.level.items():
            owned.setdefault(level, []).append(node)
        stages = [self._stage(number, frozenset(owned.get(number, ()))) for number in range(last + 1)]
        given: dict[int, list[Exchange]] = {}
        for stage in stages:
            for exchange in stage.takes:
                given.setdefault(0 if exchange.arrives else self.level[exchange.producer], []).append(
                    exchange
                )
        by_stage: dict[int, dict[str, NodeId]] = {}
        for name, node in views.items():
            by_stage.setdefault(self.level[node], {})[name] = node
        finished = tuple(
            replace(
                stage,
                gives=tuple(dict.fromkeys(given.get(stage.number, []))),
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
        """The nodes that have one state, and those that take all they take from such in the same task."""
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
        return node if place == 0 and operator.may_combine else None


def mark_routes(circuit: Circuit, cut: Cut) -> None:
    """Tell the states of which that depends on the cut in which bucket their entries are."""
    for stage in cut.stages:
        for place in stage.owned:
            node = circuit.nodes[place]
            by = cut.cut_by[place]
            for state in node.states:
                if place in stage.single:
                    state.route = ONE
                elif (route := node.operator.route_of_states(by)) is not None:
                    state.route = route
