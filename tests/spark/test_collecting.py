"""Micro-batches of few rows are taken in the driver process, others by a job: which, and that it makes no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution.collecting import collected
from evercurrent.spark_bridge.execution.jobs import SparkJobs
from evercurrent.spark_bridge.execution.parallelism import partitions
from evercurrent.spark_bridge.execution.widths import is_narrow, row_width
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, rows_from_arrow, spark_schema
from spark.test_query import ONCE, assert_same, declared, pushed
from spark.test_types import EVERY


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs whose rows were taken by a job."""
    epochs: list[int] = []
    arrive = SparkJobs.arrive

    def noting(self: SparkJobs, rows: Any, instant: Any, tasks: int | None = None) -> Any:
        epochs.append(instant.epoch)
        return arrive(self, rows, instant, tasks)

    monkeypatch.setattr(SparkJobs, "arrive", noting)
    return epochs


def latest(engine: ec.Engine) -> None:
    """What depends on the order of rows, on their values, and on the sums of floating-point numbers."""
    prices = engine.source("prices", {"item": pl.Int64, "price": pl.Float64}, kind="upsert", key="item")
    engine.view("dear", prices.filter(pl.col("price") > 1))
    engine.view("totals", prices.group_by(pl.col("item") % 3).agg(total=pl.col("price").sum()))


def prices(*sizes: int) -> list[dict[str, pl.DataFrame]]:
    """Epochs of so many rows, in which items come again."""
    frames = []
    for epoch, rows in enumerate(sizes):
        numbers = pl.int_range(rows, eager=True) * 7 + epoch
        frames.append(pl.DataFrame({"item": numbers % 11, "price": (numbers % 31) / 10}))
    return [{"prices": frame} for frame in frames]


def ran(feed: Callable[..., Any], checkpoint: Path, epochs: Any, driver_rows: int) -> Any:
    stream = feed([rows["prices"] for rows in epochs])
    query = run(
        declared(latest),
        {"prices": stream},
        checkpoint=checkpoint,
        buckets=3,
        trigger=ONCE,
        driver_rows=driver_rows,
    )
    query.await_termination()
    return query


def test_few_rows_are_taken_here_and_more_by_a_job(feed, checkpoint, jobs):
    epochs = prices(4, 5, 60, 60, 5, 10, 11, 1)
    query = ran(feed, checkpoint, epochs, driver_rows=10)
    # The third and the seventh are more than was expected, and those after them may be.
    assert jobs == [3, 4, 5, 7, 8]
    assert_same(query, pushed(latest, epochs))


def test_no_rows_are_taken_here_where_none_may_be(feed, checkpoint, jobs):
    epochs = prices(4, 1, 1)
    query = ran(feed, checkpoint, epochs, driver_rows=0)
    assert jobs == [1, 2, 3]
    assert_same(query, pushed(latest, epochs))


def test_what_is_expected_is_in_the_checkpoint(feed, checkpoint, jobs):
    """So a batch that is run again in another process is run in the same way."""
    epochs = prices(4, 13)
    ran(feed, checkpoint, epochs, driver_rows=10)
    more = prices(4, 13, 2)
    query = ran(feed, checkpoint, more[2:], driver_rows=10)
    assert jobs == [2, 3]
    assert_same(query, pushed(latest, more))


