"""The rows of a small micro-batch are collected in the driver process, as Python workers cost more than a few rows do.

The number of rows of a micro-batch is unknown before it is read. So each partition returns at most its share of the rows
that the driver process accepts; if there are more, a job in Python workers reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from .jobs import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITION = f"(monotonically_increasing_id() & {(1 << 33) - 1})"
"""The position of a row in its partition, from 0; the upper bits of Spark's number of the row are the partition."""


def share_of_partition(rows: DataFrame, driver_rows: int) -> int:
    """Return how many rows each partition of a micro-batch may return, so that all return at most ``driver_rows``."""
    return driver_rows // max(1, _partitions(rows))


def collected(rows: DataFrame, share: int) -> pa.Table | None:
    """Return all rows, by (partition, position in it), if no partition exceeds its share; None if one does.

    Cost: a scan of the rows; each partition sends at most one row more than its share.
    """
    rows_found = rows.where(f"{POSITION} <= {share}").toArrow()
    return rows_found if rows_found.num_rows <= share else None


def _partitions(rows: DataFrame) -> int:
    if not hasattr(rows, "_jdf"):
        return parallelism(rows.sparkSession)
    # The DataFrame of foreachBatch is an RDD already; counting partitions by the DataFrame would plan it again.
    return int(rows._jdf.queryExecution().logical().rdd().getNumPartitions())
