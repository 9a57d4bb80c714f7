"""How many files a checkpoint is: two for a commit, whatever epochs and views it has, and less where it is old."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from commit_cadence import commits_put_off, each_epoch_committed
from evercurrent.views.checkpoint import CommitLog, Pieces
from evercurrent.views.durability import durability
from evercurrent.views.store import LocalStore

VIEWS = 5


def opened(path: Path, **options: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=ec.Checkpoint(path, **options), retain=ec.Retain(epochs=3, rows=1000))
    rows = engine.source("rows", {"k": pl.Int64, "word": pl.String})
    for number in range(VIEWS):
        engine.view(
            f"v{number}", rows.group_by(k=pl.col("k") % (number + 2)).agg(n=pl.len(), w=pl.col("word").max())
        )
    return engine


def feed(engine: ec.Engine, epochs: range) -> None:
    for number in epochs:
        engine.push("rows", {"k": [number], "word": [f"word {number}"]})


def files(path: Path, folder: str = "") -> list[Path]:
    """The files of a checkpoint without those that only its writer has."""
    found = [file for file in (path / folder).rglob("*") if file.is_file()]
    return [file for file in found if not file.name.startswith(("writer.", "."))]


def test_a_commit_is_two_files_whatever_views_and_epochs_it_has(tmp_path: Path) -> None:
    with commits_put_off(), opened(tmp_path) as engine:
        feed(engine, range(50))
        engine.checkpoint()
        feed(engine, range(50, 90))
    records = len(files(tmp_path, "commits"))
    assert records == len(CommitLog(LocalStore(tmp_path)).epochs()) == 3
    assert len(files(tmp_path)) <= 1 + 2 * records


def test_each_epoch_is_read_for_itself(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    with commits_put_off(), opened(tmp_path) as engine:
        engine.views["v3"].subscribe(received.append)
        feed(engine, range(100))
    log, pieces = CommitLog(LocalStore(tmp_path)), Pieces(LocalStore(tmp_path))
    for since in (0, 1, 17, 99):
        refs = log.deltas("v3", since)
        assert [ref.epoch for ref in refs] == list(range(since + 1, 101))
        assert all(
            pieces.read_delta(ref).equals(frame) for ref, frame in zip(refs, received[since:], strict=True)
        )
    with opened(tmp_path) as engine:
        assert [frame.rows() for frame in engine.views["v3"].deltas(since=0)] == [
            frame.rows() for frame in received
        ]


def test_wide_deltas_are_in_several_parts(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    with commits_put_off(), opened(tmp_path) as engine:
        engine.view("all", engine.sources["rows"])
        engine.views["all"].subscribe(received.append)
        for number in range(12):
            engine.push("rows", {"k": list(range(700)), "word": [f"{number} {k}" for k in range(700)]})
    refs = CommitLog(LocalStore(tmp_path)).deltas("all", 0)
    assert len({ref.piece for ref in refs}) > 3, "a reader of one epoch reads a part"
    pieces = Pieces(LocalStore(tmp_path))
    assert [pieces.read_delta(ref).rows() for ref in refs] == [frame.rows() for frame in received]


def test_deltas_that_are_much_are_apart_from_states_that_live_longer(tmp_path: Path) -> None:
    with opened(tmp_path, keep=1) as engine:
        engine.view("all", engine.sources["rows"])
        for number in range(40):
            engine.push("rows", {"k": [number] * 20_000, "word": [f"{number} {k}" for k in range(20_000)]})
            engine.checkpoint()
    log = CommitLog(LocalStore(tmp_path), full_every=1)
    log.sweep(1, 0)
    last = log.last
    assert last is not None
    named = {ref for state in last.states.values() for ref in state.pieces}
    named |= {ref.piece for refs in last.deltas.values() for ref in refs}
    there = sum(file.stat().st_size for folder in ("pieces", "deltas") for file in files(tmp_path, folder))
    assert there <= 3 * sum(ref.size for ref in named)


def test_deltas_are_read_with_arrow_alone(tmp_path: Path) -> None:
    with commits_put_off(), opened(tmp_path) as engine:
        feed(engine, range(5))
        engine.checkpoint()
        feed(engine, range(5, 9))
        emitted = pl.concat(engine.views["v1"].deltas()).rows()
    found: list[tuple[Any, ...]] = []
    for record in sorted(tmp_path.glob("commits/*")):
        for line in record.read_text().splitlines():
            for part in json.loads(line)["body"].get("deltas", {}).get("v1", []):
                with pa.memory_map(str(tmp_path / part["file"])) as file:
                    file.seek(part["start"])
                    table = pa.ipc.open_file(file.read_buffer(part["size"])).read_all()
                found += [tuple(row.values()) for row in table.to_pylist()]
                assert [row[-2] for row in found[-table.num_rows :]] == [
                    epoch for epoch, rows in part["epochs"] for _ in range(rows)
                ]
    assert found == emitted


def test_records_of_old_commits_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SWEEP_EVERY", 32)
    with each_epoch_committed(), opened(tmp_path) as engine:
        feed(engine, range(300))
        there = len(files(tmp_path, "commits"))
        assert there < 64 + 64 + 32 + 5
        assert [frame["_epoch"][0] for frame in engine.views["v0"].deltas(since=0)] == list(range(1, 301))
        assert engine.views["v0"].read(epoch=7)["n"].sum() == 7
    with opened(tmp_path) as engine:
        assert engine.views["v0"].read(epoch=70)["n"].sum() == 70
        assert len(CommitLog(LocalStore(tmp_path)).epochs()) == 301


def test_files_stay_as_many_when_no_engine_is_open_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of files is bounded also if each process makes fewer commits than the number after which one sweeps."""
    monkeypatch.setattr(durability, "SWEEP_EVERY", 8)
    counts = []
    for number in range(30):
        with each_epoch_committed(), opened(tmp_path, keep=4, grace="1us") as engine:
            feed(engine, range(3 * number, 3 * number + 3))
        counts.append(len(files(tmp_path)))
    assert max(counts[15:]) <= max(counts[5:15]) + 4, counts


@pytest.mark.parametrize("raises", [ValueError, KeyboardInterrupt])
def test_files_are_deleted_although_subscribers_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises: type[BaseException]
) -> None:
    def fail(delta: pl.DataFrame) -> None:
        raise raises

    def end(path: Path, callback: Callable[[pl.DataFrame], Any]) -> int:
        with opened(path, every=2, keep=2, grace="1us") as engine:
            engine.views["v3"].subscribe(callback)
            for number in range(60):
                with suppress(ec.SubscriberError, KeyboardInterrupt):
                    feed(engine, range(number, number + 1))
        return len(files(path))

    monkeypatch.setattr(durability, "SWEEP_EVERY", 4)
    assert end(tmp_path / "failing", fail) == end(tmp_path / "quiet", lambda delta: None)
