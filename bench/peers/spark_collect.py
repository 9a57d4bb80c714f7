"""The least that a micro-batch can cost: a `foreachBatch` that only collects its rows.

Measured: what Spark reports of each warm micro-batch, from planning to commit. Not measured: start of the session.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import DataFrame

from bench.reply import send
from bench.spark_session import rows_of, session, timing


def main(folder: Path, warming: int) -> None:
    spark = session()
    collected: list[int] = []

    def collect(batch: DataFrame, _: int) -> None:
        collected.append(batch.toArrow().num_rows)

    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        writer = rows_of(spark, folder).writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
    send(seconds=seconds, rows=sum(collected), version=version("pyspark"), **timing(query, warming))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
