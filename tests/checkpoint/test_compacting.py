"""Compacted between any two epochs, a checkpoint goes on as if nothing had been, with one run where there were several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from checkpoint.commits_made import a_commit
from checkpoint.memory_store import MemoryStore
from checkpoint.test_rebucket import check, positioned, require_cut
from durability.every_operator import EVERY_OPERATOR
from durability.kept_programs import STATES
from eventtime.pipelines import Both, Run, runs
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS, hashing_by
from evercurrent.core.state.run import Layout, make_run
from evercurrent.core.state.run_columns import columns_of_run
from evercurrent.views.checkpoint import Commit, CommitLog, Pieces, StateRecord, merging
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore, Store
from oracle import TooLargeError
from strategies import Case, cases, of_profile


def last_of(store: Store) -> Commit:
    last = CommitLog(store).last
    assert last is not None
    return last


def runs_of(commit: Commit) -> dict[str, int]:
    """Of how many runs each spine is, by bucket."""
    spines = commit.plan["spines"]
    return {
        name: len(record.pieces)
        for name, record in commit.states.items()
        if name.rpartition("/")[0] in spines
    }


def compacted(store: Store, buckets: Sequence[int] = ()) -> None:
    """Compact, in buckets and not; every spine is one run then."""
    for number in (*buckets, 1):
        rebucket(store, number)
        before = last_of(store)
        commit, _ = compact(store, keep=1, grace=0)
        assert set(runs_of(commit).values()) <= {0, 1}
        assert commit.states.keys() == before.states.keys()
        assert entries(commit) <= entries(before)
        require_cut(store, commit)
        assert verify(store).faults == ()


def entries(commit: Commit) -> int:
    return sum(ref.rows for record in commit.states.values() for ref in record.pieces)


@pytest.mark.parametrize("buckets", [(), (3,)])
def test_every_operator(buckets: Sequence[int], tmp_path: Path) -> None:
    check(lambda **o: positioned(EVERY_OPERATOR, **o), EVERY_OPERATOR.epochs, tmp_path, buckets, compacted)


@of_profile(0.06)
@given(case=cases(max_lines=3, max_epochs=4), buckets=st.lists(st.integers(1, 9), max_size=1))
def test_any_program(case: Case, buckets: list[int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    with TemporaryDirectory() as folder:
        check(lambda **o: positioned(case, **o), case.epochs, Path(folder), buckets, compacted)


@of_profile(0.1)
@given(run=runs(max_epochs=4), buckets=st.lists(st.integers(1, 9), max_size=1))
def test_any_pipeline_of_windows(run: Run, buckets: list[int]) -> None:
    with TemporaryDirectory() as folder:
        check(lambda **o: Both(run, **o), run.epochs, Path(folder), buckets, compacted)


class Ordered:
    """Views whose states keep many rows of a key in orders of every sort; rows come and go in runs of every size."""

    def __init__(self, **options: Any) -> None:
        self.engine = ec.Engine(**options)
        columns = {"k": pl.Int64, "a": pl.Float64, "b": pl.String, "at": pl.Datetime("us")}
        rows = self.engine.source("rows", columns, kind="diffs", event_time="at", retained=True)
        group = rows.group_by("k")
        self.engine.view(
            "picked",
            group.agg(
                low=pl.col("a").min(), high=pl.col("a").max(), pairs=pl.col("b").n_unique(),
                middle=pl.col("a").median(), latest=pl.col("b").sort_by("at").last(),
            ),
        )  # fmt: skip
        self.engine.view("top", group.top_k(2, by=["b", "a"], reverse=[True, False]))
        self.engine.view("first", group.limit(2, by=["a", "b"], descending=[True, False], nulls_last=True))
        self.engine.view(
            "last", rows.window(ec.last_rows(3)).group_by("k").agg(n=pl.len(), a=pl.col("a").sum())
        )

    def push(self, epoch: tuple[int, int]) -> None:
        """So many rows; in every third epoch most of them are retracted."""
        number, size = epoch
        rows = [
            (row % 23, row * 7 % 11 / 2 if row % 5 else None, "xyz"[row % 3] * (row % 4) or None, row % 9)
            for row in range(size)
        ]
        frame = pl.DataFrame(
            {
                "k": [row[0] for row in rows],
                "a": pl.Series([row[1] for row in rows], dtype=pl.Float64),
                "b": pl.Series([row[2] for row in rows], dtype=pl.String),
                "at": [datetime(2026, 1, 1) + timedelta(minutes=row[3]) for row in rows],
                "_diff": [1 if not row[3] or number % 3 else -1 for row in rows],
            }
        )
        with self.engine.epoch(at=datetime(2026, 1, 1, number % 24, tzinfo=UTC)):
            self.engine.push("rows", frame)


SIZES = tuple(enumerate((3000, 700, 40, 900, 3, 3000, 700, 60, 2500)))


@pytest.mark.parametrize("most", [1 << 28, 60_000])
def test_rows_of_a_key_stay_in_their_order(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a key keep their order when runs are merged, also where so little memory is allowed that only the small runs are."""
    monkeypatch.setattr(merging, "MOST_MERGED", most)
    most_runs: list[int] = []
    turns = iter(range(1, 100))

    def between(store: Store, _: Any) -> None:
        if next(turns) % 3:
            return
        before = last_of(store)
        commit, _ = compact(store, keep=1, grace=0)
        was, now = runs_of(before), runs_of(commit)
        assert sum(now.values()) < sum(was.values())
        sizes = [
            sorted(ref.size for ref in record.pieces) for name, record in commit.states.items() if name in now
        ]
        assert all(sum(state[:2]) > most for state in sizes if len(state) > 1)
        assert all(commit.states[name].facts["wasted"] == 0 for name in now if now[name] < min(2, was[name]))
        most_runs.append(max(now.values()))

    check(Ordered, SIZES, tmp_path, (), between)
    assert (max(most_runs) > 1) == (most < 1 << 28)


