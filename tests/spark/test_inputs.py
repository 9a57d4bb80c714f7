"""Several DataFrames as one, and apart again; the errors for DataFrames that do not fit."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from time import monotonic

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.spark_bridge import run, run_batch
from evercurrent.spark_bridge.input.inputs import (
    BEAT,
    TAG,
    arriving,
    check_sources,
    heartbeat,
    require_python_of_workers,
    tagged,
    untagged,
)
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, spark_schema
from evercurrent.spark_bridge.runtime.spark_versions import limits_batches

HITS = pl.DataFrame({"ip": ["a", None, "c"], "bytes": pl.Series([1, 2, 3], dtype=pl.UInt32)})
USERS = pl.DataFrame(
    {
        "id": [1, 2],
        "Name": ["x", "y"],
        "at": pl.Series([1, 2]).cast(pl.Datetime("us", "UTC")),
        "_diff": [1, -1],
    }
)
NAMES = pl.DataFrame({"a.b": [1], "c `d`": ["x"]})


@pytest.fixture
def engine():
    made = ec.Engine()
    made.source("hits", HITS.schema)
    made.source("users", {k: v for k, v in USERS.schema.items() if k != "_diff"}, kind="upsert", key="id")
    return made


def in_spark(spark, frame):
    return spark.createDataFrame(frame_to_spark_arrow(frame), schema=spark_schema("test", frame.schema))


def test_two_sources_are_one_frame_and_two_again(spark, engine):
    given = {"users": in_spark(spark, USERS), "hits": in_spark(spark, HITS)}
    check_sources(engine, given, is_streaming=False)
    united = tagged(given, engine.sources)
    assert united.columns == [TAG, "_0", "_1"]
    apart = untagged(united.toArrow(), arriving(engine.sources))
    assert list(apart) == ["hits", "users"]
    assert_frame_equal(apart["hits"], HITS)
    assert_frame_equal(apart["users"], USERS)
    engine.push("users", apart["users"])


def test_a_source_without_rows_is_not_there(spark, engine):
    given = {"users": in_spark(spark, USERS), "hits": in_spark(spark, HITS.clear())}
    apart = untagged(tagged(given, engine.sources).toArrow(), arriving(engine.sources))
    assert list(apart) == ["users"]


def test_one_source_is_not_packed(spark):
    engine = ec.Engine()
    engine.source("hits", HITS.schema)
    united = tagged({"hits": in_spark(spark, HITS)}, engine.sources)
    assert united.columns == HITS.columns
    assert_frame_equal(untagged(united.toArrow(), arriving(engine.sources))["hits"], HITS)
    assert untagged(united.limit(0).toArrow(), arriving(engine.sources)) == {}


def test_names_that_spark_reads_as_paths_cross_a_python_worker(spark):
    engine = ec.Engine()
    engine.source("names", NAMES.schema)
    given = {"names": in_spark(spark, NAMES)}
    check_sources(engine, given)
    united = tagged(given, engine.sources)
    through = united.mapInArrow(lambda batches: batches, united.schema)
    assert_frame_equal(untagged(through.toArrow(), arriving(engine.sources))["names"], NAMES)


def test_a_source_named_like_ours_is_recognized_by_all_its_columns(spark):
    frame = pl.DataFrame({TAG: [7], "_0": ["mine"]})
    engine = ec.Engine()
    engine.source("odd", frame.schema)
    united = tagged({"odd": in_spark(spark, frame)}, engine.sources)
    assert_frame_equal(untagged(united.toArrow(), arriving(engine.sources))["odd"], frame)


def test_diffs_and_stamps_may_be_left_out(spark):
    engine = ec.Engine()
    engine.source("changes", {"id": pl.Int64}, kind="diffs")
    stamped = {"id": pl.Int64, "at": pl.Datetime("us", "UTC")}
    engine.source("stamped", stamped, event_time="at", watermark=ec.ingress_time())
    given = dict.fromkeys(["changes", "stamped"], in_spark(spark, pl.DataFrame({"id": [1, 2]})))
    check_sources(engine, given)
    apart = untagged(tagged(given, engine.sources).toArrow(), arriving(engine.sources))
    assert apart["changes"].rows() == [(1, 1), (2, 1)]
    assert apart["stamped"].rows() == [(1, None), (2, None)]
    engine.push("stamped", apart["stamped"], at=datetime(2026, 1, 1, tzinfo=UTC))


def test_streams_are_one_stream_and_files_are_epochs(spark, engine, feed, tmp_path):
    users = USERS.drop("_diff")
    given = {
        "hits": feed([HITS, HITS.head(1), HITS.head(2)], into="hits"),
        "users": feed([users.head(1), users.tail(1)], into="users"),
    }
    check_sources(engine, given, is_streaming=True)
    columns = arriving(engine.sources)
    seen = []

    def take(batch, number):
        apart = untagged(batch.toArrow(), columns)
        seen.append((number, {name: rows.height for name, rows in apart.items()}))

    written = tagged(given, engine.sources).writeStream.foreachBatch(take).trigger(availableNow=True)
    query = written.option("checkpointLocation", str(tmp_path / "spark")).start()
    assert query.awaitTermination(60)
    assert seen == [(0, {"hits": 3, "users": 1}), (1, {"hits": 1, "users": 1}), (2, {"hits": 2})]


def test_a_heartbeat_makes_micro_batches_without_data(spark, engine, feed, tmp_path):
    given = {"hits": feed([HITS], into="hits"), "users": feed([USERS.drop("_diff")], into="users")}
    columns, seen = arriving(engine.sources), []

    def take(batch, number):
        table = batch.toArrow()
        apart = untagged(table, columns)
        beats = table.column(TAG).to_pylist().count(BEAT)
        seen.append((number, beats, sum(rows.height for rows in apart.values())))

    united = tagged(given, engine.sources, beat=heartbeat(spark))
    written = united.writeStream.foreachBatch(take).trigger(processingTime="100 milliseconds")
    query = written.option("checkpointLocation", str(tmp_path / "spark")).start()
    until = monotonic() + 60
    while sum(beats for _, beats, _ in seen) < 3 and query.isActive and monotonic() < until:
        query.awaitTermination(1)
    query.stop()
    assert query.exception() is None
    assert sum(rows for _, _, rows in seen) == 5
    assert sum(beats for _, beats, _ in seen) >= 3
    assert all(beats <= 1 for _, beats, _ in seen)
    assert [number for number, _, _ in seen] == list(range(len(seen)))


@pytest.mark.skipif(not limits_batches(), reason="run() refuses it on PySpark 4.0 and 4.1")
def test_a_run_over_what_is_there_has_no_beats_and_ends(spark, engine, feed, tmp_path):
    given = {"hits": feed([HITS, HITS], into="hits"), "users": feed([USERS.drop("_diff")], into="users")}
    tags = []
    united = tagged(given, engine.sources, beat=heartbeat(spark, 0.001))
    written = united.writeStream.foreachBatch(
        lambda batch, number: tags.append(batch.toArrow()[TAG].to_pylist())
    )
    query = written.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "spark")).start()
    assert query.awaitTermination(60)
    assert tags == [[0, 0, 0, 1, 1], [0, 0, 0]]


def refusal_of(engine, given, **options):
    with pytest.raises(InputError) as refused:
        check_sources(engine, given, **options)
    return str(refused.value)


def test_what_does_not_fit_is_named_by_source_and_column(spark, engine):
    hits, users = in_spark(spark, HITS), in_spark(spark, USERS)
    both = {"hits": hits, "users": users}

    def refusal_with(name, frame):
        return refusal_of(engine, {**both, name: frame})

    assert "source 'users' has no DataFrame" in refusal_of(engine, {"hits": hits})
    assert "source 'hitz' is not declared; there are 'hits', 'users'" in refusal_of(
        engine, {**both, "hitz": hits}
    )
    assert "source 'hits': expected a Spark DataFrame, got polars.DataFrame" in refusal_with("hits", HITS)
    assert "the DataFrame is a batch, and a stream is needed; use spark.readStream" in refusal_of(
        engine, both, is_streaming=True
    )
    assert (
        "source 'hits': column 'bytes' is string, but UInt32 is declared, which is bigint in Spark; cast it with"
        in refusal_with("hits", hits.withColumn("bytes", hits.bytes.cast("string")))
    )
    assert "'IP': rename it with F.col('IP').alias('ip')" in refusal_with(
        "hits", hits.withColumnRenamed("ip", "IP")
    )
    assert "column 'bytes' (UInt32) is missing; there are 'ip' string" in refusal_with(
        "hits", hits.drop("bytes")
    )
    assert "column 'more' is not declared; drop it with .drop('more')" in refusal_with(
        "hits", hits.withColumn("more", hits.ip)
    )
    assert "there is a column '_diff', but the source is declared append" in refusal_with(
        "hits", hits.withColumn("_diff", hits.bytes)
    )
    assert "source 'users': column '_diff' is string" in refusal_with(
        "users", users.withColumn("_diff", users.Name)
    )
    assert 'declare it as pl.Datetime("us"), or cast it' in refusal_with(
        "users", users.withColumn("at", users["at"].cast("timestamp_ntz"))
    )
    assert "column 'id' appears twice" in refusal_with("users", users.select("*", "id"))


def test_the_cast_that_is_named_mends(spark, engine):
    from pyspark.sql import functions as F  # noqa: F401, N812 (the message uses it)

    hits = in_spark(spark, HITS)
    wrong = hits.withColumn("bytes", hits.bytes.cast("string"))
    message = refusal_of(engine, {"hits": wrong, "users": in_spark(spark, USERS)})
    call = re.search(r"\.withColumn\(.*\)$", message)
    assert call is not None
    check_sources(engine, {"hits": eval(f"wrong{call[0]}"), "users": in_spark(spark, USERS)})


@pytest.mark.parametrize(
    ("value", "declared", "remedy"),
    [
        ("X'00'", pl.Int64(), "declare it as Binary"),
        ("date'2026-01-01'", pl.Int64(), "declare it as Date"),
        ("array(1)", pl.Struct({"a": pl.Int64}), "declare it as List(Int32)"),
        ("interval '1-2' year to month", pl.Duration("us"), "cast it to a number of months"),
        ("make_interval(1, 2)", pl.Int64(), "cast it to a string or drop it"),
    ],
)
def test_a_cast_that_spark_does_not_have_is_not_named(spark, value, declared, remedy):
    engine = ec.Engine()
    engine.view("all", engine.source("rows", {"x": declared}))
    message = refusal_of(engine, {"rows": spark.sql(f"select {value} as x")})
    assert message.endswith(f" in Spark; Spark has no cast from one to the other: {remedy}")


def test_a_value_that_does_not_fit_names_its_source(spark, engine):
    given = {"hits": spark.sql("select 'a' as ip, -1L as bytes"), "users": in_spark(spark, USERS)}
    check_sources(engine, given)
    with pytest.raises(InputError, match="source 'hits': column 'bytes' has values that are not UInt32"):
        untagged(tagged(given, engine.sources).toArrow(), arriving(engine.sources))


def test_what_a_declared_type_holds_is_taken_and_what_it_does_not_is_refused_by_value(spark):
    engine = ec.Engine()
    wide = {
        "n": pl.Int64,
        "ratio": pl.Float64,
        "at": pl.Datetime("us"),
        "parts": pl.List(pl.Struct({"a": pl.Int64})),
    }
    engine.source("wide", wide)
    engine.source("narrow", {"n": pl.Int8})
    rows = pl.DataFrame(
        {"n": [1, None], "ratio": [0.5, None], "at": [date(2026, 1, 2), None], "parts": [[{"a": 1}], None]},
        schema_overrides={"n": pl.Int32, "ratio": pl.Float32, "parts": pl.List(pl.Struct({"a": pl.Int16}))},
    )
    given = {"wide": in_spark(spark, rows), "narrow": spark.sql("select 5L as n")}
    check_sources(engine, given)
    apart = untagged(tagged(given, engine.sources).toArrow(), arriving(engine.sources))
    assert apart["wide"].schema == pl.Schema(wide)
    assert apart["wide"].rows()[0] == (1, 0.5, datetime(2026, 1, 2), [{"a": 1}])
    assert apart["narrow"].rows() == [(5,)]
    too_large = {**given, "narrow": spark.sql("select 300L as n")}
    check_sources(engine, too_large)
    with pytest.raises(
        InputError, match="source 'narrow': column 'n' has values that are not Int8: 300 in row 0"
    ):
        untagged(tagged(too_large, engine.sources).toArrow(), arriving(engine.sources))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_timestamp_in_a_column_without_a_zone_is_its_time_in_utc(spark, zone):
    """Whatever the zone of the session is; and a timestamp without a zone is taken as it stands."""
    columns = {"at": pl.Datetime("us"), "local": pl.Datetime("us"), "parts": pl.List(pl.Datetime("ms"))}
    engine = ec.Engine()
    source = engine.source("s", columns, event_time="at")
    engine.view("all", source)
    engine.view("hours", source.window(ec.fixed("1h")).group_by().agg(n=pl.len()))
    engine.view("others", engine.source("others", {"on": pl.Date}))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        instants = "timestamp'2026-10-25T02:30:00+02:00', timestamp'2026-10-25T02:30:00+01:00'"
        rows = spark.sql(
            f"select explode(array({instants}, null)) at, timestamp_ntz'2026-10-25 02:30:00' local, array({instants}) parts"
        )
        others = spark.sql("select timestamp'2026-10-25T00:00:00Z' on")
        with pytest.raises(InputError, match="column 'on' has values that are not Date"):
            run_batch(engine, {"s": rows, "others": others.selectExpr("on + interval '1' hour as on")})
        views = run_batch(engine, {"s": rows.where("at is not null"), "others": others})
        held = views.view("all").read().sort("at")
        assert views.view("others").read().rows() == [(date(2026, 10, 25),)]
        assert views.view("hours").read()["n"].to_list() == [1, 1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    first, second = datetime(2026, 10, 25, 0, 30), datetime(2026, 10, 25, 1, 30)
    local = datetime(2026, 10, 25, 2, 30)
    assert held.schema == columns
    assert held.rows() == [(first, local, [first, second]), (second, local, [first, second])]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a", "A"], "columns 'a' and 'A' differ only in case, which Spark does not tell apart; rename one"),
        ([""], "a column has an empty name, which Spark cannot select"),
    ],
)
def test_names_that_spark_cannot_use_are_refused(spark, checkpoint, columns, message):
    engine = ec.Engine()
    engine.view("all", engine.source("rows", dict.fromkeys(columns, pl.Int64)))
    rate = spark.readStream.format("rate").load()
    stream = rate.select(*["value"] * len(columns)).toDF(*columns)
    with pytest.raises(InputError, match=f"source 'rows': {re.escape(message)}"):
        run(engine, {"rows": stream}, checkpoint=checkpoint)
    assert not checkpoint.exists()


def test_a_stream_that_spark_aggregates_is_refused(spark, checkpoint):
    """With a watermark each result comes once, when it is final, and is accepted."""
    engine = ec.Engine()
    engine.view("all", engine.source("rows", {"value": pl.Int64, "count": pl.Int64}))
    counted = spark.readStream.format("rate").load().groupBy("value").count()
    with pytest.raises(
        InputError, match=r"source 'rows': Spark aggregates its rows .* declare the grouping as a view"
    ):
        run(engine, {"rows": counted}, checkpoint=checkpoint)
    assert not checkpoint.exists()


def test_a_source_in_python_needs_the_workers_python_here(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    with pytest.raises(
        PlanError, match=r"heartbeat_seconds= is a source in Python, .* unpack the archive there"
    ):
        require_python_of_workers("heartbeat_seconds=")
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    require_python_of_workers("heartbeat_seconds=")
