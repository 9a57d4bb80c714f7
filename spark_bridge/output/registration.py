"""The format "evercurrent" becomes known to a session of Spark. pyspark is imported when that happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the format "evercurrent" with a session, so that it is known to ``spark.read``, streams and SQL.

    ``run`` does this too. It can be called again. In the session Spark passes conditions of queries to sources in Python from
    then on (``spark.sql.python.filterPushdown.enabled``).

    >>> from evercurrent import spark_bridge
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> spark_bridge.register(spark)  # doctest: +SKIP
    >>> spark.sql(
    ...     "create temporary view hits using evercurrent options (path 'hits.checkpoint', view 'hits', versionAsOf 'latest')"
    ... )  # doctest: +SKIP

    Raises:
        PlanError: it is not a session.
    """
    from pyspark.sql.datasource import DataSourceReader

    from .delta_source import ViewDeltas

    if not hasattr(spark, "dataSource"):
        raise PlanError(
            f"expected a Spark session, got {type(spark).__name__}; give that of spark_bridge.local_session()"
        )
    if hasattr(DataSourceReader, "pushFilters"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    with _active_in_java(spark):
        spark.dataSource.register(ViewDeltas)


@contextmanager
def _active_in_java(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread within the context.

    Spark refuses a format that the active session has, even if another session is to get it.
    """
    if not hasattr(spark, "_jsparkSession"):
        yield  # Under Spark Connect each session is alone.
        return
    untyped: Any = spark
    sessions = untyped._jvm.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(untyped._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
