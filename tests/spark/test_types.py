"""Columns between polars and Spark, through a real Spark there and back."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

from evercurrent.core.data.columns.polars_versions import MAP
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.spark_bridge.runtime.spark_types import (
    arrow_schema,
    frame_to_spark_arrow,
    polars_schema,
    rows_from_arrow,
    spark_schema,
)

EVERY = pl.DataFrame(
    {
        "boolean": [True, None],
        "i8": pl.Series([-128, 127], dtype=pl.Int8),
        "i16": pl.Series([-32768, None], dtype=pl.Int16),
        "i32": pl.Series([-(2**31), 7], dtype=pl.Int32),
        "i64": pl.Series([-(2**63), 2**63 - 1], dtype=pl.Int64),
        "u8": pl.Series([255, None], dtype=pl.UInt8),
        "u16": pl.Series([65535, 0], dtype=pl.UInt16),
        "u32": pl.Series([2**32 - 1, 0], dtype=pl.UInt32),
        "u64": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
        "f16": pl.Series([0.5, float("nan")], dtype=pl.Float16),
        "f32": pl.Series([0.1, float("inf")], dtype=pl.Float32),
        "f64": pl.Series([-0.0, float("nan")], dtype=pl.Float64),
        "text": ["", "ä €"],
        "categorical": pl.Series(["x", None], dtype=pl.Categorical),
        "enum": pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"])),
        "binary": [b"\x00\xff", None],
        "date": [date(1, 1, 1), date(9999, 12, 31)],
        "naive": pl.Series([datetime(1900, 1, 1, 0, 0, 0, 1), None], dtype=pl.Datetime("us")),
        "milli": pl.Series([datetime(2026, 3, 29, 2, 30), None], dtype=pl.Datetime("ms")),
        "zoned": pl.Series([datetime(2026, 10, 25, 0, 30), None], dtype=pl.Datetime("us")).dt.replace_time_zone("UTC"),
        "berlin": pl.Series([datetime(2026, 3, 29, 1, 30), None], dtype=pl.Datetime("us"))
        .dt.replace_time_zone("UTC")
        .dt.convert_time_zone("Europe/Berlin"),
        "duration": pl.Series([timedelta(days=-1, microseconds=1), None], dtype=pl.Duration("us")),
        "seconds": pl.Series([timedelta(seconds=1), None], dtype=pl.Duration("ms")),
        "decimal": pl.Series([Decimal("123456789012345678.90"), None], dtype=pl.Decimal(38, 2)),
        "list": pl.Series([[1, None], []], dtype=pl.List(pl.Int64)),
        "names": pl.Series([["a"], None], dtype=pl.List(pl.Categorical)),
        "pair": pl.Series([[1, 2], [3, None]], dtype=pl.Array(pl.UInt32, 2)),
        "struct": pl.Series(
            [{"a": 1, "b": ["x"]}, {"a": None, "b": None}], dtype=pl.Struct({"a": pl.UInt8, "b": pl.List(pl.String)})
        ),
        **({} if MAP is None else {"map": pl.Series([{"a": 1}, {}], dtype=pl.Map(pl.String, pl.Int64))}),
        "nothing": pl.Series([None, None], dtype=pl.Null),
    }
)  # fmt: skip


def through_spark(spark: Any, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame as Spark has it after a Python worker and the JVM have read and written every row."""
    schema = spark_schema("test", frame.schema)
    given = spark.createDataFrame(frame_to_spark_arrow(frame), schema=schema)
    returned = given.mapInArrow(lambda batches: batches, schema)
    assert [field.dataType for field in returned.schema] == [field.dataType for field in schema]
    return rows_from_arrow(returned.toArrow(), frame.schema)


def test_every_type_comes_back_as_it_went(spark):
    for zone in ("UTC", "America/New_York"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            assert_frame_equal(through_spark(spark, EVERY), EVERY)
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_no_rows(spark):
    assert_frame_equal(through_spark(spark, EVERY.clear()), EVERY.clear())


def test_in_tasks_rows_are_exactly_what_was_declared(spark):
    """What a stage does: read declared rows from Arrow in a task, give rows back as Arrow."""
    schema, types = spark_schema("test", EVERY.schema), dict(EVERY.schema)

    def twice(batches):
        for batch in batches:
            rows = rows_from_arrow(batch, types)
            yield from frame_to_spark_arrow(pl.concat([rows, rows])).to_batches()

    given = spark.createDataFrame(frame_to_spark_arrow(EVERY), schema=schema).coalesce(1)
    returned = rows_from_arrow(given.mapInArrow(twice, schema).toArrow(), EVERY.schema)
    assert_frame_equal(returned, pl.concat([EVERY, EVERY]))


KINDS = [
    pl.Boolean, pl.Int8, pl.Int64, pl.UInt8, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64, pl.String, pl.Binary,
    pl.Date, pl.Datetime("us"), pl.Datetime("us", "Asia/Kolkata"), pl.Duration("us"), pl.Decimal(30, 5), pl.Categorical,
    pl.List(pl.Int32), pl.List(pl.List(pl.String)), pl.Struct({"a": pl.Int64, "b": pl.Datetime("us")}),
]  # fmt: skip


@settings(max_examples=15)
@given(frame=dataframes(max_cols=6, max_size=20, allowed_dtypes=KINDS))
def test_any_frame_comes_back(spark, frame):
    if frame.width:
        assert_frame_equal(through_spark(spark, frame), frame, categorical_as_str=True)


@given(frame=dataframes(max_cols=6, max_size=20, allowed_dtypes=KINDS))
def test_any_frame_comes_back_from_arrow(frame):
    table = frame_to_spark_arrow(frame)
    assert table.schema == arrow_schema(frame.schema)
    assert_frame_equal(rows_from_arrow(table, frame.schema), frame, categorical_as_str=True)


def of_nothing(kind: pa.DataType) -> pa.Array:
    """A list of no rows as Java's Arrow writes it: without the one offset."""
    return pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(b"")], children=[pa.array([], kind.value_type)])


