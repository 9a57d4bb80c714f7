"""The runner of stages of a plan, bucket by bucket, in any process: the same operators on the same states."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from evercurrent.core.circuit.circuit import Circuit, NodeId
from evercurrent.core.circuit.stages import Cut, Exchange, Stage
from evercurrent.core.data.allocation import give_back
from evercurrent.core.data.clock import Epoch, MovedClock, Now
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.triggers.firing import NO_KEYS
from evercurrent.core.state.ledger import Ledger, Refused
from evercurrent.core.state.partitioning import Route
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import Saved

from ..checkpoint import DeltaRef, Pieces, Saver, StateRecord
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..durability.plan_match import state_ids
from ..inspection.questions import WindowQueries
from ..plan.plan import Plan
from .clock_evidence import EvidenceCollector
from .held_states import HeldStates
from .leaving_rows import LeavingRows
from .limits import InlineLimits
from .stage_nodes import StageNodes
from .task_parts import TaskParts
from .tasks import FireRequest, Instant, RowBatch, Task, TaskResult

LEDGER_ROWS = 1 << 62
"""Tasks do not limit refused rows: all go to the ledger, which has a limit of its own."""


ChangedStates = dict[str, tuple[State, Saved]]
"""States to be written, by ``"<state id>/<bucket>"``."""

Written = tuple[dict[str, StateRecord], list[DeltaRef]]
"""The records of what was written."""


class StageRunner:
    """The circuit of a plan, into which the states of one bucket after the other are put.

    Nothing is kept between tasks but mapped files, which never change: so it does not matter in which process a task runs,
    whether it runs twice, or whether the one before failed. Up to ``inline_rows`` rows (see ``InlineLimits``) are passed on
    in memory; more are written to a file, with one record batch per bucket for each later stage. None: all rows are passed on in
    memory, and combined only where that makes them far fewer. With ``HeldStates`` no file is mapped either.
    """

    def __init__(
        self,
        plan: Plan,
        pieces: Pieces | HeldStates,
        buckets: int,
        *,
        inline_rows: int | None,
        allow_pickle: bool = False,
    ) -> None:
        self._plan = plan
        self.compiled: Compiled = compile_plan(plan, Ledger(LEDGER_ROWS), allow_pickle=allow_pickle)
        self.cut: Cut = self.compiled.cut
        self.circuit: Circuit = self.compiled.circuit
        self._pieces = pieces
        self._saver = pieces if isinstance(pieces, HeldStates) else Saver(pieces)
        self._buckets = buckets
        inline = None if inline_rows is None else InlineLimits(inline_rows)
        self.leaving: LeavingRows = LeavingRows(self.circuit, pieces, buckets, inline)
        """Passes on the rows that leave a task."""
        self.parts: TaskParts = TaskParts(self.circuit, self.cut, pieces, self.leaving)
        """Cuts the rows of tasks that have too many of them."""
        self._inline_rows = inline_rows
        self._states = state_ids(self.compiled)
        self._trackers = {
            NodeId(place): tracker
            for place, node in enumerate(self.circuit.nodes)
            for tracker in self.compiled.trackers.values()
            if tracker is node.operator
        }
        self._ids = {id(state): name for name, state in self._states.items()}
        self.clocks: dict[str, MovedClock] = {
            self._ids[id(clock)]: clock
            for node in self.circuit.nodes
            if (clock := node.operator.moved_clock) is not None
        }
        self._witnesses = self._evidence_collectors()
        self._entries = {self.circuit.nodes[each.producer].name: each for each in self._arriving()}
        """The exchanges by which the rows of sources enter, by the names of these."""
        self._stages: dict[tuple[int, int], StageNodes] = {}
        self._restored: dict[str, Saved] = {}
        """What was restored for the present task, by the id of the state: all others may be of another epoch or bucket."""
        self._visited = self._nothing = self.circuit.empty_deltas()
        self.watched: frozenset[NodeId] = frozenset()
        """The nodes whose rows are in the results of tasks."""
        self._begun: list[NodeId] = []
        """The nodes that the present task has stepped, one that failed too."""

    def states_of(self, stage: Stage, bucket: int) -> dict[str, State]:
        """Return the states of a stage that this bucket has a part of, by id."""
        return {name: self._states[name] for name in self._names(stage.in_bucket(bucket))}

    def _names(self, nodes: Iterable[NodeId]) -> dict[str, None]:
        """Return the ids of the states of these nodes that are cut into buckets, in order."""
        states = (state for node in nodes for state in self.circuit.nodes[node].states)
        return {self._ids[id(state)]: None for state in states if state.kept_in != "driver"}

    @property
    def routes(self) -> dict[str, Route]:
        """The rule by which each state is cut into buckets, by its id."""
        return {name: state.route for name, state in self._states.items() if state.route is not None}

    def schema_of(self, view: str) -> pl.Schema:
        """Return the columns of a view."""
        return self._plan[self._plan.views[view]].schema

    # Tasks

    def arrive(
        self,
        instant: Instant,
        place: int,
        arrived: Mapping[str, pl.DataFrame],
        refused: Sequence[Refused] = (),
    ) -> TaskResult:
        """Run the first stage over rows as they arrive, which may be a part of those of the epoch.

        ``refused`` are others that do not fit their source.
        """
        begun = time.perf_counter()
        result = TaskResult(0, place)
        passing = self.try_first_stage(instant, arrived, result)
        for each in refused:
            self.compiled.ledger.stage(replace(each, epoch=Epoch(instant.epoch)))
        stage = self.cut.stages[0]
        self._finish(result, instant.epoch, stage, self._stage_nodes(stage, 0), passing)
        result.seconds = time.perf_counter() - begun
        return result

    def try_first_stage(
        self, instant: Instant, arrived: Mapping[str, pl.DataFrame], result: TaskResult | None = None
    ) -> dict[Exchange, Delta]:
        """Evaluate the first stage over rows, and return those that go to later ones as they are.

        Raises:
            InputError: it fails with these rows.
        """
        stage, now = self.cut.stages[0], self._begin(instant)
        by_exchange = {self._entries[name]: Delta(frame) for name, frame in arrived.items()}
        local = {exchange: delta for exchange, delta in by_exchange.items() if exchange.stage == 0}
        nodes = self._stage_nodes(stage, 0)
        due = nodes.places if now.epoch == 0 else ()
        self._evaluate(stage, nodes, TaskResult(0, 0) if result is None else result, now, local, due)
        return {exchange: delta for exchange, delta in by_exchange.items() if exchange.stage > 0}

    def run(self, tasks: Sequence[Task], changed: ChangedStates) -> list[TaskResult]:
        """Run tasks of a stage, one after the other. Their states are put into ``changed``, and not yet written."""
        return [self._run(task, changed) for task in tasks]

    def run_in_parts(self, task: Task) -> Iterator[TaskResult]:
        """Run a task, in parts if its rows do not fit memory, and yield the result of each, with its states written."""
        parts = self.parts.of(task)
        if len(parts) == 1:
            yield self._run_and_write(replace(task, rows=parts[0]))
            return
        states = dict(task.states)
        with self.parts.small_merges(self.states_of(self.cut.stages[task.stage], task.bucket).values()):
            for rows in parts:
                result = self._run_and_write(replace(task, rows=rows, states=states))
                states |= result.states
                self._map(result.states)
                yield result

    def _run_and_write(self, task: Task) -> TaskResult:
        changed: ChangedStates = {}
        result = self._run(task, changed)
        result.states = self.write(changed)[0]
        return result

    def _map(self, records: Mapping[str, StateRecord]) -> None:
        """Let go of the memory of states that were just written, in favour of the pages of their files."""
        if isinstance(self._saver, Saver):
            for name, record in records.items():
                state = self._states[name.rpartition("/")[0]]
                state.restore(self._saver.mapped(state, record))
        give_back()

    def write(self, changed: ChangedStates, deltas: Sequence[tuple[str, int, pl.DataFrame]] = ()) -> Written:
        """Write the states in ``changed``, and deltas of views, together."""
        return self._saver.write_all(changed, deltas)

    def is_due(self, stage: Stage, bucket: int, instant: Instant, states: Mapping[str, StateRecord]) -> bool:
        """Return whether an operator has work to do in this bucket because of time alone."""
        now = self._begin(instant)
        nodes = self._stage_nodes(stage, bucket)
        return any(True for _ in self._due(nodes, now, partial(self._restore, nodes, bucket, states)))

    def contents(self, view: str, bucket: int, states: Mapping[str, StateRecord]) -> pl.DataFrame | None:
        """Return the rows of a view that are in this bucket; None if the bucket certainly has none."""
        node = self.compiled.kept_at[view]
        stage = self.cut.stages[self.cut.stage_of[node]]
        if node not in stage.in_bucket(bucket):
            return None
        self._put(stage, bucket, states)
        return self.compiled.contents[view].contents()

    def id_of(self, state: State) -> str:
        """Return the id of a state."""
        return self._ids[id(state)]

    def put_for(self, node: NodeId, bucket: int, states: Mapping[str, StateRecord]) -> bool:
        """Restore the states of the stage of a node in a bucket; return whether the bucket has a part of that node."""
        stage = self.cut.stages[self.cut.stage_of[node]]
        if node not in stage.in_bucket(bucket):
            return False
        self._put(stage, bucket, states)
        return True

    def another(self, plan: Plan, pieces: Pieces) -> StageRunner:
        """Return a runner of the same plan with states of its own."""
        pickles = self.compiled.allow_pickle
        return StageRunner(plan, pieces, self._buckets, inline_rows=self._inline_rows, allow_pickle=pickles)

    def fill(
        self,
        task: Task,
        emitted: Mapping[NodeId, Delta],
        stepped: Sequence[NodeId],
        changed: ChangedStates,
    ) -> TaskResult:
        """Run these nodes of a task alone; of others, what they have ``emitted`` is known, or is not needed."""
        self.circuit.discard()
        stage, now = self.cut.stages[task.stage], self._begin(task.instant)
        states = self._put(stage, task.bucket, task.states)
        before = {name: state.saved() for name, state in states.items()}
        by_exchange = {exchange: self._delta_of(exchange, parts) for exchange, parts in task.rows.items()}
        result, deltas = TaskResult(task.stage, task.bucket), dict(emitted)
        with hashing_by(self._pieces.key_hash):
            for place in stepped:
                node = self.circuit.nodes[place]
                inputs = [
                    (deltas.get(source) if exchange is None else by_exchange.get(exchange))
                    or self._nothing[source]
                    for source, exchange in zip(node.inputs or (place,), stage.inputs[place], strict=True)
                ]
                deltas[place] = node.operator.step(now, *inputs)
        leaving = {
            exchange: self.leaving.combined(exchange, delta)
            for exchange in stage.gives
            if not exchange.arrives and (delta := deltas.get(exchange.producer)) is not None and len(delta)
        }
        self.leaving.cut_rows(result, leaving)
        for place in stepped:
            clock = self.circuit.nodes[place].operator.moved_clock
            if place in stage.owned and clock is not None and clock.is_held:
                result.held_at[self._ids[id(clock)]] = clock.held_at
        owned = {self._ids[id(state)] for place in stage.owned for state in self.circuit.nodes[place].states}
        for name in states.keys() & owned:
            after = states[name].saved()
            if not _same(before[name], after):
                changed[f"{name}/{task.bucket}"] = states[name], after
        return result

    def windows(
        self,
        fire: FireRequest,
        bucket: int,
        clocks: Mapping[str, tuple[int, int]],
        states: Mapping[str, StateRecord],
    ) -> tuple[NodeId, Keys]:
        """Return the open windows of a bucket that are to be fired, and the node that tracks them.

        Raises:
            InputError: the view has no windows that wait for a trigger, or no such key.
        """
        self._begin(Instant(0, 0, clocks))
        queries = WindowQueries(self._plan, self.compiled, fire.view)
        tracker = queries.tracker()
        node = next(node for node, each in self._trackers.items() if each is tracker)
        stage = self.cut.stages[self.cut.stage_of[node]]
        if node not in stage.in_bucket(bucket):
            return node, NO_KEYS
        self._put(stage, bucket, states)
        return node, queries.windows(fire.key, fire.window)[1].keys

    def _run(self, task: Task, changed: ChangedStates) -> TaskResult:
        begun = time.perf_counter()
        stage, now = self.cut.stages[task.stage], self._begin(task.instant)
        for node, keys in task.signals.items():
            self._trackers[NodeId(node)].signal(keys)
        try:
            by_exchange = {exchange: self._delta_of(exchange, parts) for exchange, parts in task.rows.items()}
            result = TaskResult(task.stage, task.bucket)
            nodes = self._stage_nodes(stage, task.bucket)
            restore = partial(self._restore, nodes, task.bucket, task.states)
            due = nodes.places if task.visits_all else self._due(nodes, now, restore)
            self._evaluate(stage, nodes, result, now, by_exchange, due, restore)
            self._finish(result, task.instant.epoch, stage, nodes, {})
            for name in nodes.owned_among(self._restored):
                state = self._states[name]
                after = state.saved()
                if not _same(self._restored[name], after):
                    changed[f"{name}/{task.bucket}"] = state, after
            result.seconds = time.perf_counter() - begun
            return result
        finally:
            for node in task.signals:
                self._trackers[NodeId(node)].forget_signals()

    def _begin(self, instant: Instant) -> Now:
        """Set all clocks to the watermarks of the epoch, and discard what an earlier task has staged."""
        for name in self._restored:
            self._states[name].discard()
        for place in self._begun:
            for finding in self.circuit.nodes[place].findings:
                finding.clear()
        self.compiled.ledger.discard()
        self._restored, self._visited, self._begun = {}, self._nothing, []
        for name, (before, now) in instant.clocks.items():
            self.clocks[name].pin(before, now)
        for witness in self._witnesses.values():
            witness.evidence = None
        return Now.at(Epoch(instant.epoch), instant.processing_time)

    def _put(self, stage: Stage, bucket: int, records: Mapping[str, StateRecord]) -> dict[str, State]:
        states = self.states_of(stage, bucket)
        self._saver.restore({f"{name}/{bucket}": state for name, state in states.items()}, records)
        return states

    def _stage_nodes(self, stage: Stage, bucket: int) -> StageNodes:
        key = stage.number, min(bucket, 1)
        if key not in self._stages:
            self._stages[key] = StageNodes(self.circuit, stage, bucket, self._ids)
        return self._stages[key]

    def _restore(
        self, nodes: StageNodes, bucket: int, records: Mapping[str, StateRecord], place: NodeId
    ) -> None:
        """Restore the states that a visit of a node needs, unless the task has done so."""
        states = {name: each for name, each in nodes.states_for(place).items() if name not in self._restored}
        if states:
            self._saver.restore({f"{name}/{bucket}": state for name, state in states.items()}, records)
            self._restored |= {name: state.saved() for name, state in states.items()}

    def _due(self, nodes: StageNodes, now: Now, restore: Callable[[NodeId], None]) -> Iterator[NodeId]:
        """Yield the nodes that have something to do because of time, or of a signal."""
        for place in nodes.timed:
            restore(place)
            if self.circuit.nodes[place].operator.is_due(now):
                yield place

    def _evaluate(
        self,
        stage: Stage,
        nodes: StageNodes,
        result: TaskResult,
        now: Now,
        by_exchange: Mapping[Exchange, Delta],
        due: Iterable[NodeId],
        restore: Callable[[NodeId], None] | None = None,
    ) -> None:
        """Step the nodes that have rows or are ``due``, and those that this reaches."""
        deltas = self._visited = self.circuit.empty_deltas()
        entered = [exchange for exchange, delta in by_exchange.items() if len(delta)]
        with hashing_by(self._pieces.key_hash):
            for place in nodes.visits(entered, due, deltas):
                if restore is not None:
                    restore(place)
                self._begun.append(place)
                node, begun = self.circuit.nodes[place], time.perf_counter()
                sources = zip(node.inputs or (place,), stage.inputs[place], strict=True)
                inputs = [
                    deltas[source] if exchange is None else by_exchange.get(exchange) or self._nothing[source]
                    for source, exchange in sources
                ]
                deltas[place] = node.operator.step(now, *inputs)
                if place in stage.owned:
                    rows = sum(map(len, inputs)) if node.inputs else 0
                    result.measured[place] = time.perf_counter() - begun, rows, len(deltas[place])

    # What goes out

    def _finish(
        self,
        result: TaskResult,
        epoch: int,
        stage: Stage,
        nodes: StageNodes,
        arrived: Mapping[Exchange, Delta],
    ) -> None:
        """Cut the rows for later stages into their buckets, and gather the result of the task."""
        deltas = self._visited
        leaving = {exchange: delta for exchange, delta in arrived.items() if len(delta)}
        for exchange in nodes.given_by(deltas):
            delta = deltas[exchange.producer]
            if len(delta):
                leaving[exchange] = self.leaving.combined(exchange, delta)
        self.leaving.cut_rows(result, leaving)
        for view in nodes.views_of(deltas):
            delta = deltas[stage.views[view]].consolidate()
            if len(delta):
                result.deltas[view] = self.leaving.row_batch(view, epoch, delta.frame)
        for place in self.watched & stage.owned & deltas.keys():
            if len(deltas[place]):
                result.emitted[place] = deltas[place]
        self.leaving.refuse(result, self.compiled.ledger)
        for node in sorted(self._witnesses.keys() & deltas.keys()):
            witness = self._witnesses[node]
            if witness.evidence is not None:
                result.witnessed[self._ids[id(witness.clock)]] = witness.evidence
        for node in sorted(stage.owned & deltas.keys()):
            clock = self.circuit.nodes[node].operator.moved_clock
            if clock is not None and clock.is_held:
                result.held_at[self._ids[id(clock)]] = clock.held_at

    def _delta_of(self, exchange: Exchange, parts: Sequence[RowBatch]) -> Delta:
        return self.leaving.together(exchange, [self.parts.frame_of(part) for part in parts])

    def _arriving(self) -> list[Exchange]:
        """Return the exchanges by which rows of sources enter."""
        return [exchange for stage in self.cut.stages for exchange in stage.takes if exchange.arrives]

    def _evidence_collectors(self) -> dict[NodeId, EvidenceCollector]:
        """Return collectors of what the rows mean for the clocks of sources; the clocks themselves are moved in the driver."""
        moved = ((NodeId(place), node.operator.moved_clock) for place, node in enumerate(self.circuit.nodes))
        return {place: EvidenceCollector(clock) for place, clock in moved if clock is not None}


def _same(before: Saved, after: Saved) -> bool:
    """Return whether nothing has to be written, as pieces and facts are the same."""
    return (
        len(before.pieces) == len(after.pieces)
        and all(one is other for one, other in zip(before.pieces, after.pieces, strict=True))
        and before.facts == after.facts
    )
