"""Names of the jobs of a query in Spark's user interface: the epoch, the stage, and the views that it computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = "spark.job.description"
"""The thread property that Spark shows for jobs and their stages, which are otherwise named after a Java method."""


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Give jobs that are started within the context a name; under Spark Connect, which has no such properties, do nothing."""
    if not hasattr(spark, "_jsc"):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, name)
    try:
        yield
    finally:
        # None removes a property.
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]


def name_of(epoch: int, stage: int, views: tuple[str, ...]) -> str:
    """Return the name of a stage in an epoch.

    >>> name_of(12, 0, ()), name_of(12, 1, ("visitors", "depth"))
    ('evercurrent: epoch 12, rows arrive', 'evercurrent: epoch 12, stage 1: visitors, depth')
    """
    if stage == 0:
        return f"evercurrent: epoch {epoch}, rows arrive"
    of_views = f": {', '.join(views)}" if views else ""
    return f"evercurrent: epoch {epoch}, stage {stage}{of_views}"
