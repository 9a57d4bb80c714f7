"""A checkpoint that an earlier version wrote is opened, and goes on. The folder is written anew by running this file.

A new version of the format gets a folder of its own beside those that are there: what was written stays readable.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.errors import CheckpointError
from evercurrent.core.kernels import HASH_NAME
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore

DATA = Path(__file__).resolve().parents[1] / "data"
FORMATS = ("checkpoint-1", "checkpoint-2")
"""In the first, each delta of an epoch is a file of its own; in the second, those of a commit are with its states."""

KEPT = DATA / FORMATS[-1]
WRITTEN_WITH = "polars-2.1.0"
"""Whose hash has ordered it."""

NOON = datetime(2026, 1, 31, 12)
EPOCHS = 5
KEPT_AT = 3
"""So many of the epochs are in the folder."""


def declare(engine: ec.Engine) -> None:
    """Views with states of every kind."""
    hits = engine.source(
        "hits",
        {"ip": pl.String, "bytes": pl.Int64, "share": pl.Float64, "at": pl.Datetime("us")},
        event_time="at",
        watermark=ec.bounded_delay("10m"),
        bounded=True,
    )
    users = engine.source("users", {"ip": pl.String, "name": pl.String}, kind="upsert", key="ip")
    engine.source("moves", {"n": pl.Int64}, kind="diffs")
    named = engine.view("named", hits.join(users, on="ip", how="left"))
    by_name = named.group_by("name").agg(
        hits=pl.len(), most=pl.col("bytes").max(), ips=pl.col("ip").n_unique(), share=pl.col("share").sum()
    )
    engine.view("names", by_name)
    engine.view("histogram", by_name.group_by("hits").agg(names=pl.len()))
    engine.view("top", hits.group_by("ip").top_k(2, by="bytes"))
    visits = (
        hits.window(ec.sessions("20m"))
        .trigger(ec.after_watermark(early=ec.after_count(2), late=ec.each_row()))
        .accumulate("retracting")
        .lateness("1h")
        .group_by("ip")
        .agg(pages=pl.len(), bytes=pl.col("bytes").sum())
    )
    engine.view("visits", visits)
    engine.view("hours", hits.window(ec.fixed("1h")).group_by("ip").agg(pl.len()))


def push(engine: ec.Engine, epoch: int) -> None:
    """One of the epochs."""
    rows = range(epoch * 6, epoch * 6 + 6)
    minutes = [(row * 17) % 50 + 30 * epoch - (200 if row % 11 == 0 else 0) for row in rows]
    hits = {
        "ip": [f"10.0.0.{row % 4}" for row in rows],
        "bytes": [row * row % 31 for row in rows],
        "share": [row / 10 for row in rows],
        "at": [NOON + timedelta(minutes=minute) for minute in minutes],
    }
    with engine.epoch(at=(NOON + timedelta(hours=epoch)).replace(tzinfo=UTC)):
        engine.push("hits", hits, position=epoch)
        engine.push("users", {"ip": [f"10.0.0.{epoch % 4}"], "name": [f"user {epoch % 3}"]}, position=epoch)
        engine.push("moves", {"n": [epoch, 99], "_diff": [1, -1]}, position=epoch)


def shown(engine: ec.Engine) -> dict[str, object]:
    """All that can be read of it."""
    found: dict[str, object] = {name: view.read().rows() for name, view in engine.views.items()}
    found |= {
        f"deltas of {name}": [frame.rows() for frame in view.deltas()] for name, view in engine.views.items()
    }
    return found | {"ledger": engine.ledger().rows(), "watermarks": engine.watermarks, "at": engine.positions}


def undisturbed(epochs: int) -> ec.Engine:
    engine = ec.Engine()
    declare(engine)
    for epoch in range(epochs):
        push(engine, epoch)
    return engine


@pytest.mark.skipif(HASH_NAME != WRITTEN_WITH, reason=f"keys are ordered by {HASH_NAME} here")
@pytest.mark.parametrize("kept", FORMATS)
def test_it_is_read_and_goes_on(kept: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(DATA / kept, folder)
    with ec.Engine(checkpoint=folder) as engine:
        declare(engine)
        assert shown(engine) == shown(undisturbed(KEPT_AT))
        for epoch in range(EPOCHS):
            push(engine, epoch)
        wanted = undisturbed(EPOCHS)
        assert {k: v for k, v in shown(engine).items() if k in engine.views} == {
            name: view.read().rows() for name, view in wanted.views.items()
        }
        old = undisturbed(2)
        assert {name: view.read(epoch=2).rows() for name, view in engine.views.items()} == {
            name: view.read().rows() for name, view in old.views.items()
        }
    # What the two versions have written, one behind the other.
    assert verify(LocalStore(folder)).faults == ()
    with ec.Engine(checkpoint=folder) as engine:
        declare(engine)
        assert shown(engine) == shown(wanted)


@pytest.mark.skipif(HASH_NAME == WRITTEN_WITH, reason="keys are ordered by the same hash here")
@pytest.mark.parametrize("kept", FORMATS)
def test_another_hash_is_refused_by_name(kept: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(DATA / kept, folder)
    engine = ec.Engine(checkpoint=folder)
    declare(engine)
    with pytest.raises(CheckpointError, match=WRITTEN_WITH):
        engine.views["names"].read()


if __name__ == "__main__":
    shutil.rmtree(KEPT, ignore_errors=True)
    with ec.Engine(checkpoint=KEPT) as kept:
        declare(kept)
        for number in range(KEPT_AT):
            push(kept, number)
            if number == 1:
                kept.checkpoint()  # Of two epochs.
