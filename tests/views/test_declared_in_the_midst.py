"""What is declared, dropped or pushed from within an epoch, a fill, a watcher or a subscriber."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.connectors.file_columns import Reading
from evercurrent.views.connectors.files import Reader

A = {"a": pl.Int64}


def started(**options: Any) -> tuple[ec.Engine, ec.Source]:
    engine = ec.Engine(**options)
    return engine, engine.source("s", A, retained=True)


def values(view: ec.View) -> list[Any]:
    return sorted(view.read().to_series().to_list())


@pytest.mark.parametrize("by", ["a function", "an iterator"])
def test_nothing_is_pushed_while_a_view_is_filled(by: str) -> None:
    engine = ec.Engine()
    source = engine.source("s", A, retained=by == "a function")
    source.push({"a": [1, 2]})
    refusals: list[str] = []

    def push() -> None:
        with pytest.raises(ec.InputError, match="is being filled") as refused:
            engine.push("s", {"a": [100]})
        refusals.append(str(refused.value))

    def through(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height:
            push()
        return frame

    def rows() -> Iterator[dict[str, list[int]]]:
        yield {"a": [1, 2]}
        push()

    view = (
        engine.view("v", source.map_batches(through, schema=A))
        if by == "a function"
        else engine.view("v", source.select("a"), backfill={"s": rows()})
    )
    assert refusals
    assert values(view) == [1, 2]


@pytest.mark.parametrize("replaces", [False, True])
def test_a_subscriber_declares_a_view_over_states_on_disk(replaces: bool, tmp_path: Path) -> None:
    engine, source = started(checkpoint=ec.Checkpoint(tmp_path / "kept", resident_bytes=10_000_000))
    first = engine.view("A", source.select("a"))
    if replaces:
        engine.view("B", source.select("a"))

    def declare(_: pl.DataFrame) -> None:
        if engine.epoch_number == 1:
            engine.view("B", source.select(a=pl.col("a") * 10), replace=replaces)

    first.subscribe(declare)
    source.push({"a": [1]})
    assert values(engine.views["B"]) == [10]
    source.push({"a": [2]})
    assert values(engine.views["B"]) == [10, 20]
    engine.close()


def test_a_watcher_declares_nothing() -> None:
    engine, source = started()
    view = engine.view("v", source.select("a"))
    net: Counter[int] = Counter()
    view.subscribe(lambda delta: net.update(dict(delta.select("a", "_diff").rows())))
    refusals: list[Exception] = []

    def watch(event: ec.EpochEvent) -> None:
        with pytest.raises(ec.InputError, match="a watcher of epochs cannot declare anything") as refused:
            engine.view("v", source.select(a=pl.col("a") * 10), replace=True)
        refusals.append(refused.value)

    engine.watch(watch)
    for each in (1, 2):
        source.push({"a": [each]})
    assert len(refusals) == 2
    assert net == {1: 1, 2: 1}


def test_rows_checked_for_a_source_do_not_enter_another_one_of_its_name() -> None:
    engine, source = started()
    other = engine.source("t", {"x": pl.Int64})
    view = engine.view("w", other.select("x"))
    other.push({"x": [1]})

    def drop_and_declare() -> None:
        with engine.epoch():
            engine.push("s", {"a": [1, 2]})
            engine.push("t", {"x": [2]})
            engine.drop_source("s")
            again = engine.source("s", A, kind="diffs", retained=True)
            engine.view("v", again.select("a"))

    with pytest.raises(ec.InputError, match="source 's' was dropped after these rows were checked for it"):
        drop_and_declare()
    assert values(view) == [1]
    assert values(engine.views["v"]) == []
    assert source.name == "s"


def test_a_subscriber_drops_a_view_that_the_same_epoch_changes() -> None:
    engine, source = started()
    first = engine.view("A", source.select("a"))
    engine.view("B", source.select(b=pl.col("a") + 1))
    epochs = []

    def drop(delta: pl.DataFrame) -> None:
        epochs.append(delta["_epoch"][0])
        if "B" in engine.views:
            engine.drop_view("B")

    first.subscribe(drop)
    source.push({"a": [1]})
    source.push({"a": [2]})
    assert list(engine.views) == ["A"]
    assert values(first) == [1, 2]
    assert len(epochs) == 2


def test_a_replacement_that_fails_leaves_the_change_of_columns_to_be_announced() -> None:
    engine, source = started()
    bare = engine.source("bare", A)
    view = engine.view("v", source.select("a"))
    engine.view("beside", bare.select("a"))
    events: list[Any] = []
    view.subscribe(
        lambda delta: events.append(delta.columns[0]),
        on_schema=lambda change: events.append(change.after.names()),
    )
    source.push({"a": [1]})
    bare.push({"a": [1]})
    engine.view("v", source.filter(pl.col("a") > 5).select(b=pl.col("a")), replace=True)
    with pytest.raises(ec.PlanError):
        engine.view("v", bare.select(b=pl.col("a") * 2).filter(pl.col("b") > 0), replace=True)
    source.push({"a": [7]})
    # The delta that takes the rows before away has the columns of the view that replaces it only if it has any rows.
    assert events[-2:] == [["b"], "b"]


@pytest.mark.parametrize("name", ["n", "x/y"])
def test_a_subscription_of_any_name_is_forgotten_with_its_view(name: str) -> None:
    engine, source = started()
    engine.view("kept", source.select("a"))
    view = engine.view("v", source.select("a"))
    subscription = view.subscribe(print, name=name)
    source.push({"a": [1]})
    subscription.close()
    source.push({"a": [2]})
    engine.drop_view("v")
    again = engine.view("v", source.select(b=pl.col("a")))
    deltas: list[pl.DataFrame] = []
    again.subscribe(deltas.append, name=name)
    source.push({"a": [3]})
    assert [delta["b"].to_list() for delta in deltas][-1] == [3]


def test_a_named_subscriber_closes_itself_and_drops_its_view() -> None:
    engine, source = started()
    view = engine.view("v", source.select("a"))
    deltas: list[pl.DataFrame] = []

    def once(delta: pl.DataFrame) -> None:
        deltas.append(delta)
        subscription.close()
        engine.drop_view("v")

    subscription = view.subscribe(once, name="once")
    for each in (1, 2):
        source.push({"a": [each]})
    assert len(deltas) == 1
    assert not engine.views


def test_a_source_of_a_fork_pushes_into_the_fork() -> None:
    engine, source = started()
    view = engine.view("v", source.select("a"))
    source.push({"a": [1]})
    fork = engine.fork()
    fork.sources["s"].push({"a": [2]})
    assert (values(fork.views["v"]), values(view)) == ([1, 2], [1])


@pytest.mark.parametrize(
    ("text", "schema", "rows"),
    [
        (b"n\n1\n\nabc\n5\n6\n", ["n"], [1, None, 5, 6]),
        (b"a,b\n1,2\n\n3,4\n\nx,5\n\n6,7\n", ["a", "b"], [1, 3, 6]),
        (b"a,b\n1,2\n   \n3,4\nx,5\n6,7\n", ["a", "b"], [1, 3, 6]),
        (b"a,b\n1,2\r3,4\nx,5\n6,7\n", ["a", "b"], [1, 3, 6]),
    ],
)
def test_rows_that_are_left_out_are_the_bad_ones(
    text: bytes, schema: list[str], rows: list[int | None], tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    types = pl.Schema(dict.fromkeys(schema, pl.Int64))
    reader = Reader("s", [path], types, diffs=False, batch_rows=1000, reading=Reading(skips=True))
    read = [row[0] for batch in reader.batches() for row in batch.frame.rows()]
    assert read == rows


def test_rows_of_a_source_that_no_commit_has_are_not_lost(tmp_path: Path) -> None:
    def program(folder: Path) -> tuple[ec.Engine, ec.View]:
        engine = ec.Engine(checkpoint=folder)
        return engine, engine.view("v", engine.source("s", A).select("a"))

    engine, _ = program(tmp_path / "kept")
    engine.push("s", {"a": [1]})
    engine.source("b", {"x": pl.Int64}, retained=True).push({"x": [5]})
    shutil.copytree(tmp_path / "kept", tmp_path / "killed")
    engine.close()
    again, _ = program(tmp_path / "killed")
    with pytest.raises(ec.CheckpointError, match="source 'b' is no longer declared"):
        again.ready()
    again, view = program(tmp_path / "killed")
    rows = again.source("b", {"x": pl.Int64}, retained=True)
    assert values(again.view("w", rows.select("x"))) == [5]
    assert values(view) == [1]
    again.close()
