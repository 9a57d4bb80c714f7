"""A program that is killed: a chain with retractions and sessions of the same rows, in Spark, over a folder of files.

    python -m spark.doomed_query FOLDER OPERATION

Reads what is in ``FOLDER/input``, a file to a micro-batch, keeps views on ``FOLDER/checkpoint``, and ends when it has
read everything. Kills itself in the middle of operation number OPERATION that the driver makes in the store (-1:
never), or of the first one of a file whose name begins so. Nothing in the views depends on the time of day.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import Query, run
from evercurrent.spark_bridge.execution import micro_batches
from evercurrent.spark_bridge.runtime import java
from evercurrent.spark_bridge.runtime.session import local_session, session
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, spark_schema
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore, Killed
from run_folder import java_options
from spark.standalone import LIGHT

BEGIN = datetime(2026, 1, 1)
HITS = {"user": pl.Int64(), "x": pl.Int64(), "at": pl.Datetime("us"), "_diff": pl.Int64()}
VIEWS = ("by_user", "histogram", "visits", "depth", "minutes")
BUCKETS = 3
ON_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": LIGHT,
    "spark.executor.extraJavaOptions": f"{LIGHT} {java_options(tempfile.gettempdir())}",
    "spark.executor.memory": "512m",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.log.level": "ERROR",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.ui.enabled": "false",
}
"""Settings on a cluster of this machine: slow tasks are run twice."""

FOR_EXECUTORS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""Variables of the environment of the driver that executors get, too."""


def declare(engine: ec.Engine) -> None:
    """Two stages of groupings with retractions; sessions with a trigger, with a grouping and windows behind them."""
    columns = {name: dtype for name, dtype in HITS.items() if name != "_diff"}
    hits = engine.source("hits", columns, kind="diffs", event_time="at", watermark=ec.bounded_delay("30s"))
    by_user = engine.view("by_user", hits.group_by("user").agg(n=pl.len(), x=pl.col("x").sum()))
    engine.view("histogram", by_user.group_by("n").agg(users=pl.len(), most=pl.col("x").max()))
    visits = (
        hits.window(ec.sessions("20s"))
        .trigger(ec.after_watermark(early=ec.after_count(3), late=ec.each_row()))
        .accumulate("retracting")
        .lateness("60s")
        .group_by("user")
        .agg(n=pl.len(), x=pl.col("x").sum())
    )
    engine.view("visits", visits)
    engine.view("depth", visits.group_by("n").agg(visits=pl.len(), x=pl.col("x").sum()))
    minutes = visits.window(ec.fixed("1m")).lateness("60s").group_by("n")
    engine.view("minutes", minutes.agg(visits=pl.len()))


def batches(count: int, rows: int, users: int = 7, lull: int = 1) -> list[pl.DataFrame]:
    """Hits, some of them late, and a quarter of the batch before taken back; of ``lull`` batches one has so many rows.

    The others have a sixth. They are taken in the driver process, as that is expected after such a one; the next is not.
    """
    draw, found, before = random.Random(11), [], list[Any]()
    for number in range(count):
        new = [
            (draw.randrange(users), draw.randrange(9), BEGIN + timedelta(seconds=25 * number + draw.randrange(-150, 25)), 1)
            for _ in range(rows // 6 if number % lull else rows)
        ]  # fmt: skip
        found.append(
            pl.DataFrame([*new, *((*row[:3], -1) for row in before[::4])], schema=HITS, orient="row")
        )
        before = new
    return found


def feed(folder: Path, frames: list[pl.DataFrame]) -> None:
    """The batches as files, in the order of their dates."""
    from pyarrow import parquet

    folder.mkdir(parents=True)
    for number, frame in enumerate(frames):
        path = folder / f"{number:06}.parquet"
        parquet.write_table(frame_to_spark_arrow(frame), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class Sudden(Killed):
    """No error but the end of the process, in the middle of an operation."""

    def __init__(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Doomed(FailingStore):
    """Ends the process in the middle of an operation, named by its number or by how the name of its file begins."""

    def __init__(self, store: Store, operation: str, error: type[Killed] = Sudden) -> None:
        is_name = not operation.isdecimal()
        super().__init__(store, None if is_name else int(operation), "torn", error=error)
        self._name = operation if is_name else None

    def _do(self, operation: str, name: str, *given: Any) -> Any:
        if self._name is not None and operation == "put" and name.startswith(self._name):
            self.fail_at = len(self.done)
        return super()._do(operation, name, *given)


def main(folder: Path, operation: str) -> None:
    """Run the query until the input ends, or until it is killed."""
    if operation != "-1":
        doomed = Doomed(LocalStore(folder / "checkpoint"), operation)
        # In this process only: tasks are in others, and have the store as it is.
        micro_batches.store_at = lambda where: doomed  # type: ignore[attr-defined]
    run_to_the_end(started_session(), folder)


def started_session() -> Any:
    """A session on this machine, or on the cluster and with the archive that the environment names."""
    master = os.environ.get("DOOMED_MASTER")
    if master is None:
        if os.environ.get("DOOMED_JAVA") == "packaged":
            java.USUAL_FOLDERS = ()
        spark = local_session("doomed", settings={"spark.master": "local[2,4]"})
        print(
            "Java:", os.environ["JAVA_HOME"], spark._jvm.java.lang.System.getProperty("java.home"), flush=True
        )
        return spark
    given = {
        f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name in FOR_EXECUTORS
    }
    if "DOOMED_PATH" in os.environ:
        given["spark.executorEnv.PYTHONPATH"] = os.environ["DOOMED_PATH"]
    given |= json.loads(os.environ.get("DOOMED_SETTINGS", "{}"))
    archive = os.environ.get("DOOMED_ARCHIVE")
    return session("doomed", master=master, archive=archive, settings={**ON_LOOPBACK, **given})


def run_to_the_end(spark: Any, folder: Path) -> None:
    """Run the query in this session until the input ends."""
    engine = ec.Engine()
    declare(engine)
    begun(spark, folder, engine, "hits", HITS).await_termination()


def begun(
    spark: Any, folder: Path, engine: ec.Engine, source: str, columns: Mapping[str, pl.DataType]
) -> Query:
    """Start a query of an engine with one source, over the files of the folder, a file to a micro-batch."""
    stream = spark.readStream.schema(spark_schema(source, pl.Schema(columns)))
    return run(
        engine,
        {source: stream.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))},
        checkpoint=os.environ.get("DOOMED_CHECKPOINT", folder / "checkpoint"),
        buckets=BUCKETS,
        trigger={"availableNow": True},
        driver_rows=20,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
