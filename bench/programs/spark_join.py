"""evercurrent in Spark's micro-batches on a join of two streams by key, of which a row may be taken back at any time.

Measured: what Spark reports of each warm micro-batch, from planning to commit, with the files of state and deltas on disk. Not
measured: start of the session. Afterwards the rows of the view are counted and their values added up.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import polars as pl

import evercurrent as ec
from bench.data import SCHEMA
from bench.reply import send
from bench.spark_session import rows_of, session, timing
from evercurrent.spark_bridge import run


def main(folder: Path, warming: int) -> None:
    spark = session()
    engine = ec.Engine()
    left, right = engine.source("left", SCHEMA), engine.source("right", SCHEMA)
    engine.view("both", left.join(right.select("key", other="value"), on="key"))
    streams = {name: rows_of(spark, folder / name) for name in ("left", "right")}
    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        query = run(engine, streams, checkpoint=checkpoint, buckets=4, trigger={"availableNow": True})
        query.await_termination()
        seconds = time.perf_counter() - started
        rows = query.view("both").read()
    product = (pl.col("value") * pl.col("other")).sum()
    send(
        seconds=seconds,
        histogram=[[rows.height, int(rows.select(product).item() or 0), 0]],
        version=version("evercurrent"),
        **timing(query.streaming_query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
