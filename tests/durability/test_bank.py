"""The bank: whatever is shown, at every epoch, money is neither made nor lost; with restarts and batches offered twice too."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import bank
import evercurrent as ec


def opened(path: Path | None) -> ec.Engine:
    engine = ec.Engine(checkpoint=path, retain=ec.Retain(epochs=100_000))
    bank.declare(engine)
    return engine


def deltas_by_view(engine: ec.Engine) -> dict[str, list[pl.DataFrame]]:
    return {name: list(engine.views[name].deltas()) for name in bank.VIEWS}


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize(("count", "size"), [(100, 1), (1_000, 10), (20_000, 1_000), (20_000, 20_000)])
def test_money_is_neither_made_nor_lost(count: int, size: int, simplified: bool) -> None:
    """A007: the total is zero in everything that is ever shown."""
    if simplified and size > 1 and size % 2:
        pytest.skip("there and back belong together")
    rows, engine = bank.transfers(count, simplified=simplified), opened(None)
    for batch in bank.batches(rows, size):
        engine.push("transfers", batch)
    assert engine.epoch_number == -(-count // size)
    assert bank.wrong(dict(deltas_by_view(engine)), rows, simplified=simplified) == []
    assert engine.views["total"].read().rows() == [(0,)]


@pytest.mark.parametrize(("count", "size"), [(30, 1), (200, 10), (20_000, 1_000), (5_000, 5_000)])
def test_restarts_and_batches_that_are_offered_again(count: int, size: int, tmp_path: Path) -> None:
    rows, draw = bank.transfers(count), random.Random(size)
    parts = list(bank.batches(rows, size))
    engine, number = opened(tmp_path), 0
    while number < len(parts):
        for again in range(max(0, number - draw.randrange(3)), number + 1):
            engine.push("transfers", parts[again], position=again)
        number += 1
        if draw.random() < 0.3:
            engine.close()
            engine = opened(tmp_path)
    assert engine.epoch_number == len(parts)
    assert bank.wrong(dict(deltas_by_view(engine)), rows) == []
    engine.close()
    undisturbed = opened(None)
    for part in parts:
        undisturbed.push("transfers", part)
    expected = {
        name: [frame.rows() for frame in frames] for name, frames in deltas_by_view(undisturbed).items()
    }
    with opened(tmp_path) as engine:
        assert {
            name: [frame.rows() for frame in frames] for name, frames in deltas_by_view(engine).items()
        } == expected


def test_the_checks_can_fail() -> None:
    rows, engine = bank.transfers(20), opened(None)
    engine.push("transfers", rows)
    deltas = deltas_by_view(engine)
    assert bank.wrong(dict(deltas), rows.head(19)) != []
    (total,) = deltas["balance"]
    assert bank.wrong({**deltas, "balance": [total.head(3)]}, rows) != []
