"""The number of tasks of a job: by its rows and bytes, and by the available cores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evercurrent.views.partitioned.limits import MEBIBYTE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_ROWS, TASK_BYTES = 50_000, 16 * MEBIBYTE
"""A task with this many rows or bytes runs longer than it takes to start."""

UNKNOWN_TASKS = 4
"""The number of tasks for each core if the number of rows is not known."""


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at the same time; under Spark Connect, the session's number of shuffle partitions."""
    if hasattr(spark, "_jsc"):
        return max(1, int(spark.sparkContext.defaultParallelism))
    return max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def partitions(rows: DataFrame) -> int | None:
    """Return the number of partitions of a micro-batch, and None of a bounded DataFrame, whose plan may be a costly one.

    Under Spark Connect it is not known, and that of the cores is returned.
    """
    if not hasattr(rows, "_jdf"):
        return cores(rows.sparkSession)
    # The DataFrame of foreachBatch is an RDD already; counting partitions by the DataFrame would plan it again.
    plan: Any = rows._jdf.queryExecution().logical()
    return int(plan.rdd().getNumPartitions()) if plan.getClass().getSimpleName() == "LogicalRDD" else None


def attempts(spark: SparkSession) -> int:
    """Return how many times Spark runs a task that fails before it gives up."""
    if not hasattr(spark, "_jsc"):
        return int(spark.conf.get("spark.task.maxFailures", "4") or 4)
    context = spark.sparkContext
    master = str(context.master)
    if local := re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", master):
        return int(local[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def heap(spark: SparkSession) -> int | None:
    """Return the maximum heap of the driver's Java, limited by the size that the results of a job may have; None if it is
    elsewhere."""
    return _heap(spark.sparkContext) if hasattr(spark, "_jsc") else None


@lru_cache(maxsize=1)
def _heap(context: Any) -> int:
    """Return it for a context, once: a look at a class of Java is several calls."""
    memory = int(context._jvm.java.lang.Runtime.getRuntime().maxMemory())
    most = int(context._jsc.sc().conf().getSizeAsBytes("spark.driver.maxResultSize", "1g"))
    return min(memory, most) if most else memory


SLICES = "spark.sql.leafNodeDefaultParallelism"
"""The setting of how many partitions Spark makes of rows that a program gives it, at most one for each row."""


@contextmanager
def rows_in_slices(spark: SparkSession, count: int) -> Iterator[None]:
    """Let jobs within the context have the rows that this program gives to Spark in so many partitions."""
    before = spark.conf.get(SLICES, None)
    spark.conf.set(SLICES, str(count))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(SLICES)
        else:
            spark.conf.set(SLICES, before)


def tasks_for(rows: int, size: int, most: int) -> int:
    """Return the number of tasks for this many rows and bytes, up to a maximum.

    Their number does not depend on the cores that there are now: more tasks than cores are what makes a cluster with dynamic
    allocation start more executors.

    >>> tasks_for(5_000, 1 << 20, most=64), tasks_for(1_000_000, 1 << 24, most=16), tasks_for(1_000, 1 << 30, most=64)
    (1, 16, 64)
    """
    return max(1, min(most, max(-(-rows // TASK_ROWS), -(-size // TASK_BYTES))))


def tasks_for_unknown(most: int, cores: int) -> int:
    """Return the number of tasks that read an unknown number of rows in this many partitions.

    A task costs some 40 ms, also one that finds a few rows: 200 partitions are not 200 tasks. The tasks are more than the
    cores, as the rows may be many.
    """
    return max(1, min(most, max(UNKNOWN_TASKS * cores, 8)))