def test_a_bad_row_is_refused_here_as_in_a_job(spark, feed, checkpoint, jobs):
    engine = ec.Engine()
    rows = engine.source("rows", {"key": pl.UInt8})
    engine.view("counts", rows.group_by("key").agg(n=pl.len()))
    good, bad = (pl.DataFrame({"key": pl.Series(given, dtype=pl.Int16)}) for given in ([1], [2, -1]))
    query = run(engine, {"rows": feed([good, good, bad])}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    with pytest.raises(Exception, match=r"source 'rows': column 'key' has values that are not UInt8"):
        query.await_termination()
    assert jobs == []
    assert query.epoch_number == 2
    assert query.view("counts").read().rows() == [(1, 2)]


ROOM = 1 << 20


def test_all_partitions_in_their_order_or_nothing(spark):
    rows = spark.range(0, 80, 1, 4)
    assert collected(rows, 80, ROOM, 4).column("id").to_pylist() == list(range(80))
    assert collected(rows, 78, ROOM, 4) is None
    assert collected(rows.limit(0), 1, ROOM, 4).num_rows == 0


def test_an_unknown_number_of_rows_is_read_up_to_the_limit_and_in_order(spark):
    rows = spark.range(0, 90, 1, 30)
    assert collected(rows, 90, ROOM, 5, is_known=False).column("id").to_pylist() == list(range(90))
    assert collected(rows, 89, ROOM, 5, is_known=False) is None


def test_partitions_that_are_one_for_each_task_stay_as_they_are(spark, monkeypatch):
    """To have Spark make fewer of them is a step of its plan, some 2 ms, which a micro-batch of one row would wait for."""
    rows = spark.range(0, 80, 1, 2)
    in_one = rows.coalesce(1)
    texts = in_one.selectExpr("id", "repeat('x', if(id = 7, 2000, 10)) as text")
    made, all_ids = [], list(range(80))
    coalesce = type(rows).coalesce
    monkeypatch.setattr(type(rows), "coalesce", lambda *args: made.append(args) or coalesce(*args))
    for several in (False, True):
        there, some = (2, rows) if several else (1, in_one)
        for is_known in (True, False):
            ids = collected(some, 80, ROOM, there, is_known=is_known, there=there).column("id")
            assert ids.to_pylist() == all_ids
            assert collected(some, 78, ROOM, there, is_known=is_known, there=there) is None
    assert made == []
    # For Spark they would not be one partition, and it would shuffle them for the limit beneath their widths.
    assert collected(texts, 80, 2_100 * 81, 1, there=1).column("id").to_pylist() == all_ids
    assert collected(texts, 79, 2_100 * 80, 1, there=1) is None
    assert len(made) == 2


def test_wide_rows_do_not_come_at_all(spark):
    """The limit in bytes is divided among the rows, and the values of a wider row stay where they are."""
    rows = spark.range(0, 10, 1, 2).selectExpr("id", "repeat('x', if(id = 7, 2000, 10)) as text")
    assert collected(rows, 10, 11 * 2_100, 1).num_rows == 10
    assert collected(rows, 10, 11 * 2_000, 1) is None
    assert collected(rows.select("id"), 10, 11 * 8, 1).num_rows == 10
    assert collected(rows.select("id"), 10, 11 * 7, 1) is None


def test_how_wide_a_row_is_by_the_lengths_of_its_texts(spark):
    rows = spark.sql(
        "select 1 as n, 'four' as t, array('ab', 'c', null) as a, map('k', array(1, 2)) as m, "
        "named_struct('t', binary('abc'), 'n', 1) as s, cast(null as string) as nothing"
    )
    assert rows.selectExpr(row_width(rows.schema)).collect() == [(8 + 4 + 3 + (1 + 16) + (3 + 8) + 0,)]
    assert is_narrow(rows.select("n").schema)
    assert [is_narrow(rows.select(name).schema) for name in "tams"] == [False] * 4


@pytest.mark.parametrize(("driver_rows", "tasks"), [(200_000, []), (5, [8])])
def test_many_small_partitions_are_read_together(
    driver_rows, tasks, spark, feed, checkpoint, tmp_path, monkeypatch
):
    """From the first micro-batch on, of which nothing is known; where they do not fit here, by few tasks."""
    files = [pl.DataFrame({"n": [number, 1]}) for number in range(12)]
    feed(files)
    engine = ec.Engine()
    engine.view("counts", engine.source("numbers", {"n": pl.Int64}).group_by("n").agg(times=pl.len()))
    read_by = []
    arrive = SparkJobs.arrive

    def noting(self: SparkJobs, rows: Any, instant: Any, tasks: int | None = None) -> Any:
        read_by.append((partitions(rows), tasks))
        return arrive(self, rows, instant, tasks)

    monkeypatch.setattr(SparkJobs, "arrive", noting)
    cost = spark.conf.get("spark.sql.files.openCostInBytes")
    spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    try:
        stream = spark.readStream.schema("n long").parquet(str(tmp_path / "input"))
        query = run(engine, {"numbers": stream}, checkpoint=checkpoint, trigger=ONCE, driver_rows=driver_rows)
        query.await_termination()
    finally:
        spark.conf.set("spark.sql.files.openCostInBytes", cost)
    assert read_by == [(12, number) for number in tasks]
    assert sorted(query.view("counts").read().rows()) == [(0, 1), (1, 13), *((n, 1) for n in range(2, 12))]


def test_every_type_comes_over_as_into_a_job(spark):
    schema = spark_schema("test", EVERY.schema)
    given = spark.createDataFrame(frame_to_spark_arrow(EVERY), schema=schema)
    for zone in ("UTC", "America/New_York"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            pl.testing.assert_frame_equal(rows_from_arrow(collected(given, 10, ROOM, 1), EVERY.schema), EVERY)
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_wide_rows_travel_to_workers_in_small_batches(
    feed: Callable[..., Any], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Spark's Java gathers 10,000 rows of any width in its memory, for each task."""
    sizes: list[int] = []
    arrive = SparkJobs.arrive

    def measured(self: SparkJobs, rows: Any, instant: Any, tasks: int | None = None) -> Any:
        def sizes_of(batches: Any) -> Any:
            for batch in batches:
                yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

        sizes.extend(rows.mapInArrow(sizes_of, "bytes long").toArrow()["bytes"].to_pylist())
        return arrive(self, rows, instant, tasks)

    monkeypatch.setattr(SparkJobs, "arrive", measured)
    engine = ec.Engine()
    texts = engine.source("texts", {"text": pl.String})
    engine.view("longest", texts.group_by().agg(most=pl.col("text").str.len_bytes().max()))
    rows = pl.DataFrame({"text": ["x" * 100_000] * 200})
    query = run(engine, {"texts": feed([rows])}, checkpoint=checkpoint, trigger=ONCE, driver_rows=0)
    query.await_termination()
    assert query.view("longest").read().rows() == [(100_000,)]
    assert sum(sizes) > 200 * 100_000
    assert max(sizes) < 6 << 20
