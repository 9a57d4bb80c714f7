"""Who finds a view by its name while it is being declared waits, and gets its rows and not those of the view that it replaces."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

READS: dict[str, tuple[Callable[[ec.View], Any], Any]] = {
    "read": (lambda view: view.read().rows(), [(1, 3)]),
    "snapshot": (lambda view: view.snapshot().frame.rows(), [(1, 3)]),
    "lookup": (lambda view: view.lookup(1).rows(), [(1, 3)]),
    "deltas": (lambda view: view.deltas().frame().rows(), [(1, 3, 2, 1)]),
    "earliest": (lambda view: view.earliest, -1),
    "first_epoch": (lambda view: view.first_epoch, 2),
    "history": (lambda view: view.history(1).frame().height, 1),
    "repr": (lambda view: "at epoch 2" in repr(view), True),
}


class Gate:
    """Holds up the computation of a view, which fails at the end if ``fails``."""

    def __init__(self, *, fails: bool) -> None:
        self.is_reached, self.is_open, self.fails = threading.Event(), threading.Event(), fails

    def pass_through(self, frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height and not self.is_open.is_set():
            self.is_reached.set()
            assert self.is_open.wait(20)
            if self.fails:
                raise ValueError("no such rows")
        return frame


def declare(engine: ec.Engine, gate: Gate) -> ec.View:
    rows = engine.sources["rows"]
    gated = rows.map_batches(gate.pass_through, schema=rows.schema, version=1)
    return engine.view("v", gated.group_by("k").agg(n=pl.len()), replace=True)


def begun(is_replaced: bool) -> ec.Engine:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    if is_replaced:
        engine.view("v", rows.select("k", more=pl.col("k") + 1, other=pl.lit("a")))
    rows.push({"k": [1, 1, 1]})
    return engine


def read_meanwhile(engine: ec.Engine, gate: Gate, read: Callable[[ec.View], Any]) -> Any:
    with ThreadPoolExecutor(2) as pool:
        declared = pool.submit(declare, engine, gate)
        assert gate.is_reached.wait(20)
        answer = pool.submit(read, engine.views["v"])
        with pytest.raises(TimeoutError):
            answer.result(0.1)
        gate.is_open.set()
        if gate.fails:
            with pytest.raises(ec.InputError, match="no such rows"):
                declared.result(20)
        return answer.result(20)


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("method", READS)
def test_readers_wait(method: str, is_replaced: bool) -> None:
    read, expected = READS[method]
    assert read_meanwhile(begun(is_replaced), Gate(fails=False), read) == expected


def test_a_read_that_waits_for_a_declaration_that_fails_raises() -> None:
    engine = begun(is_replaced=True)
    with pytest.raises(ec.InputError, match="could not be declared in that way"):
        read_meanwhile(engine, Gate(fails=True), ec.View.read)
    assert engine.views["v"].read().rows() == [(1, 2, "a")] * 3
