"""Sinks get an epoch when no crash can take it back; those that wait for a commit come with it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from commit_cadence import each_epoch_committed
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.engine.durable_view import DurableView


def hits(
    folder: Path, every: int = 3, retain: ec.Retain | None = None, **options: Any
) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(checkpoint=ec.Checkpoint(folder / "checkpoint", every=every, **options), retain=retain)
    return engine, engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len("n"))


def epochs(deltas: list[pl.DataFrame]) -> list[int]:
    return pl.concat(deltas)["_epoch"].to_list()


def test_an_epoch_is_written_with_its_commit(tmp_path: Path) -> None:
    engine, view = hits(tmp_path)
    deltas: list[pl.DataFrame] = []
    written = threading.Semaphore(0)
    delivery = view.foreach(lambda delta: (deltas.append(delta), written.release()), name="mine")
    for ip in "ab":
        engine.push("log", {"ip": [ip]})
    assert not written.acquire(timeout=0.2)
    assert (view.epoch, delivery.lag) == (2, 2)
    engine.push("log", {"ip": ["c"]})
    assert all(written.acquire(timeout=10) for _ in "abc")
    engine.push("log", {"ip": ["d"]})
    assert not written.acquire(timeout=0.2)
    assert (epochs(deltas), delivery.epoch, delivery.lag) == ([1, 2, 3], 3, 1)
    engine.checkpoint()
    assert written.acquire(timeout=10)
    engine.close()
    assert epochs(deltas) == [1, 2, 3, 4]


def test_join_is_refused_in_an_open_epoch_as_a_checkpoint_is(tmp_path: Path) -> None:
    """It would commit the epochs before, and return without the rows that the block has."""
    engine, view = hits(tmp_path, every=100)
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    with engine.epoch():
        engine.push("log", {"ip": ["b"]})
        for work in (delivery.join, engine.checkpoint):
            with pytest.raises(ec.InputError, match="an epoch is open: end it first, and then"):
                work()
        assert engine.stats()["checkpoint"]["committed_epoch"] == 0
    assert delivery.join(10)
    assert delivery.epoch == 2
    with engine.epoch():
        engine.push("log", {"ip": ["c"]})
        with engine.fork().epoch():
            pass
    assert delivery.join(10)
    with suppress(ec.CheckpointError), engine.epoch():
        engine.push("log", {"ip": ["d"]})
        engine.close()
    assert sorted(pl.read_parquet(tmp_path / "feed/*.parquet")["_epoch"]) == [1, 2, 3]


def test_join_and_close_commit_what_the_sink_waits_for(tmp_path: Path) -> None:
    engine, view = hits(tmp_path, every=100)
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)
    assert (delivery.epoch, delivery.lag) == (1, 0)
    engine.push("log", {"ip": ["b"]})
    engine.close()
    assert sorted(pl.read_parquet(tmp_path / "feed/*.parquet").rows()) == [("a", 1, 1, 1), ("b", 1, 2, 1)]


def test_a_sink_that_begins_between_two_commits_gets_the_contents_of_the_last(tmp_path: Path) -> None:
    engine, view = hits(tmp_path)
    for ip in "aaab":
        engine.push("log", {"ip": [ip]})
    deltas: list[pl.DataFrame] = []
    begun = threading.Event()
    view.foreach(lambda delta: (deltas.append(delta), begun.set()), name="mine")
    assert begun.wait(10)
    assert deltas[0].rows() == [("a", 3, 3, 1)]
    engine.close()
    assert deltas[1].rows() == [("b", 1, 4, 1)]


def test_without_a_commit_the_end_waits_for_nothing(tmp_path: Path) -> None:
    engine, view = hits(tmp_path)
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    delivery.drain(5)
    assert delivery.epoch == 0
    engine.close()


@pytest.mark.parametrize("every", [1, 3])
def test_a_subscriber_may_wait_for_a_sink(tmp_path: Path, every: int) -> None:
    engine, view = hits(tmp_path, every)
    delivery = view.to_parquet(tmp_path / "feed")
    joined: list[bool] = []
    view.subscribe(lambda _: joined.append(delivery.join(10)))
    engine.push("log", {"ip": ["a"]})
    assert joined == [True]
    engine.close()


def declare_what_is_refused(engine: ec.Engine) -> None:
    with pytest.raises(ec.PlanError):
        engine.view("late", engine.sources["log"].group_by("ip").len("m"))


DECLARATIONS: dict[str, Callable[[ec.Engine], object]] = {
    "a source": lambda engine: engine.source("other", {"n": pl.Int64}),
    "a view that is refused": declare_what_is_refused,
}


@pytest.mark.parametrize("declare", DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_commit_before_a_declaration_is_written_without_another_epoch(
    tmp_path: Path, declare: Callable[[ec.Engine], object]
) -> None:
    engine, view = hits(tmp_path, every=100)
    written = threading.Semaphore(0)
    view.foreach(lambda _: written.release(), name="mine")
    engine.push("log", {"ip": ["a"]})
    assert not written.acquire(timeout=0.1)
    declare(engine)
    assert written.acquire(timeout=10)
    engine.close()


def test_a_thread_that_a_subscriber_waits_for_cannot_wait_for_a_commit(tmp_path: Path) -> None:
    engine, view = hits(tmp_path)
    delivery = view.to_parquet(tmp_path / "feed")
    joined: list[bool | str] = []
    with ThreadPoolExecutor(1) as pool:

        def join(_: pl.DataFrame) -> None:
            with pytest.raises(ec.InputError, match="waits for this thread"):
                joined.append(pool.submit(delivery.join, 10).result())
            joined.append("refused")

        view.subscribe(join)
        engine.push("log", {"ip": ["a"]})
    assert joined == ["refused"]
    engine.close()


def test_a_close_whose_commit_fails_ends_the_sinks_and_releases_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, view = hits(tmp_path)
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "append", full)
        with pytest.raises(OSError, match="No space left"):
            engine.close()
    assert delivery.is_closed
    again, _ = hits(tmp_path)
    assert again.epoch_number == 0
    again.close()


def test_a_view_that_is_replaced_while_its_sink_reads_it_is_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, view = hits(tmp_path, every=1)
    engine.push("log", {"ip": ["a", "a", "b"]})
    is_reading, is_replaced = threading.Event(), threading.Event()
    read = DurableView.snapshot

    def slowly(view: DurableView) -> ec.Snapshot:
        is_reading.set()
        assert is_replaced.wait(10)
        return read(view)

    monkeypatch.setattr(DurableView, "snapshot", slowly)
    delivery = view.to_parquet(tmp_path / "feed")
    assert is_reading.wait(10)
    engine.view("hits", view.filter(pl.col("n") > 1), replace=True)
    is_replaced.set()
    assert delivery.join(10)
    assert pl.read_parquet(tmp_path / "feed/*.parquet").rows() == [("a", 2, 2, 1)]
    engine.close()


def test_a_view_that_is_filled_at_the_opening_is_in_a_commit(tmp_path: Path) -> None:
    """Its sink was refused: after the last commit there was no such view."""

    def opened(column: str) -> tuple[ec.Engine, ec.View]:
        engine = ec.Engine(checkpoint=ec.Checkpoint(tmp_path / "checkpoint", every=100))
        rows = engine.source("log", {"ip": pl.String}, retained=True)
        return engine, engine.view("hits", rows.group_by("ip").len(column), replace=True)

    engine, _ = opened("n")
    engine.push("log", {"ip": ["a"]})
    engine.close()
    engine, view = opened("hits")
    engine.push("log", {"ip": ["b"]})
    deltas: list[pl.DataFrame] = []
    begun = threading.Event()
    view.foreach(lambda delta: (deltas.append(delta), begun.set()), name="mine")
    assert begun.wait(10)
    assert deltas[0].rows() == [("a", 1, 2, 1)]
    engine.close()
    assert deltas[1].rows() == [("b", 1, 3, 1)]


def test_a_sink_whose_first_position_a_crash_takes_back_gets_the_same_contents_again(tmp_path: Path) -> None:
    engine, view = hits(tmp_path, every=1)
    engine.push("log", {"ip": ["a", "b"]})
    deltas: list[pl.DataFrame] = []
    begun = threading.Event()
    view.foreach(lambda delta: (deltas.append(delta), begun.set()), name="mine")
    assert begun.wait(10)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "crashed" / "checkpoint")
    engine.close()

    engine, view = hits(tmp_path / "crashed", every=1)
    engine.push("log", {"ip": ["a"]})
    again: list[pl.DataFrame] = []
    assert view.foreach(again.append, name="mine").join(10)
    assert again[0].sort("ip").rows() == deltas[0].sort("ip").rows() == [("a", 1, 1, 1), ("b", 1, 1, 1)]
    assert again[1].sort("_diff").rows() == [("a", 1, 2, -1), ("a", 2, 2, 1)]
    engine.close()


@each_epoch_committed()
def test_a_sink_begins_later_if_what_followed_its_beginning_is_gone(tmp_path: Path) -> None:
    engine, view = hits(tmp_path, every=1)
    engine.push("log", {"ip": ["a"]})
    begun = threading.Event()
    view.foreach(lambda _: begun.set(), name="mine")
    assert begun.wait(10)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "crashed" / "checkpoint")
    engine.close()

    engine, view = hits(tmp_path / "crashed", every=1, retain=ec.Retain(epochs=1), keep=1, grace="0s")
    for _ in range(140):
        engine.push("log", {"ip": ["a"]})
    engine.close()
    engine, view = hits(tmp_path / "crashed", every=1)
    with pytest.raises(ec.EpochGoneError):
        list(view.deltas(since=1))
    deltas: list[pl.DataFrame] = []
    assert view.foreach(deltas.append, name="mine").join(10)
    assert [delta.rows() for delta in deltas] == [[("a", 141, 141, 1)]]
    engine.close()


def test_the_contents_of_a_view_that_was_dropped_are_not_begun_with(tmp_path: Path) -> None:
    engine = ec.Engine(checkpoint=tmp_path)
    log = engine.source("log", {"ip": pl.String}, retained=True)
    view = engine.view("hits", log.group_by("ip").len("n"))
    engine.push("log", {"ip": ["a"]})
    begun = threading.Event()
    delivery = view.foreach(lambda _: begun.set(), name="mine")
    assert begun.wait(10)
    delivery.close()
    engine.drop_view("hits")
    engine.push("log", {"ip": ["a"]})
    view = engine.view("hits", log.group_by("ip").len("n"))
    deltas: list[pl.DataFrame] = []
    assert view.foreach(deltas.append, name="mine").join(10)
    assert [delta.rows() for delta in deltas] == [[("a", 2, view.epoch, 1)]]
    engine.close()


def test_contents_at_which_a_function_raises_come_again_as_of_the_same_epoch(tmp_path: Path) -> None:
    engine, view = hits(tmp_path, every=1)
    engine.push("log", {"ip": ["a"]})
    deltas: list[pl.DataFrame] = []
    more = threading.Event()

    def function(delta: pl.DataFrame) -> None:
        deltas.append(delta)
        if len(deltas) == 1:
            assert more.wait(10)
            raise OSError("not now")

    delivery = view.foreach(function, name="mine", retry=ec.Retry(first_seconds=0.001))
    engine.push("log", {"ip": ["b"]})
    more.set()
    assert delivery.join(10)
    assert [delta.rows() for delta in deltas] == [[("a", 1, 1, 1)], [("a", 1, 1, 1)], [("b", 1, 2, 1)]]
    engine.close()


def test_an_epoch_that_comes_while_the_contents_are_read_does_not_end_the_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a checkpoint the contents before it cannot be read any more."""
    engine = ec.Engine()
    view = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len("n"))
    engine.push("log", {"ip": ["a"]})
    durable = DurableView.epoch

    def followed_by_another(self: DurableView) -> int:
        epoch: int = durable.fget(self)
        if engine.epoch_number == 1:
            engine.push("log", {"ip": ["a"]})
        return epoch

    monkeypatch.setattr(DurableView, "epoch", property(followed_by_another))
    assert DurableView(view).snapshot().frame.rows() == [("a", 1)]
    assert DurableView(view).snapshot().frame.rows() == [("a", 2)]
