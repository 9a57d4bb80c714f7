"""Tasks in threads of this process: each bucket has a runner of its own, and its circuit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Cut, Stage
from evercurrent.core.columns.kernels import Keys
from evercurrent.core.columns.key_hash import KeyHash
from evercurrent.core.state.protocol import State

from ..checkpoint import StateRecord
from ..concurrency.teams import Team
from ..plan.plan import Plan
from .held_states import HeldStates
from .stage_runner import ChangedStates, StageRunner
from .tasks import FireRequest, Instant, Task, TaskResult

FEW_ROWS = 8192
"""Tasks with so many rows together run one after the other: to hand them to threads costs as much."""


class Workers:
    """Runs the tasks of a stage at the same time, that of each bucket in a thread, as far as numpy and polars allow it.

    A task gives the same wherever it runs, so it does not matter which thread is faster.
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
        """The stages."""
        return self._runners[0].cut

    def arrive(self, instant: Instant, arrived: Mapping[str, pl.DataFrame]) -> list[TaskResult]:
        """Run the first stage over the rows of an epoch: of many, each worker takes a part that came together."""
        if sum(frame.height for frame in arrived.values()) <= FEW_ROWS:
            return [self._runners[0].arrive(instant, 0, arrived)]
        parts = len(self._runners)
        return self._team.run(
            [
                partial(runner.arrive, instant, part, _part(arrived, part, parts))
                for part, runner in enumerate(self._runners)
            ]
        )

    def run(self, tasks: Sequence[Task], kept: ChangedStates) -> list[TaskResult]:
        """Run tasks of a stage. Their states are put into ``kept``."""
        if len(tasks) < 2 or sum(task.size for task in tasks) <= FEW_ROWS:
            return [self._runners[task.bucket].run([task], kept)[0] for task in tasks]
        changed: list[ChangedStates] = [{} for _ in tasks]
        done = self._team.run(
            [
                partial(self._runners[task.bucket].run, [task], own)
                for task, own in zip(tasks, changed, strict=True)
            ]
        )
        for own in changed:
            kept.update(own)
        return [one for several in done for one in several]

    def states_of(self, stage: Stage, bucket: int) -> dict[str, State]:
        """The states of a stage that are cut into buckets, as far as they are in this one, by id."""
        return self._runners[bucket].states_of(stage, bucket)

    def is_due(self, stage: Stage, bucket: int, instant: Instant, states: Mapping[str, StateRecord]) -> bool:
        """Return whether time alone makes operators work in this bucket."""
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
