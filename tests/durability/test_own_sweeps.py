"""An engine that deletes old commits itself: its readers get what is retained, and the epochs that are gone are gone, not lost."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import MissingFileError
from evercurrent.core.data.schema import EPOCH
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.durability import durability
from evercurrent.views.store import LocalStore


def started(path: Path, **options: Any) -> tuple[ec.Engine, ec.Source, ec.View]:
    engine = ec.Engine(checkpoint=ec.Checkpoint(path, **options), retain=ec.Retain(epochs=1))
    source = engine.source("s", {"k": pl.Int64})
    return engine, source, engine.view("t", source.group_by("k").len("n"))


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Sweeps, and whole records, come every few commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "SWEEP_EVERY", 5)
        yield


def last_epochs(frames: Any) -> list[int]:
    return [frame.item(0, EPOCH) for frame in frames]


def test_every_reader_after_a_sweep_gets_what_is_retained(tmp_path: Path) -> None:
    """With whatever was read before it, in any order: nothing depends on what a reader has seen of commits that are gone."""
    draw = random.Random(7)
    engine, source, view = started(tmp_path, keep=3, grace="0s")
    read: Counter[tuple[str, bool]] = Counter()
    for _ in range(300):
        source.push({"k": [0]})
        if draw.random() < 0.9:
            engine.checkpoint()
        epoch, call = view.epoch, draw.choice(["history", "deltas", "since", "subscribe", "earliest", ""])
        retained = max(0, min(CommitLog(LocalStore(tmp_path)).epochs()))
        since = draw.randrange(max(0, retained - 3), epoch + 1)
        is_there = since >= retained or (call == "deltas" and retained == 0)
        if call == "history":
            assert list(view.history(0).frame()[EPOCH].unique()) == list(range(retained + 1, epoch + 1))
        elif call == "earliest":
            assert max(0, view.earliest) == retained
        elif call == "deltas" and retained:
            with pytest.raises(ec.EpochGoneError, match="no longer retained"):
                list(view.deltas())
        elif call == "deltas":
            assert last_epochs(view.deltas()) == list(range(1, epoch + 1))
        elif call in ("since", "subscribe"):
            received: list[pl.DataFrame] = []
            try:
                if call == "since":
                    received += view.deltas(since=since)
                else:
                    view.subscribe(received.append, since=since).close()
                assert last_epochs(received) == list(range(since + 1, epoch + 1))
            except ec.EpochGoneError:
                assert not is_there
                assert not received
        read[call, is_there] += 1
    assert min(read[call, is_there] for call in ("since", "subscribe") for is_there in (True, False)) > 5
    engine.close()


def test_a_read_that_is_overtaken_by_a_sweep(tmp_path: Path) -> None:
    """What is left of it is refused, as epochs that are gone, and not as a missing file; a reader that begins after it is not."""
    engine, source, view = started(tmp_path, keep=3, grace="0s")
    push_and_commit(engine, source, 4)
    slow = iter(view.deltas())
    assert last_epochs([next(slow)]) == [1]
    push_and_commit(engine, source, 20)
    with pytest.raises(
        ec.EpochGoneError, match="the deltas of 't' after epoch 1 are no longer retained, those after"
    ):
        list(slow)
    assert last_epochs(view.deltas(since=view.earliest)) == list(range(view.earliest + 1, 25))
    engine.close()


def push_and_commit(engine: ec.Engine, source: ec.Source, times: int) -> None:
    for _ in range(times):
        source.push({"k": [0]})
        engine.checkpoint()


def test_a_file_that_is_lost_is_not_taken_for_one_that_was_swept(tmp_path: Path) -> None:
    engine, source, view = started(tmp_path, keep=10, grace="0s")
    push_and_commit(engine, source, 6)
    frames = iter(view.deltas())
    for file in (tmp_path / "pieces").iterdir():
        file.unlink()
    for read in (lambda: list(frames), lambda: list(view.deltas()), lambda: view.history(0)):
        with pytest.raises(MissingFileError, match=r"pieces/.* is missing"):
            read()
    engine.close()


def test_histories_beside_a_writer_that_sweeps(tmp_path: Path) -> None:
    """Each is whole from the epoch on that it names, however many sweeps come while it is read."""
    engine, source, view = started(tmp_path, keep=2, grace="0s")
    push_and_commit(engine, source, 3)
    ended = threading.Event()
    errors: list[BaseException] = []
    read = Counter[str]()

    def follow() -> None:
        try:
            while not ended.is_set():
                epochs = list(view.history(0).frame()[EPOCH].unique())
                assert epochs == list(range(epochs[0], epochs[-1] + 1))
                read["history"] += 1
                with suppress(ec.EpochGoneError):
                    since = max(0, view.earliest)
                    epochs = last_epochs(view.deltas(since=since))
                    assert epochs == list(range(since + 1, epochs[-1] + 1))
                    read["deltas"] += 1
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=follow)
    reader.start()
    push_and_commit(engine, source, 300)
    ended.set()
    reader.join()
    engine.close()
    assert not errors, errors
    assert min(read["history"], read["deltas"]) > 5


def test_a_timeline_of_a_view_that_was_replaced_begins_with_its_definition(tmp_path: Path) -> None:
    """Its first deltas are in files."""
    start = datetime(2026, 1, 1)

    def windows(more: int, **options: Any) -> tuple[ec.Engine, ec.Source, ec.View]:
        engine = ec.Engine(checkpoint=tmp_path, retain=ec.Retain(epochs=1))
        source = engine.source(
            "s", {"k": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=ec.bounded_delay("1m"), retained=True
        )  # fmt: skip
        grouped = source.window(ec.fixed("10m")).group_by("k")
        return engine, source, engine.view("t", grouped.agg(n=pl.len() + more), **options)

    for more, first in ((0, 0), (1, 5), (1, 10)):
        engine, source, view = windows(more, replace=(first == 5))
        for minute in range(first, first + 5):
            source.push({"k": [0], "at": [start + timedelta(minutes=minute)]})
            engine.checkpoint()
        assert "panes" in repr(view.timeline())
        engine.close()
