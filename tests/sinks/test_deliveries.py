"""Deliveries whose function closes the engine or waits for itself, whose process is forked, whose engine is forgotten."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from children import in_child
from evercurrent.views.concurrency.draining import drain_all, end_all
from evercurrent.views.sinks.function_sink import FunctionSink

QUICK = ec.Retry(first_seconds=0.02, most_seconds=0.1)


def hits(**options: object) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)  # type: ignore[arg-type]
    return engine, engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len("n"))


def until(condition) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_function_may_close_the_engine(tmp_path: Path) -> None:
    engine, view = hits(checkpoint=tmp_path / "checkpoint")
    closed = threading.Event()
    view.foreach(lambda _: (engine.close(), closed.set()), name="closing")
    engine.push("log", {"ip": ["a"]})
    assert closed.wait(10)


def test_a_function_that_waits_for_itself_is_refused() -> None:
    engine, view = hits()
    delivery = view.foreach(lambda _: delivery.join(), name="waiting")
    engine.push("log", {"ip": ["a"]})
    with pytest.raises(ec.SinkError, match=r"join\(\) in the sink's own function would wait for itself"):
        delivery.join(10)


def test_a_function_is_not_given_contents_on_top_of_what_it_has() -> None:
    engine, view = hits(retain=ec.Retain(epochs=2))
    deltas: list[pl.DataFrame] = []
    failing = [False]

    def take(delta: pl.DataFrame) -> None:
        if failing[0]:
            raise OSError("no net")
        deltas.append(delta)

    delivery = view.foreach(take, name="mine", retry=QUICK)
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)
    failing[0] = True
    for _ in range(5):
        engine.push("log", {"ip": ["a"]})
    until(lambda: delivery.failures > 0)
    failing[0] = False
    with pytest.raises(ec.SinkError, match="has had the epochs up to 1, and the deltas since are no longer"):
        delivery.join(10)
    assert pl.concat(deltas).rows() == [("a", 1, 1, 1)]
    assert view.foreach(take, name="another").join(10)


class PanicException(BaseException):
    """As libraries written in Rust have, each its own."""


@pytest.mark.parametrize("panic", [PanicException, pl.exceptions.PanicException])
def test_a_library_that_panics_is_tried_again(panic: type[BaseException]) -> None:
    """As Delta Lake's does now and then on a full disk."""
    engine, view = hits()
    failures, deltas = [panic("Already shut down")], list[pl.DataFrame]()

    def take(delta: pl.DataFrame) -> None:
        if failures:
            raise failures.pop()
        deltas.append(delta)

    delivery = view.foreach(take, name="mine", retry=QUICK)
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)
    assert pl.concat(deltas).rows() == [("a", 1, 1, 1)]
    with_exit = view.foreach(lambda _: sys.exit(3), name="ends", retry=QUICK)
    until(lambda: with_exit.is_closed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")
def test_a_child_made_by_fork_leaves_the_sink_to_its_parent(tmp_path: Path) -> None:
    engine, view = hits()
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)

    def use() -> None:
        engine.push("log", {"ip": ["b"]})
        with pytest.raises(ec.SinkError, match="its parent writes the sink"):
            delivery.join(5)

    in_child(use, few_rows=True)
    engine.push("log", {"ip": ["c"]})
    assert delivery.join(10)
    delivery.close()


def test_an_engine_that_nobody_uses_is_collected_and_its_threads_end(tmp_path: Path) -> None:
    engine, view = hits(checkpoint=tmp_path / "checkpoint")
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)
    thread, forgotten = delivery._thread, weakref.ref(engine)
    del engine, view, delivery

    def is_collected() -> bool:
        gc.collect()
        return forgotten() is None and not thread.is_alive()

    until(is_collected)
    again, _ = hits(checkpoint=tmp_path / "checkpoint")  # Its lock is free.
    again.push("log", {"ip": ["a"]})
    again.close()


def test_an_engine_is_not_collected_before_its_sink_has_all(tmp_path: Path) -> None:
    engine, view = hits()
    taken: list[int] = []

    def slow(delta: pl.DataFrame) -> None:
        time.sleep(0.02)
        taken.append(delta["_epoch"][0])

    view.foreach(slow, name="slow")
    for _ in range(10):
        engine.push("log", {"ip": ["a"]})
    del engine, view
    gc.collect()
    until(lambda: taken[-1:] == [10])


