"""Where it matters which row of a key came last, Spark's partitions and files do not decide it: a sequence does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyarrow import parquet

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.spark_bridge import run, run_batch
from evercurrent.spark_bridge.execution.frames import from_polars
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, spark_schema
from spark.conftest import write_one_file
from spark.test_query import ONCE, assert_same, declared, pushed
from spark.twins import counted

ORDERS = {"id": pl.Int64, "state": pl.String, "at": pl.Int64}


def by_sequence(engine: ec.Engine) -> None:
    orders = engine.source("orders", ORDERS, kind="upsert", key="id", sequence_by="at")
    engine.view("now", orders)
    engine.view("states", orders.group_by("state").agg(n=pl.len()))


def by_arrival(engine: ec.Engine) -> None:
    orders = engine.source("orders", ORDERS, kind="upsert", key="id")
    engine.view("now", orders)


def changes(*rows: tuple[int, str | None, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={**ORDERS, "_diff": pl.Int64}, orient="row")


OLD = changes(*((key, "new" * 50, key, 1) for key in range(500)), (3, None, 2_000, -1))
"""The older file, and the larger one: Spark packs it first, or into a partition of its own."""
NEW = changes((1, "paid", 1_000, 1), (2, None, 1_000, -1), (3, "late", 1_999, 1))


def two_files(spark: Any, folder: Path, *frames: pl.DataFrame) -> Any:
    """A stream that has these files in one micro-batch, the last one being the oldest."""
    folder.mkdir()
    for number, frame in enumerate(frames):
        write_one_file(frame, folder / f"{number}.parquet", -number)
    return spark.readStream.schema(spark_schema("orders", frames[0].schema)).parquet(str(folder))


@pytest.mark.parametrize(
    ("driver_rows", "frames"), [(0, (OLD, NEW)), (200_000, (NEW, OLD))], ids=["in tasks", "in the driver"]
)
def test_the_greatest_sequence_stands_in_whichever_files_the_rows_come(
    spark: Any, tmp_path: Path, driver_rows: int, frames: tuple[pl.DataFrame, ...]
) -> None:
    query = run(
        declared(by_sequence),
        {"orders": two_files(spark, tmp_path / "in", *frames)},
        checkpoint=tmp_path / "checkpoint",
        buckets=3,
        trigger=ONCE,
        driver_rows=driver_rows,
    )
    query.await_termination()
    assert_same(query, pushed(by_sequence, [{"orders": pl.concat([OLD, NEW])}]))
    rows = {row[0]: row for row in query.view("now").read().rows()}
    assert rows[1] == (1, "paid", 1_000)
    assert not {2, 3} & set(rows)


@pytest.mark.parametrize("driver_rows", [0, 200_000])
def test_without_one_several_files_are_refused_with_the_ways_out(
    spark: Any, tmp_path: Path, driver_rows: int
) -> None:
    def ran(stream: Any) -> Any:
        query = run(
            declared(by_arrival), {"orders": stream}, checkpoint=tmp_path / "checkpoint", buckets=3, trigger=ONCE,
            driver_rows=driver_rows,
        )  # fmt: skip
        query.await_termination()
        return query

    feed = two_files(spark, tmp_path / "in", NEW)
    assert ran(feed).epoch_number == 1
    # In the second epoch the number of rows to expect is known: a few are taken in the driver process.
    for number, frame in enumerate((NEW, OLD[:3]), 1):
        write_one_file(frame, tmp_path / "in" / f"more{number}.parquet", number)
    for stream, what in ((feed, "files"), (feed.coalesce(1), "files")):
        with pytest.raises(Exception, match=rf"(?s)source 'orders'.*rows of 2 {what}.*sequence_by="):
            ran(stream)
    engine = ec.Engine(checkpoint=tmp_path / "checkpoint")
    by_arrival(engine)
    with engine:
        assert sorted(engine.views["now"].read().rows()) == [(1, "paid", 1_000), (3, "late", 1_999)]


@pytest.mark.parametrize("driver_rows", [0, 200_000])
def test_a_file_that_spark_reads_in_several_partitions_is_refused(
    spark: Any, tmp_path: Path, driver_rows: int
) -> None:
    feed = two_files(spark, tmp_path / "in", NEW)
    checkpoint, size = tmp_path / "checkpoint", "spark.sql.files.maxPartitionBytes"

    def ran() -> None:
        run(
            declared(by_arrival),
            {"orders": feed},
            checkpoint=checkpoint,
            trigger=ONCE,
            driver_rows=driver_rows,
        ).await_termination()

    ran()
    usual = spark.conf.get(size)
    spark.conf.set(size, "2000")
    try:
        large = frame_to_spark_arrow(OLD.with_columns(state=pl.col("at").hash().cast(pl.String)))
        parquet.write_table(large, tmp_path / "in" / "large.parquet", row_group_size=300)
        with pytest.raises(Exception, match=r"(?s)source 'orders'.*rows of 2 partitions.*sequence_by="):
            ran()
    finally:
        spark.conf.set(size, usual)


def test_a_batch_of_one_partition_goes_through(spark: Any) -> None:
    rows = from_polars(spark, "orders", NEW)
    with pytest.raises(InputError, match=r"partitions.*nothing has changed.*sequence_by=.*coalesce\(1\)"):
        run_batch(declared(by_arrival), {"orders": rows.union(rows)}, buckets=2)
    done = run_batch(declared(by_arrival), {"orders": rows.coalesce(1)}, buckets=2)
    assert_same(done, pushed(by_arrival, [{"orders": NEW}]))


def test_a_shuffle_hides_where_rows_came_from_and_is_refused_before_anything_runs(
    spark: Any, tmp_path: Path
) -> None:
    """Of ``repartition(1)`` rows of both files come as one partition of no file, the older ones last."""
    feed = two_files(spark, tmp_path / "in", NEW, OLD[:3])
    shuffled = (feed.repartition(1), feed.repartition(2, "id").coalesce(1), feed.dropDuplicates(["id", "at"]))
    for stream in shuffled:
        with pytest.raises(InputError, match=r"source 'orders'.*shuffled.*sequence_by=.*coalesce\(1\)"):
            run(declared(by_arrival), {"orders": stream}, checkpoint=tmp_path / "checkpoint", trigger=ONCE)
    assert not (tmp_path / "checkpoint").exists()
    run(
        declared(by_sequence), {"orders": shuffled[0]}, checkpoint=tmp_path / "checkpoint", trigger=ONCE
    ).await_termination()


def test_rows_that_are_sorted_behind_a_shuffle_are_in_an_order(spark: Any) -> None:
    rows = from_polars(spark, "orders", NEW).repartition(3)
    with pytest.raises(InputError, match="shuffled"):
        run_batch(declared(by_arrival), {"orders": rows.repartition(1)}, buckets=2)
    ordered = rows.repartition(1).sortWithinPartitions("at")
    # What is read from a view by itself is there too: the folder of a result goes with its views.
    view = run_batch(declared(by_arrival), {"orders": ordered}, buckets=2).view("now")
    assert sorted(view.read().rows()) == [(1, "paid", 1_000), (3, "late", 1_999)]


def test_beside_other_sources_only_the_rows_of_that_source_count(spark: Any) -> None:
    def two(engine: ec.Engine) -> None:
        by_arrival(engine)
        engine.view("hits", engine.source("hits", {"id": pl.Int64}).group_by("id").agg(n=pl.len()))

    hits = pl.DataFrame({"id": list(range(50))})
    sources = {
        "orders": from_polars(spark, "orders", NEW).coalesce(1),
        "hits": from_polars(spark, "hits", hits).repartition(3),
    }
    done = run_batch(declared(two), sources, buckets=2)
    embedded = pushed(two, [{"orders": NEW, "hits": hits}])
    for name, view in embedded.views.items():
        assert counted([done.view(name).read()]) == counted([view.read()])


def test_what_stands_can_be_taken_from_spark_into_an_engine_and_back(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    query = run(
        declared(by_sequence), {"orders": feed([NEW])}, checkpoint=checkpoint, buckets=3, trigger=ONCE
    )
    query.await_termination()
    query.finish()
    other = ec.Engine(checkpoint=checkpoint)
    by_arrival(other)
    with pytest.raises(CheckpointError, match="sequence_by"):
        other.push("orders", NEW)
    other.close()
    engine = ec.Engine(checkpoint=checkpoint)
    by_sequence(engine)
    with engine:
        engine.push("orders", OLD)
        assert counted([engine.views["now"].read()]) == counted(
            [pushed(by_sequence, [{"orders": pl.concat([NEW, OLD])}]).views["now"].read()]
        )
