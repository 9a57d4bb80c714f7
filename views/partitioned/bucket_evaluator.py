"""The evaluator of epochs over states cut into buckets: it runs stage after stage, in tasks of this or of other processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange, Stage
from evercurrent.core.data.clock import Now
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.halving import Span
from evercurrent.core.state.ledger import Refused

from ..checkpoint import PieceRef, Pieces, StateRecord
from .clocks import Clocks
from .held_states import HeldStates
from .limits import DriverLimits
from .stage_progress import StageProgress
from .stage_runner import ChangedStates, StageRunner
from .tasks import FireRequest, Instant, Measures, RowBatch, Task, TaskResult
from .workers import Workers

NOTHING_HERE = DriverLimits(0, 0)

Arrival = Callable[[Instant], list[TaskResult]]
"""A function that runs the first stage over the rows of an epoch, given the time of the epoch."""


class SomeRows(Protocol):
    """The rows of an epoch, in order, of which a part can be run through the first stage."""

    @property
    def height(self) -> int:
        """Return the number of rows."""
        ...

    def arrive(self, instant: Instant, spans: Sequence[Span]) -> list[TaskResult]:
        """Run the first stage over these rows."""
        ...

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """Return these rows as they are refused."""
        ...


class Executors(Protocol):
    """Runs the tasks of a stage in other processes."""

    @property
    def cores(self) -> int:
        """Return how many tasks run at the same time."""
        ...

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Run the tasks, of one stage and one epoch."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BucketInput:
    """The input of an epoch over buckets.

    ``arrive`` runs the first stage over its rows, ``promised`` are the watermarks that are set by hand, ``fires`` the windows
    that are fired by hand. ``positions`` and ``facts`` are recorded with the commit. ``rows`` returns the rows of a failed
    epoch, if those with which it fails are to be refused.
    """

    arrive: Arrival
    promised: Mapping[str, int] = field(default_factory=dict)
    fires: Sequence[FireRequest] = ()
    positions: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: Callable[[], SomeRows] | None = None


@dataclass(slots=True, eq=False)
class BucketResult:
    """The result of an epoch, which each stage adds to.

    ``states`` are the records of all states, ``changed`` the states that are still to be written, ``deltas`` the parts
    of the deltas of views, ``arrived`` the number of rows that the epoch brought, ``arrived_bytes`` their size. ``emitted`` has
    the rows of watched nodes, in parts.
    """

    taken: BucketInput
    states: dict[str, StateRecord]
    arrived: int = 0
    arrived_bytes: int = 0
    changed: ChangedStates = field(default_factory=dict)
    rows: dict[Exchange, dict[int, list[RowBatch]]] = field(default_factory=dict)
    deltas: dict[str, list[RowBatch]] = field(default_factory=dict)
    signals: dict[int, dict[NodeId, Keys]] = field(default_factory=dict)
    measured: list[tuple[NodeId, Measures]] = field(default_factory=list)
    stages: list[StageProgress] = field(default_factory=list)
    emitted: dict[NodeId, list[Delta]] = field(default_factory=dict)


class BucketEvaluator:
    """Evaluates epochs by tasks, each for one bucket of one stage. The clocks are moved in this process, between stages.

    ``states`` are the records of the last commit. A task gets those of its bucket; the states that it returns are staged,
    since no record names them before the commit. A task may run in another process, and more than once; its result is
    collected once. Stages within the ``limits`` run in this process, without a job.
    """

    def __init__(
        self,
        runner: StageRunner | Workers,
        clocks: Clocks,
        pieces: Pieces | HeldStates,
        *,
        buckets: int,
        limits: DriverLimits = NOTHING_HERE,
    ) -> None:
        self.states: Mapping[str, StateRecord] = {}
        self.executors: Executors | None = None
        self.ran_elsewhere = 0
        self.looks_at_all = True
        """Whether all buckets of stages with timers are run, since it is unknown in which of them timers are due."""
        self._runner = runner
        self._clocks = clocks
        self._pieces = pieces
        self._buckets = buckets
        self._limits = limits

    def promise(self, taken_input: BucketInput) -> None:
        """See ``Evaluator``."""
        for source, watermark in taken_input.promised.items():
            self._clocks.compiled.clocks[source].promise(watermark)

    def evaluate(self, now: Now, taken_input: BucketInput) -> BucketResult:
        """See ``Evaluator``."""
        work = BucketResult(taken_input, dict(self.states))
        work.signals = self._signals(taken_input.fires)
        for stage in self._runner.cut.stages:
            instant = Instant(now.epoch, now.instant, self._clocks.readings())
            begun = time.perf_counter()
            tasks = self._tasks(stage, instant, work) if stage.number else []
            results = taken_input.arrive(instant) if stage.number == 0 else self._run(tasks, work)
            results.sort(key=lambda one: one.place)
            seconds = time.perf_counter() - begun
            work.stages.append(StageProgress.of(stage.number, tuple(stage.views), seconds, tasks, results))
            self._collect(results, work)
            self._clocks.advance(stage.number, now, results)
        return work

    def commit(self, evaluated: BucketResult) -> None:
        """See ``Evaluator``."""
        self._clocks.commit()
        self.states, self.looks_at_all = evaluated.states, False

    def discard(self) -> None:
        """See ``Evaluator``."""
        self._clocks.discard()

    # Stages

    def _tasks(self, stage: Stage, instant: Instant, work: BucketResult) -> list[Task]:
        """Return a task for each bucket in which a stage has work to do."""
        tasks = []
        entering = {
            exchange: parts for exchange, parts in work.rows.items() if exchange.stage == stage.number
        }
        for bucket in range(self._buckets):
            entering_rows = {
                exchange: tuple(parts[bucket]) for exchange, parts in entering.items() if bucket in parts
            }
            signalled = {
                node: keys for node, keys in work.signals.get(bucket, {}).items() if node in stage.owned
            }
            if entering_rows or signalled or self._is_due(stage, bucket, instant):
                tasks.append(
                    Task(
                        stage.number, bucket, instant, self.states, entering_rows, signalled,
                        visits_all=self.looks_at_all or instant.epoch == 0,
                    )
                )  # fmt: skip
        return tasks

    def _run(self, tasks: Sequence[Task], work: BucketResult) -> list[TaskResult]:
        if not tasks:
            return []
        if self.executors is None or self._is_run_here(tasks, self.executors):
            return self._runner.run(tasks, work.changed)
        self.ran_elsewhere += 1
        return self.executors.run(self._on_files(tasks))

    def _is_run_here(self, tasks: Sequence[Task], executors: Executors) -> bool:
        together = min(executors.cores, self._buckets)
        return self._limits.allow(
            sum(task.size for task in tasks), sum(task.bytes for task in tasks), together
        )

    def _signals(self, fires: Sequence[FireRequest]) -> dict[int, dict[NodeId, Keys]]:
        """Return the windows that are fired, by bucket and by the node that tracks them."""
        signals: dict[int, dict[NodeId, Keys]] = {}
        for fire in fires:
            for bucket in range(self._buckets):
                node, keys = self._runner.windows(fire, bucket, self._clocks.readings(), self.states)
                if len(keys):
                    signalled = signals.setdefault(bucket, {})
                    signalled[node] = Keys.concat([signalled[node], keys]) if node in signalled else keys
        return signals

    def _is_due(self, stage: Stage, bucket: int, instant: Instant) -> bool:
        """Return whether a bucket has work to do although it has no rows."""
        if instant.epoch == 0:
            return bucket == 0
        if not stage.has_timers:
            return False
        return self.looks_at_all or self._runner.is_due(stage, bucket, instant, self.states)

    def _states_of(self, stage: Stage, bucket: int) -> dict[str, StateRecord]:
        names = [f"{name}/{bucket}" for name in self._runner.states_of(stage, bucket)]
        return {name: self.states[name] for name in names if name in self.states}

    def _on_files(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the same tasks with all their rows in files, and only their own states, for other processes."""
        held = [part for task in tasks for parts in task.rows.values() for part in parts]
        frames = [part.held for part in held if isinstance(part.held, pl.DataFrame)]
        refs = iter(self._pieces.write(frames, folder="exchange"))
        return [
            replace(
                task,
                states=self._states_of(self._runner.cut.stages[task.stage], task.bucket),
                rows={
                    exchange: tuple(
                        part if isinstance(part.held, PieceRef) else RowBatch(part.rows, next(refs))
                        for part in parts
                    )
                    for exchange, parts in task.rows.items()
                },
            )
            for task in tasks
        ]

    def _collect(self, results: Iterable[TaskResult], work: BucketResult) -> None:
        for one in results:
            work.arrived += one.arrived
            work.arrived_bytes += one.arrived_bytes
            work.states.update(one.states)
            work.measured += one.measured.items()
            for place, delta in one.emitted.items():
                work.emitted.setdefault(place, []).append(delta)
            for exchange, parts in one.rows.items():
                for bucket, part in parts.items():
                    work.rows.setdefault(exchange, {}).setdefault(bucket, []).append(part)
            for view, part in one.deltas.items():
                work.deltas.setdefault(view, []).append(part)
            for refused in self._with_rows(one):
                self._clocks.ledger.stage(refused)
            for name, at in one.held_at.items():
                self._clocks.held_at[name, one.place] = at

    def _with_rows(self, one: TaskResult) -> Iterable[Refused]:
        """Return the refused rows of a task, read from files where it has written them."""
        if not one.refused_files:
            return one.refused
        frames = map(self._pieces.read, one.refused_files)
        return [replace(refused, frame=frame) for refused, frame in zip(one.refused, frames, strict=True)]