def test_what_cancels_is_gone_and_nothing_is_written_twice(tmp_path: Path) -> None:
    for rows in (
        {"k": [*range(2000), 7], "x": [*range(2000), 1], "_diff": [1] * 2001},
        {"k": [*range(1000)], "x": [*range(1000)], "_diff": [-1] * 1000},
    ):  # In two commits: what waits for one cancels before it is written.
        with ec.Engine(checkpoint=ec.Checkpoint(tmp_path)) as engine:
            source = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, kind="diffs")
            engine.view("totals", source.group_by("k").agg(x=pl.col("x").sum()))
            engine.push("rows", rows)
    store = LocalStore(tmp_path)
    before = last_of(store)
    assert max(runs_of(before).values()) == 2
    commit, _ = compact(store, keep=1, grace=0)
    assert entries(before) == 2 * (2001 + 1000) - 1
    assert entries(commit) == 2 * 1001
    again, _ = compact(store, keep=1, grace=0)
    assert again.states == commit.states
    with ec.Engine(checkpoint=ec.Checkpoint(tmp_path)) as engine:
        source = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, kind="diffs")
        totals = engine.view("totals", source.group_by("k").agg(x=pl.col("x").sum()))
        assert totals.read().sort("k").rows() == [(7, 1), *((k, k) for k in range(1000, 2000))]


def test_runs_that_cancel_leave_no_piece() -> None:
    """Runs that add up to nothing leave no piece, in each bucket by itself; states that are not recorded as spines keep all pieces."""
    store, layout = MemoryStore(), Layout()
    keys = Keys(np.array([1, 2, 3], np.uint64))
    frames = [
        columns_of_run(make_run(layout, keys, pl.DataFrame(height=3), {"_diff": np.full(3, diff, np.int64)}))
        for diff in (2, -1, -1)
    ]
    refs = tuple(Pieces(store).write(frames))
    states = {f"{name}:0/{n}": StateRecord(refs, {}, {"kind": "words"}) for name in "ab" for n in range(2)}
    states["a:0/1"] = replace(states["a:0/1"], pieces=refs[1:])
    CommitLog(store).append(a_commit(3, states=states, buckets=2, plan={"spines": {"a:0": None}}))
    commit, _ = compact(store, keep=1, grace=0)
    assert {name: [ref.rows for ref in record.pieces] for name, record in commit.states.items()} == {
        "a:0/0": [], "a:0/1": [3], "b:0/0": [3, 3, 3], "b:0/1": [3, 3, 3],
    }  # fmt: skip
    (merged,) = commit.states["a:0/1"].pieces
    assert Pieces(store).read(merged)["sum _diff"].to_list() == [-2] * 3


@pytest.mark.skipif(OF_POLARS.mark != FIRST_MARK, reason=f"keys are ordered by {OF_POLARS.mark} here")
def test_runs_whose_order_the_checkpoint_does_not_record_stay(tmp_path: Path) -> None:
    """A checkpoint of an earlier version is compacted without merging runs, and the engine goes on with it; later commits record the order."""
    folder = tmp_path / "checkpoint"
    STATES.copied(folder)
    store = LocalStore(folder)
    before = last_of(store)
    commit, _ = compact(store, keep=9, grace=0)
    assert {name: [ref.rows for ref in record.pieces] for name, record in commit.states.items()} == {
        name: [ref.rows for ref in record.pieces] for name, record in before.states.items()
    }
    assert "spines" not in commit.plan
    steady = ec.Engine()
    STATES.declare(steady)
    with ec.Engine(checkpoint=folder) as engine:
        STATES.declare(engine)
        for epoch in range(STATES.epochs):
            STATES.push(engine, epoch)
            with hashing_by(OF_POLARS):
                STATES.push(steady, epoch)
        assert {name: engine.views[name].read().rows() for name in engine.views} == {
            name: view.read().rows() for name, view in steady.views.items()
        }
    assert max(runs_of(last_of(store)).values()) > 1
    compacted(store)
