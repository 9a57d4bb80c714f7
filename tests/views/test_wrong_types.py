"""Arguments of a wrong type are refused where they are given, with what to give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

Refused = Callable[[Any, Any, Any], object]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda engine, rows, _: engine.view("v", rows, replace="no"), r"replace='no'; give True or False"),
        (lambda engine, rows, _: engine.view("w", rows, background=1), r"background=1; give True or False"),
        (
            lambda engine, *_: engine.source("other", {"k": pl.Int64}, retained="yes"),
            r"retained='yes'; give True or False",
        ),
        (lambda *_: ec.Engine(record="no"), r"record='no'; give True or False"),
        (lambda *_: ec.Retain(epochs=True), r"epochs=True; give a whole number"),
        (lambda engine, *_: engine.compare(3), r"compare: int is no engine"),
        (lambda engine, *_: engine.drop_view(["v"]), r"\['v'\] is not the name of a view; there are 'v'"),
        (lambda _, __, view: view.history(1, since="x"), r"since='x'; give the number of an epoch"),
        (lambda _, __, view: view.foreach(print, name=None), r"name=None; a name is text"),
        (lambda _, __, view: view.follow(on_schema=3), r"on_schema=3; give a function of one SchemaChange"),
        (lambda _, __, view: view.to_parquet(3), r"folder=3; give a path, or a url"),
        (
            lambda engine, *_: engine.source("other", {"k": pl.Int64}, kind="upsert", key=3),
            r"key=3; give the name of a column",
        ),
        (lambda engine, *_: engine.source("other", {"k": pl.Int64}, kind=pl.DataFrame()), r"unknown kind"),
        (
            lambda engine, *_: engine.source("other", {"k": pl.Int64}, event_time=["k"]),
            r"event_time=\['k'\]; give the name of a column",
        ),
        (
            lambda engine, *_: engine.source(
                "other", {"k": pl.Int64}, kind="upsert", key="k", sequence_by=pl.col("k")
            ),
            r"sequence_by=.*; give the name of a column",
        ),
        (lambda engine, *_: engine.drop_source([]), r"there is no source"),
        (lambda _, __, view: view.changes(key=b"k"), r"key=b'k'; give the name of a column"),
        (lambda _, __, view: view.read(pl.DataFrame()), r"(?s)epoch=.*; give the number of an epoch"),
        (
            lambda _, __, view: view.subscribe(print, queue=2, on_full=pl.DataFrame()),
            r"there are 'wait', 'drop' and 'fail'",
        ),
        (lambda _, __, view: view.to_delta("there", mode=pl.DataFrame()), r"there are 'merge' and 'append'"),
        (lambda _, rows, __: ec.concat(rows), r"collections=.*; give a list of sources, views"),
        (lambda *_: ec.concat(["rows"]), r"collections=\['rows'\]; give a list of sources, views"),
        (lambda _, rows, __: rows.rename("k"), r"mapping='k'; give a mapping of old names to new ones"),
        (lambda _, rows, __: rows.with_event_time(None), r"column=None; give the name of a column"),
        (lambda _, rows, __: rows.top_k(1, by="k", reverse=None), r"None is no direction of by="),
        (lambda _, rows, __: rows.limit(1, by="k", descending=1), r"1 is no direction of by="),
        (lambda *_: ec.Checkpoint("there", drop=None), r"drop=None; give a tuple of names"),
        (lambda _, rows, __: rows.map_batches(len, schema=3), r"the schema is int; give a dictionary"),
        (lambda _, rows, __: rows.cast({"k": pl.String}, strict=None), r"strict=None; give True or False"),
        (lambda _, rows, __: rows.unpivot(["k"], value_name=None), r"value_name=None; give a name as text"),
        (lambda _, rows, __: rows.unpivot(["k"], variable_name=3), r"variable_name=3; give a name as text"),
        (lambda _, rows, __: rows.join(rows, on="k", suffix=pl.col("k")), r"suffix=.*; give a name as text"),
        (
            lambda _, rows, __: rows.join(rows, on="k", how=pl.col("k")),
            r"unknown how=.*; there are inner, left",
        ),
        (
            lambda _, rows, __: rows.join(rows, on="k", how=pl.DataFrame()),
            r"(?s)unknown how=.*; there are inner",
        ),
        (
            lambda _, rows, __: rows.join(rows, on="k", validate=pl.col("k")),
            r"validate=.*: a key that is unique",
        ),
        (
            lambda _, rows, __: rows.unique("k", keep=pl.col("k")),
            r"keep=.*; there are 'any', 'first' and 'last'",
        ),
        (
            lambda engine, *_: engine.explain(pl.col("k")),
            r"unknown format .*; there are 'text' and 'mermaid'",
        ),
        (lambda *_: ec.Engine(on_bad_rows=pl.col("k")), r"on_bad_rows=.*; give 'fail' or 'ledger'"),
        (lambda _, __, view: view.timeline(value=3), r"value=3; give a name as text"),
        (lambda _, __, view: view.timeline(label=[]), r"label=\[\]; give a name as text"),
    ],
)
def test_a_wrong_type_is_refused_with_what_to_give(call: Refused, message: str) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    view = engine.view("v", rows.group_by("k").agg(n=pl.len()))
    rows.push({"k": [1]})
    with pytest.raises((ec.PlanError, ec.InputError), match=message):
        call(engine, rows, view)
    assert list(engine.views) == ["v"]
    assert view.read().rows() == [(1, 1)]


def test_a_limit_may_be_any_number() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", {"k": pl.Int64}, retained=True).group_by("k").len("n"))
    engine.push("rows", {"k": [1]})
    assert view.lineage({"k": 1}, limit=2**70)["rows"]["k"].to_list() == [1]
