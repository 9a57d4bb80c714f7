"""One query feeds another: the deltas of a view, in another application, exact through restarts and kills of both."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.spark_bridge.runtime.spark_versions import limits_batches
from evercurrent.views.store import LocalStore
from spark import doomed_query, fed_query
from spark.doomed_query import batches, feed
from spark.offered import declared, held
from spark.test_query import forget_last_commit
from spark.test_spark_kill import KILLS, LONG, TESTS, Doomed, long_only, on_linux
from started import paths

pytestmark = pytest.mark.skipif(not limits_batches(), reason="PySpark 4.0 and 4.1 read all epochs in a batch")


def expected(frames: list[pl.DataFrame]) -> dict[str, list[tuple]]:
    """What two engines in this process hold, of which nobody has stopped one."""
    first, second = ec.Engine(), ec.Engine()
    doomed_query.declare(first)
    fed_query.declare(second)
    delivery = first.views["by_user"].to_source(second, "by_user")
    for frame in frames:
        first.push("hits", frame)
    assert delivery.join(60)
    return {name: sorted(view.read().rows(), key=repr) for name, view in second.views.items()}


def check(folder: Path, frames: list[pl.DataFrame]) -> None:
    """The second query holds what it should."""
    assert held(declared(fed_query.declare), LocalStore(folder / "fed")) == expected(frames)


def test_both_are_started_again(spark: Any, tmp_path: Path) -> None:
    """Spark repeats a micro-batch of each that is committed by us."""
    count, lull = (6, 3) if LONG else (4, 2)
    frames = batches(count, 40, lull=lull)
    half = count // 2
    feed(tmp_path / "input", frames[:half])
    doomed_query.run_to_the_end(spark, tmp_path)
    fed_query.run_to_the_end(spark, tmp_path)
    check(tmp_path, frames[:half])
    forget_last_commit(tmp_path / "checkpoint" / "spark")
    feed(tmp_path / "more", frames)
    for number in range(half, count):
        os.rename(tmp_path / "more" / f"{number:06}.parquet", tmp_path / "input" / f"{number:06}.parquet")
    doomed_query.run_to_the_end(spark, tmp_path)
    forget_last_commit(tmp_path / "fed" / "spark")
    fed_query.run_to_the_end(spark, tmp_path)
    check(tmp_path, frames)


@long_only
@on_linux
def test_both_are_killed(tmp_path: Path) -> None:
    """Two applications, each killed at random times, until both have read everything."""
    frames, draw = batches(6 * KILLS, 60, lull=4), random.Random(15)
    first = Doomed(tmp_path, frames)
    writing, reading = first.start(), start_fed(tmp_path)
    kills = 0
    while writing.poll() is None or kills < KILLS:
        time.sleep(draw.uniform(2, 12))
        victim = draw.choice([writing, reading])
        if victim.poll() is None:
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
            kills += 1
        if reading.poll() is not None:
            reading = start_fed(tmp_path)
        if writing.poll() not in (None, 0):
            writing = first.start()
        if kills >= KILLS:
            writing.wait()
    (tmp_path / "ended").touch()
    if reading.wait() != 0:
        assert start_fed(tmp_path).wait() == 0, (tmp_path / "fed.txt").read_text()[-4000:]
    print(f"{kills} kills")
    check(tmp_path, frames)


def start_fed(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "fed.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "spark.fed_query", str(folder)],
            env=os.environ | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1"},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
