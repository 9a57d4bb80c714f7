"""A program that is killed: windows and the bank on one checkpoint, fed by number, at every start from the beginning.

It kills itself in the middle of the store operation of a number (-1: never). The input is the same at each start; what
was taken is skipped by its position.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import bank
import evercurrent as ec
from durability.observing import frame_bytes
from evercurrent.views.checkpoint import CommitLog, Pieces
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from forked import Send

TRANSFERS, SIZE = 240, 20
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DELIVERIES = "delivered.txt"
"""The file beside the checkpoint that has what a sink has received, a line for each delta."""


class Sudden(Killed):
    """No error but the end of the process, in the middle of an operation."""

    def __init__(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def opened(checkpoint: Any) -> ec.Engine:
    """The bank, and sessions of its transfers with a trigger that waits for both kinds of time."""
    engine = ec.Engine(checkpoint=checkpoint)
    bank.declare(engine)
    hits = engine.source("hits", bank.TRANSFERS, event_time="at", watermark=ec.bounded_delay("4s"))
    rounds = (
        hits.window(ec.sessions("2s"))
        .trigger(ec.after_watermark(early=ec.at_period("5s"), late=ec.each_row()))
        .accumulate("retracting")
        .lateness("5s")
        .group_by("from_account")
        .agg(n=pl.len(), most=pl.col("id").max())
    )
    engine.view("rounds", rounds)
    return engine


def batches() -> Iterator[tuple[int, pl.DataFrame, datetime]]:
    """The input, numbered, with processing times."""
    for number, rows in enumerate(bank.batches(bank.transfers(TRANSFERS), SIZE)):
        yield number, rows, BEGIN + timedelta(seconds=7 * number)


def run(engine: ec.Engine) -> None:
    """Take all input that is not taken yet."""
    for number, rows, at in batches():
        with engine.epoch(at=at):
            engine.push("transfers", rows, position=number)
            engine.push("hits", rows, position=number)


def delta_files(folder: Path) -> dict[str, list[bytes]]:
    """The deltas in files that commits name, by view and epoch by epoch: who was killed may have committed others together."""
    store = LocalStore(folder)
    log, pieces = CommitLog(store), Pieces(store)
    return {
        view: [frame_bytes(pieces.read_delta(ref)) for ref in log.deltas(view, -1)]
        for view in (*bank.VIEWS, "rounds")
    }


def main(folder: Path, every: int, last: int) -> None:
    # As it is, a folder commits by way of its journal; a store that fails has each file as an operation.
    place = LocalStore(folder / "checkpoint")
    store = place if last < 0 else FailingStore(place, last, "torn", error=Sudden)
    checkpoint = ec.Checkpoint(store, every=every)  # type: ignore[arg-type]
    with opened(checkpoint) as engine, (folder / DELIVERIES).open("a") as sink:

        def write(frame: pl.DataFrame) -> None:
            sink.write(f"{frame['_epoch'][0]} {sorted(frame.drop('_epoch').rows())}\n")
            sink.flush()

        engine.views["total"].subscribe(write, since=-1, name="sink")
        engine.views["rounds"].subscribe(write, since=-1, name="sink")
        run(engine)


def main_of_a_process(folder: Path, every: int, last: int, send: Send) -> None:
    send("begun")
    main(folder, every, last)
