"""Commits after every n epochs, contents of long ago, limits on memory, sweeping."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from commit_cadence import commits_put_off, each_epoch_committed
from durability.observing import all_of, delta_epochs, differences, frame_bytes, held
from durability.timed import moment
from evercurrent.core.state.spine import Spine

COLUMNS = {"k": pl.Int64, "x": pl.Int64}


def started(checkpoint: Any = None, **options: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint, **options)
    rows = engine.source("a", COLUMNS, kind="diffs")
    totals = engine.view("totals", rows.group_by("k").agg(pl.col("x").sum(), most=pl.col("x").max()))
    engine.view("best", totals.top_k(3, by="x"))
    return engine


def batch(number: int, size: int = 20, keys: int = 10) -> pl.DataFrame:
    draw = random.Random(number)
    return pl.DataFrame(
        {"k": [draw.randrange(keys) for _ in range(size)], "x": [draw.randrange(9) for _ in range(size)]}
    )


def feed(engine: ec.Engine, numbers: range, **options: Any) -> None:
    for number in numbers:
        engine.push("a", batch(number, **options), position=number, at=moment(number))


def crash(engine: ec.Engine) -> None:
    """The process is gone: the system gives the lock back, and nothing else happens."""
    engine._running.durability._lock.close()


def records(path: Path) -> list[str]:
    return sorted(file.stem for file in (path / "commits").iterdir())


# Every n epochs


def test_a_crash_goes_back_to_the_last_commit_and_positions_show_where_to_go_on(tmp_path: Path) -> None:
    checkpoint, steady = ec.Checkpoint(tmp_path, every=4), started()
    feed(steady, range(1, 12))
    engine = started(checkpoint)
    feed(engine, range(1, 8))
    assert engine.epoch_number == 7
    assert delta_epochs(engine.views["totals"].deltas()) == [1, 2, 3, 4, 5, 6, 7]
    crash(engine)
    engine = started(checkpoint)
    assert engine.epoch_number == 4
    assert engine.positions == {"a": 4}
    feed(engine, range(1, 12))
    assert differences(all_of(steady), all_of(engine)) == []
    engine.close()
    with started(checkpoint) as engine:
        assert engine.epoch_number == 11
        assert differences(all_of(steady), all_of(engine)) == []


def test_a_checkpoint_is_committed_on_request(tmp_path: Path) -> None:
    checkpoint = ec.Checkpoint(tmp_path, every=100)
    engine = started(checkpoint)
    feed(engine, range(1, 4))
    assert engine.checkpoint() == 3
    assert engine.checkpoint() == 3
    feed(engine, range(4, 6))
    crash(engine)
    with started(checkpoint) as engine:
        assert engine.epoch_number == 3
        with pytest.raises(ec.InputError, match="open"), engine.epoch():
            engine.checkpoint()
    assert len(records(tmp_path)) == 2


def test_the_end_of_a_block_commits_what_waits_also_after_an_error(tmp_path: Path) -> None:
    checkpoint = ec.Checkpoint(tmp_path, every=100)
    with pytest.raises(ZeroDivisionError), started(checkpoint) as engine:  # noqa: PT012
        feed(engine, range(1, 4))
        raise ZeroDivisionError
    with started(checkpoint) as engine:
        assert engine.epoch_number == 3


def test_deltas_that_memory_has_no_room_for_wait_for_the_commit(tmp_path: Path) -> None:
    checkpoint = ec.Checkpoint(tmp_path, every=5)
    engine = started(checkpoint, retain=ec.Retain(epochs=1))
    feed(engine, range(1, 9))
    assert delta_epochs(engine.views["totals"].deltas()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert delta_epochs(engine.views["totals"].deltas(since=4)) == [5, 6, 7, 8]


# Contents of long ago


@each_epoch_committed()
def test_contents_after_every_epoch(tmp_path: Path) -> None:
    was: dict[int, dict[str, bytes]] = {}
    with started(tmp_path) as engine:
        for number in range(1, 6):
            feed(engine, range(number, number + 1))
            was[number] = held(engine)
        before = all_of(engine)
        for epoch, views in was.items():
            for name, contents in views.items():
                assert frame_bytes(engine.views[name].read(epoch=epoch)) == contents
        assert engine.views["totals"].read(epoch=0).is_empty()
        assert differences(before, all_of(engine)) == []
        with pytest.raises(ec.InputError, match="still to come"):
            engine.views["totals"].read(epoch=6)
        with pytest.raises(ec.InputError, match="number"):
            engine.views["totals"].read(epoch="yesterday")  # type: ignore[arg-type]


@pytest.mark.parametrize("every", [1, 3])
@commits_put_off()
def test_contents_after_an_epoch_without_a_commit(every: int, tmp_path: Path) -> None:
    """Those of the commit before, and the deltas since, which may not be on files yet."""
    was: dict[int, dict[str, pl.DataFrame]] = {}
    with started(ec.Checkpoint(tmp_path, every=every)) as engine:
        for number in range(1, 9):
            feed(engine, range(number, number + 1))
            was[number] = {name: view.read() for name, view in engine.views.items()}
        assert len(records(tmp_path)) < 8
        for _ in range(2):
            for epoch, views in was.items():
                for name, contents in views.items():
                    then = engine.views[name].read(epoch=epoch)
                    assert_frame_equal(then, contents, check_row_order=False)
            engine.checkpoint()


# Files that nobody needs


@each_epoch_committed()
def test_what_is_not_kept_is_swept_and_what_is_kept_is_not(tmp_path: Path) -> None:
    checkpoint = ec.Checkpoint(tmp_path, keep=10, grace="0s")
    with started(checkpoint) as engine:
        feed(engine, range(1, 200))
        assert len(records(tmp_path)) < 120
        view = engine.views["totals"]
        assert view.read(epoch=195).height == 10
        assert delta_epochs(view.deltas(since=190)) == list(range(191, 200))
        with pytest.raises(ec.EpochGoneError, match="retained"):
            view.read(epoch=1)
    with started(checkpoint) as engine:
        assert engine.epoch_number == 199
        with pytest.raises(ec.EpochGoneError, match="snapshot"):
            list(engine.views["totals"].deltas(since=0))
        assert engine.views["totals"].earliest > 0
        feed(engine, range(200, 210))
        steady = started()
        feed(steady, range(1, 210))
        assert held(engine) == held(steady)


# Memory


def grouped(checkpoint: Any = None) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint)
    rows = engine.source("a", COLUMNS, kind="diffs")
    totals = engine.view("totals", rows.group_by("k").agg(pl.col("x").sum(), most=pl.col("x").max()))
    engine.view("sizes", totals.group_by("x").agg(pl.len(), pl.col("k").n_unique().alias("keys")))
    return engine


def test_state_that_is_larger_than_its_limit_is_mapped(tmp_path: Path) -> None:
    """A161: no more than the limit is held, and the results are those of an engine that holds everything."""
    limit = 200_000
    steady = grouped()
    with grouped(ec.Checkpoint(tmp_path, resident_bytes=limit)) as engine:
        assert engine.epoch_number == 0
        residence = engine._running.durability._now().residence
        for number in range(1, 25):
            feed(steady, range(number, number + 1), size=2_000, keys=50_000)
            feed(engine, range(number, number + 1), size=2_000, keys=50_000)
            left = sum(residence._held(name, state) for name, state in residence._states.items())
            assert left <= limit
        states = [state for state in residence._states.values() if isinstance(state, Spine)]
        assert sum(state.nbytes for state in states) > 4 * limit
        bounded = [state for state in states if state.entries > 1000]
        assert bounded
        for state in bounded:
            assert state.most_merged is not None
            assert all(run.nbytes <= limit / 2 for run in state.runs), [run.nbytes for run in state.runs]
        assert differences(all_of(steady), all_of(engine)) == []
    with grouped(ec.Checkpoint(tmp_path, resident_bytes=limit)) as engine:
        feed(engine, range(1, 30), size=2_000, keys=50_000)
        feed(steady, range(25, 30), size=2_000, keys=50_000)
        assert held(engine) == held(steady)


def test_explain_shows_how_much_of_the_states_is_in_memory(tmp_path: Path) -> None:
    limit = 200_000
    with grouped(ec.Checkpoint(tmp_path, resident_bytes=limit)) as engine:
        for number in range(1, 8):
            feed(engine, range(number, number + 1), size=2_000, keys=50_000)
            shown = re.search(
                r"states in memory after the last commit: ([\d,]+) bytes, at most 200,000", engine.explain()
            )
            assert shown is not None
            held_bytes = int(shown[1].replace(",", ""))
            assert 0 < held_bytes <= limit
        residence = engine._running.durability._now().residence
        unmapped = sum(residence._held(name, state) for name, state in residence._states.items())
        assert unmapped <= held_bytes < sum(state.nbytes for state in residence._spines())
    assert "states in memory" not in grouped().explain()
