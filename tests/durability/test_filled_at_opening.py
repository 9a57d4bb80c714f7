"""A view that is new to a checkpoint is filled piece by piece when that is opened, and whoever looks on sees how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.durability import piecewise_fill

ROWS = 1_000


def declared(folder: Path, *, retained: bool = True, new: Any = None, **options: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=folder)
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, retained=retained)
    engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    if new is not None:
        engine.view("new", new(sales), **options)
    return engine


def of_prices(sales: Any) -> Any:
    return sales.group_by("price").agg(n=pl.len())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with declared(tmp_path / "kept") as engine:
        engine.push("sales", {"shop": range(ROWS), "price": [at % 7 for at in range(ROWS)]})
    monkeypatch.setattr(piecewise_fill, "PIECE_ROWS", 100)
    return tmp_path / "kept"


def test_its_progress_is_seen_and_its_epoch_is_watched(folder: Path) -> None:
    pieces: list[ec.FillProgress] = []
    seen: list[Any] = []
    events: list[ec.EpochEvent] = []

    def look(progress: ec.FillProgress) -> None:
        pieces.append(progress)
        seen.append(dict(engine.filling))

    with declared(folder, new=of_prices, background=True, on_progress=look) as engine:
        engine.watch(events.append)
        assert engine.views["new"].read().height == 7
        assert engine.epoch_number == 2
    shares = [piece.share for piece in pieces]
    assert len(pieces) > 8
    assert shares == sorted(shares)
    assert [piece.state for piece in pieces] == ["filling"] * (len(pieces) - 1) + ["ready"]
    assert pieces[0].rows_total == ROWS
    assert pieces[0].rows_done == 0
    assert 0 < pieces[1].rows_done < ROWS
    assert pieces[1].seconds_left is not None
    assert all(now["new"] is piece for now, piece in zip(seen[:-1], pieces[:-1], strict=True))
    assert seen[-1] == {}, "it can be read"
    assert [(event.epoch, dict(event.rows), dict(event.changes)) for event in events] == [(2, {}, {"new": 7})]
    with declared(folder, new=of_prices) as engine:
        engine.watch(events.append)
        assert engine.views["new"].read().height == 7
    assert len(events) == 1, "nothing is filled again"


def test_why_it_is_not_filled_is_reported(folder: Path) -> None:
    pieces: list[ec.FillProgress] = []

    def fails(sales: Any) -> Any:
        return sales.select(x=pl.col("price") * (1 << 62)).group_by().agg(pl.col("x").sum())

    engine = declared(folder, new=fails, background=True, on_progress=pieces.append)
    with pytest.raises(ec.EvercurrentError) as raised:
        engine.ready()
    assert pieces
    assert pieces[-1].state == "failed"
    assert pieces[-1].error is raised.value
    assert engine.filling == {}


def test_who_raises_when_it_is_called_fills_nothing_less(folder: Path) -> None:
    def raises(progress: ec.FillProgress) -> None:
        raise RuntimeError("of the user")

    with declared(folder, new=of_prices, background=True, on_progress=raises) as engine:
        assert engine.views["new"].read().height == 7
