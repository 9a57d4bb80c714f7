"""A program that starts again with ``replace=True`` takes the place of a view of its checkpoint, and readers get the change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, versions
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.store import store_at

SUM = pl.col("b").sum().alias("n")
MAX = pl.col("b").max().alias("n")
MOST = pl.col("b").max().alias("most")


def opened(folder: Path | None, value: pl.Expr, *, replace: bool = True) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(checkpoint=folder)
    rows = engine.source("a", {"k": pl.Int64, "b": pl.Int64}, retained=True)
    return engine, engine.view("v", rows.group_by("k").agg(value), replace=replace)


def in_buckets(folder: Path, engine: ec.Engine, buckets: int) -> Epochs:
    store = store_at(folder)
    return Epochs(
        engine.declared, CommitLog(store), Pieces.of(store), buckets=buckets, driver_rows=100, inline_rows=100,
        writer=new_writer(), versions=versions(),
    )  # fmt: skip


def begun(folder: Path, *, is_killed: bool) -> Path:
    """Return a checkpoint with two epochs; of a process that was killed the second one is in the log of inputs only."""
    engine, view = opened(folder / "first", SUM)
    view.subscribe(lambda _: None, name="mail")
    view.subscribe(lambda _: None, name="gone")
    engine.push("a", [(1, 3)])
    engine.checkpoint()
    engine.push("a", [(1, 4)])
    if is_killed:
        shutil.copytree(folder / "first", folder / "second")
    engine.close()
    return folder / ("second" if is_killed else "first")


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("after", [MAX, MOST], ids=["same columns", "other columns"])
def test_named_subscriptions_get_the_change(tmp_path: Path, after: pl.Expr, is_killed: bool) -> None:
    folder = begun(tmp_path, is_killed=is_killed)
    last = 1 if is_killed else 2
    engine, view = opened(folder, after)
    assert (view.read().rows(), view.first_epoch, engine.epoch_number) == ([(1, 4)], 3, 3)
    with pytest.raises(ec.EpochGoneError, match=rf"from epoch 3 on, and .* up to {last}; .* on_schema="):
        view.subscribe(lambda _: None, name="mail")
    engine.close()
    engine, view = opened(folder, after)
    taken: list[Any] = []
    view.subscribe(taken.append, name="mail", on_schema=taken.append)
    engine.push("a", [(1, 9)])
    change, *deltas = taken
    assert (change.epoch, list(change.before), change.after) == (3, ["k", "n"], view.schema)
    assert [delta.rows() for delta in deltas] == [[(1, 4, 3, 1)], [(1, 4, 4, -1), (1, 9, 4, 1)]]
    engine.close()
    engine, view = opened(folder, after)
    assert engine.epoch_number == 4, "a view that is the same is not replaced again"
    view.subscribe(taken.append, name="mail")
    with pytest.raises(ec.EpochGoneError, match="on_schema="):
        view.subscribe(taken.append, name="gone")


def test_without_it_a_view_that_is_another_one_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path, is_killed=False)
    with pytest.raises(CheckpointError, match=r"declared in another way .* or with replace=True"):
        opened(folder, MOST, replace=False)[0].ready()
    with pytest.raises(CheckpointError, match="declared in another way"):
        in_buckets(folder, opened(None, MOST, replace=False)[0], 1)
    with pytest.raises(CheckpointError, match="'v' is not in the commit of epoch 2"):
        opened(None, MOST)[0].fork(checkpoint=folder)


@pytest.mark.parametrize("buckets", [1, 3])
def test_subscriptions_get_the_change_after_another_driver_has_replaced_it(
    tmp_path: Path, buckets: int
) -> None:
    folder = begun(tmp_path, is_killed=False)
    if buckets > 1:
        rebucket(store_at(folder), buckets)
    in_buckets(folder, opened(None, MOST)[0], buckets)
    engine, view = opened(folder, MOST)
    taken: list[Any] = []
    view.subscribe(taken.append, name="mail", on_schema=taken.append)
    change, delta = taken
    assert (change.epoch, list(change.before)) == (view.first_epoch, ["k", "n"])
    assert delta.rows() == [(1, 4, change.epoch, 1)]
    engine.close()


def test_sinks_begin_with_the_contents_or_are_refused(tmp_path: Path) -> None:
    engine, view = opened(tmp_path / "c", SUM)
    engine.push("a", [(1, 3)])
    deliveries = view.to_parquet(tmp_path / "feed"), view.foreach(lambda _: None, name="mine")
    assert all(delivery.join(10) for delivery in deliveries)
    engine.close()
    engine, view = opened(tmp_path / "c", MOST)
    with pytest.raises(ec.SinkError, match="the view was replaced"):
        view.foreach(lambda _: None, name="mine").join(10)
    with pytest.raises(ec.SinkError):
        view.to_parquet(tmp_path / "feed").join(10)
    engine.close()
