"""A query under Spark Connect: it reads what is in ``FOLDER/input``; its sink writes to ``FOLDER/delivered``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pyspark import cloudpickle

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.runtime.java import ensure_java
from evercurrent.spark_bridge.runtime.session import local_settings, patient_workers
from evercurrent.spark_bridge.runtime.spark_types import spark_schema
from spark.doomed_query import HITS, VIEWS, declare


@dataclass
class Sink:
    """A sink that writes each delta to a file, as it is called in a process of the server and shares no memory with the test."""

    folder: Path

    def __call__(self, view: str, delta: Any, epoch: int) -> None:
        pl.DataFrame(delta.toArrow()).write_parquet(self.folder / f"{view}-{epoch}.parquet")


def connected(server: str | None = None) -> Any:
    """A session with the server at this address, or with one of its own on this machine."""
    from pyspark.sql import SparkSession

    if server is not None:
        # Its workers have no path to the tests.
        cloudpickle.register_pickle_by_value(sys.modules[Sink.__module__])
        return SparkSession.builder.remote(server).getOrCreate()
    ensure_java()
    builder = SparkSession.builder.remote("local[2]")
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    with patient_workers():
        return builder.getOrCreate()


def seen_of_it(spark: Any, folder: Path) -> dict[str, Any]:
    """Run what is there, finish, and return what can be seen of the views."""
    engine = ec.Engine()
    declare(engine)
    stream = spark.readStream.schema(spark_schema("hits", pl.Schema(HITS)))
    query = run(
        engine,
        {"hits": stream.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))},
        checkpoint=folder / "checkpoint",
        buckets=3,
        trigger={"availableNow": True},
        driver_rows=30,
        on_epoch=Sink(folder / "delivered"),
    )
    query.await_termination()
    seen: dict[str, Any] = {"epoch": query.epoch_number, "session": type(spark).__module__}
    seen["read"] = {name: rows_of(query.view(name).read()) for name in VIEWS}
    seen["to_spark"] = {name: rows_of(pl.DataFrame(query.view(name).to_spark().toArrow())) for name in VIEWS}
    deltas = query.view("by_user").deltas_to_spark()
    seen["deltas"] = rows_of(pl.DataFrame(deltas.toArrow()))
    progress = query.progress()
    seen["progress"] = (
        None if progress is None else [progress.epoch, progress.batch, progress.rows, progress.refused]
    )
    seen["finished"] = query.finish()
    seen["watermarks"] = str(query.watermarks)
    return seen


def rows_of(frame: pl.DataFrame) -> list[str]:
    """Rows as text, sorted."""
    return sorted(map(str, frame.rows()))
