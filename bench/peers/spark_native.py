"""Spark's own `groupBy().agg()` on the stream: count and sum by key, in update mode, with no second stage.

It does one of the two groupings and retracts nothing. The sink takes rows and drops them, which is the least that a
sink can cost. Measured: what Spark reports of each warm micro-batch, from planning to commit. Not measured: start of the
session. Afterwards the state is read from the checkpoint and its histogram compared with the truth.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from bench.reply import Histogram, send
from bench.spark_session import A_PARTITION_EACH, SMALL_DRIVER, rows_of, session, timing

PROVIDERS = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def histogram_of_state(spark: SparkSession, checkpoint: str) -> Histogram:
    """The second stage, from the state that the first has left behind."""
    state = spark.read.format("statestore").load(checkpoint)
    # Its fields have the names of the buffers of aggregates, of which several are "sum": "value.*" would take one of them for all.
    value = state.schema["value"].dataType
    assert isinstance(value, StructType), "a state's value is a row"
    types = [field.dataType.simpleString() for field in value.fields]
    names = ["n", "total", *(f"more_{place}" for place in range(2, len(types)))]
    fields = ", ".join(f"{name}: {dtype}" for name, dtype in zip(names, types, strict=True))
    state = state.select(F.col("value").cast(f"struct<{fields}>")).select("value.*")
    rows = state.groupBy("n").agg(F.count("*").alias("keys"), F.sum("total").alias("total")).collect()
    return sorted([row["n"], row["keys"], row["total"]] for row in rows)


def main(provider: str, folder: Path, warming: int, files: int, is_wide: bool, has_more: bool) -> None:
    shape = {**SMALL_DRIVER, **(A_PARTITION_EACH if files > 1 else {})} if files > 1 or is_wide else {}
    spark = session(
        **{"spark.sql.streaming.stateStore.providerClass": PROVIDERS[provider], CHANGELOG: "true", **shape}
    )
    more = [F.max("pad").alias("pad")] if is_wide else []
    if has_more:
        half = F.col("value") / 2
        more += [F.sum(half).alias("halves"), F.mean("value").alias("mean"), F.max(half).alias("greatest")]
    counted = (
        rows_of(spark, folder, files, is_wide=is_wide)
        .groupBy("key")
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"), *more)
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        writer = counted.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
        histogram = histogram_of_state(spark, checkpoint)
    send(
        seconds=seconds,
        histogram=histogram,
        version=version("pyspark"),
        **timing(query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    files = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    main(
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]),
        files,
        "wide" in sys.argv[5:],
        "more" in sys.argv[5:],
    )
