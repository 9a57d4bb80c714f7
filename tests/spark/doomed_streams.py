"""A query in Spark that is killed while it is given the stream of one more source.

    python -m spark.doomed_streams FOLDER WHEN

Reads what is in ``FOLDER/hits``, declares a source and a view of it while the query runs, and gives the source the stream of
``FOLDER/names``. It kills itself in the middle of the files of Spark's own checkpoint that are written for both streams ("copying"),
with half of the record that names them written ("torn"), when that is whole ("after"), or in the record of the first micro-batch of both
streams ("first"). With "drop " before one of the first three it drops the view and the source again, and is killed in that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution import micro_batches
from evercurrent.spark_bridge.runtime.spark_types import spark_schema
from evercurrent.views.store import LocalStore
from failing_store import Killed
from spark.doomed_declaration import DoomedAfter
from spark.doomed_query import Doomed, Sudden, started_session

HITS = pl.Schema({"ip": pl.Int64, "bytes": pl.Int64})
NAMES = pl.Schema({"ip": pl.Int64, "name": pl.String})
SCHEMAS = {"hits": HITS, "names": NAMES}
PLACES = {"copying": "spark-2/offsets/", "torn": "commits/", "after": "commits/", "first": "commits/"}
DROP = "drop "


def declared(*, names: bool = False, engine: ec.Engine | None = None) -> ec.Engine:
    """An engine with a grouping of hits and, if names are given, its join with them."""
    engine = ec.Engine() if engine is None else engine
    hits = engine.source("hits", HITS, retained=True)
    totals = engine.view("totals", hits.group_by("ip").agg(total=pl.col("bytes").sum(), n=pl.len()))
    if names:
        named = engine.source("names", NAMES)
        engine.view("named", totals.join(named, on="ip"))
    return engine


def stream(spark: Any, folder: Path, name: str) -> Any:
    """The stream of a folder, a file to a micro-batch."""
    reader = spark.readStream.schema(spark_schema(name, SCHEMAS[name])).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / name))


def started(spark: Any, engine: ec.Engine, folder: Path, **options: Any) -> Any:
    """The query over what is in the folder."""
    streams = {name: stream(spark, folder, name) for name in engine.sources}
    kept = ec.Checkpoint(folder / "checkpoint", **options)
    return run(engine, streams, checkpoint=kept, buckets=3, driver_rows=20)


def until_it_is_killed(spark: Any, folder: Path, when: str, error: type[Killed] = Sudden) -> None:
    """Run the query, give it a stream more, and be killed."""
    is_after, is_drop = when.endswith("after"), when.startswith(DROP)
    store = (DoomedAfter if is_after else Doomed)(LocalStore(folder / "checkpoint"), "never/", error)
    micro_batches.store_at = lambda where: store  # type: ignore[attr-defined]
    engine = declared()
    query = started(spark, engine, folder)
    try:
        query.process_all_available()
        declared(names=True, engine=engine)
        names = stream(spark, folder, "names")
        if is_drop:
            query.add_streams({"names": names})
            query.process_all_available()
            engine.drop_view("named")
            store._name = PLACES[when.removeprefix(DROP)].replace("spark-2", "spark-3")
            engine.drop_source("names")
        if when != "first":
            store._name = PLACES[when]
        query.add_streams({"names": names})
        store._name = PLACES[when]
        query.process_all_available()
    finally:
        query.stop()
    raise AssertionError("it was not killed")


if __name__ == "__main__":
    until_it_is_killed(started_session(), Path(sys.argv[1]), sys.argv[2])
