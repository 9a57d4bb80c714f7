"""Spark Connect: micro-batches run in a process of the server, on a copy of what the client has made.

In the quick profile the server is in the Java of the session of all tests, as to start another one takes longer than both queries
take to run; in the long one Spark starts one for the client, as it does for users.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from spark.conftest import write_one_file
from spark.connected_changes import MORE, best
from spark.connected_query import rows_of
from spark.doomed_query import VIEWS, batches, declare, feed
from spark.doomed_streams import HITS, NAMES, declared
from spark.twins import counted
from started import paths
from thinned import IS_LONG

pytest.importorskip("pyspark")
pytest.importorskip("grpc_status", reason="the extra spark-connect is not installed")

TESTS = Path(__file__).resolve().parents[1]


FRAMES = batches(4, 60, lull=4)
"""Of the query whose views stay."""

FIRST = pl.DataFrame(
    {"ip": [at % 7 for at in range(40)], "bytes": [at * at % 31 for at in range(40)]}, schema=HITS
)
NAMED = pl.DataFrame({"ip": [1, 2, 2], "name": ["a", "b", "c"]}, schema=NAMES)
"""Of the one whose views come and go."""


@dataclass(frozen=True)
class Ran:
    """The folder of a query, and what was seen of it."""

    folder: Path
    seen: dict[str, Any]


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The address of a server, unless Spark is to start one."""
    if IS_LONG:
        yield []
        return
    spark = request.getfixturevalue("spark")
    package = spark._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    service.start(spark._jsc.sc())
    yield [f"sc://127.0.0.1:{service.server().getPort()}"]
    options = spark._jvm.scala.Option
    service.stop(options.empty(), options.empty())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, server: list[str]) -> dict[str, Ran]:
    """Both queries, each by its name: they share a server."""
    folder = tmp_path_factory.mktemp("connected")
    feed(folder / "query" / "input", FRAMES)
    for name, frame in (("hits", FIRST), ("names", NAMED)):
        (folder / "changes" / name).mkdir(parents=True)
        write_one_file(frame, folder / "changes" / name / "0.parquet", 0)
    for name in ("query", "changes"):
        (folder / name / "delivered").mkdir()
    return {name: Ran(folder / name, seen) for name, seen in run_program(folder, server).items()}


def test_views_are_the_same_as_embedded(ran: dict[str, Ran]) -> None:
    """A163 under Spark Connect: views, what Spark sees of them, a sink, an epoch by hand; the last rows are collected."""
    folder, seen, frames = ran["query"].folder, ran["query"].seen, FRAMES
    engine = ec.Engine()
    declare(engine)
    for frame in frames:
        engine.push("hits", frame)
    assert seen["session"].startswith("pyspark.sql.connect")
    assert seen["epoch"] == engine.epoch_number
    assert seen["read"] == seen["to_spark"] == {name: rows_of(engine.views[name].read()) for name in VIEWS}
    assert seen["deltas"] == sorted(
        row for frame in engine.views["by_user"].deltas() for row in rows_of(frame)
    )
    for name, view in engine.views.items():
        for delta in view.deltas(since=0):
            delivered = pl.read_parquet(folder / "delivered" / f"{name}-{delta['_epoch'][0]}.parquet")
            assert counted([delivered]) == counted([delta])
    refused = engine.ledger().filter(pl.col("_epoch") == engine.epoch_number).height
    assert seen["progress"] == [engine.epoch_number, engine.epoch_number - 1, frames[-1].height, refused]
    assert seen["finished"] == engine.advance("hits", ec.END_OF_TIME)
    assert seen["watermarks"] == str(engine.watermarks)


def test_views_and_sources_come_and_go(ran: dict[str, Ran]) -> None:
    """They do while the query runs, and the sink, which the server calls, gets each delta under one epoch."""
    folder, seen = ran["changes"].folder, ran["changes"].seen
    engine = declared(names=True)
    engine.view("best", best(engine))
    engine.push("hits", FIRST)
    assert seen["filled"] == rows_of(engine.views["best"].read())
    engine.push("hits", pl.concat(MORE))
    engine.push("names", NAMED)
    assert seen["is the same"]
    assert seen["read"] == {name: rows_of(view.read()) for name, view in engine.views.items()}
    assert seen["holds"] == []
    for name, by_epoch in seen["deltas"].items():
        delivered = {path.stem.rpartition("-")[2]: path for path in (folder / "delivered").glob(f"{name}-*")}
        assert {epoch: rows_of(pl.read_parquet(path)) for epoch, path in delivered.items()} == by_epoch


def run_program(folder: Path, server: list[str]) -> dict[str, dict[str, Any]]:
    """What the program prints of each query. It is ended with all that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "spark.connected_changes", str(folder), *server],
        # SPARK_TESTING: the server takes any free port.
        env=os.environ
        | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1", "SPARK_TESTING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=900)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output[-4000:]
    found: dict[str, dict[str, Any]] = json.loads(
        next(line for line in output.splitlines() if line.startswith("{"))
    )
    return found
