"""A view is filled piece by piece while epochs go on, and takes its place between two of them.

    begin        the circuit as it is between two epochs, shared and never stepped: what the fill reads
    pieces       all rows kept there go, a range of keys at a time, through an empty circuit of the plan with the new view
    catch up     what the nodes that were read have emitted since goes after them
    adopt        between two epochs, when nothing is missing: the states are taken into the circuit that runs

A node that is computed here depends on the sum of its input alone (``is_replayable``), not on how that is split, so the result
is that of one step. What is emitted meanwhile waits until all kept rows are in: a retraction never comes before its row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import ArithmeticRefusedError, PlanError
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.protocol import State
from evercurrent.core.state.readable import Readable
from evercurrent.core.state.spine import Spine, Version

from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..compiler.retained import RetainedRows
from ..plan.plan import Plan
from .equal_nodes import UNCHANGED, renaming
from .kept_rows import RowsReader
from .nodes_to_fill import NodesToFill, OnRead, Remedies
from .plan_diff import PlanMatch
from .plan_match import names_in, state_ids

PIECE_ROWS = 1 << 17
"""About so many entries are read in one piece: enough for columns to pay, and few enough to stay in the caches of a processor."""

BEFORE_TIME = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """All rows of a view that was filled, as they are now. They are read when they are needed."""

    readable: Readable
    versions: tuple[Version, ...]

    @staticmethod
    def of(readable: Readable) -> AllRows:
        """Return the rows as of the last commit of the states."""
        return AllRows(readable, tuple(spine.version for spine in readable.reads))

    @property
    def entries(self) -> int:
        """How many entries there are, those that cancel included."""
        runs, waiting = self.versions[0].parts
        return sum(map(len, runs)) + sum(map(len, waiting))

    @property
    def is_certain(self) -> bool:
        """Whether there certainly is a row, as not all entries cancel."""
        return any(self.versions[0].totals.values())

    def delta(self) -> Delta:
        """Return the rows as a delta. Cost: the state."""
        return self.readable.emitted(self.versions)


class PiecewiseFill:
    """The states of views that are being filled, and what is read for them. One thread at a time calls its methods.

    ``compiled`` is a circuit of the plan with the new views, which shares the states that are kept with the one that runs.
    ``inputs`` are the identities of the nodes whose deltas have to be handed to ``catch_up``, from the next epoch on.

    Raises:
        CheckpointError: a view cannot be filled; names it and what would fill it.
    """

    def __init__(
        self,
        plan: Plan,
        compiled: Compiled,
        match: PlanMatch,
        given_rows: Mapping[str, RowsReader],
        remedies: Remedies,
        retained: Mapping[str, RetainedRows] | None = None,
    ) -> None:
        retained = compiled.retained if retained is None else retained
        nodes = NodesToFill(plan, compiled, match, retained, given_rows, remedies)
        nodes.require_fillable()
        self._rows = dict(sorted(nodes.given.items()))
        self._stepped = nodes.stepped
        self._order = sorted(nodes.stepped | nodes.given.keys())
        # Of its own, as the plan changes while this goes on.
        self._plan, self._kept = plan.forked(), compiled
        self._fresh, self._epoch = self._compiled(), 0
        identities = {place: node.identity for place, node in enumerate(self._fresh.circuit.nodes)}
        self.inputs = {identities[place]: place for place in self._rows}
        self.labels = {identities[place]: self._fresh.circuit.nodes[place].name for place in self._rows}
        self.entries = sum(rows.entries for rows in self._rows.values())
        """How many entries are read, as far as that is known; rows that a user gives are counted when they are read."""
        self._held: dict[str, State] = {}
        """States of replaced views, as they were last: see ``hold``."""
        outputs = {name: compiled.outputs[place] for name, place in plan.views.items()}
        self._renamed = UNCHANGED
        self._compared: dict[str, list[Delta]] = {
            name: []
            for name in outputs
            if name not in match.to_fill
            and outputs[name] in nodes.stepped
            and nodes.is_kept(compiled.kept_at[name])
        }
        """Nodes of unchanged views that are computed again, as a state that these need is missing."""
        self._outputs = outputs

    def _compiled(self) -> Compiled:
        """Return an empty circuit of the plan."""
        was = self._kept
        fresh = compile_plan(self._plan, Ledger(was.ledger.limit), allow_pickle=was.allow_pickle)
        fresh.circuit.key_hash = was.circuit.key_hash
        return fresh

    def pieces(self, most: int) -> Iterator[int]:
        """Compute the states from the rows that are kept, and yield after each piece how many entries were read so far.

        Called again, it begins anew.

        Raises:
            InputError: a value cannot be computed.
        """
        if self._epoch:
            self._fresh, self._epoch = self._compiled(), 0
            self._compared = {name: [] for name in self._compared}
        with hashing_by(self._fresh.circuit.key_hash):
            self._step({})
        read_entries = 0
        for place, rows in self._rows.items():
            waiting = rows.pieces(most)
            while True:
                with hashing_by(self._fresh.circuit.key_hash):
                    entries, piece = next(waiting, (0, None))
                    if piece is None:
                        break
                    self._step({place: piece})
                read_entries += entries
                self.entries = max(self.entries, read_entries)
                yield read_entries
        yield read_entries

    def catch_up(self, changes: Mapping[str, Delta]) -> None:
        """Compute what follows from changes of the ``inputs``, by their identities, after all pieces.

        Raises:
            InputError: a value cannot be computed.
        """
        with hashing_by(self._fresh.circuit.key_hash):
            self._step({self.inputs[identity]: delta for identity, delta in changes.items()})

    def end(self) -> None:
        """Note that it is no longer needed: it holds nothing that has to be released."""

    def hold(self, running: Compiled) -> None:
        """Keep what it has not computed, as views have it that may be replaced before this one appears.

        The caller has the turn and calls it after the last ``catch_up``, so that these states are as of the same epoch.
        """
        needed = state_ids(self._kept).keys() - self._computed().keys()
        self._held = {name: state for name, state in state_ids(running).items() if name in needed}

    def adopt(
        self, compiled: Compiled, match: PlanMatch, record: Mapping[str, Any] | None = None
    ) -> dict[str, AllRows]:
        """Take the states into a circuit of the plan as it is by now, and return all rows of each new view.

        ``record`` is that of the plan, if it has changed meanwhile.

        Raises:
            PlanError: what was declared meanwhile needs states that this did not compute, or kept rows differ.
        """
        if record is not None:
            self._renamed = renaming(names_in(self._plan, self._fresh), record)
            if self._renamed.is_needed:
                self._held = {}  # Equal nodes have come or gone, and it is unknown by which names these states go.
        missing = sorted(match.new - self._computed().keys() - self._held.keys())
        if missing:
            what = match.lost.get(missing[0], "a state that was dropped")
            raise PlanError(
                f"view {', '.join(map(repr, match.to_fill))}: what was declared while it was being filled also needs "
                f"{what}; declare the view again"
            )
        if (name := self.differing(compiled)) is not None:
            raise PlanError(
                f"view {name!r}: its kept rows differ from those that were computed again; declare the view that needs them in "
                "a new engine, and push all rows into that"
            )
        return self.take(compiled, match)

    def take(self, compiled: Compiled, match: PlanMatch) -> dict[str, AllRows]:
        """Take the states into a circuit, and return all rows of each new view."""
        ours, theirs = state_ids(compiled), {**self._held, **self._computed()}
        for name in match.new & theirs.keys():
            state, other = ours[name], theirs[name]
            if isinstance(state, Spine) and isinstance(other, Spine):
                state.share(other.version)  # Unsorted, as others wait meanwhile.
            else:
                state.restore(other.saved())
        return {name: AllRows.of(compiled.contents[name]) for name in match.to_fill}

    def compute(self, views: Sequence[str] = (), on_read: OnRead | None = None) -> None:
        """Compute everything now. ``on_read`` is called after each piece, with the names of the views.

        Raises:
            InputError: a value cannot be computed.
        """
        try:
            self._compute(PIECE_ROWS, views, on_read)
        except ArithmeticRefusedError:
            # A sum that does not fit may fit with the rows of other pieces.
            self._compute(sys.maxsize, views, on_read)

    def _compute(self, most: int, views: Sequence[str], on_read: OnRead | None) -> None:
        report = on_read or (lambda *_: None)
        report(views, 0, self.entries)
        for read_entries in self.pieces(most):
            report(views, read_entries, self.entries)

    def at_once(self, compiled: Compiled, match: PlanMatch) -> dict[str, AllRows]:
        """Compute everything now, and ``adopt`` it.

        Raises:
            InputError, PlanError: see ``compute`` and ``adopt``.
        """
        self.compute()
        return self.adopt(compiled, match)

    def _computed(self) -> dict[str, State]:
        nodes = self._fresh.circuit.nodes
        ids = {id(state) for place in self._stepped for state in nodes[place].states}
        return {
            name: state
            for before, state in state_ids(self._fresh).items()
            if id(state) in ids
            for name in self._renamed.of_state(before)
        }

    def differing(self, compiled: Compiled) -> str | None:
        """Return a view of which other rows are kept than what was computed again; None if there is none."""
        for name, deltas in self._compared.items():
            if len(summed([*deltas, compiled.contents[name].emitted().negate()])):
                return name
        return None

    def _step(self, arrived: Mapping[int, Delta]) -> None:
        """Step the nodes as one epoch; the first one is the epoch before any input."""
        circuit, deltas = self._fresh.circuit, dict[int, Delta]()
        now = Now(Epoch(self._epoch), BEFORE_TIME)
        self._epoch += 1
        for place in self._order:
            operator = circuit.nodes[NodeId(place)].operator
            if place in self._stepped:
                inputs = circuit.nodes[NodeId(place)].inputs
                deltas[place] = operator.step(now, *(deltas[source] for source in inputs))
            else:
                deltas[place] = arrived[place] if place in arrived else Delta.empty(operator.schema)
        circuit.settle()
        for name, emitted in self._compared.items():
            emitted.append(deltas[self._outputs[name]])


def summed(deltas: list[Delta]) -> Delta:
    """Return the sum of some deltas of one node, each row once. Cost: all of them."""
    frames = [delta.frame for delta in deltas if len(delta)]
    return Delta(stack(frames)).consolidate() if frames else deltas[0]
