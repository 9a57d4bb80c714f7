"""The number of buckets changes while a query rests: more, fewer, again and again. Nothing else does."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution.bucket_number import BUCKETS, buckets_for
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore, InjectedError
from spark.doomed_query import VIEWS, batches, declare
from spark.offered import Offering, declared, emitted_deltas, forget_everything, held
from spark.test_query import ONCE, chain, events, pushed
from spark.test_query import declared as declared_by
from spark.twins import counted, entered
from strategies import of_profile

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
HITS = batches(4, 16)
PLAN = declared(declare)


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    yield
    forget_everything()


def offer(store: Store, buckets: int, number: int, rows: pl.DataFrame | None = None) -> None:
    """As ``run`` does when a query is started: cut anew, and then the batch; a process that has just started."""
    forget_everything()
    last = CommitLog(store).last
    if last is not None and last.buckets != buckets:
        rebucket(store, buckets)
    assert Offering(PLAN, store, buckets=buckets).offer(
        number, {"hits": HITS[number] if rows is None else rows}
    )


def seen(store: Store) -> dict[str, Any]:
    """All that a checkpoint has, to a driver that has just started; deltas in order, and not by numbers of epochs."""
    forget_everything()
    last = CommitLog(store).last
    assert last is not None
    offering = Offering(PLAN, store, buckets=last.buckets)
    clocks = offering.epochs.clocks
    emitted = emitted_deltas(store, VIEWS)
    return {
        "emitted": {
            view: [sorted(repr(row[:-2] + row[-1:]) for row in rows) for rows in by_epoch.values()]
            for view, by_epoch in emitted.items()
        },
        "held": held(PLAN, store, runner=offering.runner),
        "ledger": sorted(entry.partition(",")[2] for entry in entered(clocks.ledger.refused)),
        "watermarks": clocks.watermarks(),
    }


@functools.cache
def undisturbed() -> dict[str, Any]:
    """What a query comes to whose number of buckets never changes."""
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        for number in range(len(HITS)):
            offer(store, 3, number)
        return seen(store)


COUNTS = st.lists(st.sampled_from([1, 2, 3, 8, 16]), min_size=len(HITS), max_size=len(HITS))


@of_profile(0.1, quick=6)
@given(counts=COUNTS)
def test_any_numbers_of_buckets_are_the_undisturbed_run(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder, "changed"))
        for number, buckets in enumerate(counts):
            offer(store, buckets, number)
        assert seen(store) == undisturbed()


@of_profile(0.1, quick=6)
@given(counts=COUNTS, few=st.integers(1, 3))
def test_a_fork_has_the_contents_of_buckets_that_were_cut_and_of_those_that_have_changed_since(
    counts: list[int], few: int
) -> None:
    engine = ec.Engine()
    declare(engine)
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        for number, buckets in enumerate(counts):
            offer(store, buckets, number, HITS[number] if number % 2 else HITS[number].head(few))
            fork = engine.fork(ec.Checkpoint(folder))
            contents = {name: sorted(view.read().rows(), key=repr) for name, view in fork.views.items()}
            assert contents == held(PLAN, store)


@pytest.mark.parametrize("buckets", [8, 2])
def test_a_process_that_ends_in_the_midst_of_it_has_changed_nothing(buckets: int, tmp_path: Path) -> None:
    """Whatever number the next one is started with, for every third operation; in the quick profile every sixth."""
    every = 3 if LONG else 6
    expected = undisturbed()
    before = LocalStore(tmp_path / "before")
    for number in range(2):
        offer(before, 3, number)
    failures = 0
    for n in itertools.count():
        folder = tmp_path / str(n)
        shutil.copytree(tmp_path / "before", folder)
        store = FailingStore(LocalStore(folder), n, "torn")
        forget_everything()
        with suppress(InjectedError):
            rebucket(store, buckets)
        if not store.has_failed:
            break
        failures += 1
        again = LocalStore(folder)
        last = CommitLog(again).last
        assert last is not None
        assert last.buckets in (3, buckets)
        if n % every == 0:  # What it is cut into next does not depend on where it failed.
            for number in (2, 3):
                offer(again, (3, buckets, 5)[n // every % 3], number)
            assert seen(again) == expected, f"operation {n}"
            assert verify(again).faults == ()
        shutil.rmtree(folder)
    assert failures > 5


def test_none_keeps_those_of_the_checkpoint(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    offer(store, 3, 0)
    last = CommitLog(store).last
    assert last is not None
    assert buckets_for(last, None) == 3
    assert buckets_for(last, 2) == 2
    assert buckets_for(rebucket(store, 1), None) == BUCKETS


def test_a_query_is_started_with_more_and_with_fewer(spark: Any, feed: Any, checkpoint: Path) -> None:
    epochs = events(4, 60)
    frames = [rows["events"] for rows in epochs]
    stream = feed(frames[:1])
    for number, (buckets, there) in enumerate([(3, 3), (8, 8), (None, 8), (2, 2)]):
        if number:
            feed([frames[number]])
        query = run(
            declared_by(chain), {"events": stream}, checkpoint=checkpoint, buckets=buckets, trigger=ONCE,
            driver_rows=0 if number % 2 else 200_000,
        )  # fmt: skip
        query.await_termination()
        assert CommitLog(LocalStore(checkpoint)).last.buckets == there  # type: ignore[union-attr]
    # Each change of their number is an epoch of its own.
    assert query.epoch_number == len(epochs) + 2
    embedded = pushed(chain, epochs)
    for name, view in embedded.views.items():
        assert counted([query.view(name).read()]) == counted([view.read()])
        own = [counted([delta.drop("_epoch")]) for delta in view.deltas()]
        assert [counted([delta.drop("_epoch")]) for delta in query.view(name).deltas()] == own
