"""Sinks get an epoch when no crash can take it back; those that wait for a commit come with it."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec


def hits(folder: Path, every: int = 3) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(checkpoint=ec.Checkpoint(folder / "checkpoint", every=every))
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
