"""Any thread may write and read: what was acknowledged is there, and what is read is of one epoch."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.plan.nodes import PlanId
from threaded import NAMES, Acknowledged, Reader, Writer, declared, plain, recomputed, run_all

SECONDS = 60.0 if os.environ.get("EVERCURRENT_TEST_PROFILE") == "long" else 3.0
READERS, WRITERS = 8, 4


@pytest.fixture(autouse=True)
def _switching_at_every_step() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "checkpoint"])
def test_eight_read_and_four_write(durable: bool, tmp_path: Path) -> None:
    # In 60 seconds there are more epochs than an engine in memory retains by default.
    retained = {"retain": ec.Retain(epochs=1_000_000, rows=100_000_000)}
    options = {"checkpoint": ec.Checkpoint(tmp_path / "here", every=3)} if durable else retained
    engine, acknowledged = declared(**options), Acknowledged()
    received: list[pl.DataFrame] = []
    engine.push("names", NAMES)
    engine.views["counts"].subscribe(received.append)
    writers = [Writer(engine, acknowledged, number) for number in range(WRITERS)]
    readers = [Reader(engine, number) for number in range(READERS)]
    end = time.monotonic() + SECONDS
    steps = [*(writer.step for writer in writers), *(reader.step for reader in readers)]
    run_all(steps, lambda: time.monotonic() > end)

    assert acknowledged.epochs == list(range(2, engine.epoch_number + 1)), (
        "one number for each push, without gaps"
    )
    for reader in readers:
        assert reader.seen
        for view, epochs, frame in reader.seen:
            acknowledged.check(view, epochs, frame)
    hold(engine, acknowledged)
    numbers = [int(delta["_epoch"][0]) for delta in received]
    assert numbers == sorted(set(numbers)), "a subscriber is called in the order of the epochs"
    assert plain(pl.concat(received)) == plain(pl.concat([*engine.views["counts"].deltas()]))
    if durable:
        engine.close()
        with declared(**options) as again:
            assert again.epoch_number == engine.epoch_number
            hold(again, acknowledged)


def hold(engine: ec.Engine, acknowledged: Acknowledged) -> None:
    """All views are what they are of all that was acknowledged."""
    rows = acknowledged.rows(engine.epoch_number)
    for name, view in engine.views.items():
        assert plain(view.read()) == plain(recomputed(name, rows)), name


def test_a_plan_is_forked_while_views_are_declared() -> None:
    """A plan can be forked while another thread adds views to it, as fills and readers do."""
    engine = ec.Engine()
    engine.source("rows", {"k": pl.Int64})
    plan, ended, raised = engine._plan, threading.Event(), list[BaseException]()

    def forking() -> None:
        while not ended.is_set():
            try:
                plan.forked()
            except RuntimeError as error:
                raised.append(error)

    thread = threading.Thread(target=forking)
    thread.start()
    for number in range(4000):
        plan.add_view(f"view {number}", PlanId(number))
    ended.set()
    thread.join()
    assert not raised
