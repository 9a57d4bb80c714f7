"""The measures of a stage in an epoch: where it ran, how long it took, and its slowest bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .tasks import Task, TaskResult

Place = Literal["driver", "executors"]
"""Where a stage runs: in the process that drives the query, or in tasks of others."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """The measures of a stage in an epoch.

    ``views`` are those whose deltas it makes, ``ran_in`` is where it ran, in so many ``tasks`` over so many ``rows`` and
    ``bytes``; ``seconds`` are from its start to its end. ``slowest_bucket`` took ``slowest_seconds`` of them in its task; of
    stage 0, over rows as they arrive, it is a partition and not a bucket. ``slowest_rows`` are the rows that it was given.
    """

    stage: int
    views: tuple[str, ...]
    ran_in: Place
    tasks: int
    rows: int
    bytes: int
    seconds: float
    slowest_bucket: int | None
    slowest_seconds: float
    slowest_rows: int

    @staticmethod
    def of(
        stage: int,
        views: Sequence[str],
        seconds: float,
        tasks: Sequence[Task],
        results: Sequence[TaskResult],
    ) -> StageProgress:
        """Return the measures of a stage by its tasks, of which stage 0 has none, and their results."""
        rows_by_bucket = {task.bucket: task.size for task in tasks}
        ran_in: Place = "executors" if any(one.ran_elsewhere for one in results) else "driver"
        slowest = max(results, key=lambda one: one.seconds, default=None)
        rows = sum(rows_by_bucket.values()) if tasks else sum(one.arrived for one in results)
        size = sum(task.bytes for task in tasks) if tasks else sum(one.arrived_bytes for one in results)
        if slowest is None:
            return StageProgress(stage, tuple(views), ran_in, 0, rows, size, seconds, None, 0.0, 0)
        own = rows_by_bucket.get(slowest.place, slowest.arrived)
        return StageProgress(
            stage,
            tuple(views),
            ran_in,
            len(results),
            rows,
            size,
            seconds,
            slowest.place,
            slowest.seconds,
            own,
        )
