"""Tasks are sent to executors as rows: each goes to one alone, and not with the function to all of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange
from evercurrent.spark_bridge.execution.jobs import InBuckets, Setup, SparkJobs, _sent
from evercurrent.spark_bridge.execution.parallelism import SLICES, rows_in_slices
from evercurrent.spark_bridge.runtime.spark_frames import spark_frame
from evercurrent.views.partitioned.tasks import Instant, RowBatch, Task

THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
"""Of rows with more bytes Spark makes a partition for each Arrow batch."""


def tasks(count: int, rows: int = 3) -> list[Task]:
    """Tasks that differ in their rows, all of one bucket after the other."""
    exchange = Exchange(NodeId(0), 1, None)
    return [
        Task(
            1,
            bucket,
            Instant(1, 0, {}),
            {},
            {exchange: (RowBatch(rows, pl.DataFrame({"k": [bucket] * rows})),)},
        )
        for bucket in range(count)
    ]


def where() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that yields the partition and the checksum of each task."""

    def in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import zlib

        import pyarrow as pa
        from pyspark import TaskContext

        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        for batch in batches:
            sums = [zlib.crc32(value.as_buffer()) for value in batch.column(0)]
            columns = [pa.array([partition] * len(sums)), pa.array(sums)]
            yield pa.RecordBatch.from_arrays(columns, ["partition", "sum"])

    return in_worker


def sent(spark: Any, every: list[Task], count: int) -> list[tuple[int, int]]:
    with rows_in_slices(spark, count):
        rows = spark.createDataFrame(_sent(every)).mapInArrow(where(), "partition long, sum long").toArrow()
    return sorted(zip(rows["partition"].to_pylist(), rows["sum"].to_pylist(), strict=True))


def sums(every: list[Task]) -> list[int]:
    import zlib

    return [zlib.crc32(pickle.dumps(task, protocol=5)) for task in every]


@pytest.mark.parametrize(
    ("slices", "partitions"),
    [(5, [0, 1, 2, 3, 4]), (16, [0, 1, 2, 3, 4]), (2, [0, 0, 1, 1, 1]), (1, [0] * 5)],
)
def test_so_many_partitions_get_them_in_their_order(spark: Any, slices: int, partitions: list[int]) -> None:
    every = tasks(5)
    arrived = sent(spark, every, slices)
    assert [number for number, _ in arrived] == partitions
    assert sorted(each for _, each in arrived) == sorted(sums(every))


def test_where_they_are_too_large_for_a_plan_each_is_a_partition(spark: Any) -> None:
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "1b")
    try:
        every = tasks(4, rows=5_000)
        arrived = sent(spark, every, 2)
    finally:
        spark.conf.set(THRESHOLD, before)
    assert [number for number, _ in arrived] == [0, 1, 2, 3]
    assert [each for _, each in arrived] == sums(every)


@pytest.mark.parametrize("before", [None, "7"])
def test_the_setting_of_the_session_stays(spark: Any, before: str | None) -> None:
    if before is not None:
        spark.conf.set(SLICES, before)
    try:
        with pytest.raises(KeyError, match="'3'"), rows_in_slices(spark, 3):
            raise KeyError(spark.conf.get(SLICES))
        assert spark.conf.get(SLICES, None) == before
    finally:
        spark.conf.unset(SLICES)


def test_the_function_has_none_of_them(tmp_path: Any) -> None:
    """It is sent to every executor, and above a megabyte kept by each as a broadcast."""
    function = InBuckets(Setup(b"a plan", str(tmp_path), 4, 1000), attempts=1)
    assert len(pickle.dumps(function)) < 1_000


def test_a_stage_of_which_spark_loses_a_task_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views would lack its rows. Spark Connect 4.0 did so, with all batches of rows but the first."""
    stage = SparkJobs(spark, Setup(b"a plan", str(tmp_path), 4, 1000))
    monkeypatch.setattr("evercurrent.spark_bridge.execution.jobs._done", lambda results: [object()])
    assert len(stage.run(tasks(1))) == 1
    with pytest.raises(RuntimeError, match="stage 1: 3 tasks were sent to Spark, and 1 results came back"):
        stage.run(tasks(3))


@pytest.mark.parametrize(("version", "batches"), [("4.0.0", 1), ("4.0.5", 1), ("4.1.0", 3), ("4.3.0", 3)])
def test_a_spark_connect_that_loses_batches_gets_one(
    version: str, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.spark_bridge.runtime.spark_versions.spark_version", lambda: version)
    connected: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    table: Any = spark_frame(connected, _sent(tasks(3)))
    assert len(table.to_batches()) == batches
    assert table == _sent(tasks(3))
