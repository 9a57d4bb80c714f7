"""Tables that hold a view, one row per key: each epoch once, however often a delta is written, whole or not at all."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import InputError, SinkError
from evercurrent.views.sinks.delta_table import DeltaTableSink
from evercurrent.views.sinks.iceberg_table import IcebergTable
from evercurrent.views.sinks.origin import Origin
from evercurrent.views.sinks.sink import Sink
from evercurrent.views.sinks.sql_table import SqlTable
from sink_places import ordered

Read = Callable[[], list[tuple]]

SCHEMA = pl.Schema({"key": pl.String(), "n": pl.Int64()})


@pytest.fixture(params=["delta lake", "sqlite", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[str], Sink], Read]:
    """A function that opens the sink for an origin, and one that reads what is there."""
    if request.param == "sqlite":
        pytest.importorskip("sqlalchemy")
        return lambda origin: SqlTable(
            f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of(origin)
        ), lambda: in_sqlite(tmp_path / "x.db")
    if request.param == "iceberg":
        return in_iceberg(tmp_path)
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    return lambda origin: DeltaTableSink(path, ["key"], "depth", SCHEMA, Origin.of(origin)), lambda: ordered(
        pl.DataFrame(deltalake.DeltaTable(path).to_pyarrow_table()).rows()
    )


def in_sqlite(path: Path) -> list[tuple]:
    with sqlite3.connect(path) as database:
        return ordered(database.execute('SELECT * FROM "depth"').fetchall())


def in_iceberg(folder: Path) -> tuple[Callable[[str], Sink], Read]:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    (folder / "warehouse").mkdir()
    catalog = catalogs.load_catalog(
        "test", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    return lambda origin: IcebergTable(
        catalog, "shop.depth", ["key"], "depth", SCHEMA, Origin.of(origin)
    ), lambda: ordered(pl.DataFrame(catalog.load_table("shop.depth").scan().to_arrow()).rows())


def delta(epoch: int, *rows: tuple) -> pl.DataFrame:
    schema = {"key": pl.String, "n": pl.Int64, "_epoch": pl.UInt64, "_diff": pl.Int64}
    return pl.DataFrame([(key, n, epoch, diff) for key, n, diff in rows], schema=schema, orient="row")


NOTHING = SCHEMA.to_frame()


def test_deltas_are_merged_by_key(table):
    opened, read = table
    sink = opened("o")
    assert sink.position() is None
    sink.begin(NOTHING, 0)
    sink.write(delta(1, ("a", 1, 1), ("b", 1, 1), (None, 5, 1)))
    sink.write(delta(2, ("a", 1, -1), ("a", 2, 1), ("b", 1, -1), ("c", 9, 1)))
    assert read() == ordered([("a", 2), ("c", 9), (None, 5)])
    sink.write(delta(7, (None, 5, -1)))
    assert read() == ordered([("a", 2), ("c", 9)])
    assert sink.position() == opened("o").position() == 7


def test_an_epoch_that_is_written_again_changes_nothing(table):
    opened, read = table
    sink = opened("o")
    first, second = delta(1, ("a", 1, 1)), delta(2, ("a", 1, -1), ("b", 3, 1))
    sink.begin(NOTHING, 0)
    for each in (first, second, second, first):
        sink.write(each)
    assert read() == [("b", 3)]
    assert sink.position() == 2
    sink.write(pl.concat([first, second, delta(3, ("a", 4, 1))]))
    assert read() == [("a", 4), ("b", 3)]


def test_several_epochs_come_to_one_change(table):
    opened, read = table
    sink = opened("o")
    sink.begin(NOTHING, 0)
    sink.write(pl.concat([delta(1, ("a", 1, 1)), delta(2, ("a", 1, -1), ("a", 2, 1)), delta(3, ("x", 1, 1))]))
    sink.write(pl.concat([delta(4, ("a", 2, -1)), delta(5, ("a", 3, 1)), delta(6, ("x", 1, -1))]))
    assert read() == [("a", 3)]


def test_a_key_with_two_rows_is_refused_and_nothing_is_written(table):
    opened, read = table
    sink = opened("o")
    with pytest.raises(InputError, match="several rows of one key 'key', such as"):
        sink.begin(pl.DataFrame({"key": ["a", "a"], "n": [1, 2]}), 0)
    assert sink.position() is None
    sink.begin(NOTHING, 0)
    sink.write(delta(1, ("a", 1, 1)))
    with pytest.raises(InputError, match="several rows of one key 'key'"):
        sink.write(delta(2, ("b", 1, 1), ("b", 2, 1)))
    sink.write(delta(2, ("b", 1, 1)))
    assert read() == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_view_that_begins_a_table_of_a_database_meanwhile_keeps_it(tmp_path, number, monkeypatch):
    """The other one begins before either of the two transactions in which a table begins."""
    pytest.importorskip("sqlalchemy")
    slow, quick = (
        SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of("o", view))
        for view in ("slow", "quick")
    )
    transaction, numbers = slow._transaction, count(1)

    def interrupted() -> object:
        if next(numbers) == number:
            quick.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
        return transaction()

    monkeypatch.setattr(slow, "_transaction", interrupted)
    assert slow.position() is quick.position() is None
    with pytest.raises(SinkError, match="is written by another view"):
        slow.begin(NOTHING, 0)
    quick.write(delta(1, ("b", 1, 1)))
    assert in_sqlite(tmp_path / "x.db") == [("a", 1), ("b", 1)]


def test_a_table_that_is_begun_while_its_position_is_read_has_a_writer(tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    first, second = (
        SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of(token))
        for token in ("first", "second")
    )
    is_there = first._is_there

    def interrupted(*arguments: object) -> bool:
        second.begin(NOTHING, 0)
        return is_there(*arguments)

    monkeypatch.setattr(first, "_is_there", interrupted)
    assert first.position() is None


def test_a_view_that_claims_a_table_later_may_have_it(tmp_path, monkeypatch):
    """A claim alone is no table: that of a view whose contents were refused must not keep the name for ever."""
    pytest.importorskip("sqlalchemy")
    slow, quick = (
        SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of("o", view))
        for view in ("slow", "quick")
    )
    create = quick._create

    def interrupted(connection: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(quick, "_create", interrupted)
    with pytest.raises(OSError, match="disk is full"):
        quick.begin(NOTHING, 0)
    monkeypatch.setattr(quick, "_create", create)
    slow.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
    with pytest.raises(SinkError, match="is written by another view"):
        quick.begin(NOTHING, 0)
    assert in_sqlite(tmp_path / "x.db") == [("a", 1)]


def test_another_engine_begins_anew_and_the_first_does_not_go_on(table):
    opened, read = table
    first, second = opened("first"), opened("second")
    first.begin(pl.DataFrame({"key": ["a", "b"], "n": [1, 2]}), 5)
    assert second.position() is None
    second.begin(pl.DataFrame({"key": ["c"], "n": [3]}), 5)
    assert read() == [("c", 3)]
    assert first.position() is None
    with pytest.raises(SinkError, match="another engine"):
        first.write(delta(6, ("a", 1, -1)))
    assert read() == [("c", 3)]


def test_a_write_that_fails_half_way_is_not_there(tmp_path):
    pytest.importorskip("sqlalchemy")
    sink = SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of("o"))
    sink.begin(NOTHING, 0)
    sink.write(delta(1, ("a", 1, 1)))
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute(
            "CREATE TRIGGER fails BEFORE INSERT ON depth WHEN NEW.n = 13 BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(Exception, match="no"):
        sink.write(delta(2, ("a", 1, -1), ("a", 2, 1), ("b", 13, 1)))
    assert in_sqlite(tmp_path / "x.db") == [("a", 1)]
    sink.write(delta(2, ("a", 1, -1), ("a", 2, 1)))
    assert in_sqlite(tmp_path / "x.db") == [("a", 2)]


def test_a_table_of_others_is_left_alone(tmp_path):
    pytest.importorskip("sqlalchemy")
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("CREATE TABLE depth (key, n)")
        database.execute("INSERT INTO depth VALUES ('mine', 1)")
    sink = SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], SCHEMA, Origin.of("o"))
    for refused in (sink.position, lambda: sink.begin(NOTHING, 0)):
        with pytest.raises(SinkError, match="no view has written it; give another name"):
            refused()
    assert in_sqlite(tmp_path / "x.db") == [("mine", 1)]


def test_other_columns_are_refused(tmp_path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path}/x.db"
    SqlTable(url, "depth", ["key"], SCHEMA, Origin.of("o")).begin(NOTHING, 0)
    wider = pl.Schema({**SCHEMA, "more": pl.Int64()})
    with pytest.raises(
        SinkError, match="has the columns key TEXT, n BIGINT, and the view has key TEXT, n BIGINT, more"
    ):
        SqlTable(url, "depth", ["key"], wider, Origin.of("o")).position()


@pytest.mark.parametrize(
    "dtype", [pl.UInt64, pl.Decimal(10, 2), pl.Datetime("ns"), pl.List(pl.Int64), pl.Duration("us")]
)
def test_types_that_the_database_does_not_hold_are_refused_by_name(tmp_path, dtype):
    pytest.importorskip("sqlalchemy")
    with pytest.raises(SinkError, match=r"column 'n' is .*(cast it to pl\.|write it as JSON).* in the view"):
        SqlTable(
            f"sqlite:///{tmp_path}/x.db",
            "depth",
            ["key"],
            pl.Schema({"key": pl.String, "n": dtype}),
            Origin.of("o"),
        )


def test_not_a_number_is_refused_by_sqlite(tmp_path):
    pytest.importorskip("sqlalchemy")
    schema = {"key": pl.String(), "n": pl.Float64()}
    sink = SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], schema, Origin.of("o"))
    with pytest.raises(SinkError, match="column 'n' has a NaN"):
        sink.begin(pl.DataFrame({"key": ["a"], "n": [float("nan")]}), 0)


def test_every_type_that_is_held_comes_back(tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901)
    rows = pl.DataFrame(
        {
            "key": ["a", "b"], "small": [1, None], "real": [0.1, None], "flag": [True, None], "day": [moment.date(), None],
            "at": [moment, None], "zoned": [moment.replace(tzinfo=UTC), None], "bytes": [b"\x00x", None],
        }
    ).with_columns(pl.col("small").cast(pl.UInt32), pl.col("key").cast(pl.Categorical).alias("kind"))  # fmt: skip
    sink = SqlTable(f"sqlite:///{tmp_path}/x.db", "depth", ["key"], rows.schema, Origin.of("o"))
    sink.begin(rows, 0)
    table = sqlalchemy.Table(
        "depth", sqlalchemy.MetaData(), autoload_with=sqlalchemy.create_engine(f"sqlite:///{tmp_path}/x.db")
    )
    with sqlalchemy.create_engine(f"sqlite:///{tmp_path}/x.db").connect() as connection:
        there = connection.execute(sqlalchemy.select(table).order_by("key")).fetchall()
    assert [tuple(row) for row in there] == [
        ("a", 1, 0.1, True, moment.date(), moment, moment, b"\x00x", "a"),
        ("b", *[None] * 7, "b"),
    ]


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=3), max_size=6),
    st.data(),
)
def test_any_history_written_any_number_of_times_is_the_view(history, data):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = ec.Engine()
    source = engine.source("s", {"key": pl.String, "n": pl.Int64}, kind="upsert", key="key")
    view = engine.view("v", source)
    for rows in history:
        engine.push("s", pl.DataFrame(rows, schema={"key": pl.String, "n": pl.Int64}, orient="row"))
    deltas = list(view.deltas())
    database = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    sink = SqlTable(database, "t", ["key"], view.schema, Origin.of("o"))
    sink.begin(NOTHING, 0)
    written = 0
    while written < len(deltas):
        again = data.draw(st.integers(0, written), label="written again from")
        upto = data.draw(st.integers(written + 1, len(deltas)), label="up to")
        sink.write(pl.concat(deltas[again:upto]))
        written = upto
    with database.connect() as connection:
        rows = [tuple(row) for row in connection.execute(sqlalchemy.text("SELECT * FROM t"))]
    assert ordered(rows) == ordered(view.read().rows())


@pytest.mark.parametrize("names", [("n0", "n1"), ("a.b", "a:b"), ("__gone", "b"), ('"q', "y z"), ("t", "s")])
def test_delta_merges_by_several_keys_of_any_names(tmp_path, names):
    deltalake = pytest.importorskip("deltalake")
    schema = pl.Schema({**dict.fromkeys(names, pl.Int64), "n": pl.Int64})
    sink = DeltaTableSink(str(tmp_path / "t"), names, "v", schema, Origin.of("o"))
    contents = [(1, 2, 3), (1, None, 4), (None, None, 5), (6, 7, 8)]
    sink.begin(pl.DataFrame(contents, schema=schema, orient="row"), 1)
    changed = [
        (1, 2, 3, 2, -1),
        (1, 2, 30, 2, 1),
        (1, None, 4, 2, -1),
        (None, None, 5, 2, -1),
        (None, 1, 9, 2, 1),
    ]
    whole = {**schema, "_epoch": pl.UInt64, "_diff": pl.Int64}
    sink.write(pl.DataFrame(changed, schema=whole, orient="row"))
    rows = pl.DataFrame(deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table()).rows()
    assert ordered(rows) == ordered([(1, 2, 30), (6, 7, 8), (None, 1, 9)])


@pytest.mark.parametrize(("names", "match"), [(("A", "a"), "ignore case"), (("", "b"), "an empty name")])
def test_names_that_tables_on_files_do_not_distinguish_are_refused(tmp_path, names, match):
    pytest.importorskip("deltalake")
    with pytest.raises(SinkError, match=match):
        DeltaTableSink(str(tmp_path / "t"), names, "v", dict.fromkeys(names, pl.Int64()), Origin.of("o"))


def test_iceberg_takes_null_and_not_a_number_as_keys(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog")
    (tmp_path / "warehouse").mkdir()
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = catalogs.load_catalog("test", type="sql", uri=uri, warehouse=warehouse)
    schema = pl.Schema({"a": pl.Float64, "b": pl.Int64, "n": pl.Int64})
    sink = IcebergTable(catalog, "shop.t", ["a", "b"], "v", schema, Origin.of("o"))
    nan = float("nan")
    contents = [(nan, 1, 1), (nan, None, 2), (None, 1, 3), (0.5, 1, 4), (0.5, 2, 5), (nan, 2, 6)]
    sink.begin(pl.DataFrame(contents, schema=schema, orient="row"), 1)
    whole = {**schema, "_epoch": pl.UInt64, "_diff": pl.Int64}
    sink.write(pl.DataFrame([(*row, 2, -1) for row in contents[:4]], schema=whole, orient="row"))
    rows = pl.DataFrame(catalog.load_table("shop.t").scan().to_arrow()).rows()
    assert list(map(repr, ordered(rows))) == list(map(repr, ordered([(0.5, 2, 5), (nan, 2, 6)])))


@pytest.mark.parametrize("dtype", [pl.Float16, pl.Float32, pl.Float64])
@pytest.mark.parametrize("keys", [("a",), ("a", "b")], ids=["one key", "two keys"])
def test_iceberg_takes_infinities_as_keys(tmp_path, dtype, keys):
    catalogs = pytest.importorskip("pyiceberg.catalog")
    (tmp_path / "warehouse").mkdir()
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = catalogs.load_catalog("test", type="sql", uri=uri, warehouse=warehouse)
    engine = ec.Engine()
    source = engine.source("s", {"a": dtype, "b": pl.Int64})
    view = engine.view("v", source.group_by(*keys).len("n"))
    delivery = view.to_iceberg("shop.t", catalog)
    most = {pl.Float16: 65504.0, pl.Float32: 3.4028234663852886e38, pl.Float64: 1.7976931348623157e308}[dtype]
    numbers = [float("inf"), float("-inf"), most, -most, 1.0, 0.0, float("nan"), None]
    for some in (numbers, numbers, numbers[:2], numbers[2:4], [numbers[0]], [numbers[1], -0.0]):
        engine.push("s", pl.DataFrame({"a": some, "b": [1] * len(some)}, schema=source.schema))
        assert delivery.join(20)
        rows = pl.DataFrame(catalog.load_table("shop.t").scan().to_arrow()).rows()
        assert list(map(repr, ordered(rows))) == list(map(repr, ordered(view.read().rows())))


class Interrupted(Origin):
    """An origin during whose next token, which each commit takes after it has read the table, something else happens."""

    meanwhile: Callable[[], object] | None = None

    def token(self, epoch: int) -> str:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().token(epoch)


@pytest.fixture(params=["delta lake", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[str, Origin], Sink], Read]:
    """A function that opens the sink of a view, and one that reads what is there."""
    if request.param == "iceberg":
        _, read = in_iceberg(tmp_path)
        uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
        catalog = {"type": "sql", "name": "test", "uri": uri, "warehouse": warehouse}
        return lambda view, origin: IcebergTable(catalog, "shop.depth", ["key"], view, SCHEMA, origin), read
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    return lambda view, origin: DeltaTableSink(path, ["key"], view, SCHEMA, origin), lambda: ordered(
        pl.DataFrame(deltalake.DeltaTable(path).to_pyarrow_table()).rows()
    )


def test_the_first_commit_of_two_views_that_begin_one_table_is_the_table(lake):
    opened, read = lake
    origin = Interrupted("slow", lambda: [(-1, "o")])
    slow, quick = opened("slow", origin), opened("quick", Origin.of("o", "quick"))
    assert slow.position() is quick.position() is None
    origin.meanwhile = lambda: quick.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
    with pytest.raises(Exception, match="exist"):
        slow.begin(NOTHING, 0)
    for call in (slow.position, lambda: slow.begin(NOTHING, 0)):
        with pytest.raises(SinkError, match="this view has not written it"):
            call()
    quick.write(delta(1, ("b", 1, 1)))
    assert read() == [("a", 1), ("b", 1)]


def test_a_table_that_another_view_begins_after_the_first_look_is_left_alone(lake):
    opened, read = lake
    slow, quick = opened("slow", Origin.of("o", "slow")), opened("quick", Origin.of("o", "quick"))
    assert slow.position() is quick.position() is None
    quick.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
    with pytest.raises(SinkError, match="this view has not written it"):
        slow.begin(NOTHING, 0)
    assert read() == [("a", 1)]


def test_of_writers_that_create_a_table_at_once_one_does(lake, tmp_path):
    opened, _ = lake
    views = [f"view {number}" for number in range(6)]
    sinks = [opened(view, Origin.of("o", view)) for view in views]
    start = threading.Barrier(len(sinks))

    def begun(sink: Sink) -> bool:
        assert sink.position() is None
        start.wait(20)
        try:
            sink.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
        except Exception:
            return False
        return True

    with ThreadPoolExecutor(len(sinks)) as team:
        have_begun = list(team.map(begun, sinks))
    assert sum(have_begun) == 1
    for sink, has_begun in zip(sinks, have_begun, strict=True):
        if has_begun:
            assert sink.position() == 0
        else:
            with pytest.raises(SinkError, match="this view has not written it"):
                sink.position()


@pytest.mark.parametrize("step", ["write", "begin"])
def test_a_commit_upon_a_table_that_another_engine_has_begun_meanwhile_fails(lake, step):
    opened, read = lake
    origin = Interrupted("depth", lambda: [(-1, "first")])
    first, second = opened("depth", origin), opened("depth", Origin.of("second", "depth"))
    first.begin(pl.DataFrame({"key": ["a"], "n": [1]}), 0)
    first.write(delta(1, ("b", 1, 1)))
    origin.meanwhile = lambda: second.begin(pl.DataFrame({"key": ["c"], "n": [3]}), 5)
    with pytest.raises(Exception, match=r"(?i)commit|changed"):
        first.write(delta(2, ("d", 1, 1))) if step == "write" else first.begin(NOTHING, 2)
    assert read() == [("c", 3)]
    assert first.position() is None
    second.write(delta(6, ("e", 1, 1)))
    assert read() == [("c", 3), ("e", 1)]


def test_properties_of_an_iceberg_catalog_may_name_it(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog")
    (tmp_path / "warehouse").mkdir()
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    schema = pl.Schema({"a": pl.Int64, "n": pl.Int64})
    sink = IcebergTable({"name": "mine", **properties}, "shop.t", ["a"], "v", schema, Origin.of("o"))
    sink.begin(pl.DataFrame([(1, 2)], schema=schema, orient="row"), 1)
    rows = catalogs.load_catalog("mine", **properties).load_table("shop.t").scan().to_arrow()
    assert pl.DataFrame(rows).rows() == [(1, 2)]
