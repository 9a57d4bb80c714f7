"""A checkpoint stays small while its query runs: files that nothing needs are deleted, and mostly unneeded ones emptied."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.views.checkpoint import compacting
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.concurrency.turns import Turn
from evercurrent.views.partitioned import upkeep
from evercurrent.views.partitioned.upkeep import Upkeep
from evercurrent.views.store import LocalStore
from spark.doomed_query import batches, declare
from spark.offered import Offering, declared, forget_everything, held
from spark.test_query import ONCE, chain, events, pushed
from spark.test_query import declared as declared_by
from spark.twins import counted
from thinned import IS_LONG

PLAN = declared(declare)
TINY = batches(300 if IS_LONG else 144, 2)


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    yield
    forget_everything()


def files(folder: Path) -> int:
    return sum(1 for each in folder.rglob("*") if each.is_file())


def test_files_stay_as_many_in_a_long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tiny epochs; what they come to is as without any upkeep."""
    monkeypatch.setattr(upkeep, "EVERY", 16)
    monkeypatch.setattr(compacting, "MOST_WASTED", 20_000)
    offering = Offering(PLAN, LocalStore(tmp_path / "kept"), buckets=2, full_every=8)
    options = ec.Checkpoint(tmp_path / "kept", keep=8, grace="0s")
    turn = Turn()
    kept = Upkeep(turn, lambda: offering.epochs, options, lambda: None, lambda: False)
    counts, freed = [], 0
    for number, frame in enumerate(TINY):
        with turn:
            assert offering.offer(number, {"hits": frame})
            progress = offering.epochs.progress[-1]
            freed += progress.freed_bytes
        kept.after_epoch()
        kept.join()
        counts.append(files(tmp_path / "kept"))
    half = len(counts) // 2
    assert max(counts[half:]) <= max(counts[half // 3 : half]) + 4, counts[15::16]
    assert max(counts) < 120
    assert freed > 300 * len(TINY)
    store = LocalStore(tmp_path / "kept")
    assert verify(store).faults == ()
    steady = Offering(PLAN, LocalStore(tmp_path / "steady"), buckets=2)
    for number, frame in enumerate(TINY):
        steady.offer(number, {"hits": frame})
    forget_everything()
    again = Offering(PLAN, store, buckets=2)
    assert held(PLAN, store, runner=again.runner) == held(PLAN, steady.epochs.log.store, runner=steady.runner)
    assert again.epochs.clocks.watermarks() == steady.epochs.clocks.watermarks()


def test_files_stay_as_many_when_no_process_runs_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that was killed each minute, or run each hour, never had as many epochs in one process as upkeep waits for."""
    monkeypatch.setattr(upkeep, "EVERY", 16)
    offering = Offering(PLAN, LocalStore(tmp_path), buckets=2, full_every=8)
    options, turn, counts = ec.Checkpoint(tmp_path, keep=8, grace="0s"), Turn(), []
    for number, frame in enumerate(TINY[:120]):
        if number % 5 == 0:
            kept = Upkeep(turn, lambda: offering.epochs, options, lambda: None, lambda: False)
        with turn:
            offering.offer(number, {"hits": frame})
        kept.after_epoch()
        kept.join()
        counts.append(files(tmp_path))
    assert max(counts[60:]) <= max(counts[20:60]) + 8, counts


def test_what_is_needed_is_copied_out_of_files_that_are_mostly_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    offering = Offering(PLAN, store, buckets=2)
    for number, frame in enumerate(TINY[:40]):
        offering.offer(number, {"hits": frame})
    last = offering.epochs.last
    before = held(PLAN, store, runner=offering.runner)
    compacted = compacting.without_waste(store, last, 0)
    assert compacted is not None
    assert compacted.epoch == last.epoch + 1
    assert compacted.writer == last.writer
    assert compacting.without_waste(store, last) is None, "they waste little"
    offering.epochs.log.append(compacted, whole=True)
    offering.epochs.go_on_from(compacted)
    named = {ref.file for record in compacted.states.values() for ref in record.pieces}
    assert len(named) < len({ref.file for record in last.states.values() for ref in record.pieces})
    offering.epochs.log.sweep(1, 0)
    forget_everything()
    again = Offering(PLAN, store, buckets=2)
    assert held(PLAN, store, runner=again.runner) == before
    for number in (40, 41):
        assert offering.offer(number, {"hits": TINY[number]})
    assert verify(store).faults == ()


def test_nothing_is_copied_in_an_epoch_whose_number_a_sink_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "MOST_WASTED", 0)
    offering = Offering(PLAN, LocalStore(tmp_path), buckets=2)
    for number, frame in enumerate(TINY[:40]):
        offering.offer(number, {"hits": frame})
    last, begun = offering.epochs.last.epoch, iter([True, False])
    kept = Upkeep(
        Turn(),
        lambda: offering.epochs,
        ec.Checkpoint(tmp_path),
        lambda: None,
        lambda: False,
        lambda: next(begun),
    )
    kept.work()
    assert offering.epochs.last.epoch == last
    kept.work()
    assert offering.epochs.last.epoch == last + 1


def test_an_epoch_and_the_upkeep_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY", 1)
    offering = Offering(PLAN, LocalStore(tmp_path), buckets=2)
    may_end, has_begun = threading.Event(), threading.Event()

    def also() -> None:
        has_begun.set()
        assert may_end.wait(20)

    turn = Turn()
    kept = Upkeep(turn, lambda: offering.epochs, ec.Checkpoint(tmp_path), also, lambda: False)
    begun = time.monotonic()
    kept.after_epoch()
    assert time.monotonic() - begun < 5
    assert has_begun.wait(20)
    is_ours = threading.Event()

    def take() -> None:
        with turn:
            is_ours.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    assert not is_ours.wait(0.05)
    kept.after_epoch()  # One is enough.
    may_end.set()
    kept.join()
    assert is_ours.wait(5)
    waiting.join()


def test_a_query_sweeps_while_it_runs(
    spark: Any, feed: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "EVERY", 2)
    delivered_epochs: list[int] = []
    epochs = events(7, 30)
    query = run(
        declared_by(chain), {"events": feed([rows["events"] for rows in epochs])},
        checkpoint=ec.Checkpoint(checkpoint, keep=1, grace="0s"), buckets=2, trigger=ONCE,
        on_epoch=lambda view, delta, epoch: delivered_epochs.append(epoch),
    )  # fmt: skip
    query.await_termination()
    assert sum(one.freed_files for one in query.recent_progress()) > 0
    assert sum(one.freed_bytes for one in query.recent_progress()) > 0
    assert "files freed" in "\n".join(map(str, query.recent_progress()))
    assert len(list((checkpoint / "batches").iterdir())) <= 3
    embedded = pushed(chain, epochs)
    for name, view in embedded.views.items():
        assert counted([query.view(name).read()]) == counted([view.read()])
    assert pl.Series(delivered_epochs).unique().sort().to_list() == list(range(1, 8))
