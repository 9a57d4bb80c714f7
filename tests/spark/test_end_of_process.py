"""A process that ends while a query runs stops it first, and ends with the code of its signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

from evercurrent.core.data.errors import EvercurrentError
from evercurrent.spark_bridge.execution.end_of_process import EndOfProcess
from evercurrent.spark_bridge.runtime.java import ensure_java


class Query:
    """A query that notes that it was stopped, or fails to be, or never is."""

    def __init__(self, error: Exception | None = None, released: Event | None = None) -> None:
        self.is_stopped = False
        self._error = error
        self._released = released

    def stop(self) -> None:
        self.is_stopped = True
        if self._released is not None:
            self._released.wait(60)
        if self._error is not None:
            raise self._error


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was registered for the end of the process, and is not run there."""
    functions: list[Any] = []
    monkeypatch.setattr("atexit.register", lambda *function: functions.append(function))
    return functions


def test_all_that_run_are_stopped_whatever_one_raises(registered: list[Any]) -> None:
    end, ended = EndOfProcess(), Query()
    running = [Query(), Query(ConnectionError("Java is gone")), Query()]
    for query in (ended, *running):
        end.add(query)
    end.discard(ended)
    ((function, process),) = registered
    assert process == os.getpid()
    function(process, 60)
    assert [query.is_stopped for query in (ended, *running)] == [False, True, True, True]


def test_the_end_does_not_wait_for_ever_nor_for_nothing_nor_in_a_child() -> None:
    end, released = EndOfProcess(), Event()
    query = Query(released=released)
    end.add(query)
    end.end(os.getpid() + 1)
    assert not query.is_stopped
    end.end(os.getpid(), seconds=0.05)
    released.set()
    idle = EndOfProcess()
    idle.add(query)
    idle.discard(query)
    idle.end(os.getpid(), seconds=60)


def test_a_child_stops_its_own_queries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    end, of_parent, own = EndOfProcess(), Query(), Query()
    end.add(of_parent)
    child = os.getpid() + 1
    monkeypatch.setattr("os.getpid", lambda: child)
    end.add(own)
    end.end(child, seconds=60)
    assert (of_parent.is_stopped, own.is_stopped) == (False, True)


PROGRAM = """
import sys, time
from pathlib import Path
import evercurrent as ec, polars as pl
from evercurrent import spark_bridge

def work(rows):
    if len(rows):
        print("in a micro-batch", flush=True)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        _ = pl.DataFrame({"k": range(100)}).group_by("k").len().sort("k")
    return rows

engine = ec.Engine()
rows = engine.source("rows", {"k": pl.Int64})
engine.view("counts", rows.map_batches(work, schema={"k": pl.Int64}, version=1).group_by("k").len("n"))
spark = spark_bridge.local_session()
query = spark_bridge.run(
    engine, {"rows": spark.readStream.schema("k bigint").parquet("in")}, checkpoint="checkpoint", buckets=2
)
query.await_termination()
"""


def test_ctrl_c_in_a_micro_batch_ends_the_program_as_any_other(tmp_path: Path) -> None:
    try:
        ensure_java()
    except EvercurrentError as missing:
        pytest.skip(str(missing))
    (tmp_path / "in").mkdir()
    pl.DataFrame({"k": [1, 2, 2]}).write_parquet(tmp_path / "in" / "1.parquet")
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "in a micro-batch\n"
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=120)
    assert "\nKeyboardInterrupt\n" in errors, errors
    assert "terminated with error" not in errors
    assert "Fatal Python error" not in errors
    assert program.returncode == -signal.SIGINT
