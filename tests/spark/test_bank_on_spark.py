"""The bank in buckets and in Spark: money is neither made nor lost at any epoch, whoever dies, whatever comes twice."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bank
import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from spark.offered import Offering, declared, forget_everything, held, said
from spark.test_query import forget_last_commit

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
EVERYTHING = 0
"""As a batch size: all rows at once."""

COUNTS = {1: 16, 10: 80, 1_000: 4_000, EVERYTHING: 20_000}
"""How many transfers, by batch size: an epoch costs what it costs."""


@pytest.fixture(autouse=True)
def no_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is killed here is not the machine. And no test leaves the next one what it knows of files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield
    forget_everything()


def cut(rows: pl.DataFrame, size: int) -> list[pl.DataFrame]:
    return [rows] if size == EVERYTHING else list(bank.batches(rows, size))


def frames_of(checkpoint: Path) -> dict[str, list[pl.DataFrame]]:
    """The deltas of all views, one frame per epoch, as the commits name their files."""
    schemas = {name: engine_views()[name].schema for name in bank.VIEWS}
    return {
        name: [
            pl.DataFrame(rows, schema={**schemas[name], "_epoch": pl.UInt64, "_diff": pl.Int64}, orient="row")
            for _, rows in sorted(epochs.items())
        ]
        for name, epochs in said(checkpoint, bank.VIEWS).items()
    }


def engine_views() -> Any:
    engine = ec.Engine()
    bank.declare(engine)
    return engine.views


@pytest.mark.parametrize("simplified", [False, True], ids=["random", "there and back"])
@pytest.mark.parametrize("buckets", [1, 4, 16])
@pytest.mark.parametrize("size", COUNTS)
def test_in_buckets(size: int, buckets: int, simplified: bool, tmp_path: Path) -> None:
    """A007 in buckets: a driver that dies again and again in the middle of what it writes, and is offered batches that it knows."""
    if simplified and size == 1:
        pytest.skip("there and back belong together")
    rows = bank.transfers(COUNTS[size] * (3 if LONG else 1), simplified=simplified)
    plan, parts = declared(bank.declare), cut(rows, size)
    for attempt in range(9):  # Until it dies where a batch is known already.
        checkpoint, draw = tmp_path / str(attempt), random.Random(f"{size} {buckets} {attempt}")
        deaths, again = _driven(plan, parts, checkpoint, draw, buckets=buckets, elsewhere=size == 1_000)
        assert deaths
        assert bank.wrong(dict(frames_of(checkpoint)), rows, simplified=simplified) == []
        assert held(plan, checkpoint)["total"] == [(0,)]
        assert len(said(checkpoint, ["accepted"])["accepted"]) == len(parts)
        if again or size == EVERYTHING:
            return
    raise AssertionError("no batch was offered twice")


def _driven(
    plan: Any,
    parts: list[pl.DataFrame],
    checkpoint: Path,
    draw: random.Random,
    *,
    buckets: int,
    elsewhere: bool,
) -> tuple[int, int]:
    """How often the driver died until it had all parts, and how many parts it was offered again."""
    number = deaths = again = 0
    dies_at, reach = 7, 12
    while number < len(parts):
        forget_everything()
        store = FailingStore(LocalStore(checkpoint), dies_at, "torn", error=Killed)
        before = number
        with suppress(Killed):
            offering = Offering(plan, store, buckets=buckets, elsewhere=elsewhere)
            number = 0 if offering.done is None else offering.done + 1
            for twice in range(max(0, number - 2), number):
                assert not offering.offer(twice, {"transfers": parts[twice]})
                again += 1
            while number < len(parts):
                assert offering.offer(number, {"transfers": parts[number]})
                number += 1
        deaths += store.has_failed
        # It gets a little further than one epoch, however many operations that has.
        reach = reach if number > before else 2 * reach
        dies_at = draw.randrange(4, reach)
    return deaths, again


@pytest.mark.parametrize(("size", "driver_rows", "simplified"), [(10, 200_000, False), (EVERYTHING, 0, True)])
def test_in_spark(
    size: int, driver_rows: int, simplified: bool, spark: Any, feed: Any, checkpoint: Path
) -> None:
    """A007 in Spark: a restart in the middle, after which Spark offers a batch again that is committed."""
    rows = bank.transfers(60 if size else 20_000, simplified=simplified)
    # Of everything at once there is one batch, and then an empty one.
    parts = [*cut(rows, size), rows[:0]]
    half = len(parts) // 2
    stream = feed(parts[:half])

    def start() -> Any:
        engine = ec.Engine()
        bank.declare(engine)
        query = run(
            engine,
            {"transfers": stream},
            checkpoint=checkpoint,
            buckets=4,
            trigger={"availableNow": True},
            driver_rows=driver_rows,
        )
        query.await_termination()
        return query

    assert start().epoch_number == half
    forget_last_commit(checkpoint / "spark")
    feed(parts[half:])
    query = start()
    assert query.epoch_number == len(parts)
    deltas = {name: list(query.view(name).deltas()) for name in bank.VIEWS}
    assert bank.wrong(dict(deltas), rows, simplified=simplified) == []
    assert query.view("total").read().rows() == [(0,)]
