"""What people write out of habit of Spark, Flink, Beam or pandas: it works, or the error names what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.connectors.text_files import unreadable_header
from evercurrent.views.dataframe.dataflow_hints import OF_BEAM, OF_DATAFLOW_GROUPS, OF_DIFFERENTIAL, OF_FLINK

COLUMNS = {"k": pl.String, "x": pl.Int64, "at": pl.Datetime("us")}


def rows_of_time() -> ec.Source:
    return ec.Engine().source("s", COLUMNS, event_time="at")


def test_names_of_other_systems_that_are_hinted_are_not_there() -> None:
    source = rows_of_time()
    for name in {**OF_DIFFERENTIAL, **OF_FLINK, **OF_BEAM}:
        with pytest.raises(AttributeError, match=f"a collection has no '{name}': "):
            getattr(source, name)
    for name in OF_DATAFLOW_GROUPS:
        with pytest.raises(AttributeError, match=f"a grouped collection has no '{name}': "):
            getattr(source.group_by("k"), name)


def test_no_hint_of_a_view_for_other_systems_is_to_declare_one() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", COLUMNS))
    for name in {**OF_DIFFERENTIAL, **OF_FLINK, **OF_BEAM}:
        with pytest.raises(AttributeError, match=f"a collection has no '{name}': ") as raised:
            getattr(view, name)
        assert "declare a view" not in str(raised.value), name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("keyBy", "use .group_by(...)"),
        ("flat_map", ".explode(...)"),
        ("allowedLateness", ".lateness(...)"),
        ("sideOutputLateData", ".late_rows()"),
        ("assignTimestampsAndWatermarks", "ec.bounded_delay"),
        ("toChangelogStream", "view.deltas()"),
        ("WindowInto", ".window(...)"),
        ("iterate", "a loop of Python"),
        ("CoGroupByKey", ".join(other"),
        ("lookup", "only views are kept current"),
        ("follow", "only views are kept current"),
    ],
)
def test_a_name_of_another_system_is_refused_with_what_to_use(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(rows_of_time(), name)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "name", ["window", "trigger", "lateness", "accumulate", "filter", "with_columns", "join"]
)
def test_what_belongs_before_the_groups_is_named_so(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no '{name}': call it before \.group_by"):
        getattr(rows_of_time().group_by("k"), name)


@pytest.mark.parametrize(
    "name", ["TumblingEventTimeWindows", "ParDo", "WatermarkStrategy", "EventTimeTrigger", "always"]
)
def test_names_of_flinks_and_beams_packages_are_hinted(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': "):
        getattr(ec, name)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.group_by("k").sum("x"), "sum() is of every column that is not a key, and takes no names; write .agg(pl.col('x').sum())"),
        (lambda s: s.group_by("k").max("x", "y"), "write .agg(pl.col('x').max())"),
        (lambda s: s.group_by("k").len(5), "len on source 's': 5 is no name of a column"),
        (lambda s: s.group_by("k", ec.fixed("1h")), "windows are given before the keys, as in .window(ec.fixed("),
        (lambda s: s.group_by(w=ec.sessions("1h")), "windows are given before the keys"),
        (lambda s: s.limit(1, by="x", descending="yes"), "'yes' is no direction of by=; give True or False"),
        (lambda s: s.limit(1, by=["x", "k"], descending=[True, 1]), "1 is no direction of by="),
        (lambda s: s.limit(1, by="x", descending=[True, True]), "there are 2 flags for 1 column of by="),
        (lambda s: s.group_by("k").top_k(1, by="x", reverse=["no"]), "'no' is no direction of by="),
    ],
)  # fmt: skip
def test_arguments_of_other_systems_are_refused_with_the_remedy(
    write: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(ec.PlanError, match=re.escape(message)):
        write(rows_of_time())


def test_one_row_of_each_is_kept_by_an_expression() -> None:
    source = rows_of_time()
    by_name, by_expression = (source.unique("k", keep="last", by=by) for by in ("at", pl.col("at")))
    assert by_name._place == by_expression._place


def test_a_column_whose_name_is_no_text_is_refused_and_breaks_nothing() -> None:
    engine = ec.Engine()
    with pytest.raises(ec.PlanError, match="source 'odd': column 1: a name is text, as in '1'"):
        engine.source("odd", {1: pl.Int64})  # type: ignore[dict-item]
    view = engine.view("v", engine.source("s", COLUMNS).select("k"))
    assert view.read().is_empty()


def test_a_view_whose_name_comes_second_is_refused_with_what_comes_first() -> None:
    engine = ec.Engine()
    source = engine.source("s", COLUMNS)
    with pytest.raises(ec.PlanError, match=r"^view: the name is Source, and not text; give the name first"):
        engine.view(source, "v")  # type: ignore[arg-type]


def test_columns_that_are_missing_or_not_declared_are_one_or_several() -> None:
    source = ec.Engine().source("s", {"a": pl.Int64, "b": pl.Int64})
    for rows, message in (
        ({"a": [1]}, "column 'b' is missing; the frame has 'a': add it"),
        ({"c": [1]}, "columns 'a', 'b' are missing; the frame has 'c': add them"),
        ({"a": [1], "b": [1], "c": [1]}, "column 'c' is not declared; drop it or declare it"),
        (
            {"a": [1], "b": [1], "c": [1], "d": [1]},
            "columns 'c', 'd' are not declared; drop them or declare them",
        ),
    ):
        with pytest.raises(ec.InputError, match=re.escape(message)):
            source.push(rows)


@pytest.mark.parametrize("since", [-2, -5])
def test_an_epoch_before_the_beginning_is_refused(since: int) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", COLUMNS))
    for use in (view.deltas, view.follow, lambda since: view.subscribe(print, since=since)):
        with pytest.raises(
            ec.InputError, match=f"since={since}; epochs are counted from 0, and -1 stands for"
        ):
            use(since)


@pytest.mark.parametrize("epoch", [-1, -5])
def test_an_epoch_that_never_was_cannot_be_read_or_forked(epoch: int, tmp_path: Path) -> None:
    """With a checkpoint the error stated that its commit was no longer retained."""
    for folder in (tmp_path, None):
        engine = ec.Engine(checkpoint=folder)
        view = engine.view("v", engine.source("s", COLUMNS))
        for use in (view.read, lambda epoch, engine=engine: engine.fork(epoch=epoch)):
            with pytest.raises(ec.InputError, match=f"epoch={epoch}; epochs are counted from 0$"):
                use(epoch)


@pytest.mark.parametrize("text", ["2026-01-01 09:10:00.123456789", "2026-01-01T09:10:00.1234567Z"])
def test_a_watermark_finer_than_microseconds_is_refused(text: str) -> None:
    source = rows_of_time()
    with pytest.raises(ec.InputError, match="is finer than a microsecond, which is as fine as time is kept"):
        source.push([], watermark=text)
    with pytest.raises(ec.InputError, match="is not a time; give a datetime or a text"):
        source.push([], watermark=f"{text} o'clock")


def test_a_quantile_of_dates_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.String, "d": pl.Date, "t": pl.String})
    for name, aggregate in (
        ("q", pl.col("d").quantile(0.5)),
        ("year", pl.col("d").quantile(0.5, "linear").dt.year()),
    ):
        engine.view(name, source.group_by("k").agg(value=aggregate))
    assert capfd.readouterr().err == ""
    source.push([("a", date(2020, 1, 1), None), ("a", date(2020, 1, 3), None)])
    assert engine.views["q"].read()["value"].to_list() == [datetime(2020, 1, 3)]
    assert engine.views["year"].read()["value"].to_list() == [2020]
    of_text = pl.col("t").filter(pl.col("d") > date(2020, 1, 1)).quantile(0.5)
    with pytest.raises(ec.PlanError, match="`quantile` operation not supported for dtype `str`"):
        source.group_by("k").agg(value=of_text)


@pytest.mark.parametrize("begin", [b"PAR1\x15\x04", b"ARROW1\0\0"])
def test_a_header_that_is_parquet_is_named_so(begin: bytes) -> None:
    assert unreadable_header(begin).startswith("the data is Parquet or Arrow, which is not read as text")
