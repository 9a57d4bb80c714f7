"""evercurrent in Spark's micro-batches on sessions: hits in sessions by key, then the sessions by their pages.

Retracting: a hit that extends a session, or joins two, takes back what they were counted as. Nothing closes. Measured: what Spark
reports of each warm micro-batch, from planning to commit, with the files of state and deltas on disk. Not measured: start of
the session. Afterwards the view is read from the checkpoint, and so are its deltas, which have to add up to it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import polars as pl

import evercurrent as ec
from bench.changes import Changes
from bench.reply import send
from bench.spark_session import hits_of, session, timing
from evercurrent.spark_bridge import run


def main(folder: Path, warming: int, gap: int) -> None:
    spark = session()
    engine = ec.Engine()
    columns = {"key": pl.Int64, "at": pl.Datetime("us", "UTC")}
    hits = engine.source("hits", columns, event_time="at", watermark=ec.bounded_delay("1d"))
    windowed = hits.window(ec.sessions(timedelta(seconds=gap))).accumulate("retracting")
    visits = windowed.group_by("key").agg(n=pl.len())
    engine.view("histogram", visits.group_by("n").agg(sessions=pl.len()))
    stream = hits_of(spark, folder).selectExpr("key", "timestamp_seconds(at) AS at")
    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        query = run(
            engine, {"hits": stream}, checkpoint=checkpoint, buckets=4, trigger={"availableNow": True}
        )
        query.await_termination()
        seconds = time.perf_counter() - started
        view = query.view("histogram")
        histogram = [[n, s, n * s] for n, s in view.read().select("n", "sessions").sort("n").rows()]
        changes = Changes()
        for delta in view.deltas(since=0):
            for n, sessions, diff in delta.select("n", "sessions", "_diff").rows():
                changes.add(n, sessions, n * sessions, diff)
    if changes.histogram() != histogram:
        raise SystemExit("the deltas do not add up to the view")
    send(
        seconds=seconds,
        histogram=histogram,
        version=version("evercurrent"),
        **timing(query.streaming_query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
