"""DataFrames of rows that this process has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .spark_versions import version_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def spark_frame(spark: SparkSession, rows: pa.Table, schema: Any = None) -> DataFrame:
    """Return a DataFrame of rows, and leave the active session of this process as it is.

    PySpark makes the session active in which a DataFrame is created. That of a micro-batch is a copy of its query's session, without
    the temporary views that are created later: a user's ``getOrCreate`` must not return it.
    """
    if not hasattr(spark, "_jsc"):
        # Spark Connect has no such session. Version 4.0 loses all batches of rows but the first.
        return spark.createDataFrame(rows.combine_chunks() if version_numbers() == (4, 0) else rows, schema)
    sessions = type(spark)
    before = sessions._activeSession
    try:
        return spark.createDataFrame(rows, schema)
    finally:
        sessions._activeSession = before
