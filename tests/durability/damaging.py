"""Checkpoints with epochs in every state, ways to damage one of their files, and what can be read of them then."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from durability.timed import moment
from evercurrent.views.checkpoint import CommitLog, record_packs
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.durability import durability
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.store import LocalStore, journal
from evercurrent.views.store.acknowledged_file import MAGIC

NOON = datetime(2026, 3, 1, 12)

EPOCHS = 11

ARROW = b"ARROW1"

BEFORE_TOKEN = 32
"""So many bytes of the note of where journals end come before the token of the second one."""

OF_A_VALUE = "a bit of a value flipped"
"""Only a checksum shows it: the file can be read."""


def declared(checkpoint: Any) -> ec.Engine:
    """Views on views, windows with lateness, a user's aggregate, a source that refuses rows."""
    engine = ec.Engine(checkpoint=checkpoint)
    hits = engine.source(
        "hits", {"k": pl.Int64, "x": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=ec.bounded_delay("10m")
    )  # fmt: skip
    moves = engine.source("moves", {"n": pl.Int64}, kind="diffs")
    totals = engine.view("totals", hits.group_by("k").agg(n=pl.len(), most=pl.col("x").max()))
    engine.view("best", totals.top_k(2, by="n"))
    engine.view("spread", moves.group_by().agg(_spread(pl.col("n")).alias("spread")))
    windows = hits.window(ec.fixed("20m")).lateness("10m").group_by("k").agg(x=pl.col("x").sum())
    engine.view("windows", windows)
    return engine


def push(engine: ec.Engine, number: int) -> None:
    """One epoch; some rows of it are too late, or retract what never was."""
    draw = random.Random(number)
    minutes = [number * 9 - (90 if draw.random() < 0.2 else 0) + draw.randrange(9) for _ in range(8)]
    with engine.epoch(at=moment(number)):
        hits = {"k": [draw.randrange(4) for _ in minutes], "x": [draw.randrange(99) for _ in minutes]}
        engine.push(
            "hits", hits | {"at": [NOON + timedelta(minutes=each) for each in minutes]}, position=number
        )
        engine.push("moves", {"n": [number, 99 + number], "_diff": [1, -1]}, position=number)


_spread = ec.aggregate(
    create=list,
    add=lambda state, values: [*state, *values.to_list()],
    merge=lambda one, other: one + other,
    extract=lambda state: max(state) - min(state) if state else None,
    dtype=pl.Int64,
)


# Checkpoints


@dataclass(frozen=True)
class Kept:
    """A checkpoint as somebody left it, and what is read of it."""

    path: Path
    committed: tuple[int, ...]
    """Some epochs whose contents can be read: the oldest, one in the middle, the last."""

    @staticmethod
    def of(path: Path) -> Kept:
        """What is at a path."""
        epochs = CommitLog(LocalStore(path)).epochs()
        return Kept(path, tuple(sorted({epochs[0], epochs[len(epochs) // 2], epochs[-1]})))

    def files(self) -> list[str]:
        """The names of all its files."""
        paths = (path for path in self.path.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(str(path.relative_to(self.path)) for path in paths)


def fed(path: Path, *, waiting: int, full: int = 32 << 20, sweep: int = 64, **options: Any) -> ec.Engine:
    """An engine after some epochs, of which so many at a time wait to be committed; a reader has a name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "MOST_SECONDS", 1e9)
        patch.setattr(durability, "MOST_WAITING", waiting)
        patch.setattr(durability, "SWEEP_EVERY", sweep)
        patch.setattr(journal, "FULL", full)
        patch.setattr(record_packs, "LEAST", 3)
        engine = declared(ec.Checkpoint(path, **options))
        engine.views["totals"].subscribe(lambda delta: None, name="sink")
        for number in range(1, EPOCHS + 1):
            push(engine, number)
    return engine


def left_by_a_killed_process(folder: Path, **options: Any) -> Path:
    """What is on disk while the engine runs."""
    engine = fed(folder / "running", **options)
    durable = engine._running.durability
    assert durable is not None
    assert durable._open is not None
    store = durable._open.store
    assert isinstance(store, LocalStore)
    if store._journal is not None and store._journal._emptied is not None:
        store._journal._emptied.result()  # A process is killed at one instant, and a copy takes some time.
    left = folder / "left"
    shutil.copytree(folder / "running", left)
    engine.close()
    return left


def closed(folder: Path, **options: Any) -> Path:
    fed(folder / "closed", **options).close()
    return folder / "closed"


def compacted(folder: Path) -> Path:
    path = closed(folder, waiting=3)
    store = LocalStore(path)
    with store.lock():
        compact(store, keep=1, grace=0)
    return path


STATES: dict[str, Callable[[Path], Path]] = {
    "logged": lambda folder: left_by_a_killed_process(folder, waiting=5),
    "swept": lambda folder: left_by_a_killed_process(
        folder, waiting=1, full=60_000, sweep=3, keep=2, grace="0s"
    ),
    "packed": lambda folder: left_by_a_killed_process(folder, waiting=1, sweep=3, keep=8),
    "closed": lambda folder: closed(folder, waiting=4),
    "compacted": compacted,
    "mapped": lambda folder: left_by_a_killed_process(folder, waiting=1, resident_bytes=1),
}
"""Ways to come to a checkpoint: with epochs committed, of which only the input is there, in the journal, swept ..."""


# Damage


@dataclass(frozen=True)
class Damage:
    """What happens to a file; ``files`` are those that may be named for it."""

    what: str
    files: tuple[str, ...]
    do: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{' and '.join(self.files)}: {self.what}"


def kind_of(file: str) -> str:
    """Files of one kind hold the same things."""
    folder, slash, _ = file.rpartition("/")
    return folder if slash else file


def damages(kept: Kept, file: str, draw: random.Random, places: int) -> Iterator[Damage]:
    """Everything that can happen to a file, at so many places of it."""
    content = (kept.path / file).read_bytes()
    size = len(content)

    def rewritten(what: str, data: bytes) -> Damage:
        return Damage(what, (file,), lambda path: _write(path / file, data))

    def spots() -> Iterator[int]:
        pages = [at for at in range(0, size, 4096) if content[at : at + 4] == b"evcr"]
        yield from [0, size - 1, *(at + 50 for at in pages if at + 50 < size)][: 2 + places]
        yield from (draw.randrange(size) for _ in range(places))

    if (at := place_of_a_value(content)) is not None:
        yield rewritten(OF_A_VALUE, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    for at in spots() if size else ():
        flipped = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
        yield rewritten(f"a bit of byte {at} flipped", flipped)
        yield rewritten(f"cut off after {at} bytes", content[:at])
        end = min(size, at + draw.choice([1, 100, 5000, size]))
        yield rewritten(f"zeros from {at} to {end}", content[:at] + bytes(end - at) + content[end:])
    yield rewritten("zeros", bytes(size))
    for more in (b"x", bytes(4096), content):
        yield rewritten(f"{len(more)} bytes appended", content + more)
    yield rewritten("emptied", b"")
    yield Damage("deleted", (file,), lambda path: (path / file).unlink())
    yield Damage("a folder", (file,), lambda path: _make_folder(path / file))
    others = [each for each in kept.files() if each != file and kind_of(each) == kind_of(file)]
    if file.startswith("writer.journal"):
        others = [each for each in kept.files() if each != file and each.startswith("writer.journal")]
    strangers = [each for each in kept.files() if kind_of(each) != kind_of(file)]
    for other in draw.sample(strangers, min(len(strangers), places)):
        yield rewritten(f"overwritten with {other}", (kept.path / other).read_bytes())
    if file.endswith(".json"):
        yield rewritten("deep JSON", b"[" * 100_000)
    for other in draw.sample(others, min(len(others), places)):
        yield Damage("swapped", (file, other), lambda path, other=other: _swap(path / file, path / other))  # type: ignore[misc]


def place_of_a_value(content: bytes) -> int | None:
    """The place of the first value in a file of Arrow, or of a token in the note of where journals end; None in other files."""
    if (note := content.rfind(MAGIC)) >= 0:
        return note + BEFORE_TOKEN
    if not content.startswith(ARROW):
        return None
    stream = pa.py_buffer(content[8:])
    columns = pa.ipc.open_stream(pa.BufferReader(stream)).read_all().columns
    buffers = [each for column in columns for chunk in column.chunks for each in chunk.buffers() if each]
    return 8 + buffers[0].address - stream.address if buffers and buffers[0].size else None


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


# What is read

Read = dict[str, Any]
"""By what was to be read: what was read, or the error that was raised instead."""


def read_without_engine(kept: Kept, path: Path) -> Read:
    """Views as another process reads them."""
    readings: Read = {}
    with _errors_as_readings(readings, "reader"):
        reader = CheckpointReader(declared(None).declared, LocalStore(path))
        readings["reader"] = reader.last().epoch
    if "reader" not in readings or isinstance(readings["reader"], Exception):
        return readings
    for view in ("totals", "windows"):
        with _errors_as_readings(readings, f"reader's {view}"):
            readings[f"reader's {view}"] = reader.snapshot(view).frame.rows()
        with _errors_as_readings(readings, f"reader's deltas of {view}"):
            deltas = reader.deltas(view, kept.committed[0])
            readings[f"reader's deltas of {view}"] = [(epoch, frame.rows()) for epoch, frame in deltas]
    return readings


def read_with_engine(kept: Kept, path: Path, *, goes_on: bool) -> Read:
    """Everything that an engine shows; ``goes_on``: also after another epoch, and who opens it then."""
    readings: Read = {}
    with _errors_as_readings(readings, "epoch"), declared(path) as engine:
        readings["epoch"] = engine.epoch_number
        for name, view in engine.views.items():
            with _errors_as_readings(readings, name):
                readings[name] = view.read().rows()
            with _errors_as_readings(readings, f"deltas of {name}"):
                readings[f"deltas of {name}"] = [delta.rows() for delta in view.deltas(kept.committed[0])]
        for epoch in kept.committed:
            with _errors_as_readings(readings, f"at {epoch}"):
                readings[f"at {epoch}"] = [
                    engine.views[name].read(epoch=epoch).rows() for name in ("best", "windows")
                ]
        readings["ledger"] = engine.ledger().rows()
        readings["positions"] = engine.positions, engine.watermarks
        if goes_on:
            push(engine, EPOCHS + 1)
            readings["next"] = [view.read().rows() for view in engine.views.values()]
    if goes_on and not isinstance(readings["epoch"], Exception):
        with _errors_as_readings(readings, "reopened"), declared(path) as engine:
            readings["reopened"] = [
                engine.epoch_number,
                *(view.read().rows() for view in engine.views.values()),
            ]
    return readings


@contextmanager
def _errors_as_readings(readings: Read, part: str) -> Iterator[None]:
    """Take an error of ours for an answer; any other passes."""
    try:
        yield
    except (ec.CheckpointError, ec.EpochGoneError) as error:
        readings[part] = error