def test_a_sink_that_cannot_be_closed_ends_nevertheless(monkeypatch, caplog) -> None:
    def failing(_: FunctionSink) -> None:
        raise OSError("no net")

    monkeypatch.setattr(FunctionSink, "close", failing)
    _, view = hits()
    delivery = view.foreach(print, name="mine")
    assert delivery.join(10)
    delivery.close()
    assert delivery.is_closed
    assert "closing it failed: OSError: no net" in caplog.text
    assert view.foreach(print, name="mine").join(10)


def test_the_end_waits_for_the_others_where_a_checkpoint_is_gone(tmp_path: Path, caplog) -> None:
    """Of a query, whose views are read from there."""
    pytest.importorskip("pyspark")
    from evercurrent import spark_bridge

    checkpoint = tmp_path / "checkpoint"
    engine, _ = hits(checkpoint=checkpoint)
    engine.push("log", {"ip": ["a"]})
    engine.close()
    declared, _ = hits()
    gone = spark_bridge.views(declared, checkpoint)["hits"].to_parquet(tmp_path / "feed")
    assert gone.join(10)
    other, view = hits()
    going = view.to_parquet(tmp_path / "other")
    shutil.rmtree(checkpoint)
    assert gone.lag is None
    assert gone.figures()["lag"] is None
    assert "at epoch 1, how far behind is not known: " in repr(gone)
    assert "the checkpoint was deleted or moved while it was in use" in repr(gone)
    other.push("log", {"ip": ["b"]})
    drain_all([gone, going])
    assert going.epoch == 1
    assert isinstance(gone.error, ec.CheckpointError)
    assert "hits' to Parquet files" in caplog.text
    assert "the checkpoint was deleted or moved while it was in use" in caplog.text
    gone.close()
    other.close()


def test_a_delivery_of_a_dropped_view_can_be_looked_at(tmp_path: Path) -> None:
    engine, view = hits()
    delivery = view.to_parquet(tmp_path / "feed")
    engine.push("log", {"ip": ["a"]})
    assert delivery.join(10)
    delivery.close()
    engine.drop_view("hits")
    assert "at epoch 1, 0 behind, closed" in repr(delivery)
    assert delivery.lag == 0


def test_what_is_no_retry_is_refused_and_leaves_the_name_free(tmp_path: Path) -> None:
    _, view = hits()
    with pytest.raises(ec.PlanError, match=r"retry=3; give ec\.Retry"):
        view.to_parquet(tmp_path / "feed", retry=3)  # type: ignore[arg-type]
    assert view.to_parquet(tmp_path / "feed").join(10)


def test_engine_close_waits_once_for_all_sinks_that_hang(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("evercurrent.views.engine.engine.DRAIN_SECONDS", 0.5)
    engine, view = hits(checkpoint=tmp_path / "checkpoint")
    released = threading.Event()
    for number in range(8):
        view.foreach(lambda _: released.wait(), name=f"hanging {number}")
    engine.push("log", {"ip": ["a"]})
    begin = time.monotonic()
    engine.close()
    released.set()
    assert time.monotonic() - begin < 6


def test_a_program_that_closes_nothing_has_written_all_at_its_end(tmp_path: Path) -> None:
    program = f"""
import evercurrent as ec, polars as pl
engine = ec.Engine()
numbers = engine.source("numbers", {{"n": pl.Int64}})
engine.view("sums", numbers.group_by(rest=pl.col("n") % 7).len()).to_parquet({str(tmp_path / "feed")!r})
for number in range(300):
    numbers.push({{"n": [number]}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert pl.read_parquet(f"{tmp_path}/feed/*.parquet")["_epoch"].max() == 300


class Hanging:
    """A delivery whose step never ends."""

    def __init__(self) -> None:
        self.is_ended = False

    def end(self) -> None:
        self.is_ended = True

    def drain(self, seconds: float) -> None:
        time.sleep(seconds)

    close = drain


def test_the_end_of_a_query_waits_once_for_all_sinks_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, begin = [Hanging() for _ in range(8)], time.monotonic()
    until = begin + 0.2
    drain_all(hanging, until)
    end_all(hanging, until)
    assert all(each.is_ended for each in hanging)
    assert time.monotonic() - begin < 6
    monkeypatch.setattr("evercurrent.views.concurrency.draining.DRAIN_SECONDS", 0.2)
    drain_all(hanging)
    end_all(hanging)
    assert time.monotonic() - begin < 6
