"""States on files: what is new is written once, and a state comes back as it was."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy as np
import polars as pl
import pytest

from checkpoint.memory_store import MemoryStore
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.snapshot import Saved
from evercurrent.core.state.spine import Spine
from evercurrent.core.state.timers import Timers
from evercurrent.views.checkpoint import Pieces, Saver
from evercurrent.views.store import LocalStore
from failing_store import FailingStore

LAYOUT = Layout()


def a_run(rng: random.Random, entries: int) -> Run:
    words = np.array([rng.randrange(2**64) for _ in range(entries)], np.uint64)
    return make_run(LAYOUT, Keys(words), pl.DataFrame(), {"_diff": np.ones(entries, np.int64)})


def a_spine(rng: random.Random, *sizes: int) -> Spine:
    spine = Spine(LAYOUT)
    for size in sizes:
        add(spine, a_run(rng, size))
    return spine


def add(spine: Spine, run: Run) -> None:
    spine.stage(run)
    spine.commit()


def saved(states: dict[str, Any]) -> dict[str, Any]:
    return {name: (state, state.saved()) for name, state in states.items()}


def all_of(spine: Spine) -> list[int]:
    run = spine.merged()
    return list(zip(run.keys.first.tolist(), run.sums["_diff"].tolist(), strict=True)) if len(run) else []


def test_states_come_back() -> None:
    rng, store = random.Random(1), MemoryStore()
    timers = Timers()
    timers.set(np.array([5, 3, 9]), Keys(np.array([50, 30, 90], np.uint64)))
    timers.commit()
    states = {"a:0/0": a_spine(rng, 1000, 500, 3), "b:0/0": timers, "c:0/0": Spine(LAYOUT)}
    records = Saver(Pieces(store)).write(saved(states))
    again: dict[str, Any] = {"a:0/0": Spine(LAYOUT), "b:0/0": Timers(), "c:0/0": Spine(LAYOUT)}
    Saver(Pieces(store)).restore(again, records)
    assert all_of(again["a:0/0"]) == all_of(states["a:0/0"])
    assert again["b:0/0"].due(5).first.tolist() == [30, 50]
    assert not again["c:0/0"].entries


def test_a_state_without_a_record_becomes_empty() -> None:
    spine = a_spine(random.Random(1), 10)
    Saver(Pieces(MemoryStore())).restore({"a:0/0": spine}, {})
    assert spine.entries == 0


def test_an_epoch_writes_what_it_adds() -> None:
    """A161: a commit costs what has changed."""
    rng, store = random.Random(1), MemoryStore()
    saver, spine = Saver(Pieces(store)), a_spine(rng, 5000)
    other = a_spine(rng, 100)
    first = saver.write(saved({"a/0": spine, "b/0": other}))
    add(spine, a_run(rng, 10))
    before = set(store.files)
    second = saver.write(saved({"a/0": spine, "b/0": other}))
    (new,) = set(store.files) - before
    assert len(store.files[new][0]) < 2000
    assert second["a/0"].pieces[:-1] == first["a/0"].pieces
    assert second["b/0"] is first["b/0"]
    saver.write(saved({"a/0": spine, "b/0": other}))
    assert set(store.files) == {*before, new}


def test_states_and_deltas_are_written_in_one_go(tmp_path: Any) -> None:
    puts: list[int] = []

    class Counting(LocalStore):
        def put_all(self, items: Any) -> None:
            puts.append(len(items))
            super().put_all(items)

    rng = random.Random(1)
    states = {f"{n}/0": a_spine(rng, 10) for n in range(6)}
    delta = pl.DataFrame({"n": [1], "_diff": [1]})
    saver = Saver(pieces := Pieces(Counting(tmp_path)))
    emitted = [("v", 3, delta), ("w", 3, delta), ("v", 4, delta.with_columns(pl.col("n") + 1))]
    records, refs = saver.write_all(saved(states), emitted)
    assert puts == [1]
    assert [ref.epoch for ref in refs] == [3, 3, 4]
    assert [pieces.read_delta(ref).rows() for ref in refs] == [[(1, 3, 1)], [(1, 3, 1)], [(2, 4, 1)]]
    assert len({ref.piece for ref in refs}) == 2
    assert {ref.piece.file for ref in refs} == {ref.file for each in records.values() for ref in each.pieces}


def test_after_a_restart_nothing_is_written_again() -> None:
    rng, store = random.Random(1), MemoryStore()
    spine = a_spine(rng, 2000, 40)
    records = Saver(Pieces(store)).write(saved({"a/0": spine}))
    files = set(store.files)
    again, saver = Spine(LAYOUT), Saver(Pieces(store))
    saver.restore({"a/0": again}, records)
    assert saver.write(saved({"a/0": again}))["a/0"] is records["a/0"]
    add(again, a_run(rng, 5))
    assert saver.write(saved({"a/0": again}))["a/0"].pieces[:2] == records["a/0"].pieces
    assert len(set(store.files) - files) == 1


def test_random_histories_with_failures_come_back() -> None:
    """Whatever was written before a failure, the next record names what the state is."""
    for seed in range(30):
        rng, store = random.Random(seed), MemoryStore()
        failing = FailingStore(store)
        saver, spine = Saver(Pieces(failing)), Spine(LAYOUT)
        for _ in range(12):
            spine.stage(a_run(rng, rng.choice([1, 10, 300, 600])))
            failing.fail_at = len(failing.done) if rng.random() < 0.3 else None
            failing.when = rng.choice(["before", "after"])
            try:
                record = saver.write(saved({"a/0": spine}))["a/0"]
            except CheckpointError:
                spine.discard()
                continue
            if rng.random() < 0.2:
                spine.discard()  # The record of the commit could not be written.
                continue
            spine.commit()
            again = Spine(LAYOUT)
            Saver(Pieces(store)).restore({"a/0": again}, {"a/0": record})
            assert all_of(again) == all_of(Spine_of(spine))


def Spine_of(spine: Spine) -> Spine:  # noqa: N802
    """The same collection in a spine of its own, so that reading does not merge the first."""
    other = Spine(LAYOUT)
    other.restore(Saved(spine.saved().pieces, {}))
    return other


def test_restoring_what_was_just_written_reads_nothing() -> None:
    rng, store = random.Random(1), MemoryStore()
    spine, pieces = a_spine(rng, 600, 30), Pieces.of(store)
    records = Saver(pieces).write(saved({"a:0/7": spine}))
    store.reads.clear()
    again = Spine(LAYOUT)
    Saver(Pieces.of(store)).restore({"a:0/7": again}, records)
    assert store.reads == []
    assert all(one is other for one, other in zip(again.runs, spine.runs, strict=True))
    Saver(Pieces.of(store)).restore({"b:0/7": Spine(LAYOUT)}, {"b:0/7": records["a:0/7"]})
    assert store.reads, "a piece of another state may mean something else"


def test_nothing_is_remembered_of_pieces_that_are_merged_away() -> None:
    rng, store = random.Random(1), MemoryStore()
    saver, spine = Saver(Pieces.of(store)), Spine(LAYOUT)
    alive: list[weakref.ref[Run]] = []
    for _ in range(200):
        run = a_run(rng, 20)
        alive.append(weakref.ref(run))
        spine.stage(run)
        saver.write(saved({"a/0": spine}))
        spine.commit()
        del run
    gc.collect()
    assert len([ref for ref in alive if ref() is not None]) < 8
    saver.close()
    alive = [weakref.ref(run) for run in spine.runs]
    del spine
    gc.collect()
    assert not [ref for ref in alive if ref() is not None]


def test_pieces_are_mapped_instead_of_held(tmp_path: Any) -> None:
    rng = random.Random(1)
    saver, spine = Saver(Pieces(LocalStore(tmp_path))), a_spine(rng, 5000, 100)
    records = saver.write(saved({"a/0": spine, "b/0": a_spine(rng, 10)}))
    held, small = spine.runs
    entries = all_of(Spine_of(spine))
    spine.restore(saver.mapped(spine, records["a/0"], larger_than=10_000))
    assert spine.runs[1] is small
    assert spine.runs[0] is not held
    assert held.keys.first.flags.owndata
    assert not spine.runs[0].keys.first.flags.owndata
    assert saver.write(saved({"a/0": spine}))["a/0"] == records["a/0"]
    assert all_of(Spine_of(spine)) == entries
    with pytest.raises(KeyError):
        saver.mapped(spine, Saver(Pieces(MemoryStore())).write(saved({"a/0": spine}))["a/0"])
