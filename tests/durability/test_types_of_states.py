"""What no file of a checkpoint can hold is refused before the first epoch, by the name of its view and of the user's column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec

BIG = pl.col("big")
COLUMNS = {"g": pl.String, "n": pl.Int64, "big": pl.Int128, "at": pl.Datetime("us")}
Declare = Callable[[ec.Engine], ec.Collection]


def rows(engine: ec.Engine, **options: object) -> ec.Source:
    return engine.source("rows", COLUMNS, **options)  # type: ignore[arg-type]


def aggregated(value: pl.Expr) -> Declare:
    return lambda engine: rows(engine).group_by("g").agg(value.alias("v"))


def joined(engine: ec.Engine, on: str) -> ec.Collection:
    others = engine.source("others", {on: COLUMNS[on], "m": pl.Int64})
    return rows(engine).join(others, on=on).drop("big")


def in_windows(engine: ec.Engine) -> ec.Collection:
    sessions = rows(engine, event_time="at").window(ec.sessions("1m"))
    return sessions.group_by("g").agg(BIG.max().cast(pl.Int64).alias("v"))


def key_in_windows(engine: ec.Engine) -> ec.Collection:
    days = rows(engine, event_time="at").window(ec.fixed("1d"))
    return days.group_by(g=BIG).agg(pl.col("g").max().alias("v")).drop("g")


STATES: dict[str, tuple[Declare, str]] = {
    "max": (aggregated(BIG.max().cast(pl.Int64)), "view 'now': group by g: v: column 'big'"),
    "median": (aggregated(BIG.median()), "view 'now': group by g: v: column 'big'"),
    "list": (aggregated(BIG.sort().implode().list.len()), "view 'now': group by g: v: column 'big'"),
    "product": (aggregated(BIG.product().cast(pl.Int64)), "view 'now': group by g: v: column 'big'"),
    "top_k in agg": (aggregated(BIG.top_k(2).sum().cast(pl.Int64)), "view 'now': group by g: v: column 'big'"),
    "order": (aggregated(pl.col("n").sort_by("big").first()), "view 'now': group by g: v: column 'big'"),
    "computed": (aggregated((BIG * 2).median()), "view 'now': group by g: v: expression 'col\\(\"big\"\\) \\* 2'"),
    "join key": (lambda engine: joined(engine, "big"), "view 'now': inner join on 'big': column 'big'"),
    "payload": (lambda engine: joined(engine, "g"), "view 'now': inner join on 'g': column 'big'"),
    "top_k": (lambda engine: rows(engine).top_k(2, by="big").drop("big"), "view 'now': top_k 2 by big: column 'big'"),
    "unique": (lambda engine: rows(engine).unique(subset="g", keep="first", by="n").drop("big"), "view 'now': .*: column 'big'"),
    "key": (lambda engine: rows(engine).group_by("big").len().drop("big"), "view 'now': group by big: len: column 'big'"),
    "windows": (in_windows, "view 'now': group by g, sessions with a gap of 1m: column 'big'"),
    "key in windows": (key_in_windows, "view 'now': group by g, fixed windows of 1d: column 'g'"),
    "upsert": (lambda engine: rows(engine, kind="upsert", key="g").drop("big"), "source 'rows': column 'big'"),
    "upsert key": (lambda engine: rows(engine, kind="upsert", key="big").drop("big"), "source 'rows': column 'big'"),
    "retained": (lambda engine: rows(engine, retained=True).select("g"), "source 'rows': column 'big'"),
    "second": (lambda engine: engine.view("first", rows(engine).group_by("g").agg(BIG.max().cast(pl.Int64))).select("g"), "view 'first': group by g: big: column 'big'"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_no_file_holds_is_refused_by_the_names_of_the_user(name: str, tmp_path: Path) -> None:
    declare, where = STATES[name]
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    engine.view("now", declare(engine))
    with pytest.raises(
        ec.CheckpointError, match=f"^{where} is Int128, and Int128 cannot be kept .*; cast it"
    ):
        engine.push("rows", {"g": ["a"], "n": [1], "big": [5], "at": ["2026-01-01"]})
    assert not list(tmp_path.rglob("*.json"))
