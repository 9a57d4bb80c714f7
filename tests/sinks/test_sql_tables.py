"""Tables of databases: odd names, keys that are none, half-made tables, urls with passwords."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from sink_places import ordered

sqlalchemy = pytest.importorskip("sqlalchemy")

NAMES = (
    ("n0", "n1"), ("c0", "c1"), ("c1", "c0"), ('q"x', "y z"), ("a.b", "a:b"), ("p%s", "%(x)s"), ("_change", "select"),
    ("x" * 70, "x" * 71), ("ü🦆", "e\u0301"), ("written", "epoch"),
)  # fmt: skip


@pytest.mark.parametrize("names", NAMES, ids=repr)
def test_any_names_of_columns_and_tables(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = names
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", dict.fromkeys(names, pl.Int64), kind="diffs"))
    table = f'{first}."{second}'
    delivery = view.to_sql(f"sqlite:///{tmp_path}/x.db", table, key=names)
    engine.push("s", {first: [1, 2, None, 5], second: [3, 4, None, None]})
    assert delivery.join(10)
    engine.push("s", {first: [1, None, 5, 5], second: [3, None, None, 6], "_diff": [-1, -1, -1, 1]})
    assert delivery.join(10)
    quoted = table.replace('"', '""')
    with sqlite3.connect(tmp_path / "x.db") as database:
        rows = ordered(database.execute(f'select * from "{quoted}"').fetchall())
    assert rows == ordered(view.read().rows())


def test_two_tables_with_long_names_that_begin_alike(tmp_path: Path) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}).group_by("a").len("n"))
    engine.push("s", {"a": [1]})
    for name in ("t" * 63, "t" * 64, "t" * 65):
        assert view.to_sql(f"sqlite:///{tmp_path}/x.db", name).join(10)


@pytest.mark.parametrize(
    ("names", "match"), [(("A", "a"), "one to databases that ignore case"), (("", "a"), "an empty name")]
)
def test_names_that_a_database_does_not_distinguish_are_refused_at_once(
    tmp_path: Path, names: tuple[str, str], match: str
) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", dict.fromkeys(names, pl.Int64)))
    with pytest.raises(ec.SinkError, match=match):
        view.to_sql(f"sqlite:///{tmp_path}/x.db", "t", key=names)
    assert not (tmp_path / "x.db").exists()


def test_columns_that_are_no_key_are_noticed_in_a_later_epoch(tmp_path: Path) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64, "b": pl.Int64}))
    delivery = view.to_sql(f"sqlite:///{tmp_path}/x.db", "t", key="a")
    engine.push("s", {"a": [1], "b": [1]})
    assert delivery.join(10)
    engine.push("s", {"a": [1], "b": [2]})
    with pytest.raises(ec.SinkError, match=r"there are several rows of one key 'a'.*name all columns"):
        delivery.join(10)


def test_a_table_whose_first_contents_failed_is_not_taken_for_that_of_others(tmp_path: Path) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"a": pl.String, "x": pl.Float64}, kind="upsert", key="a")
    view = engine.view("v", source)
    engine.push("s", {"a": ["q"], "x": [float("nan")]})
    url = f"sqlite:///{tmp_path}/x.db"
    with pytest.raises(ec.SinkError, match="has a NaN"):
        view.to_sql(url, "t").join(10)
    with sqlite3.connect(tmp_path / "x.db") as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
    assert tables == ["evercurrent_epochs"]
    engine.push("s", {"a": ["q"], "x": [1.5]})
    assert view.to_sql(url, "t").join(10)


def test_one_table_in_two_databases(tmp_path: Path) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}).group_by("a").len("n"))
    engine.push("s", {"a": [1]})
    for name in ("x", "y"):
        assert view.to_sql(f"sqlite:///{tmp_path}/{name}.db", "t").join(10)
    assert len(engine.stats()["sinks"]) == 2
    with pytest.raises(
        ec.PlanError, match=r"y.db is being written already, from view 'v'; close that delivery"
    ):
        view.to_sql(f"sqlite:///{tmp_path}/y.db", "t")


@pytest.mark.parametrize("change", ["alter table t rename to u", "drop table t"])
def test_a_table_that_is_renamed_or_dropped_beneath_its_sink_is_written_anew(
    change: str, tmp_path: Path
) -> None:
    """The renamed one keeps its rows and its index, and is nobody's."""
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}).group_by("a").len("n"))
    delivery = view.to_sql(f"sqlite:///{tmp_path}/x.db", "t", retry=ec.Retry(first_seconds=0.01))
    engine.push("s", {"a": [1, 2]})
    assert delivery.join(10)
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute(change)
    for rows in ([1, 3], [2]):
        engine.push("s", {"a": rows})
        assert delivery.join(10)
    with sqlite3.connect(tmp_path / "x.db") as database:
        assert sorted(database.execute("select * from t")) == [(1, 2), (2, 2), (3, 1)]
        if "rename" in change:
            assert sorted(database.execute("select * from u")) == [(1, 1), (2, 1)]


@pytest.mark.filterwarnings("ignore:Query string argument")
@pytest.mark.parametrize("url", ["sqlite:////nowhere/x.db?password=s3cret&cache=s3cret"])
def test_a_password_is_not_shown(url: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}).group_by("a").len("n"))
    delivery = view.to_sql(url, "t", retry=ec.Retry(first_seconds=0.02))
    delivery.drain(10)
    assert "s3cret" not in f"{delivery!r} {engine.stats()} {caplog.text}"


@pytest.mark.parametrize(
    "url", ["postgresql+nodriver://me:s3cret@host/d", "nosuch://me:s3cret@host/d", "me:s3cret@host"]
)
def test_an_error_about_a_url_does_not_show_its_password(url: str) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}).group_by("a").len("n"))
    with pytest.raises(ec.PlanError, match="opens no database") as raised:
        view.to_sql(url, "t")
    assert "s3cret" not in str(raised.value)


def test_panes_that_none_takes_back_are_refused(tmp_path: Path) -> None:
    engine = ec.Engine()
    log = engine.source("log", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at")
    panes = (
        log.window(ec.fixed("1h")).trigger(early=ec.each_row()).accumulate("accumulating").group_by("ip").len("n")
    )  # fmt: skip
    view = engine.view("panes", panes)
    key = ("ip", "window_start", "window_end")
    with pytest.raises(ec.PlanError, match=r"none of which takes back.*view\.latest\(\)"):
        view.to_sql(f"sqlite:///{tmp_path}/x.db", "t", key=key)
    last = engine.view("last", view.latest())
    assert last.to_sql(f"sqlite:///{tmp_path}/x.db", "t", key=key).join(10)


def test_what_is_no_url_is_refused() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"k": pl.Int64}).group_by("k").agg(n=pl.len()))
    with pytest.raises(ec.PlanError, match=r"to_sql: int opens no database; give a url as text"):
        view.to_sql(3, "t")  # type: ignore[arg-type]
    assert view.subscriptions == ()
