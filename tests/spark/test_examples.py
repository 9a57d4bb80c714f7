"""The two sinks that are given as examples: a view written elsewhere, each epoch once. Without Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import InputError
from evercurrent.spark_bridge.examples.delta_lake import merge_into_delta_lake
from evercurrent.spark_bridge.examples.relational import write_to_sqlite

Write = Callable[[pl.DataFrame], bool]
Read = Callable[[], list[tuple]]


@pytest.fixture(params=["delta lake", "sqlite"])
def sink(request, tmp_path) -> tuple[Write, Read]:
    if request.param == "sqlite":
        database = sqlite3.connect(tmp_path / "x.db")
        return (
            lambda delta: write_to_sqlite(database, "depth", delta, keys=["key"]),
            lambda: ordered(database.execute('SELECT * FROM "depth"').fetchall()),
        )
    deltalake = pytest.importorskip("deltalake")
    uri = str(tmp_path / "table")
    return (
        lambda delta: merge_into_delta_lake(uri, delta, keys=["key"]),
        lambda: ordered(pl.DataFrame(deltalake.DeltaTable(uri).to_pyarrow_table()).rows()),
    )


def ordered(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=repr)


def delta(epoch: int, *rows: tuple) -> pl.DataFrame:
    schema = {"key": pl.String, "n": pl.Int64, "_epoch": pl.UInt64, "_diff": pl.Int64}
    return pl.DataFrame([(key, n, epoch, diff) for key, n, diff in rows], schema=schema, orient="row")


def test_deltas_are_merged_by_key(sink):
    write, read = sink
    assert write(delta(1, ("a", 1, 1), ("b", 1, 1), (None, 5, 1)))
    assert write(delta(2, ("a", 1, -1), ("a", 2, 1), ("b", 1, -1), ("c", 9, 1)))
    assert read() == ordered([("a", 2), ("c", 9), (None, 5)])
    assert write(delta(7, (None, 5, -1)))
    assert read() == ordered([("a", 2), ("c", 9)])


def test_an_epoch_that_is_told_again_changes_nothing(sink):
    write, read = sink
    first, second = delta(1, ("a", 1, 1)), delta(2, ("a", 1, -1), ("b", 3, 1))
    assert write(first)
    assert write(second)
    assert not write(second)
    assert not write(first)
    assert read() == [("b", 3)]
    assert write(pl.concat([first, second, delta(3, ("a", 4, 1))]))
    assert read() == [("a", 4), ("b", 3)]


def test_several_epochs_come_to_one_change(sink):
    write, read = sink
    assert write(
        pl.concat([delta(1, ("a", 1, 1)), delta(2, ("a", 1, -1), ("a", 2, 1)), delta(3, ("x", 1, 1))])
    )
    assert write(pl.concat([delta(4, ("a", 2, -1)), delta(5, ("a", 3, 1)), delta(6, ("x", 1, -1))]))
    assert read() == [("a", 3)]


def test_a_key_with_two_rows_is_refused_and_nothing_is_written(sink):
    write, read = sink
    write(delta(1, ("a", 1, 1)))
    with pytest.raises(InputError, match="several rows of one key 'key'"):
        write(delta(2, ("b", 1, 1), ("b", 2, 1)))
    assert write(delta(2, ("b", 1, 1)))
    assert read() == [("a", 1), ("b", 1)]


def test_a_write_that_fails_half_way_is_not_there(tmp_path):
    database = sqlite3.connect(tmp_path / "x.db")
    write_to_sqlite(database, "t", delta(1, ("a", 1, 1)), keys=["key"])
    database.execute(
        "CREATE TRIGGER fails BEFORE INSERT ON t WHEN NEW.n = 13 BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with pytest.raises(sqlite3.IntegrityError):
        write_to_sqlite(database, "t", delta(2, ("a", 1, -1), ("a", 2, 1), ("b", 13, 1)), keys=["key"])
    assert database.execute("SELECT * FROM t").fetchall() == [("a", 1)]
    assert write_to_sqlite(database, "t", delta(2, ("a", 1, -1), ("a", 2, 1)), keys=["key"])


def test_a_view_of_an_embedded_engine_is_kept_so(sink, tmp_path):
    write, read = sink
    engine = ec.Engine()
    words = engine.source("words", {"word": pl.String}, kind="diffs")
    counts = engine.view("counts", words.group_by(key="word").agg(n=pl.len()))
    counts.subscribe(write)
    engine.push("words", {"word": ["x", "y", "x"]})
    engine.push("words", {"word": ["y", "z"], "_diff": [-1, 1]})
    assert read() == ordered(counts.read().rows())


def test_times_and_decimals_are_text_in_sqlite(tmp_path):
    database = sqlite3.connect(tmp_path / "x.db")
    rows = pl.DataFrame({"at": [datetime(2026, 1, 2, 3)], "price": ["1.50"], "_epoch": [1], "_diff": [1]})
    written = rows.with_columns(pl.col("price").cast(pl.Decimal(10, 2)), pl.col("_epoch").cast(pl.UInt64))
    write_to_sqlite(database, "t", written, keys=["at"])
    assert database.execute("SELECT * FROM t").fetchall() == [("2026-01-02 03:00:00.000000", "1.50")]
    gone = written.with_columns(pl.lit(2, pl.UInt64).alias("_epoch"), pl.lit(-1, pl.Int64).alias("_diff"))
    write_to_sqlite(database, "t", gone, keys=["at"])
    assert database.execute("SELECT * FROM t").fetchall() == []


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=3), max_size=6),
    st.data(),
)
def test_any_history_told_any_number_of_times_is_the_view(history, data):
    engine = ec.Engine()
    source = engine.source("s", {"key": pl.String, "n": pl.Int64}, kind="upsert", key="key")
    view = engine.view("v", source)
    for rows in history:
        engine.push("s", pl.DataFrame(rows, schema={"key": pl.String, "n": pl.Int64}, orient="row"))
    deltas = list(view.deltas())
    database = sqlite3.connect(":memory:")
    told = 0
    while told < len(deltas):
        again = data.draw(st.integers(0, told), label="told again from")
        upto = data.draw(st.integers(told + 1, len(deltas)), label="up to")
        write_to_sqlite(database, "t", pl.concat(deltas[again:upto]), keys=["key"])
        told = upto
    if deltas:
        assert ordered(database.execute("SELECT * FROM t").fetchall()) == ordered(view.read().rows())
