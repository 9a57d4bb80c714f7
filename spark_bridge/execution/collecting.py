"""The rows of a small micro-batch in the driver process: a job without Python workers, which cost more than few rows do.

How many rows a micro-batch has, nobody says before it is read. So of each partition no more is asked for than its share
of what the driver process is to get; if that is not all, a job in Python workers reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from .jobs import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITION = f"(monotonically_increasing_id() & {(1 << 33) - 1})"
"""Where a row stands in its partition, from 0: of the number that Spark gives it, the upper bits are the partition."""


def share_of_partition(rows: DataFrame, driver_rows: int) -> int:
    """How many rows each partition of a micro-batch may bring, so that all bring no more than ``driver_rows``."""
    return driver_rows // max(1, _partitions(rows))


def collected(rows: DataFrame, share: int) -> pa.Table | None:
    """All rows, by (partition, position in it), if they are no more than the share of one partition; None if they are more.

    Cost: a scan of the rows; what comes over is at most one row more than its share of each partition.
    """
    found = rows.where(f"{POSITION} <= {share}").toArrow()
    return found if found.num_rows <= share else None


def _partitions(rows: DataFrame) -> int:
    if not hasattr(rows, "_jdf"):
        return parallelism(rows.sparkSession)
    # What foreachBatch is given is an RDD already; to ask the DataFrame would have it planned once more.
    return int(rows._jdf.queryExecution().logical().rdd().getNumPartitions())
