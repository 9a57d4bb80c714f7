"""The least that a micro-batch can cost whose rows come to Python: a `foreachBatch` that only collects its rows.

With a text in each row, of which there are more than a driver can collect, they are only counted, in Python's workers. Measured: what
Spark reports of each warm micro-batch, from planning to commit. Not measured: start of the session.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from bench.reply import send
from bench.spark_session import A_PARTITION_EACH, SMALL_DRIVER, rows_of, session, timing


def row_counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows of each batch."""
    for batch in batches:
        yield pa.record_batch({"n": pa.array([batch.num_rows], pa.int64())})


def main(folder: Path, warming: int, files: int, is_wide: bool) -> None:
    shape = {**SMALL_DRIVER, **(A_PARTITION_EACH if files > 1 else {})} if files > 1 or is_wide else {}
    spark = session(**shape)
    collected: list[int] = []

    def collect(batch: DataFrame, _: int) -> None:
        if is_wide:
            rows = batch.mapInArrow(row_counts, "n long").toArrow().column("n").to_pylist()
            collected.append(sum(rows))
        else:
            collected.append(batch.toArrow().num_rows)

    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        writer = rows_of(spark, folder, files, is_wide=is_wide).writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
    send(seconds=seconds, rows=sum(collected), version=version("pyspark"), **timing(query, warming))
    spark.stop()


if __name__ == "__main__":
    number_of_files = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    main(Path(sys.argv[1]), int(sys.argv[2]), number_of_files, "wide" in sys.argv[4:])
