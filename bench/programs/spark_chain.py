"""evercurrent in Spark's micro-batches on the chain: count and sum by key, then the histogram of the counts.

Measured: what Spark reports of each warm micro-batch, from planning to commit: both groupings, their retractions, the files
of state and deltas on disk, and our commit are in it. Not measured: start of the session. Afterwards the view is read
from the checkpoint, and so are its deltas, which have to add up to it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import evercurrent as ec
from bench.changes import Changes
from bench.data import SCHEMA
from bench.reply import send
from bench.spark_session import A_PARTITION_EACH, SMALL_DRIVER, on_executors, rows_of, session, timing
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.query import DRIVER_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_for(files: int, is_wide: bool, executors: int) -> SparkSession:
    """The session: with a small driver for some shapes, or with executors."""
    if executors:
        return on_executors(executors)
    if files > 1 or is_wide:
        return session(**SMALL_DRIVER, **(A_PARTITION_EACH if files > 1 else {}))
    return session()


def main(
    folder: Path, warming: int, buckets: int, files: int, is_wide: bool, has_more: bool, executors: int
) -> None:
    spark = spark_for(files, is_wide, executors)
    engine = ec.Engine()
    rows = engine.source("rows", {**SCHEMA, "pad": pl.String} if is_wide else SCHEMA)
    more = {"pad": pl.col("pad").max()} if is_wide else {}
    if has_more:
        half = pl.col("value") / 2
        more |= {"halves": half.sum(), "mean": pl.col("value").mean(), "greatest": half.max()}
    by_key = rows.group_by("key").agg(n=pl.len(), total=pl.col("value").sum(), **more)
    engine.view("histogram", by_key.group_by("n").agg(keys=pl.len(), total=pl.col("total").sum()))
    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        query = run(
            engine,
            {"rows": rows_of(spark, folder, files, is_wide=is_wide)},
            checkpoint=checkpoint,
            buckets=buckets,
            trigger={"availableNow": True},
            driver_rows=0 if executors else DRIVER_ROWS,
        )
        query.await_termination()
        seconds = time.perf_counter() - started
        view = query.view("histogram")
        contents = view.read()
        changes = Changes()
        for delta in view.deltas(since=0):
            for row in delta.select("n", "keys", "total", "_diff").rows():
                changes.add(*row)
    histogram = [list(row) for row in contents.select("n", "keys", "total").sort("n").rows()]
    if changes.histogram() != histogram:
        raise SystemExit("the deltas do not add up to the view")
    send(
        seconds=seconds,
        histogram=histogram,
        changes=changes.count,
        version=version("evercurrent"),
        **timing(query.streaming_query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("warming", type=int)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--files", type=int, default=1, help="of a micro-batch, each a partition")
    parser.add_argument("--wide", action="store_true", help="rows have a text, which is in the state")
    parser.add_argument("--more", action="store_true", help="a sum and a maximum of floats, and a mean, too")
    parser.add_argument(
        "--executors", type=int, default=0, help="in which all stages run; 0: in this process"
    )
    options = parser.parse_args()
    main(
        options.folder, options.warming, options.buckets, options.files, options.wide, options.more,
        options.executors,
    )  # fmt: skip
