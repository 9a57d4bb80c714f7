"""The nodes that have to be computed for views that are new in a plan, and those whose rows are kept, from which they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evercurrent.core.circuit.circuit import Node, NodeId
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ..compiler.builder import Compiled
from ..compiler.retained import RetainedRows
from ..plan.plan import Plan
from .kept_rows import KeptRows, RowsReader
from .plan_diff import lost_states
from .plan_match import PlanMatch, state_ids

OnRead = Callable[[Sequence[str], int, int], None]
"""Is called while views are filled: with their names, how many of the kept rows are read by now, and how many there are."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """How a refusal begins, and the ways out that it names, where a checkpoint is opened or while an engine runs."""

    heading: str
    rows: str
    """For a source that does not retain its rows; ``{source}`` is its name."""
    time: str
    """For a node that depends on when rows arrived."""


AT_OPENING = Remedies(
    heading="views are new to the checkpoint:",
    rows="Build it on existing views, or begin a new checkpoint with engine.source({source!r}, ..., retained=True) and push "
    "all rows into it",
    time="Leave out its trigger, lateness or order, build it on existing views, or begin a new checkpoint and push all rows into it",
)

HASHES_OF_ROWS = (
    "retractions are checked by hashes of the rows with all their columns, and earlier rows are not retained. Columns can change only "
    "of a source that was declared with retained=True or trusted=True from the beginning, or of which a view keeps all rows"
)
"""Why a source of diffs cannot go on with other columns."""

IN_A_QUERY = replace(AT_OPENING, heading="")


class NodesToFill:
    """The nodes that have to be computed for the new views of a circuit, and those whose rows are kept."""

    def __init__(
        self,
        plan: Plan,
        compiled: Compiled,
        match: PlanMatch,
        retained: Mapping[str, RetainedRows],
        readers: Mapping[str, RowsReader],
        remedies: Remedies,
    ) -> None:
        self._plan = plan
        self._readers = readers
        self._remedies = remedies
        self._compiled = compiled
        self._circuit = compiled.circuit
        self._match = match
        self._names = {id(state): name for name, state in state_ids(compiled).items()}
        self._sources = self._outputs_of_sources()
        self._kept = {name for name, rows in retained.items() if self._is_unchanged(rows.spine)}
        self._stored_rows = dict(self._kept_nodes())
        self._stored_rows |= dict(self._kept_sources(retained))
        self.stepped: set[NodeId] = set()
        self.given: dict[NodeId, KeptRows] = {}
        """The nodes from whose rows the others are computed."""

    def _outputs_of_sources(self) -> dict[NodeId, str]:
        """Return the nodes from which the rows of each source come."""
        return {self._compiled.outputs[place]: source.name for place, source in self._plan.inputs.items()}

    def _kept_sources(self, retained: Mapping[str, RetainedRows]) -> Iterator[tuple[NodeId, KeptRows]]:
        """Return the sources whose rows are kept, and those that have had none yet."""
        for node, name in self._sources.items():
            if name in self._match.new_sources:
                empty = partial(Delta.empty, self._circuit.nodes[node].operator.schema)
                yield node, KeptRows.given(empty)
            elif name in self._kept:
                yield node, KeptRows(retained[name].changes, (retained[name].spine,), is_sum=True)
            elif name in self._readers:
                yield node, KeptRows.given(self._readers[name])

    def _kept_nodes(self) -> Iterator[tuple[NodeId, KeptRows]]:
        """Return the nodes whose rows can be read from kept states: those of views, groupings and arrangements."""
        for number, node in enumerate(self._circuit.nodes):
            if not all(map(self._is_unchanged, node.states)):
                continue
            # An arrangement is itself stepped where it is needed, as its readers look at its state.
            if (arranged := _arranged_rows(node)) is not None:
                yield node.inputs[0], arranged
            readable = node.operator.readable
            if readable is not None:
                rows = KeptRows(readable.emitted, tuple(readable.reads), calls_users=readable.calls_users)
                yield NodeId(number), rows
                if node.operator.keeps_input:
                    yield node.inputs[0], rows

    def _is_unchanged(self, state: State) -> bool:
        return self._names[id(state)] in self._match.unchanged

    def is_kept(self, node: NodeId) -> bool:
        """Return whether the rows of a node can be read."""
        return node in self._stored_rows

    def require_fillable(self) -> None:
        """Find what has to be computed.

        Raises:
            CheckpointError: some of it cannot be computed.
        """
        complaints = []
        for name in self._match.to_fill:
            reasons: dict[str, None] = {}
            place = self._plan.views[name]
            # A new source has had no rows, so it does not matter when they would have come.
            is_empty = all(source.name in self._match.new_sources for source in self._plan.sources_of(place))
            for node in (self._compiled.kept_at[name], self._compiled.outputs[place]):
                self._need(node, reasons, is_empty=is_empty)
            complaints += [f"- view {name!r} cannot be filled: {reason}" for reason in reasons]
        if complaints and self._match.evolution is not None:
            raise CheckpointError("\n".join(lost_states("the checkpoint", complaints, self._match)))
        if complaints:
            raise CheckpointError("\n".join(filter(None, [self._remedies.heading, *complaints])))
        self._require_needed()
        nodes = {name: NodeId(at) for at in range(len(self._circuit.nodes)) for name in self._states_of(at)}
        missing = [
            line for name, what in self._match.lost.items() for line in self._recompute(nodes[name], what)
        ]
        if missing:
            raise CheckpointError("\n".join(lost_states("the checkpoint", missing, self._match)))

    def _states_of(self, node: int) -> list[str]:
        return [self._names[id(state)] for state in self._circuit.nodes[node].states]

    def _recompute(self, number: NodeId, what: str) -> list[str]:
        """Find what has to be computed for a missing state, and return the reasons why it cannot be."""
        node, reasons = self._circuit.nodes[number], dict[str, None]()
        if node.operator.counts_rows and self._match.evolution is not None:
            reasons[HASHES_OF_ROWS] = None
        elif not node.inputs:
            reasons["it depends on rows of earlier epochs, which are not retained"] = None
        elif not node.operator.is_replayable:
            reasons[self._depends_on_time(node.name)] = None
        else:
            self.stepped.add(number)
            for source in (*node.inputs, *node.reads):
                self._need(source, reasons, is_empty=False)
        return [f"- {what} is missing and cannot be computed: {reason}" for reason in reasons]

    def _need(self, start: NodeId, reasons: dict[str, None], *, is_empty: bool) -> None:
        """Collect a node that has to be computed, with all that it needs upstream, and the reasons why it cannot be."""
        waiting, seen = [start], set()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            if number in self._stored_rows:
                self.given[number] = self._stored_rows[number]
            elif number in self._sources:
                reasons[self._not_retained(self._sources[number])] = None
            elif not (self._circuit.nodes[number].operator.is_replayable or is_empty):
                reasons[self._depends_on_time(self._circuit.nodes[number].name)] = None
            else:
                self.stepped.add(number)
                node = self._circuit.nodes[number]
                waiting += (*node.inputs, *node.reads)

    def _require_needed(self) -> None:
        """Check that all rows that were given are read.

        Raises:
            CheckpointError: those of a source are not.
        """
        read = {self._sources[number] for number in self.given if number in self._sources}
        for name in self._readers:
            if name not in read or name in self._kept:
                raise CheckpointError(
                    f"backfill= has rows of source {name!r}, which are not needed, as what the view is computed from is kept; "
                    "leave them out"
                )

    def _not_retained(self, source: str) -> str:
        way_out = self._remedies.rows.format(source=source)
        return f"source {source!r} does not retain its rows, so those of earlier epochs are gone. {way_out}"

    def _depends_on_time(self, node: str) -> str:
        return f"it depends on when rows arrived ({node}), which the rows do not show. {self._remedies.time}"


def _arranged_rows(node: Node) -> KeptRows | None:
    """Return the rows of a node from its arrangement; None if it has none, or one that lacks rows, as those with null keys."""
    operator = node.operator
    if operator.readable is not None or operator.lacks_nulls_in != ():
        return None
    spine = node.states[0]
    if not isinstance(spine, Spine) or dict(spine.layout.payload) != dict(operator.schema):
        return None
    return KeptRows(RetainedRows(operator.schema, spine).changes, (spine,), is_sum=True)
