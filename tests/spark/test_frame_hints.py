"""Names of DataFrames on a query and its views: each is refused with what to use instead."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent import spark_bridge
from evercurrent.spark_bridge.output.frame_hints import missing_of_query
from evercurrent.spark_bridge.output.spark_views import InSpark, SparkView
from evercurrent.spark_bridge.runtime.session import is_stopped

OF_VIEWS = {
    "show": r"use \.read\(\)\.show or \.to_spark\(\)\.show",
    "collect": r"use \.to_spark\(\)\.collect",
    "filter": r"use \.read\(\)\.filter",
    "toPandas": r"use \.to_pandas\(\)",
    "writeStream": r'readStream\.format\("evercurrent"\)',
    "subscribe": r"use \.deltas\(since=\.\.\.\), or on_epoch=",
    "lineage": r"engine\.fork\(checkpoint\)",
    "fire": r"a view of a query has no 'fire': use query\.fire\(view, key\)",
    "createOrReplaceTempView": r"\.to_spark\(\)\.createOrReplaceTempView",
    "nonsense": "'SparkView' object has no attribute 'nonsense'",
    "_private": "'SparkView' object has no attribute '_private'",
}


@pytest.fixture
def view(tmp_path: Path) -> SparkView:
    def declared(checkpoint: Path | None = None) -> ec.Engine:
        engine = ec.Engine(checkpoint=checkpoint)
        hits = engine.source("hits", {"ip": pl.String, "n": pl.Int64})
        engine.view("totals", hits.group_by("ip").agg(n=pl.col("n").sum()))
        return engine

    with declared(tmp_path) as engine:
        engine.push("hits", {"ip": ["a", None, "a"], "n": [1, 2, 3]})
        engine.push("hits", {"ip": ["a"], "n": [1]})
    return spark_bridge.views(declared(), tmp_path)["totals"]


@pytest.mark.parametrize("name", OF_VIEWS)
def test_a_view_names_the_way_out(view: SparkView, name: str) -> None:
    with pytest.raises(AttributeError, match=OF_VIEWS[name]):
        getattr(view, name)


def test_a_view_has_the_ways_of_a_view_of_an_engine(view: SparkView) -> None:
    assert view.columns == ["ip", "n"]
    assert view.lookup("a").rows() == [("a", 5)]
    assert view.lookup(None).rows() == [(None, 2)]
    assert view.lookup(n=2).rows() == [(None, 2)]
    assert view.lookup("b").rows() == []
    deltas = view.deltas(since=1)
    assert deltas.frame().sort("_diff").rows() == [("a", 4, 2, -1), ("a", 5, 2, 1)]
    assert [delta.height for delta in deltas] == [2], "it can be iterated again"
    assert (deltas.last_epoch, len(list(view.deltas()))) == (2, 2)
    assert view.deltas(since=2).frame().schema == {**view.schema, "_epoch": pl.UInt64(), "_diff": pl.Int64()}
    with pytest.raises(ec.InputError, match="since=3 is still to come"):
        view.deltas(since=3)
    assert copy.copy(view).read().height == 2


def test_a_view_is_no_table(view: Any) -> None:
    with pytest.raises(TypeError, match=r"view\.read\(\)\['n'\]"):
        view["n"]
    with pytest.raises(TypeError, match=r"for delta in view\.deltas"):
        list(view)
    with pytest.raises(TypeError, match=r"name in view\.columns"):
        "n" in view  # noqa: B015 (it is the comparison that raises)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("show", r"query\.view\(name\)\.read\(\), or \.to_spark\(\)"),
        ("subscribe", r"of a view, query\.view\(name\): use \.deltas"),
        ("totals", r"for the view write query\.view\('totals'\)"),
        ("nonsense", "'object' object has no attribute 'nonsense'"),
    ],
)
def test_a_query_names_the_way_out(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        raise missing_of_query(object(), name, {"totals": None})


def test_a_session_that_was_stopped_is_named(view: SparkView) -> None:
    stopped = SimpleNamespace(_jsc=object(), sparkContext=SimpleNamespace(_jsc=None))
    connected = [SimpleNamespace(is_stopped=each) for each in (True, False)]
    assert [is_stopped(each) for each in (stopped, *connected)] == [True, True, False]  # type: ignore[arg-type]
    view.go_on(view._declared, InSpark(stopped, None))  # type: ignore[arg-type]
    with pytest.raises(ec.PlanError, match=r"the Spark session was stopped; use read\(\)"):
        view.to_spark()
