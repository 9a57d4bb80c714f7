"""Java that ends beneath a query is named in a sentence; the checkpoint has what was committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from evercurrent.spark_bridge.execution.streaming import Streaming
from evercurrent.spark_bridge.runtime.ended_java import ended, has_ended
from thinned import IS_LONG

KILLED = """
import os, sys, time
import polars as pl
import evercurrent as ec
from evercurrent.spark_bridge import local_session, run
from evercurrent.spark_bridge.runtime.ended_java import SparkEndedError
from pyspark import SparkContext

spark, engine = local_session(), ec.Engine()
rows = engine.source("rows", {"value": pl.Int64, "timestamp": pl.Datetime("us")})
engine.view("counts", rows.group_by(k=pl.col("value") % 3).agg(n=pl.len()))
stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
query = run(engine, {"rows": stream}, checkpoint=sys.argv[1])
while query.epoch_number < 2:
    time.sleep(0.05)
os.kill(SparkContext._gateway.proc.pid, 9)
try:
    query.await_termination()
except SparkEndedError as error:
    print(error)
assert isinstance(query.exception(), SparkEndedError)
assert not query.isActive
assert repr(query).startswith("Query, ended, failed: see exception(), at epoch ")
query.stop()
assert query.view("counts").read()["n"].sum() > 0
"""


def session(call: Any) -> Any:
    """Stands for a session of Spark; ``call`` is what its Java does."""
    java = SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(nanoTime=call)))
    return SimpleNamespace(_sc=SimpleNamespace(_jvm=SimpleNamespace(java=java)))


def raising(error: Exception) -> Any:
    def call(*_: Any) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("while receiving")]
)
def test_a_query_whose_java_has_ended_is_not_active_and_is_stopped(error: Exception) -> None:
    assert has_ended(session(raising(error)))
    streaming: Any = object.__new__(Streaming)
    streaming._is_changing, streaming._session = False, session(raising(error))

    class Broken:
        isActive = property(raising(error))  # noqa: N815

    streaming.query = Broken()
    assert not streaming.is_active
    streaming._session = session(lambda: 1)
    with pytest.raises(type(error)):
        _ = streaming.is_active


def test_java_that_answers_has_not_ended_nor_has_that_of_a_server() -> None:
    assert not has_ended(session(lambda: 1))
    assert not has_ended(SimpleNamespace())  # type: ignore[arg-type]


@pytest.mark.skipif(not IS_LONG, reason="starts Spark for a sentence: make test-long")
def test_killed_beneath_a_query(tmp_path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    assert str(ended(str(tmp_path))) in program.stdout
