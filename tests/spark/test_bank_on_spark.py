"""The bank in Spark: money is neither made nor lost at any epoch, though Spark offers a batch again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bank
import evercurrent as ec
from evercurrent.spark_bridge import run
from spark.test_bank_in_buckets import EVERYTHING, cut, nothing_is_remembered  # noqa: F401
from spark.test_query import forget_last_commit


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
