"""Runs tasks in threads of this process; each bucket has a runner and a circuit of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Cut, Stage
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.columns.key_hash import KeyHash
from evercurrent.core.state.protocol import State

from ..checkpoint import StateRecord
from ..concurrency.teams import Team
from ..plan.plan import Plan
from .held_states import HeldStates
from .stage_runner import ChangedStates, StageRunner
from .tasks import FireRequest, Instant, Task, TaskResult

FEW_ROWS = 8192
"""Tasks with at most this many rows in total run one after the other, since handing them to threads costs as much."""


class Workers:
    """Runs the tasks of a stage in parallel, one thread for each bucket, as far as numpy and polars allow it.

    The result of a task does not depend on when or where it runs, so it does not matter which thread ends first.
    """

    def __init__(
        self, plan: Plan, team: Team, key_hash: KeyHash, buckets: int, *, allow_pickle: bool
    ) -> None:
        held = HeldStates(key_hash)
        self._team = team
        self._runners = [
            StageRunner(plan, held, buckets, inline_rows=None, allow_pickle=allow_pickle)
            for _ in range(buckets)
        ]

    @property
    def cut(self) -> Cut:
        """Return the cut of the circuit into stages."""
        return self._runners[0].cut

    def watch(self, places: frozenset[NodeId]) -> None:
        """Have the results of tasks contain the rows of these nodes."""
        for runner in self._runners:
            runner.watched = places

    def arrive(self, instant: Instant, arrived: Mapping[str, pl.DataFrame]) -> list[TaskResult]:
        """Run the first stage over the rows of an epoch; if there are many, each worker takes a contiguous part of them."""
        if sum(frame.height for frame in arrived.values()) <= FEW_ROWS:
            return [self._runners[0].arrive(instant, 0, arrived)]
        parts = len(self._runners)
        return self._team.run(
            [
                partial(runner.arrive, instant, part, _part(arrived, part, parts))
                for part, runner in enumerate(self._runners)
            ]
        )

    def run(self, tasks: Sequence[Task], changed: ChangedStates) -> list[TaskResult]:
        """Run tasks of a stage. The states that they change are put into ``changed``."""
        if len(tasks) < 2 or sum(task.size for task in tasks) <= FEW_ROWS:
            return [self._runners[task.bucket].run([task], changed)[0] for task in tasks]
        changed_by_task: list[ChangedStates] = [{} for _ in tasks]
        results = self._team.run(
            [
                partial(self._runners[task.bucket].run, [task], own)
                for task, own in zip(tasks, changed_by_task, strict=True)
            ]
        )
        for own in changed_by_task:
            changed.update(own)
        return [one for several in results for one in several]

    def states_of(self, stage: Stage, bucket: int) -> dict[str, State]:
        """Return the states of a stage that this bucket has a part of, by id."""
        return self._runners[bucket].states_of(stage, bucket)

    def is_due(self, stage: Stage, bucket: int, instant: Instant, states: Mapping[str, StateRecord]) -> bool:
        """Return whether an operator has work to do in this bucket because of time alone."""
        return self._runners[bucket].is_due(stage, bucket, instant, states)

    def windows(
        self,
        fire: FireRequest,
        bucket: int,
        clocks: Mapping[str, tuple[int, int]],
        states: Mapping[str, StateRecord],
    ) -> tuple[NodeId, Keys]:
        """Return the open windows of a bucket that are to be fired, and the node that tracks them."""
        return self._runners[bucket].windows(fire, bucket, clocks, states)


def _part(arrived: Mapping[str, pl.DataFrame], part: int, parts: int) -> dict[str, pl.DataFrame]:
    spans = {
        name: (frame.height * part // parts, frame.height * (part + 1) // parts)
        for name, frame in arrived.items()
    }
    return {
        name: arrived[name].slice(start, end - start) for name, (start, end) in spans.items() if end > start
    }
