"""Spark's own join of two streams by key, inner and without a watermark, so that it keeps all rows as ours does.

It takes nothing back. Measured: what Spark reports of each warm micro-batch, from planning to commit. The sink counts the rows and
adds up their values, as a join leaves nothing behind from which that could be read.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bench.reply import send
from bench.spark_session import rows_of, session, timing

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def main(folder: Path, warming: int) -> None:
    spark = session(**{"spark.sql.streaming.stateStore.providerClass": ROCKSDB, CHANGELOG: "true"})
    left, right = (rows_of(spark, folder / name) for name in ("left", "right"))
    both = left.join(right.withColumnRenamed("value", "other"), "key")
    counts: list[tuple[int, int]] = []

    def count(batch: DataFrame, _: int) -> None:
        row = batch.agg(F.count("*"), F.sum(F.col("value") * F.col("other"))).collect()[0]
        counts.append((row[0], row[1] or 0))

    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        writer = both.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
    send(
        seconds=seconds,
        histogram=[[sum(rows for rows, _ in counts), sum(total for _, total in counts), 0]],
        version=version("pyspark"),
        **timing(query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
