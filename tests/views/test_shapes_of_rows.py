"""What is pushed as rows: lists and tuples of them, one row, generators; and what is no rows, refused by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evercurrent as ec

SCHEMA = {"k": pl.String, "v": pl.Int64}
ROWS = [("a", 1), ("b", 2)]
NAMED = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


def engine_of(on_bad_rows: Any = "fail") -> tuple[ec.Source, ec.View, ec.Engine]:
    engine = ec.Engine(on_bad_rows=on_bad_rows)
    source = engine.source("s", SCHEMA)
    return source, engine.view("v", source), engine


@pytest.mark.parametrize("on_bad_rows", ["fail", "ledger"])
@pytest.mark.parametrize(
    "rows",
    [
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: iter(ROWS),
        lambda: NAMED,
        lambda: tuple(NAMED),
        lambda: (row for row in NAMED),
        lambda: np.array(ROWS, dtype=[("k", "U1"), ("v", "i8")]),
        lambda: pd.DataFrame(NAMED),
        lambda: pd.DataFrame(NAMED, dtype=object),
    ],
    ids=[
        "tuples",
        "tuple of tuples",
        "iterator",
        "dicts",
        "tuple of dicts",
        "generator",
        "records",
        "pandas",
        "objects",
    ],
)
def test_rows_in_any_form(rows: Callable[[], Any], on_bad_rows: str) -> None:
    source, view, _ = engine_of(on_bad_rows)
    source.push(rows())
    assert sorted(view.read().rows()) == ROWS


class Swapped(NamedTuple):
    v: Any
    k: str


def rows_of_sqlite(sql: str) -> list[Any]:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    return list(connection.execute(sql))


def spark_row(*values: Any, **named: Any) -> Any:
    return pytest.importorskip("pyspark.sql").Row(*values, **named)


@pytest.mark.parametrize("on_bad_rows", ["fail", "ledger"])
@pytest.mark.parametrize(
    "rows",
    [
        lambda: [Swapped(1, "a"), Swapped(2, "b")],
        lambda: iter([Swapped(1, "a"), {"k": "b", "v": 2}]),
        lambda: (Swapped(1, "a"), Swapped(2, "b")),
        lambda: pd.DataFrame(NAMED)[["v", "k"]].itertuples(index=False),
        lambda: rows_of_sqlite("select 1 v, 'a' k union select 2, 'b'"),
        lambda: [spark_row(v=1, k="a"), spark_row(v=2, k="b")],
        lambda: [spark_row("a", 1), spark_row("b", 2)],
    ],
    ids=["list", "with dicts", "tuple", "pandas", "sqlite", "Spark", "Spark without names"],
)
def test_rows_with_names_are_taken_by_these(rows: Callable[[], Any], on_bad_rows: str) -> None:
    source, view, _ = engine_of(on_bad_rows)
    source.push(rows())
    assert sorted(view.read().rows()) == ROWS


def test_a_row_with_names_that_does_not_fit_is_alone_in_the_ledger() -> None:
    source, view, engine = engine_of("ledger")
    source.push([Swapped(1, "a"), Swapped("two", "b"), *rows_of_sqlite("select 'c' k, 3 v, 4 w")])
    assert view.read().rows() == [("a", 1)]
    assert {entry["row"] for entry in engine.ledger().to_dicts()} == {
        '{"v":"two","k":"b"}',
        '{"k":"c","v":"3","w":"4"}',
    }


NO_ROWS: dict[str, tuple[Any, str]] = {
    "one tuple": (("a", 1), r"got the tuple \('a', 1\); give a list of rows, for one row \[\('a', 1\)\]"),
    "one named tuple": (
        Swapped([1], "a"),
        r"got the tuple Swapped\(.*\); give a list of rows, for one row \[Swapped",
    ),
    "one row of sqlite": (
        rows_of_sqlite("select 'a' k, 1 v")[0],
        r"expected rows, got one Row; give a list of rows, for one row \[row\]",
    ),
    "names that are repeated": (
        rows_of_sqlite("select 'a' k, 1 v, 2 v"),
        "a row has the name 'v' twice; name one of them otherwise, as by AS",
    ),
    "some with names": (
        [Swapped(1, "a"), ("b", 2)],
        "some rows have names and others have none; give all of them",
    ),
    "empty tuple": ((), r"got the tuple \(\)"),
    "number": (5, "expected rows, got int; give a frame, or a list of rows"),
    "text": ("orders.csv", r"got str; give a frame, or a list of rows; of a file, pl.read_csv\(path\)"),
    "nothing": (None, "got NoneType"),
    "set": ({("a", 1)}, "got set"),
    "series of pandas": (
        pd.Series(["a"]),
        r"got a Series of pandas, which is one column; give a frame, as series.to_frame\(\)",
    ),
    "series": (pl.Series("k", ["a"]), "column 'v' is missing; the frame has 'k'"),
    "matrix": (np.array([[1, 2]]), "columns 'k', 'v' are missing; the frame has 'column_0', 'column_1'"),
    "uneven columns": (
        {"k": ["a", "b"], "v": [1]},
        "column 'v' has 1 value, and column 'k' has 2 values; give each row",
    ),
    "uneven rows": (
        [("a", 1), ("b",)],
        "the rows have different numbers of values, row 1 has 1; give each 2",
    ),
}


@pytest.mark.parametrize("on_bad_rows", ["fail", "ledger"])
@pytest.mark.parametrize("name", NO_ROWS)
def test_what_is_no_rows_is_refused_with_the_way_out(name: str, on_bad_rows: str) -> None:
    data, message = NO_ROWS[name]
    source, view, engine = engine_of(on_bad_rows)
    if (name, on_bad_rows) == ("uneven rows", "ledger"):
        source.push(data)
        assert view.read().rows() == [("a", 1)]
        assert [entry["row"] for entry in engine.ledger().to_dicts()] == ['{"row":["b"]}']
        return
    with pytest.raises(ec.InputError, match=message):
        source.push(data)
    assert view.read().height == engine.ledger().height == 0


def test_in_the_ledger_is_the_row_with_a_name_that_others_do_not_have() -> None:
    source, view, engine = engine_of("ledger")
    source.push([{"k": "a", "v": 1}, {"k": "b", "v": 2, "vv": 3}, {"k": "c", "v": "x"}])
    assert view.read().rows() == [("a", 1)]
    refused = {entry["row"]: entry["reason"] for entry in engine.ledger().to_dicts()}
    assert refused.keys() == {'{"k":"b","v":"2","vv":"3"}', '{"k":"c","v":"x"}'}
    assert "'vv' is not declared" in refused['{"k":"b","v":"2","vv":"3"}']


def test_a_name_that_all_rows_have_is_refused_for_the_push() -> None:
    source, view, engine = engine_of("ledger")
    with pytest.raises(ec.InputError, match="column 'w' is not declared; drop it or declare it"):
        source.push([{"k": "a", "v": 1, "w": 1}, {"k": "b", "v": 2, "w": 2}])
    assert view.read().height == engine.ledger().height == 0


@pytest.mark.parametrize(
    ("k", "v"), [(["a", "b", "c", "d"], [1, "x", 2.5, 4.0]), (["a", "b", 5, "d"], [1, "x", 3, 4])]
)
def test_objects_of_pandas_are_judged_row_by_row(k: list[Any], v: list[Any]) -> None:
    frame = pd.DataFrame({"k": k, "v": v, "_diff": [1, 1, 1, 1]}, dtype=object).drop(columns="_diff")
    source, view, engine = engine_of("ledger")
    source.push(frame)
    assert sorted(view.read().rows()) == [("a", 1), ("d", 4)]
    assert engine.ledger().height == 2
    source, view, _ = engine_of()
    with pytest.raises(
        ec.InputError, match=r"column '[kv]' holds ('x'|5) in row [12], which is not of its declared type"
    ):
        source.push(frame)
    assert view.read().height == 0


def test_nulls_of_pandas_among_objects_are_nulls() -> None:
    source, view, _ = engine_of()
    source.push(
        pd.DataFrame(
            {"k": ["a", None, np.nan, "d"], "v": pd.Series([1, None, np.nan, np.int64(4)], dtype=object)}
        )
    )
    assert sorted(view.read().rows(), key=str) == [("a", 1), ("d", 4), (None, None), (None, None)]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"v": [1]}, index=pd.Index(["a"], name="k")), "column 'k' is the index of the frame"),
        (
            pd.DataFrame(index=pd.MultiIndex.from_tuples([("a", 1)], names=["k", "v"])),
            "columns 'k', 'v' are the index of the frame",
        ),
    ],
    ids=["one", "several"],
)
def test_an_index_of_pandas_is_no_column(frame: pd.DataFrame, words: str) -> None:
    engine = ec.Engine()
    view = engine.view("now", engine.source("s", {"k": pl.String, "v": pl.Int64}))
    with pytest.raises(ec.InputError, match=rf"source 's': {words}; push frame\.reset_index\(\)"):
        engine.push("s", frame)
    engine.push("s", frame.reset_index())
    engine.push("s", frame.reset_index().set_index("k", drop=False))
    assert view.read().rows() == [("a", 1), ("a", 1)]
