"""An engine that has every epoch evaluated by workers too, and compares what both emit."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import pytest

import evercurrent as ec
from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import EvercurrentError
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.compiler.builder import Compiled
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.concurrency.teams import Team
from evercurrent.views.engine.epoch_runner import Running
from evercurrent.views.engine.roles import EpochResult, TakenInput
from evercurrent.views.engine.worker_evaluator import WorkerEvaluator
from evercurrent.views.epochs.choreography import Choreography
from evercurrent.views.epochs.records import EpochInput
from evercurrent.views.epochs.refused_rows import LEDGER_ROWS
from spark.twins import counted, entered


@dataclass(frozen=True)
class Shift:
    """How many workers there are, epoch by epoch in turn: where the number changes, states are cut anew."""

    workers: tuple[int, ...] = (2,)


SHIFTS = (Shift(), Shift((3,)), Shift((2, 3, 2, 5)))


class Nobody:
    """An audience of none."""

    def publish(self, now: Now, evaluated: EpochResult, commit: Callable[[EpochResult], None]) -> None:
        commit(evaluated)


class WorkerTwin(ec.Engine):
    """After every epoch deltas and contents of all views, the ledger and the watermarks are those of workers."""

    shift = Shift()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._running = WorkerTwinRunning(self, self._running)
        self.compared = 0


class WorkerTwinRunning(Running):
    """Steps as the engine does, and then by workers; what the engine refuses, they refuse."""

    def __init__(self, engine: WorkerTwin, own: Running) -> None:
        super().__init__(own._plan, own._sources, own._views, own.log, own.turn)
        self._engine = engine
        self._follows = Choreography[TakenInput, EpochResult](None, Nobody())

    def _step(
        self, compiled: Compiled, now: Now, epoch_input: EpochInput, silent: Container[str] | None = None
    ) -> EpochResult:
        if now.epoch == 0:
            # Views that are declared later have it begin anew.
            self._other = compile_plan(self._plan, Ledger(LEDGER_ROWS), allow_pickle=True)
            self._workers_now, self._engine.compared = 0, 0
        try:
            evaluated = super()._step(compiled, now, epoch_input, silent)
        except EvercurrentError as error:
            with pytest.raises(type(error)):
                self._follow(now, epoch_input)
            raise
        self._compare(compiled, now, evaluated, self._follow(now, epoch_input))
        return evaluated

    def _follow(self, now: Now, epoch_input: EpochInput) -> EpochResult:
        workers = self._engine.shift.workers[now.epoch % len(self._engine.shift.workers)]
        if workers != self._workers_now:
            team = Team(workers, self.turn)
            self._by_workers = WorkerEvaluator(self._plan, self._other, team, workers)
            self._workers_now = workers
        return self._follows.make_real(self._by_workers, now, TakenInput(epoch_input, epoch_input.arrived()))

    def _compare(self, compiled: Compiled, now: Now, own: EpochResult, other: EpochResult) -> None:
        for name in self._views:
            emitted, own_delta = (
                counted([result.epoch.deltas[name].drop("_epoch")] if name in result.epoch.deltas else [])
                for result in (other, own)
            )
            assert emitted == own_delta, (
                f"epoch {now.epoch}, view {name}: workers emit {emitted}, the engine {own_delta}"
            )
            held, own_contents = (counted([one.contents[name].contents()]) for one in (self._other, compiled))
            assert held == own_contents, (
                f"epoch {now.epoch}, view {name}: workers hold {held}, the engine {own_contents}"
            )
        assert entered(self._other.ledger.refused) == entered(compiled.ledger.refused)
        assert other.epoch.watermarks == own.epoch.watermarks
        assert {name: frame.height for name, frame in other.rows.items() if frame.height} == {
            name: frame.height for name, frame in own.rows.items() if frame.height
        }
        self._engine.compared += 1
