"""The first stage of a micro-batch: its rows are collected in the driver process where they are few, and stay in a job else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.partitioned.limits import DriverLimits
from evercurrent.views.partitioned.tasks import Instant, TaskResult

from ..input.origins import with_origins
from .collecting import Expected, collected, most_bytes, tasks_to_read
from .job_names import name_of, named_jobs
from .jobs import Setup, SparkJobs, arrived
from .parallelism import partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def first_stage(
    rows: DataFrame,
    epochs: Epochs,
    setup: Setup,
    jobs: SparkJobs,
    instant: Instant,
    limits: DriverLimits,
    collected_rows: list[pa.Table],
) -> list[TaskResult]:
    """Return the first stage over the rows of a micro-batch, in the driver process if they are few, else in a job.

    Rows that were collected are added to ``collected_rows``. The expected size is that of the last epoch in the checkpoint,
    and not in this process, so that a repeated batch is run in the same way.
    """
    expected = Expected(epochs.arrived, epochs.arrived_bytes)
    there = partitions(rows)
    own = with_origins(rows, setup.sources())
    if there is None:
        return jobs.arrive(own, instant)
    if most_rows := expected.most_rows(limits):
        is_known = expected.rows is not None
        tasks = min(there, jobs.cores) if is_known else tasks_to_read(there, expected, jobs.cores)
        most = most_bytes(rows, limits)
        with named_jobs(rows.sparkSession, name_of(instant.epoch, 0, ())):
            here = collected(own, most_rows, most, tasks, is_known=is_known, there=there)
        if here is not None:
            collected_rows.append(here)
            return [arrived(setup, epochs.runner, instant, 0, here)] if here.num_rows else []
        # It exceeds the limits by an unknown amount.
        expected = Expected(None, 0)
    return jobs.arrive(own, instant, tasks_to_read(there, expected, jobs.cores))
