"""The format "evercurrent" becomes known to each session of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import PlanError
from evercurrent.spark_bridge import register, run
from spark.test_query import ONCE


@pytest.fixture
def later(spark: Any) -> Iterator[Any]:
    """A session that is newer than the registration in the first one, which stays active."""
    register(spark)
    active = spark._jvm.SparkSession.getActiveSession()
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
    try:
        yield spark.newSession()
        assert spark._jvm.SparkSession.getActiveSession().get().equals(spark._jsparkSession)
    finally:
        if active.isDefined():
            spark._jvm.SparkSession.setActiveSession(active.get())


def test_a_later_session_runs_a_query_and_reads_it(
    spark: Any, later: Any, checkpoint: Path, tmp_path: Path
) -> None:
    """Spark refuses a format that the active session has, even if another one is to get it."""
    (tmp_path / "hits").mkdir()
    pl.DataFrame({"ip": ["a", "b", "a"]}).write_parquet(tmp_path / "hits" / "1.parquet")
    engine = ec.Engine()
    engine.view("visitors", engine.source("hits", {"ip": pl.String}).group_by("ip").len("n"))
    stream = later.readStream.schema("ip string").parquet(str(tmp_path / "hits"))
    query = run(engine, {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    query.await_termination()
    for session in (later, spark):
        deltas = session.read.format("evercurrent").option("path", str(checkpoint)).option("view", "visitors")
        assert sorted(map(tuple, deltas.load().select("ip", "n").collect())) == [("a", 2), ("b", 1)]


def test_it_can_be_registered_again_in_every_session(spark: Any, later: Any) -> None:
    for session in (later, later, spark, spark.newSession(), later):
        register(session)


@pytest.mark.parametrize("given", [None, "spark", 3])
def test_what_is_not_a_session_is_refused(given: Any) -> None:
    with pytest.raises(PlanError, match=f"expected a Spark session, got {type(given).__name__}"):
        register(given)
