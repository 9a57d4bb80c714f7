"""The Spark session that all contenders share, their input stream, and the times that Spark itself reports."""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from bench.reply import Fields
from evercurrent.spark_bridge.runtime.session import local_session
from evercurrent.spark_bridge.runtime.session import session as cluster_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
SETTINGS = {
    # The JVM as Spark starts it: with both its compilers, which native operators live from.
    "spark.driver.extraJavaOptions": "",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
"""Over those of ``local_session``: ``local[2]``, two shuffle partitions, no user interface, no adaptive planning."""


def session(**settings: str) -> SparkSession:
    """The session of a contender."""
    return local_session("bench", cores=CORES, settings={**SETTINGS, **settings})


SMALL_DRIVER = {"spark.driver.memory": "1g"}
A_PARTITION_EACH = {"spark.sql.files.openCostInBytes": str(128 << 20)}
"""Every file is a partition of its own, however small it is, as the partitions of Kafka are."""


def rows_of(spark: SparkSession, folder: Path, files: int = 1, *, is_wide: bool = False) -> DataFrame:
    """The files of a folder as a stream, so many to a micro-batch; ``is_wide``: with a text beside key and value."""
    schema = "key long, value long, pad string" if is_wide else "key long, value long"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def hits_of(spark: SparkSession, folder: Path) -> DataFrame:
    """The files of a folder as a stream of hits with their seconds, one to a micro-batch."""
    return spark.readStream.schema("key long, at long").option("maxFilesPerTrigger", 1).parquet(str(folder))


def on_executors(count: int) -> SparkSession:
    """A session whose tasks run in so many executors of one core, each a process of this machine."""
    # Spark starts executors in its home, which PySpark names only to its own launcher.
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    settings = {
        **SETTINGS,
        **A_PARTITION_EACH,
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
    }
    return cluster_session("bench", master=f"local-cluster[{count},1,1024]", settings=settings)


def timing(streaming_query: Any, warming: int) -> Fields:
    """What micro-batches took, from planning to commit, as the query reports it; the first ones are not counted."""
    batches = [
        progress for progress in streaming_query.recentProgress if "addBatch" in progress["durationMs"]
    ]
    durations = [float(progress["durationMs"]["triggerExecution"]) for progress in batches]
    warm = durations[warming:]
    return {
        "median_ms": statistics.median(warm),
        "mean_ms": statistics.fmean(warm),
        "greatest_ms": max(warm),
        "batches": len(durations),
        "batch_ms": durations,
    }
