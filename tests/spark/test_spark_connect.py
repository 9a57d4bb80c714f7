"""Spark Connect: micro-batches run in a process of the server, on a copy of what the client has made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
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

pytest.importorskip("pyspark")
pytest.importorskip("grpc_status", reason="the extra spark-connect is not installed")

TESTS = Path(__file__).resolve().parents[1]


def test_views_are_the_same_as_embedded(tmp_path: Path) -> None:
    """A163 under Spark Connect: views, what Spark sees of them, a sink, an epoch by hand; the last rows are collected."""
    frames = batches(4, 60, lull=4)
    feed(tmp_path / "input", frames)
    (tmp_path / "heard").mkdir()
    seen = run_program(tmp_path)
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
            heard = pl.read_parquet(tmp_path / "heard" / f"{name}-{delta['_epoch'][0]}.parquet")
            assert counted([heard]) == counted([delta])
    refused = engine.ledger().filter(pl.col("_epoch") == engine.epoch_number).height
    assert seen["progress"] == [engine.epoch_number, engine.epoch_number - 1, frames[-1].height, refused]
    assert seen["finished"] == engine.advance("hits", ec.END_OF_TIME)
    assert seen["watermarks"] == str(engine.watermarks)


def test_views_and_sources_come_and_go(tmp_path: Path) -> None:
    """They do while the query runs, and the sink, which the server calls, gets each delta under one epoch."""
    first = pl.DataFrame(
        {"ip": [at % 7 for at in range(40)], "bytes": [at * at % 31 for at in range(40)]}, HITS
    )
    names = pl.DataFrame({"ip": [1, 2, 2], "name": ["a", "b", "c"]}, NAMES)
    for name, frame in (("hits", first), ("names", names)):
        (tmp_path / name).mkdir()
        write_one_file(frame, tmp_path / name / "0.parquet", 0)
    (tmp_path / "heard").mkdir()
    seen = run_program(tmp_path, "spark.connected_changes")
    engine = declared(names=True)
    engine.view("best", best(engine))
    engine.push("hits", first)
    assert seen["filled"] == rows_of(engine.views["best"].read())
    engine.push("hits", pl.concat(MORE))
    engine.push("names", names)
    assert seen["is the same"]
    assert seen["read"] == {name: rows_of(view.read()) for name, view in engine.views.items()}
    assert seen["holds"] == []
    for name, by_epoch in seen["deltas"].items():
        heard = {path.stem.rpartition("-")[2]: path for path in (tmp_path / "heard").glob(f"{name}-*")}
        assert {epoch: rows_of(pl.read_parquet(path)) for epoch, path in heard.items()} == by_epoch


def run_program(folder: Path, program: str = "spark.connected_query") -> dict[str, Any]:
    """What the program says. It is ended with all that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", program, str(folder)],
        # SPARK_TESTING: the server takes any free port.
        env=os.environ
        | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1", "SPARK_TESTING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=900)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said[-4000:]
    found: dict[str, Any] = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    return found
