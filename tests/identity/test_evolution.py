"""A source is declared with other columns over a checkpoint: what is carried over, what begins anew, what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError

OLD = {"k": pl.Int32, "x": pl.Float32, "day": pl.Date}
ROWS = [(1, 0.5, date(2026, 1, 1)), (2, 1.5, None), (1, 2.5, date(2026, 1, 2)), (None, None, None)]
Declare = Callable[[Any], Mapping[str, Any]]


def engine_of(path: Path | None, columns: Mapping[str, Any], views: Declare, **options: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=path)
    for name, collection in views(engine.source("a", columns, **options)).items():
        engine.view(name, collection)
    return engine


def counts(a: Any) -> Mapping[str, Any]:
    return {"counts": a.group_by("k").agg(n=pl.len()), "most": a.group_by("k").agg(most=pl.col("x").max())}


def contents(engine: ec.Engine) -> dict[str, list[Any]]:
    return {name: sorted(view.read().rows(), key=repr) for name, view in engine.views.items()}


def test_views_that_do_not_use_a_new_column_go_on_as_if_nothing_had_changed(tmp_path: Path) -> None:
    with engine_of(tmp_path, OLD, counts) as engine:
        engine.push("a", ROWS)
        before, deltas = contents(engine), list(engine.views["counts"].deltas(since=0))
    new = {"first": pl.String, **OLD, "note": pl.String}
    with engine_of(tmp_path, new, counts) as engine:
        assert contents(engine) == before
        engine.push("a", [("f", 1, 9.0, None, "n")])
        assert (1, 3) in contents(engine)["counts"]
        assert (1, 9.0) in contents(engine)["most"]
        after = list(engine.views["counts"].deltas(since=0))
        assert [frame.rows() for frame in after[: len(deltas)]] == [frame.rows() for frame in deltas]
        assert len(after) == len(deltas) + 1
        now = contents(engine)
    with engine_of(tmp_path, new, counts) as engine:
        assert contents(engine) == now


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("append", {}),
        ("diffs", {}),
        ("diffs", {"trusted": True}),
        ("diffs", {"retained": True}),
        ("upsert", {"key": "k"}),
        ("upsert", {"key": "k", "sequence_by": "x"}),
    ],
)
@pytest.mark.parametrize("wider", [False, True])
@pytest.mark.parametrize("fuller", [False, True])
def test_what_passes_the_columns_on_has_null_and_wider_values_for_the_past(
    kind: str, options: dict[str, Any], wider: bool, fuller: bool, tmp_path: Path
) -> None:
    def views(a: Any) -> Mapping[str, Any]:
        return {
            "all": a,
            "pairs": a.select("k", "x").join(a.select("k", "day"), on="k"),
            "first": a.top_k(2, by="k"),
            **counts(a),
        }

    options = {"kind": kind, **options}
    rows = [(3, *row[1:]) if row[0] is None and kind == "upsert" else row for row in ROWS]
    rows = rows[:3] if "sequence_by" in options else rows
    with engine_of(tmp_path, OLD, views, **options) as engine:
        engine.push("a", rows)
    new: dict[str, Any] = {"k": pl.Int64, "x": pl.Float64, "day": pl.Datetime("us")} if wider else dict(OLD)
    new |= {"note": pl.String} if fuller else {}
    whole = engine_of(None, new, views, **options)
    whole.push("a", pl.DataFrame(rows, schema=OLD, orient="row").with_columns(
        [pl.lit(None, pl.String).alias("note")] if fuller else []
    ))  # fmt: skip
    with engine_of(tmp_path, new, views, **options) as engine:
        for more in ([1, 2**40 if wider else 7], [1, 5]):
            frame = {"k": more, "x": [0.1, 1.5], "day": [datetime(2026, 1, 1), None]} | (
                {"note": ["n", None]} if fuller else {}
            )
            if not wider:
                frame["day"] = [date(2026, 1, 1), None]
            assert contents(engine) == contents(whole)
            engine.push("a", frame)
            whole.push("a", frame)
        assert contents(engine) == contents(whole)
        if kind != "append":
            gone = {"k": [1], "x": [0.5], "day": [date(2026, 1, 1)], "_diff": [-1]} | (
                {"note": [None]} if fuller else {}
            )
            for each in (engine, whole):
                each.push("a", gone)
            assert contents(engine) == contents(whole)
            assert engine.ledger().height == whole.ledger().height


def test_a_column_that_nobody_uses_is_dropped(tmp_path: Path) -> None:
    with engine_of(tmp_path, OLD, counts) as engine:
        engine.push("a", ROWS)
        before = contents(engine)
    with engine_of(tmp_path, {"x": pl.Float32, "k": pl.Int32}, counts) as engine:
        assert contents(engine) == before
        engine.push("a", [(9.0, 1)])
        assert (1, 3) in contents(engine)["counts"]


TALLY = ec.aggregate(
    create=lambda: 0,
    add=lambda count, values: count + len(values),
    merge=lambda one, other: one + other,
    extract=lambda count: count,
    remove=lambda count, values: count - len(values),
    dtype=pl.Int64,
)
REFUSED: dict[str, tuple[Declare, Mapping[str, Any], dict[str, Any], str]] = {
    "computed from a wider column": (
        lambda a: {"v": a.filter(pl.col("x") / 3 > 0.1)}, {**OLD, "x": pl.Float64}, {},
        "(?s)column 'x' is Float64, was Float32.*view 'v'.*source 'a' does not retain its rows",
    ),
    "hashes of rows": (
        counts, {**OLD, "y": pl.Int8}, {"kind": "diffs"}, "(?s)column 'y' is new.*source 'a'.*checked by hashes .*retained=True or trusted=True .*a view keeps all.*begin a new checkpoint",
    ),
    "a narrower column": (counts, {**OLD, "k": pl.Int16}, {}, "column 'k': Int16, was Int32"),
    "another function": (
        lambda a: {"v": a.map_batches(lambda frame: frame.select("k", n=pl.lit(frame.width)))}, {**OLD, "y": pl.Int8}, {},
        "(?s)column 'y' is new.*view 'v'",
    ),
    "states by keys that are only known by their words": (
        lambda a: {"v": a.group_by("k", "day").agg(n=TALLY(pl.col("x")))}, {**OLD, "k": pl.Int64}, {},
        "(?s)column 'k' is Int64, was Int32.*view 'v'.*source 'a' does not retain its rows",
    ),
    "rows once each": (lambda a: {"v": a.unique()}, {**OLD, "y": pl.Int8}, {}, "(?s)column 'y' is new.*view 'v'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_carried_over_is_refused_by_view_and_column(case: str, tmp_path: Path) -> None:
    views, new, options, words = REFUSED[case]
    with engine_of(tmp_path, OLD, views, **options) as engine:
        engine.push("a", ROWS)
        before = contents(engine)
    engine = engine_of(tmp_path, new, views, **options)
    with pytest.raises(CheckpointError, match=words):
        contents(engine)
    with engine_of(tmp_path, OLD, views, **options) as engine:
        assert contents(engine) == before


def test_input_that_was_only_logged_has_the_new_columns_too(tmp_path: Path) -> None:
    """As after a crash: the epochs since the last commit are evaluated again from their input."""
    with engine_of(tmp_path / "one", OLD, counts) as engine:
        engine.push("a", ROWS)
        engine.close()
        engine = engine_of(tmp_path / "one", OLD, counts)
        for _ in range(3):
            engine.push("a", ROWS[:1])
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        before = contents(engine)
        engine.close()
    with engine_of(tmp_path / "two", {**OLD, "k": pl.Int64, "note": pl.String}, counts) as engine:
        assert contents(engine) == before


def test_a_named_subscription_of_a_view_that_is_as_it_was_goes_on(tmp_path: Path) -> None:
    def views(a: Any) -> Mapping[str, Any]:
        return {"all": a, **counts(a)}

    received: dict[str, list[int]] = {"all": [], "counts": []}

    def follow(engine: ec.Engine) -> None:
        for name, rows in received.items():
            engine.views[name].subscribe(lambda delta, rows=rows: rows.append(delta.height), name="reader")

    with engine_of(tmp_path, OLD, views) as engine:
        follow(engine)
        engine.push("a", ROWS)
    with engine_of(tmp_path, {**OLD, "note": pl.String}, views) as engine:
        follow(engine)
        engine.push("a", [(1, 9.0, None, "n")])
    assert received["counts"] == [3, 2]
    assert received["all"] == [4, 1], "it has another column: what is to come"


TIMED = {"k": pl.String, "x": pl.Int32, "at": pl.Datetime("us")}
NOON = datetime(2026, 1, 1, 12)


def timed(minutes: list[int]) -> pl.DataFrame:
    rows = [(str(at % 2), at, NOON + timedelta(minutes=at)) for at in minutes]
    return pl.DataFrame(rows, schema=TIMED, orient="row")


def windows(a: Any) -> Mapping[str, Any]:
    fixed = a.window(ec.fixed("10m")).trigger(early=ec.after_count(2), late=ec.each_row()).lateness("5m")
    panes = fixed.accumulate("retracting").group_by("k").agg(n=pl.len(), x=pl.col("x").sum())
    return {
        "panes": panes,
        "sessions": a.window(ec.sessions("3m"))
        .lateness("1h")
        .group_by("k")
        .agg(n=pl.len(), most=pl.col("x").max()),
        "latest": panes.latest(),
        "counted": fixed.accumulate("accumulating").group_by("k").agg(n=pl.len()),
        "late": fixed.late_rows().select("k", "x"),
        "ordered": a.select("k", "x", "at").order_by_time().select("k", "x"),
    }


NOT_WIDER = ("panes", "sessions", "latest", "late", "ordered")
"""Views over time that use the column which becomes wider: when their rows came is not known any more."""


@pytest.mark.parametrize("wider", [False, True])
@pytest.mark.parametrize("view", ["counted", "panes", "sessions", "latest", "late", "ordered"])
def test_windows_go_on_or_are_refused(view: str, wider: bool, tmp_path: Path) -> None:
    options = {"event_time": "at", "watermark": ec.bounded_delay("5m")}

    def views(a: Any) -> Mapping[str, Any]:
        return {view: windows(a)[view]}

    before, after = timed([1, 2, 7, 20, 3]), timed([21, 4, 40, 22])
    with engine_of(tmp_path, TIMED, views, **options) as engine:
        engine.push("a", before, at=NOON.replace(tzinfo=UTC))
    new = {**TIMED, **({"x": pl.Int64} if wider else {}), "note": pl.String}
    whole = engine_of(None, new, views, **options)
    whole.push("a", before.with_columns(note=pl.lit(None, pl.String)), at=NOON.replace(tzinfo=UTC))
    engine = engine_of(tmp_path, new, views, **options)
    if wider and view in NOT_WIDER:
        with pytest.raises(CheckpointError, match=f"(?s)column 'x' is Int64, was Int32.*view '{view}'"):
            contents(engine)
        return
    assert contents(engine) == contents(whole)
    for each in (engine, whole):
        each.push(
            "a", after.with_columns(note=pl.lit("n")), at=(NOON + timedelta(hours=1)).replace(tzinfo=UTC)
        )
    assert contents(engine) == contents(whole)
    assert engine.watermarks == whole.watermarks
    engine.close()


def test_a_named_subscription_that_is_behind_is_refused_with_the_reason(tmp_path: Path) -> None:
    def views(a: Any) -> Mapping[str, Any]:
        return {"all": a}

    received: list[int] = []
    with engine_of(tmp_path, OLD, views) as engine:
        engine.views["all"].subscribe(lambda delta: received.append(delta.height), name="reader").close()
        engine.push("a", ROWS)
    engine = engine_of(tmp_path, {**OLD, "note": pl.String}, views)
    with pytest.raises(ec.EpochGoneError, match="its present definition begins at epoch 2"):
        engine.views["all"].subscribe(lambda delta: received.append(delta.height), name="reader")
    engine.close()
    assert received == []
