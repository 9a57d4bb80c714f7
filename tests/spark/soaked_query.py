"""A program that runs for long: groupings and windows that close, over a folder into which files come, with a heartbeat.

    python -m spark.soaked_query FOLDER

Keeps views on ``FOLDER/checkpoint`` until ``FOLDER/ended`` is there and all files of ``FOLDER/input`` are read.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, spark_schema
from spark.doomed_query import started_session

BEGIN = datetime(2026, 1, 1)
HITS = {"user": pl.Int64(), "x": pl.Int64(), "at": pl.Datetime("us")}
USERS = 20_000
SECONDS_OF_A_FILE = 30
LATE = timedelta(minutes=10)
"""How much too late the late rows of a file are."""


def declare(engine: ec.Engine) -> None:
    """A grouping with one on it, windows that close, and sessions of few rows."""
    hits = engine.source("hits", HITS, event_time="at", watermark=ec.bounded_delay("30s"))
    users = engine.view("users", hits.group_by("user").agg(n=pl.len(), x=pl.col("x").sum()))
    engine.view("depth", users.group_by("n").agg(users=pl.len()))
    minutes = hits.window(ec.fixed("1m")).lateness("1m").group_by(pl.col("user") % 100)
    engine.view("minutes", minutes.agg(n=pl.len(), x=pl.col("x").sum()))
    few = hits.filter(pl.col("user") < 50).window(ec.sessions("10s")).lateness("1m")
    engine.view("visits", few.group_by("user").agg(n=pl.len()))


def rows_of(number: int, rows: int, late: int) -> pl.DataFrame:
    """The rows of a file, of which some are late."""
    draw = np.random.default_rng(number)
    seconds = draw.uniform(0, SECONDS_OF_A_FILE, rows)
    starts = np.full(rows, np.datetime64(BEGIN + timedelta(seconds=SECONDS_OF_A_FILE * number), "us"))
    if number > LATE.seconds // SECONDS_OF_A_FILE:
        starts[:late] -= np.timedelta64(LATE.seconds, "s")
    return pl.DataFrame(
        {
            "user": draw.integers(0, USERS, rows),
            "x": draw.integers(0, 9, rows),
            "at": starts + (seconds * 1e6).astype("timedelta64[us]"),
        },
        schema=HITS,
    )


def put(folder: Path, number: int, frame: pl.DataFrame) -> None:
    """Put a file into the folder, whole."""
    from pyarrow import parquet

    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number:06}.parquet"
    parquet.write_table(frame_to_spark_arrow(frame), hidden)
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / f"{number:06}.parquet")


def main(folder: Path) -> None:
    """Run until the end."""
    spark = started_session()
    engine = ec.Engine()
    declare(engine)
    stream = spark.readStream.schema(spark_schema("hits", pl.Schema(HITS)))
    query = run(
        engine,
        {"hits": stream.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))},
        checkpoint=ec.Checkpoint(folder / "checkpoint", keep=20, grace="10s"),
        buckets=2,
        heartbeat_seconds=5,
        driver_rows=20_000,
        trigger={"processingTime": "0 seconds"},
    )
    while not (folder / "ended").exists():
        if query.await_termination(1):
            raise SystemExit("the query has ended by itself")
    while query.view("users").read()["n"].sum() < int((folder / "ended").read_text()):
        time.sleep(0.5)
    query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
