"""The bank in buckets: money is neither made nor lost at any epoch, whoever dies, whatever comes twice."""

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
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from spark.offered import Offering, declared, emitted_deltas, forget_everything, held

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
long_only = pytest.mark.skipif(not LONG, reason="each way takes seconds: make test-long")
EVERYTHING = 0
"""As a batch size: all rows at once."""

COUNTS = {1: 16, 10: 80, 1_000: 4_000, EVERYTHING: 20_000}
"""How many transfers, by batch size: an epoch costs what it costs."""


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """No test leaves the next one what it remembers of files."""
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
        for name, epochs in emitted_deltas(checkpoint, bank.VIEWS).items()
    }


def engine_views() -> Any:
    engine = ec.Engine()
    bank.declare(engine)
    return engine.views


QUICK = {
    (1, 4, False), (10, 16, False), (10, 1, True), (1_000, 4, False), (1_000, 1, True), (EVERYTHING, 4, True),
    (EVERYTHING, 1, False),
}  # fmt: skip
"""The ways of the quick profile: every size, number of buckets and kind of transfers, and each size with both kinds that it has."""

WAYS = [
    pytest.param(
        size,
        buckets,
        simplified,
        id=f"{size}-{buckets}-{'there and back' if simplified else 'random'}",
        marks=() if (size, buckets, simplified) in QUICK else long_only,
    )
    for size in COUNTS
    for buckets in (1, 4, 16)
    for simplified in (False, True)
    if not simplified or size != 1  # There and back belong together, so batches of one have none.
]


@pytest.mark.parametrize(("size", "buckets", "simplified"), WAYS)
def test_in_buckets(size: int, buckets: int, simplified: bool, tmp_path: Path) -> None:
    """A007 in buckets: a driver that dies again and again in the middle of what it writes, and is offered batches that it has committed."""
    rows = bank.transfers(COUNTS[size] * (3 if LONG else 1), simplified=simplified)
    plan, parts = declared(bank.declare), cut(rows, size)
    for attempt in range(9):  # Until it dies where a batch is known already.
        checkpoint, draw = tmp_path / str(attempt), random.Random(f"{size} {buckets} {attempt}")
        deaths, again = _driven(plan, parts, checkpoint, draw, buckets=buckets, elsewhere=size == 1_000)
        assert deaths
        assert bank.wrong(dict(frames_of(checkpoint)), rows, simplified=simplified) == []
        assert held(plan, checkpoint)["total"] == [(0,)]
        assert len(emitted_deltas(checkpoint, ["accepted"])["accepted"]) == len(parts)
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
