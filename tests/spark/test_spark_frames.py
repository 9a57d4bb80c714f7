"""DataFrames of rows of this process, which leave the session of the user's program the active one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.runtime.session import local_session
from spark.test_query import ONCE, chain, declared, events


def test_the_session_of_a_micro_batch_does_not_become_that_of_the_program(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """It would lack temporary views, and a query's sinks and tasks in workers create DataFrames in it."""
    stream = feed([rows["events"] for rows in events()])
    sessions = []

    def on_epoch(view: str, delta: Any, epoch: int) -> None:
        sessions.append(delta.sparkSession)

    query = run(
        declared(chain),
        {"events": stream},
        checkpoint=checkpoint,
        buckets=2,
        trigger=ONCE,
        driver_rows=0,
        on_epoch=on_epoch,
    )
    query.await_termination()
    assert sessions
    assert spark not in sessions
    spark.range(1).createOrReplaceTempView("declared_later")
    try:
        assert SparkSession.getActiveSession() is spark
        assert local_session("another").table("declared_later").count() == 1
    finally:
        spark.catalog.dropTempView("declared_later")
