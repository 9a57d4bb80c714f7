"""Rows wait unsorted until somebody needs them by key: nobody can see, by any bit, when they were sorted."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
import evercurrent.core.state.merge_policy as policy_module
import evercurrent.core.state.near as near_module
import evercurrent.core.state.spine as spine_module
import evercurrent.core.state.waiting as waiting_module
from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.lookup import first_rows_after, rows_change
from evercurrent.core.state.near import runs_near
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, Run
from evercurrent.core.state.snapshot import Saved
from evercurrent.core.state.spine import Spine, Version
from evercurrent.core.state.waiting import rows_in
from faults import FaultError, raising_node
from harness import Running, circuit_of
from oracle import TooLargeError
from strategies import Case, cases, of_profile

SCHEMA = pl.Schema({"k": pl.Int64(), "x": pl.String()})


def rows_of(entries: list[tuple[int, str, int]]) -> pl.DataFrame:
    return pl.DataFrame(entries, {**SCHEMA, DIFF: pl.Int64()}, orient="row")


def by_key(column: str = "k") -> Spine:
    return Spine(Layout(SCHEMA, by_row=True), keys=KeyColumns.of([column]))


def by_row() -> Spine:
    return Spine(Layout(SCHEMA), route=None)


def bits_of(run: Run) -> tuple[Any, ...]:
    words = [run.keys.first, run.keys.seconds()]
    words += [] if run.rows is None else [run.rows.first, run.rows.seconds()]
    sums = {name: column.tolist() for name, column in sorted(run.sums.items())}
    return [column.tolist() for column in words], sums, run.payload.rows() if run.payload.width else []


class Twins:
    """Two states with the same rows: in one they may wait, in the other they are sorted at once."""

    def __init__(self, make: Callable[[], Spine]) -> None:
        self.make = make
        self.lazy, self.eager = make(), make()
        self.versions: list[tuple[Version, Version]] = [(self.lazy.version, self.eager.version)]

    def stage(self, frame: pl.DataFrame, early: str) -> None:
        """Stage rows in both; some look at the state or at the change before the commit, in either order."""
        if "before" in early:
            assert self.lazy.runs is not None
        self.lazy.stage_rows(frame)
        if frame.height:
            self.eager.stage(self.eager._sorted(frame))
        if "runs" in early:
            assert self.lazy.runs is not None
        if "delta" in early:
            assert bits_of(self.lazy.delta) == bits_of(self.eager.delta)
        if "late" in early:
            assert self.lazy.runs is not None
        if "saved" in early:
            assert sum(len(run) for run in self.lazy.saved().pieces) >= 0

    def commit(self) -> None:
        self.lazy.commit()
        self.eager.commit()
        self.versions.append((self.lazy.version, self.eager.version))

    def discard(self) -> None:
        before = self.lazy.version
        self.lazy.discard()
        self.eager.discard()
        assert self.lazy.version is before

    def move(self) -> None:
        """Go on from what was saved."""
        for name in ("lazy", "eager"):
            old, new = getattr(self, name), self.make()
            pieces = tuple(new.piece_of(old.columns_of(piece)) for piece in old.saved().pieces)
            new.restore(Saved(pieces, old.saved().facts))
            setattr(self, name, new)

    def check(self, number: int) -> None:
        """Read an earlier version of both, as readers in other threads do."""
        lazy, eager = self.versions[number % len(self.versions)]
        assert bits_of(self.lazy.at(lazy).merged()) == bits_of(self.eager.at(eager).merged())


ENTRIES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.sampled_from([1, 1, 1, 2, -1])), max_size=5
)
ADDED = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(1, 2)), max_size=5)
EARLY = st.sampled_from(
    ["", "", "", "before", "runs", "delta", "runs delta", "delta late", "saved", "runs saved"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.one_of(ADDED, ADDED, ENTRIES), EARLY),
        st.tuples(st.just("discard"), ENTRIES, EARLY),
        st.tuples(st.just("read"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("undo"), st.just(0), st.just("")),
        st.tuples(st.just("move"), st.just(0), st.just("")),
    ),
    max_size=20,
)


@pytest.mark.parametrize("make", [by_key, by_row])
@of_profile(1.0, quick=40)
@given(steps=STEPS, keeps_runs=st.booleans(), most=st.sampled_from([None, 2]), few=st.sampled_from([0, 64]))
def test_rows_that_wait_are_the_rows_that_were_sorted(
    make: Callable[[], Spine],
    steps: list[tuple[str, Any, str]],
    keeps_runs: bool,
    most: int | None,
    few: int,
) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(spine_module, "FEW_WAITING", few)
        patches.setattr(policy_module, "FLOOR", 1)
        patches.setattr(waiting_module, "APART_FROM", 4)
        patches.setattr(Spine, "keeps_runs", keeps_runs)
        patches.setattr(Spine, "most_merged", most)
        twins = Twins(make)
        for step, given_to_it, early in steps:
            match step:
                case "commit":
                    twins.stage(rows_of(given_to_it), early)
                    twins.commit()
                case "discard":
                    twins.stage(rows_of(given_to_it), early)
                    twins.discard()
                case "read":
                    twins.check(given_to_it)
                case "undo":
                    run = twins.eager.merged()
                    if len(run):
                        twins.stage(run.payload.with_columns(pl.Series(DIFF, -run.sums[DIFF])), "")
                        twins.commit()
                    assert twins.lazy.entries == twins.eager.entries == 0
                case "move":
                    twins.move()
            assert twins.lazy.total(DIFF) == twins.eager.total(DIFF)
        for number in range(len(twins.versions)):
            twins.check(number)


@pytest.mark.parametrize("few", [0, 64])
@of_profile(0.5, quick=60)
@given(
    epochs=st.lists(ENTRIES, min_size=1, max_size=6),
    keys=st.sets(st.integers(0, 5), min_size=1),
    count=st.integers(1, 3),
    looks=st.sampled_from([0, 1, 1000]),
    at_once=st.sampled_from([1, 3, 1000]),
)
def test_rows_near_some_keys_are_those_of_the_state(
    few: int, epochs: list[list[Any]], keys: set[int], count: int, looks: int, at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(spine_module, "FEW_WAITING", few)
        patches.setattr(near_module, "LOOKS", looks)
        patches.setattr(near_module, "SORTED_AT_ONCE", at_once)
        lazy, eager = by_key(), by_key()
        for entries in epochs[:-1]:
            for spine in (lazy, eager):
                spine.stage_rows(rows_of(entries))
                spine.commit()
        for spine in (lazy, eager):
            spine.stage_rows(rows_of(epochs[-1]))
        frame = pl.DataFrame({"k": sorted(keys)}, {"k": pl.Int64})
        words = group(lazy.words_of(frame)).keys
        near = first_rows_after(lazy, words, count)
        _, whole = rows_change(eager, words, count)
        assert near.owners.tolist() == whole.owners.tolist()
        assert near.payload.equals(whole.payload)
        assert near.diffs.tolist() == whole.diffs.tolist()
        assert bits_of(lazy.delta) == bits_of(eager.delta)
        for spine in (lazy, eager):
            spine.commit()
        assert bits_of(lazy.merged()) == bits_of(eager.merged())


@pytest.mark.parametrize(("column", "values"), [("k", range(6)), ("x", "abcdef")])
@of_profile(0.5, quick=60)
@given(data=st.data(), at_once=st.sampled_from([1, 2, 5]))
def test_look_ups_of_keys_find_all_of_their_rows_while_these_are_sorted_in_parts(
    column: str, values: Any, data: st.DataObject, at_once: int
) -> None:
    row = st.tuples(st.integers(0, 5), st.sampled_from("abcdef"), st.sampled_from([1, 1, 1, 2, -1]))
    rows = st.just([]) | st.lists(row, max_size=12)
    epoch = st.tuples(rows, st.lists(st.sampled_from(values), max_size=3), st.booleans())
    epochs = data.draw(st.lists(epoch, min_size=1, max_size=8))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(near_module, "LOOKS", 0)
        patches.setattr(near_module, "SORTED_AT_ONCE", at_once)
        lazy, eager = by_key(column), by_key(column)
        for entries, keys, is_failing in epochs:
            for spine in (lazy, eager):
                if entries:
                    spine.stage_rows(rows_of(entries))
            words = lazy.words_of(pl.DataFrame({column: keys}, {column: SCHEMA[column]}))
            waiting = rows_in(lazy.parts()[1])
            there = [entry for run in runs_near(lazy, words) for entry in entries_of_keys(run, words)]
            assert sums_of(there) == sums_of(
                [entry for run in eager.runs for entry in entries_of_keys(run, words)]
            )
            for spine in (lazy, eager):
                spine.discard() if is_failing else spine.commit()
            if keys and not entries and not is_failing:
                assert rows_in(lazy.parts()[1]) <= max(0, waiting - at_once)
        assert bits_of(lazy.merged()) == bits_of(eager.merged())


def entries_of_keys(run: Run, keys: Keys) -> list[tuple[tuple[Any, ...], int]]:
    """The rows of a run that have one of these keys, with their diffs."""
    places = np.flatnonzero(np.isin(run.keys.first, keys.first))
    return list(zip(run.payload[places].rows(), run.sums[DIFF][places].tolist(), strict=True))


def sums_of(entries: list[tuple[tuple[Any, ...], int]]) -> dict[tuple[Any, ...], int]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for row, diff in entries:
        sums[row] += diff
    return {row: diff for row, diff in sums.items() if diff}


@pytest.mark.parametrize("column", ["k", "x"])
def test_an_epoch_that_looks_up_sorts_a_part_of_what_waits(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_module, "SORTED_AT_ONCE", 300)
    spine = by_key(column)
    for begun in range(0, 1000, 500):
        spine.stage_rows(rows_of([(number, f"text {number}", 1) for number in range(begun, begun + 500)]))
        spine.commit()
    left = []
    for number in (999, 3, 950, 700):
        words = spine.words_of(pl.DataFrame({"k": [number], "x": [f"text {number}"]}))
        there = pl.concat([run.payload for run in runs_near(spine, words)])
        assert there.filter(pl.col("k") == number).rows() == [(number, f"text {number}")]
        spine.commit()
        left.append(rows_in(spine.version.parts[1]))
    assert left == [700, 400, 100, 0]
    assert sorted(spine.merged().payload["k"]) == list(range(1000))


def test_small_chunks_are_put_together_and_large_ones_stay() -> None:
    spine = by_row()
    for number in range(1000):
        spine.stage_rows(rows_of([(number, "a", 1)]))
        spine.commit()
    runs, waiting = spine.version.parts
    assert not runs
    assert len(waiting) < 10
    assert spine.entries == len(spine.merged()) == 1000


@pytest.mark.parametrize("few", [0, 64])
def test_rows_that_were_retracted_are_not_kept_for_long(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spine_module, "FEW_WAITING", few)
    spine, size = by_row(), 1000
    spine.stage_rows(rows_of([(number, "a", 1) for number in range(size)]))
    spine.commit()
    for start in range(0, size - 100, 100):
        spine.stage_rows(rows_of([(number, "a", -1) for number in range(start, start + 100)]))
        spine.commit()
        assert spine.entries <= 3 * (size - start - 100) + 600
    assert len(spine.merged()) == 100


@pytest.mark.parametrize("make", [by_key, by_row])
def test_a_state_that_each_task_restores_holds_nothing_of_earlier_tasks(make: Callable[[], Spine]) -> None:
    """As in buckets: a task restores a state, stages rows and saves it, and none is committed."""
    spine, kept = make(), Saved((), {})
    runs: list[weakref.ref[Run]] = []
    for number in range(20):
        spine.restore(kept)
        spine.stage_rows(rows_of([(key, "a", 1) for key in range(number, number + 5)]))
        kept = spine.saved()
        runs += map(weakref.ref, kept.pieces)
    gc.collect()
    assert len({id(run()) for run in runs if run() is not None}) <= len(kept.pieces) + 1


# Whole programs


def sorted_at_once(spine: Spine, frame: pl.DataFrame) -> None:
    """What ``stage_rows`` does where no rows may wait."""
    if frame.height:
        spine.stage(spine._sorted(frame))


@of_profile(0.5, quick=30)
@given(case=cases(max_epochs=4, trusted=False), reads=st.sets(st.integers(0, 3)))
def test_any_program_gives_the_same_whenever_rows_are_sorted(case: Case, reads: set[int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    lazy = Running(case)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Spine, "stage_rows", sorted_at_once)
        eager = Running(case)
        for epoch in case.epochs:
            eager.push(epoch)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(spine_module, "FEW_WAITING", 0)
        for number, epoch in enumerate(case.epochs):
            lazy.push(epoch)
            if number in reads:
                lazy.contents()
    assert lazy.contents() == eager.contents()
    for name, view in lazy.views.items():
        assert view.read().equals(eager.views[name].read()), name
        ours, theirs = (running.views[name].deltas().frame() for running in (lazy, eager))
        assert Counter(map(repr, ours.rows())) == Counter(map(repr, theirs.rows())), name


KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def joined(how: str, **options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    a = engine.source("a", {"k": pl.Int64, "x": pl.String}, kind="diffs")
    b = engine.source("b", {"k": pl.Int64, "y": pl.Int64}, kind="diffs")
    engine.view("joined", a.join(b, on="k", how=how))  # type: ignore[arg-type]
    engine.view("rows", a.filter(pl.col("x") != "none"))
    return engine


def random_pushes(seed: int, count: int) -> list[tuple[str, pl.DataFrame]]:
    """Mostly additions to one side, now and then a change of the other, or a retraction."""
    draw = np.random.default_rng(seed)
    pushes, held = [], {"a": [], "b": []}  # type: ignore[var-annotated]
    for number in range(count):
        side = "b" if number % 7 in (0, 5) else "a"
        rows = [
            (int(draw.integers(6)), str(draw.integers(3)) if side == "a" else int(draw.integers(3)))
            for _ in range(9)
        ]
        entries = [(*row, 1) for row in rows]
        if number % 5 == 4 and held[side]:
            entries += [(*held[side].pop(), -1) for _ in range(4)]
        held[side] += rows
        names = ["k", "x" if side == "a" else "y", DIFF]
        pushes.append((side, pl.DataFrame(entries, names, orient="row")))
    return pushes


@pytest.mark.parametrize("how", KINDS)
def test_a_failed_epoch_leaves_waiting_rows_as_they_were(how: str) -> None:
    engine, twin = joined(how), joined(how)
    for number, (side, rows) in enumerate(random_pushes(1, 30)):
        circuit = circuit_of(engine)
        before = [(state.entries, state.nbytes) for state in circuit.states]
        for node in (circuit.nodes[-1], circuit.nodes[number % len(circuit.nodes)]):
            circuit.visits_all = True
            with raising_node(node, after=True), pytest.raises(FaultError):
                engine.push(side, rows)
            assert [(state.entries, state.nbytes) for state in circuit.states] == before
        circuit.visits_all = False
        engine.push(side, rows)
        twin.push(side, rows)
    for name, view in engine.views.items():
        assert view.read().equals(twin.views[name].read())


@pytest.mark.parametrize("how", KINDS)
def test_a_checkpoint_in_the_middle_changes_nothing(tmp_path: Path, how: str) -> None:
    twin = joined(how)
    pushes = random_pushes(2, 24)
    for start in range(0, 24, 6):
        engine = joined(how, checkpoint=ec.Checkpoint(tmp_path, every=1 + start % 5))
        for side, rows in pushes[start : start + 6]:
            engine.push(side, rows)
            twin.push(side, rows)
        for name, view in engine.views.items():
            assert view.read().equals(twin.views[name].read())
        engine.close()


def test_threads_read_while_rows_wait() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "n": pl.Int64}, kind="append")
    names = engine.source("names", {"k": pl.Int64, "y": pl.Int64})
    even = engine.view("even", rows.filter(pl.col("n") % 2 == 0))
    left = engine.view("left", rows.join(names, on="k", how="left"))
    engine.push("names", {"k": [0, 1], "y": [10, 11]})
    failed: list[BaseException] = []
    is_over = threading.Event()

    def read() -> None:
        try:
            while not is_over.is_set():
                now = engine.published()
                epochs = now.epoch - 1
                assert now.rows("left").sort("n")["n"].to_list() == list(range(100 * epochs))
                assert now.rows("even").height == 50 * epochs
                assert sum(delta.height for delta in left.deltas(since=now.epoch)) >= 0
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(60):
        column = range(100 * number, 100 * number + 100)
        engine.push("rows", {"k": [n % 3 for n in column], "n": column})
    is_over.set()
    for reader in readers:
        reader.join()
    assert not failed, failed
    assert sum(delta.height for delta in even.deltas()) == even.read().height == 3000


def test_a_view_of_rows_holds_little_more_than_its_rows() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Float64, "text": pl.String}, kind="append")
    engine.view("kept", rows.filter(pl.col("k") >= 0))
    frame = pl.DataFrame({"k": range(20_000)}).with_columns(
        x=pl.col("k") / 3, text=pl.col("k").cast(pl.String) + " is a row"
    )
    for _ in range(5):
        engine.push("rows", frame)
    (state,) = [state for state in circuit_of(engine).states if isinstance(state, Spine)]
    assert state.nbytes <= 1.5 * 5 * frame.estimated_size()


def test_rows_that_wait_and_cancel_leave_no_run_without_diffs() -> None:
    """An operator that reads the runs of a state finds the diffs in each, also where there are no entries."""
    spine = by_key()
    spine.stage_rows(rows_of([(2, "b", 1)]))
    spine.commit()
    assert [run.sums[DIFF].tolist() for run in spine.runs] == [[1]]
    spine.stage_rows(rows_of([(1, "a", 1), (1, "a", 1), (1, "a", -1), (1, "a", -1)]))
    spine.commit()
    assert [run.sums[DIFF].tolist() for run in spine.runs if len(run)] == [[1]]
    assert [run.sums[DIFF].tolist() for run in spine.runs if not len(run)] == [[]]
