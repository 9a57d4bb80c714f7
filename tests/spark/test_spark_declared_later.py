"""A query that is stopped, and started again with one view more or one less: on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.spark_bridge import run
from spark.twins import counted

SALES = {"shop": pl.String, "price": pl.Int64}
BATCHES = [
    pl.DataFrame({"shop": [f"s{(at * step) % 7}" for at in range(20)], "price": [at % 5 for at in range(20)]})
    for step in range(1, 4)
]


def declared(names: list[str], *, retained: bool = True) -> ec.Engine:
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=retained)
    totals = sales.group_by("shop").agg(total=pl.col("price").sum())
    views = {
        "totals": totals,
        "sizes": totals.group_by("total").agg(shops=pl.len()),
        "best": sales.group_by("shop").agg(best=pl.col("price").max()),
    }
    for name in names:
        engine.view(name, views[name])
    return engine


def test_a_view_more_and_a_view_less(spark: Any, feed: Any, checkpoint: Path) -> None:
    got: list[tuple[str, int, Any]] = []

    def sink(view: str, delta: Any, epoch: int) -> None:
        got.append((view, epoch, counted([pl.DataFrame(delta.toArrow()).drop("_epoch")])))

    def start(engine: ec.Engine, drop: tuple[str, ...] = ()) -> Any:
        kept = ec.Checkpoint(checkpoint, drop=drop)
        once = {"availableNow": True}
        query = run(engine, {"sales": stream}, checkpoint=kept, buckets=3, trigger=once, on_epoch=sink)
        query.await_termination()
        return query

    stream = feed(BATCHES[:1])
    engine = declared(["totals"])
    first = start(engine)
    engine.view("later", engine.views["totals"])
    with pytest.raises(
        InputError, match=r"was declared after the query was started.*Stop the query, and start it"
    ):
        first.view("later")
    feed(BATCHES[1:2])
    names = ["totals", "sizes", "best"]
    query = start(declared(names))
    for batch in BATCHES[2:]:
        feed([batch])
    query = start(declared(names[1:]), drop=("totals",))

    truth = declared(names)
    for batch in BATCHES:
        truth.push("sales", batch)
    for name in names[1:]:
        view = query.view(name)
        assert counted([view.read()]) == counted([truth.views[name].read()])
        total = counted([delta.drop("_epoch") for delta in view.deltas()])
        assert total == counted([truth.views[name].read()])
        in_sink = [rows for each, _, rows in got if each == name]
        assert sum_of(in_sink) == total, "a sink gets the rows of a new view, too"
    with pytest.raises(CheckpointError, match="'sales'"):
        start(declared(["totals", *names[1:]], retained=False))


def sum_of(parts: list[Any]) -> Any:
    total: dict[Any, int] = {}
    for part in parts:
        for row, count in part.items():
            total[row] = total.get(row, 0) + count
    return {row: count for row, count in total.items() if count}