def as_received(table: pa.Table) -> pa.Table:
    """A table as it comes out of a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@pytest.mark.parametrize("wrapped", ["list", "struct", "array"])
def test_lists_without_offsets_inside_of_others_are_read(wrapped):
    inner = pa.list_(pa.string())
    lists = pa.Array.from_buffers(
        pa.list_(inner), 1, [pa.py_buffer(b"\0"), pa.py_buffer(bytes(8))], children=[of_nothing(inner)]
    )
    column, dtype, row = {
        "list": (lists, pl.List(pl.List(pl.String)), None),
        "struct": (
            pa.StructArray.from_arrays([lists], ["of"]),
            pl.Struct({"of": pl.List(pl.List(pl.String))}),
            {"of": None},
        ),
        "array": (
            pa.FixedSizeListArray.from_arrays(lists, 1),
            pl.Array(pl.List(pl.List(pl.String)), 1),
            [None],
        ),
    }[wrapped]
    table = as_received(pa.table({"n": [1], "col": column}))
    assert rows_from_arrow(table, {"n": pl.Int64(), "col": dtype}).rows() == [(1, row)]


def test_the_epoch_is_a_bigint(spark):
    frame = pl.DataFrame({"n": [1], "_epoch": pl.Series([7], dtype=pl.UInt64), "_diff": [-1]})
    schema = spark_schema("view 'v'", frame.schema)
    assert schema.simpleString() == "struct<n:bigint,_epoch:bigint,_diff:bigint>"
    assert spark.createDataFrame(frame_to_spark_arrow(frame), schema=schema).collect()[0].asDict() == {
        "n": 1,
        "_epoch": 7,
        "_diff": -1,
    }


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (pl.Time, "nanoseconds since midnight"),
        (pl.Datetime("ns"), "cast_time_unit('us')"),
        (pl.Duration("ns"), "cast_time_unit('us')"),
        (pl.Int128, "pl.Int64"),
        (pl.UInt128, "pl.Int64"),
        (pl.Struct({}), "drop the column"),
        (pl.Object, "plain type"),
        (pl.Array(pl.Int64, (2, 2)), "pl.List"),
    ],
)
def test_what_spark_does_not_have_is_refused_by_name(dtype, words):
    with pytest.raises(PlanError, match=r"source 'hits': column 'at'") as refused:
        spark_schema("source 'hits'", {"at": dtype() if isinstance(dtype, type) else dtype})
    assert words in str(refused.value)


def test_of_nested_columns_the_way_to_the_part_is_named():
    with pytest.raises(PlanError, match=r"column 'a\.b\[\]' is Time"):
        spark_schema("source 'hits'", {"a": pl.Struct({"b": pl.List(pl.Time)})})


@pytest.mark.skipif(MAP is None, reason="polars has maps since 2.0")
def test_schemas_of_spark_as_polars(spark):
    query = """select true as a, cast(1 as tinyint) b, cast(1 as smallint) c, 1 d, 1L e, cast(1 as float) f, 1d g,
        cast(1 as decimal(7,2)) h, 'x' i, binary('x') j, date'2026-01-01' k, timestamp'2026-01-01 00:00:00' l,
        timestamp_ntz'2026-01-01 00:00:00' m, interval '1' day n, array(1) o, named_struct('p', 'q') p, map('a', 1) q,
        null r"""
    found = polars_schema("source 's'", spark.sql(query).schema)
    assert list(found.values()) == [
        pl.Boolean(), pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64(), pl.Decimal(7, 2),
        pl.String(), pl.Binary(), pl.Date(), pl.Datetime("us", "UTC"), pl.Datetime("us"), pl.Duration("us"),
        pl.List(pl.Int32), pl.Struct({"p": pl.String}), pl.Map(pl.String, pl.Int32), pl.Null(),
    ]  # fmt: skip


def test_what_polars_does_not_have_is_refused_by_name(spark):
    with pytest.raises(InputError, match=r"source 's': column 'v' is variant.*variant_get"):
        polars_schema("source 's'", spark.sql("select parse_json('1') as v").schema)
    with pytest.raises(InputError, match=r"source 's': column 'm\[\]' is interval month.*months"):
        polars_schema("source 's'", spark.sql("select array(interval '1' month) as m").schema)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (pa.array([-1], pa.int16()), pl.UInt8),
        (pa.array([2**33], pa.int64()), pl.UInt32),
        (pa.array([Decimal(2**64)], pa.decimal128(20, 0)), pl.UInt64),
        (pa.array(["z"]), pl.Enum(["a"])),
        (pa.array([[1, 2, 3]], pa.list_(pa.int64())), pl.Array(pl.Int64, 2)),
        (pa.array([1], pa.timestamp("us")), pl.Datetime("ms")),
        (pa.array([[1]], pa.list_(pa.duration("us"))), pl.List(pl.Duration("ms"))),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_column(value, declared):
    with pytest.raises(InputError, match=r"source 's': column 'n' has values"):
        rows_from_arrow(pa.table({"n": value}), {"n": declared}, "source 's'")


def test_large_frames_come_in_pieces(monkeypatch):
    monkeypatch.setattr("evercurrent.spark_bridge.runtime.spark_types.SLICE_BYTES", 100)
    frame = pl.DataFrame({"a": range(100), "b": ["text"] * 100})
    table = frame_to_spark_arrow(frame)
    assert table.column("a").num_chunks > 1
    assert_frame_equal(rows_from_arrow(table, frame.schema), frame)
