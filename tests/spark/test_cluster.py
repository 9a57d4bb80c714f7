"""On a cluster of a master and two workers of one core, whose executors have a Python of their own, shipped as an archive.

In ``make test`` one test, so that one cluster is started: the chain in workers, both applications, what the preflight
finds, and executors that are killed. ``test_cluster_kills`` does it at random times.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge import deploy, run
from evercurrent.spark_bridge.runtime.java import JavaMissingError
from evercurrent.spark_bridge.runtime.session import session
from evercurrent.views.apps.retail_orders import orders_in_batches
from spark.doomed_query import BUCKETS, HITS, VIEWS, batches, declare, feed
from spark.standalone import StandaloneCluster

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

ROWS = 60


@contextmanager
def session_on(cluster: StandaloneCluster, archive: Path | None, **settings: Any) -> Iterator[Any]:
    """A session of this process on the cluster, ended with its Java, so that another can have other settings."""
    spark = session(
        "cluster test",
        master=cluster.url,
        archive=archive,
        settings={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executorEnv.POLARS_MAX_THREADS": "1",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": False,
            **settings,
        },
    )
    try:
        yield spark
    finally:
        spark.stop()


def stream_of(spark: Any, folder: Path) -> Any:
    """The batches in a folder, a file to a micro-batch."""
    from evercurrent.spark_bridge.runtime.spark_types import spark_schema

    reader = spark.readStream.schema(spark_schema("hits", pl.Schema(HITS))).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "input"))


def started(spark: Any, folder: Path, **options: Any) -> Any:
    """The query of the doomed program, with all rows taken by executors unless ``options`` say otherwise."""
    engine = ec.Engine()
    declare(engine)
    return run(
        engine,
        {"hits": stream_of(spark, folder)},
        checkpoint=folder / "checkpoint",
        buckets=BUCKETS,
        trigger={"availableNow": True},
        **{"driver_rows": 0, **options},
    )


def assert_undisturbed(query: Any, frames: list[pl.DataFrame]) -> None:
    """Every view is what the embedded engine has after the same batches, and so is the sum of its deltas."""
    engine = ec.Engine()
    declare(engine)
    for frame in frames:
        engine.push("hits", frame)
    assert query.epoch_number == engine.epoch_number == len(frames)
    for name in VIEWS:
        wanted = sorted(engine.views[name].read().rows(), key=repr)
        assert sorted(query.view(name).read().rows(), key=repr) == wanted, name


def pythons_of(spark: Any) -> set[str]:
    """The programs that executors run."""
    return set(
        spark.sparkContext.parallelize(range(4), 4).map(lambda _: __import__("sys").executable).collect()
    )


def test_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A163: epochs in executors that have nothing but the archive, and that are killed; and an application."""
    pytest.importorskip("pyspark")
    frames = batches(5, ROWS)
    feed(tmp_path / "input", frames)
    archive = deploy.archive(tmp_path / "environment.tar.gz", level=0)
    # Tasks run what is in the archive, and not this checkout.
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    try:
        cluster = StandaloneCluster(tmp_path / "cluster")
    except JavaMissingError as missing:
        pytest.skip(str(missing))
    with cluster, session_on(cluster, archive) as spark:
        query = started(spark, tmp_path)
        assert len(cluster.executors(0)) == len(cluster.executors(1)) == 1
        assert all("/environment/bin/python" in program for program in pythons_of(spark))
        with suppress(IndexError):
            os.kill(cluster.pythons(0)[-1], signal.SIGKILL)
        query.await_termination()
        assert_undisturbed(query, frames)
        retail_is_the_same(tmp_path)


def retail_is_the_same(folder: Path) -> None:
    """The application gives the same here as embedded; the session is that of the test."""
    from spark.test_cli_on_spark import assert_same

    orders = folder / "orders.parquet"
    pl.concat(itertools.islice(orders_in_batches(600), 2)).write_parquet(orders)
    assert_same(folder, "tiers", "retail", "--input", f"orders={orders}", "--batch-rows", 600)
