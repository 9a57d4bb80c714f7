"""The store fails at its n-th operation, for every n: nothing is lost, the next start is clean, the results are the same.

The quick profile takes of each kind of operation the first and the last, and of all of them every n-th: see ``steps_of``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.every_operator import EVERY_OPERATOR
from durability.observing import all_of, differences
from durability.timed import Timed
from eventtime.pipelines import Both, Epoch, Run, Setup
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, InjectedError, Killed, When
from strategies import Case, Program
from thinned import some_of, steps_of

SMALL = Case(
    Program(
        {"a": {"k": pl.Int64(), "x": pl.Int64()}},
        (
            "v1 = a.group_by('k').agg(n=pl.len(), m=pl.col('x').max())",
            "v2 = v1.group_by('n').agg(pl.col('m').sum())",
            "v3 = a.group_by().agg(pl.len())",
        ),
    ),
    [
        {"a": [((1, 1), 1), ((2, 2), 1)]},
        {"a": [((1, 1), -1), ((9, 9), -1), ((1, 5), 2)]},
        {"a": [((1, 5), -2), ((2, 2), -1)]},
        {"a": [((7, 3), 1)]},
        {"a": [((7, 3), -1), ((2, 4), 1)]},
    ],
)


WHENS: tuple[When, ...] = ("before", "after", "torn")


def started(case: Case, store: FailingStore, **options: Any) -> Timed:
    return Timed(case, numbered=True, checkpoint=ec.Checkpoint(store, **options))  # type: ignore[arg-type]


def run_on(running: Timed, epochs: Sequence[Any]) -> None:
    """All input from the beginning: what was taken is skipped."""
    for number, epoch in enumerate(epochs, 1):
        running.push(epoch, number)


def steady(case: Case) -> dict[str, Any]:
    running = Timed(case)
    for epoch in case.epochs:
        running.push(epoch)
    return all_of(running.engine)


@pytest.mark.parametrize(
    ("when", "every"),
    some_of(product(WHENS, [1, 2]), [("before", 2), ("after", 1), ("torn", 1), ("torn", 2)]),
)
def test_an_engine_that_lives_on_offers_the_same_batch_again(when: When, every: int, tmp_path: Path) -> None:
    expected, failures = steady(SMALL), 0

    def fail_at(n: int | None) -> FailingStore:
        nonlocal failures
        folder = tmp_path / str(n)
        store = FailingStore(LocalStore(folder), n, when)
        while True:
            # The declarations fail too if the checkpoint cannot be opened: then once more.
            running = None
            with suppress(InjectedError):
                running = started(SMALL, store, every=every)
                break
        assert running is not None
        for number, epoch in enumerate(SMALL.epochs, 1):
            before = all_of(running.engine)
            try:
                running.push(epoch, number)
            except InjectedError:
                failures += 1
                assert differences(before, all_of(running.engine)) == [], f"operation {n}: {store.done[-1]}"
                running.push(epoch, number)
        with suppress(InjectedError):
            running.engine.close()
        assert differences(expected, all_of(running.engine)) == [], f"operation {n}"
        with started(SMALL, FailingStore(LocalStore(folder))).engine as engine:
            for number, epoch in enumerate(SMALL.epochs, 1):
                Timed.push(_with(engine, SMALL), epoch, number)
            assert differences(expected, all_of(engine)) == [], f"operation {n}, opened again"
        shutil.rmtree(folder)
        return store

    done = fail_at(None).done
    for n in steps_of(done, every=3):
        assert fail_at(n).has_failed
    assert failures > 2
    assert len(done) > 10


def _with(engine: ec.Engine, case: Case) -> Timed:
    """The case on an engine that is there."""
    timed = Timed.__new__(Timed)
    timed.engine, timed.case, timed.numbered = engine, case, True
    return timed


def check_kills(
    start: Callable[[Any], Any], epochs: Sequence[Any], expected: dict[str, Any], folder: Path
) -> int:
    """Kill at every operation of the profile; how many there are. ``start`` takes a checkpoint, and what it makes has ``push``.

    To be killed after an operation is to be killed before the next one, so it is enough to tear each in two.
    """

    def kill_at(n: int | None) -> FailingStore:
        place = folder / str(n)
        store = FailingStore(LocalStore(place), n, "torn", error=Killed)
        with suppress(Killed):
            running = start(ec.Checkpoint(store))  # type: ignore[arg-type]
            with running.engine:
                for number, epoch in enumerate(epochs, 1):
                    running.push(epoch, number)
        again = start(ec.Checkpoint(place))
        with again.engine as engine:
            came_to = engine.epoch_number
            for number, epoch in enumerate(epochs, 1):
                again.push(epoch, number)
            seen = all_of(engine)
        assert differences(expected, seen) == [], f"operation {n}, {store.done[-1]}, came to {came_to}"
        shutil.rmtree(place)
        return store

    done = kill_at(None).done
    for n in steps_of(done, every=6):
        assert kill_at(n).has_failed
    return len(done)


LONGER = replace(EVERY_OPERATOR, epochs=[*EVERY_OPERATOR.epochs, *EVERY_OPERATOR.epochs])


@pytest.mark.parametrize(("case", "least"), [(SMALL, 15), (LONGER, 30)], ids=["small", "every operator"])
def test_a_program_is_killed_at_every_operation(case: Case, least: int, tmp_path: Path) -> None:
    def start(checkpoint: Any) -> Timed:
        return Timed(case, numbered=True, checkpoint=checkpoint)

    assert check_kills(start, case.epochs, steady(case), tmp_path) > least


class Numbered(Both):
    """A windowed pipeline whose epochs carry their number: an epoch without rows is skipped by hand."""

    def push(self, epoch: Epoch, number: int | None = None) -> int:
        if number is not None and number <= self.engine.epoch_number:
            return self.engine.epoch_number
        return super().push(epoch)


def row(t: int, v: int = 1, diff: int = 1) -> Any:
    return (("a", t, v, 1, True), diff)


def test_a_windowed_pipeline_is_killed_at_every_operation(tmp_path: Path) -> None:
    epochs = [
        Epoch([row(0), row(3), row(20)], 2),
        Epoch([], None, 6),
        Epoch([row(6), row(-9), row(3, diff=-1)], 15, 12),
        Epoch([], float("inf"), 40),
    ]
    setup = Setup(
        "sessions(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True
    )
    run = Run(setup, epochs)
    whole = Both(run)
    for epoch in epochs:
        whole.push(epoch)
    assert check_kills(lambda c: Numbered(run, checkpoint=c), epochs, all_of(whole.engine), tmp_path) > 10


# What is not known


def test_after_an_epoch_whose_fate_is_unknown_nothing_more_is_accepted(tmp_path: Path) -> None:
    store = FailingStore(LocalStore(tmp_path / "kept"))
    running = started(SMALL, store)
    running.push(SMALL.epochs[0], 1)
    # The record of the second epoch is there, and then nothing can be written or read any more.
    records = [number for number, (_, name) in enumerate(store.done) if name.startswith("commits/")]
    per_epoch = len(store.done) - records[-1]
    probe = FailingStore(LocalStore(tmp_path / "probe"))
    twin = started(SMALL, probe)
    twin.push(SMALL.epochs[0], 1)
    twin.push(SMALL.epochs[1], 2)
    assert per_epoch > 0
    twin.engine.close()
    store.fail_at = [name.startswith("commits/000000000002") for _, name in probe.done].index(True)
    store.when, store.lasting = "after", True
    with pytest.raises(ec.CheckpointError, match="unknown whether epoch 2"):
        running.push(SMALL.epochs[1], 2)
    with pytest.raises(ec.CheckpointError, match="unknown whether epoch 2"):
        running.push(SMALL.epochs[1], 2)
    assert running.engine.epoch_number == 1
    running.engine.close()
    with started(SMALL, FailingStore(LocalStore(tmp_path / "kept"))).engine as engine:
        assert engine.epoch_number == 2
        assert engine.positions == {"a": 2}


# What stands in the way


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    store = FailingStore(LocalStore(tmp_path))
    first = started(SMALL, store)
    with pytest.raises(ec.CheckpointError, match="process"):
        started(SMALL, FailingStore(LocalStore(tmp_path)))
    first.push(SMALL.epochs[0], 1)
    first.engine.close()
    with started(SMALL, FailingStore(LocalStore(tmp_path))).engine as engine:
        assert engine.epoch_number == 1


def test_an_engine_that_nobody_has_any_more_gives_the_lock_back(tmp_path: Path) -> None:
    started(SMALL, FailingStore(LocalStore(tmp_path))).push(SMALL.epochs[0], 1)
    with started(SMALL, FailingStore(LocalStore(tmp_path))).engine as engine:
        assert engine.epoch_number == 1


class Unlocked(FailingStore):
    """A store where no lock can be held, as on some network."""

    def lock(self) -> Any:
        return nullcontext()


def test_of_two_writers_without_a_lock_one_commits(tmp_path: Path) -> None:
    one, other = (started(SMALL, Unlocked(LocalStore(tmp_path))) for _ in range(2))
    one.push(SMALL.epochs[0], 1)
    for _ in range(2):
        with pytest.raises(ec.CheckpointError, match="another writer has committed epoch 1"):
            other.push(SMALL.epochs[1], 2)
    assert other.engine.epoch_number == 0
    one.push(SMALL.epochs[1], 2)
    assert one.engine.epoch_number == 2


def test_epochs_that_waited_do_not_go_on_from_what_another_has_committed(tmp_path: Path) -> None:
    one, other = (started(SMALL, Unlocked(LocalStore(tmp_path)), every=every) for every in (1, 2))
    one.push(SMALL.epochs[0], 1)
    other.push(SMALL.epochs[1], 2)
    for _ in range(2):
        with pytest.raises(ec.CheckpointError, match="another writer"):
            other.push(SMALL.epochs[2], 3)
    other.engine.close()
    one.engine.close()
    assert sorted(file.name for file in (tmp_path / "commits").iterdir()) == [
        "000000000000.json",
        "000000000001.json",
    ]


def test_a_folder_of_something_else_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(ec.CheckpointError, match="letters"):
        started(SMALL, FailingStore(LocalStore(tmp_path)))
    assert (tmp_path / "letters.txt").read_text() == "dear"


def test_a_missing_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    with started(SMALL, FailingStore(LocalStore(tmp_path))).engine as engine:
        engine.push("a", {"k": [1], "x": [2]})
    last = CommitLog(LocalStore(tmp_path)).last
    assert last is not None
    (delta,) = last.deltas["v1"]
    without = Path(shutil.copytree(tmp_path, tmp_path.with_name("without")))
    (without / delta.piece.file).unlink()
    with pytest.raises(ec.MissingFileError, match=delta.piece.file):
        started(SMALL, FailingStore(LocalStore(without)))
    pieces = sorted((tmp_path / "pieces").glob("*.arrow"))
    for piece in pieces:
        content = bytearray(piece.read_bytes())
        content[len(content) // 3] ^= 1
        piece.write_bytes(bytes(content))
    # In a process that has not seen the pieces: checksums are looked at once.
    code = "import sys; from durability.test_store_faults import *; started(SMALL, LocalStore(sys.argv[1]))"
    folders = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
    )
    assert "CorruptFileError" in done.stderr
    assert any(piece.name in done.stderr for piece in pieces)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ec.CheckpointError, match=str(tmp_path)):
            started(SMALL, FailingStore(LocalStore(tmp_path / "new")))
    finally:
        tmp_path.chmod(0o700)
