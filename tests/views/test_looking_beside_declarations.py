"""Views that another thread drops or declares while somebody looks into them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

METHODS: dict[str, Callable[[ec.View], Any]] = {
    "prove": lambda view: view.prove(),
    "lineage": lambda view: view.lineage({"k": 1}),
    "history": lambda view: view.history(1),
    "why": lambda view: view.why({"k": 1}),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_view_that_is_dropped_while_a_look_into_it_waits_is_named_in_the_error(method: str) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    view = engine.view("gone", rows.group_by("k").agg(n=pl.len()))
    rows.push({"k": [1]})
    raised: list[BaseException] = []

    def look() -> None:
        try:
            METHODS[method](view)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=look)
    with engine.turn:
        thread.start()
        while thread.ident is None or not engine.turn.is_awaited_by(thread.ident):
            time.sleep(0.001)
        engine.drop_view("gone")
    thread.join()
    assert [type(error) for error in raised] == [ec.InputError]
    assert "view 'gone' is not there" in str(raised[0])


def test_a_view_that_is_declared_during_a_proof_is_not_in_it() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    is_proving = False

    def passed_on(frame: pl.DataFrame) -> pl.DataFrame:
        if is_proving:
            engine.view("later", rows.group_by("k").agg(n=pl.len()))
        return frame

    engine.view("first", rows.map_batches(passed_on, version=1))
    engine.view("second", rows.filter(pl.col("k") > 0))
    rows.push({"k": [1]})
    is_proving = True
    proofs = engine.prove()
    assert list(proofs) == ["first", "second"]
    assert proofs
    assert engine.views["later"].read().rows() == [(1, 1)]


@pytest.mark.parametrize("read", [lambda view: view.read(), lambda view: view.snapshot().frame])
def test_a_view_that_another_thread_declares_is_waited_for(read: Callable[[ec.View], pl.DataFrame]) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    contents: list[Any] = []
    threads: list[threading.Thread] = []

    def look() -> None:
        try:
            contents.append(read(engine.views["later"]).rows())
        except BaseException as error:
            contents.append(error)

    def slow(frame: pl.DataFrame) -> pl.DataFrame:
        if "later" in engine.views and not threads:
            threads.append(threading.Thread(target=look))
            threads[0].start()
            while not (engine.turn.is_awaited_by(threads[0].ident or 0) or contents):
                time.sleep(0.001)
        return frame

    engine.view("first", rows.filter(pl.col("k") > 0))
    rows.push({"k": [1]})
    engine.view("later", rows.map_batches(slow, version=1))
    assert threads
    threads[0].join()
    assert contents == [[(1,)]]
