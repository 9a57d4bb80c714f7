"""The store fails, the driver dies, two drivers meet: an epoch in buckets is whole or was never there. Without Spark."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, EpochGoneError
from evercurrent.views.checkpoint import CommitLog, Pieces
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore, InjectedError, Killed, When, leave_half
from spark.doomed_query import VIEWS, batches, declare
from spark.offered import Offering, declared, emitted_deltas, forget_everything, held
from spark.twins import Elsewhere, entered

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
HITS = batches(5 if LONG else 3, 16)
SHORT = HITS if LONG else HITS[:2]
"""Where there are many operations."""
DRIVEN = batches(6 if LONG else 5, 16)
"""Where an epoch has few: a commit is a file and its record."""
MORE = batches(12, 6)
WHENS: tuple[When, ...] = ("before", "after", "torn")


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """No test leaves the next one what it remembers of files."""
    yield
    forget_everything()


PLAN = declared(declare)


def opened(store: Store, *, elsewhere: bool = False, **options: Any) -> Offering:
    """A driver that has just started, as a process that remembers nothing."""
    forget_everything()
    offering = Offering(PLAN, store, buckets=2 if elsewhere else 3, elsewhere=elsewhere, **options)
    if elsewhere:
        # The failure of a task is that of the epoch.
        offering.epochs.executors = Elsewhere(offering.runner, attempts=1)
    return offering


def seen(folder: Path) -> dict[str, Any]:
    """All that a checkpoint holds, for a driver that has just started."""
    store = LocalStore(folder)
    last = CommitLog(store).last
    assert last is not None
    forget_everything()
    offering = Offering(PLAN, store, buckets=last.buckets)
    clocks = offering.epochs.clocks
    return {
        "done": offering.done,
        "deltas": emitted_deltas(store, VIEWS),
        "held": held(PLAN, store, runner=offering.runner),
        "ledger": entered(clocks.ledger.refused),
        "watermarks": clocks.watermarks(),
        "held at": clocks.held_at,
    }


def offer_all(offering: Offering, frames: Sequence[pl.DataFrame] = HITS) -> list[bool]:
    return [offering.offer(number, {"hits": frame}) for number, frame in enumerate(frames)]


def undisturbed(
    folder: Path, *, elsewhere: bool = False, frames: Sequence[pl.DataFrame] = HITS
) -> dict[str, Any]:
    offer_all(opened(LocalStore(folder), elsewhere=elsewhere), frames)
    return seen(folder)


def test_the_undisturbed_run_is_that_of_the_embedded_engine(tmp_path: Path) -> None:
    engine = ec.Engine()
    declare(engine)
    for frame in HITS:
        engine.push("hits", frame)
    for elsewhere in (False, True):
        found = undisturbed(tmp_path / str(elsewhere), elsewhere=elsewhere)
        for name, view in engine.views.items():
            own = {frame["_epoch"][0]: sorted(frame.rows(), key=repr) for frame in view.deltas()}
            assert found["deltas"][name] == own
            assert found["held"][name] == sorted(view.read().rows(), key=repr)
        assert found["ledger"], "some rows are too late"
        assert entered(engine._current().ledger.refused) == found["ledger"]


# The store fails once


FEW = 30
"""So many operations fail each, where there is little time; of more some of every kind."""

IN_TURN = "in turn"
"""Each operation fails in one of the three ways; what is the same operation in each epoch, in another in the next."""


def failing(done: Sequence[tuple[str, str]], when: str) -> list[tuple[int, When]]:
    """Which operations fail, and how; one after all of them does not."""
    if when != IN_TURN:
        return [(n, cast(When, when)) for n in range(len(done) + 1)]
    numbers: Sequence[int] = range(len(done))
    if len(done) > FEW:
        numbers = [number for some in of_every_kind(done).values() for number in some]
    return [*((n, WHENS[(place + place // 3) % 3]) for place, n in enumerate(numbers)), (len(done), "before")]


@pytest.mark.parametrize(
    ("elsewhere", "when"),
    [(elsewhere, when) for elsewhere in (False, True) for when in (WHENS if LONG else (IN_TURN,))],
    ids=lambda each: each if isinstance(each, str) else ("driver", "elsewhere")[each],
)
def test_a_driver_that_lives_on_is_offered_the_batch_again(
    elsewhere: bool, when: str, tmp_path: Path
) -> None:
    """A162 in buckets: a failed epoch has not happened, in the store and in memory."""
    frames, failures = SHORT if elsewhere else DRIVEN, 0
    expected, done = counted(tmp_path / "undisturbed", elsewhere=elsewhere, frames=frames)
    for n, way in failing(done, when):
        store = FailingStore(LocalStore(tmp_path / str(n)), n, way)
        offering = None
        while offering is None:
            with suppress(InjectedError):
                offering = opened(store, elsewhere=elsewhere)
        for number, frame in enumerate(frames):
            before = memory(offering)
            try:
                assert offering.offer(number, {"hits": frame})
            except InjectedError:
                failures += 1
                assert memory(offering) == before, f"operation {n}: {store.done[-1]}"
                assert offering.offer(number, {"hits": frame})
        assert seen(tmp_path / str(n)) == expected, f"operation {n}: {store.done[n : n + 1]}"
        assert store.has_failed == (n < len(done))
        shutil.rmtree(tmp_path / str(n))
    assert failures > 10


def counted(
    folder: Path, *, elsewhere: bool, frames: Sequence[pl.DataFrame]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What an undisturbed driver leaves behind, and its operations in the store."""
    store = FailingStore(LocalStore(folder))
    offer_all(opened(store, elsewhere=elsewhere), frames)
    return seen(folder), list(store.done)


def memory(offering: Offering) -> tuple[Any, ...]:
    """What a driver goes on from."""
    epochs = offering.epochs
    return (
        epochs.last.epoch,
        dict(epochs.last.states),
        dict(epochs.clocks.held_at),
        epochs.clocks.watermarks(),
        entered(epochs.clocks.ledger.refused),
    )


@pytest.mark.parametrize("elsewhere", [False, True], ids=["driver", "elsewhere"])
def test_a_driver_is_killed_at_every_operation(elsewhere: bool, tmp_path: Path) -> None:
    """A163 in buckets. To be killed after an operation is to be killed before the next one, so it is enough to tear each in two.

    Of operations that are alike in each epoch, the long profile alone tries them all.
    """
    frames = SHORT if elsewhere else DRIVEN
    expected, done = counted(tmp_path / "undisturbed", elsewhere=elsewhere, frames=frames)
    assert len(done) >= (60 if elsewhere else 20)
    for n in killed(done):
        store = FailingStore(LocalStore(tmp_path / str(n)), n, "torn", error=Killed)
        with suppress(Killed):
            offer_all(opened(store, elsewhere=elsewhere), frames)
        # What was torn is there, and nobody reads it.
        offer_all(opened(LocalStore(tmp_path / str(n)), elsewhere=elsewhere), frames)
        assert seen(tmp_path / str(n)) == expected, f"operation {n}: {store.done[n : n + 1]}"
        assert store.has_failed == (n < len(done))
        shutil.rmtree(tmp_path / str(n))


def killed(done: Sequence[tuple[str, str]]) -> Sequence[int]:
    """The operations in which a driver is killed, and one after them, in which it is not.

    In the long profile all. Else the first and the last of each kind, and each that writes the record of an epoch: what goes wrong
    only where a driver goes on from a certain epoch is found by no other.
    """
    some = {
        number
        for kind, numbers in of_every_kind(done).items()
        for number in (numbers if kind == ("put", "commits") else (numbers[0], numbers[-1]))
    }
    return range(len(done) + 1) if LONG else sorted({*some, len(done)})


def of_every_kind(done: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """The first, the last and the middle one of the operations on each folder, and all that write the record of an epoch."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, (operation, name) in enumerate(done):
        kinds.setdefault((operation, name.partition("/")[0]), []).append(number)
    return {
        kind: numbers
        if kind == ("put", "commits")
        else sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]})
        for kind, numbers in kinds.items()
    }


def test_killed_again_and_again(tmp_path: Path) -> None:
    """A driver that never gets further than some operations from its start, with what it left lying about."""
    expected = undisturbed(tmp_path / "undisturbed", elsewhere=True)
    starts = 0
    for n in itertools.cycle((9, 17, 26, 48, 70)):
        starts += 1
        store = FailingStore(LocalStore(tmp_path / "doomed"), n, "torn", error=Killed)
        with suppress(Killed):
            offer_all(opened(store, elsewhere=True))
            break
    assert starts > 3
    assert seen(tmp_path / "doomed") == expected


def test_where_the_fate_of_an_epoch_is_unknown_it_is_read_anew(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed")
    store = FailingStore(LocalStore(tmp_path / "doubtful"))
    offering = opened(store)
    offering.offer(0, {"hits": HITS[0]})
    # The record of the second epoch is there, and then nothing can be written or read any more.
    delta_files = len(list((tmp_path / "undisturbed").glob("deltas/*/000000000002-*")))
    store.fail_at, store.when, store.lasting = len(store.done) + 1 + delta_files + 1, "after", True
    with pytest.raises(CheckpointError, match="unknown whether epoch 2 is committed"):
        offering.offer(1, {"hits": HITS[1]})
    assert store.done[store.fail_at] == ("put", "commits/000000000002.json")
    store.lasting, store.fail_at = False, None
    for _ in range(2):
        with pytest.raises(CheckpointError, match="an earlier attempt of this writer has committed epoch 2"):
            offering.offer(1, {"hits": HITS[1]})
    assert offer_all(opened(store)) == [False, False, *(True for _ in HITS[2:])]
    assert seen(tmp_path / "doubtful") == expected


# Two drivers


@pytest.mark.parametrize("elsewhere", [False, True], ids=["driver", "elsewhere"])
def test_of_two_drivers_the_slower_one_cannot_commit(elsewhere: bool, tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed", elsewhere=elsewhere)
    store = LocalStore(tmp_path / "shared")
    first, second = (opened(store, elsewhere=elsewhere) for _ in range(2))
    first.offer(0, {"hits": HITS[0]})
    before = memory(second)
    for frame in (HITS[0], HITS[1], HITS[0][:0]):
        with pytest.raises(CheckpointError, match="another writer has committed epoch 1"):
            second.offer(0, {"hits": frame})
        assert memory(second) == before
    first.offer(1, {"hits": HITS[1]})
    with pytest.raises(CheckpointError, match="another writer"):
        second.offer(0, {"hits": HITS[0]})
    # Started anew it goes on, and now the other one is the slower.
    third = opened(store, elsewhere=elsewhere)
    assert offer_all(third) == [False, False, *(True for _ in HITS[2:])]
    with pytest.raises(CheckpointError, match="another writer has committed epoch 3"):
        first.offer(2, {"hits": HITS[2]})
    assert seen(tmp_path / "shared") == expected


def test_a_driver_that_has_slept_through_what_was_swept_cannot_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that it is about to write is free again."""
    expected = undisturbed(tmp_path / "undisturbed", frames=MORE)
    store = LocalStore(tmp_path / "shared")
    sleeper = opened(store, full_every=1)
    sleeper.offer(0, {"hits": MORE[0]})
    other = opened(store, full_every=1)
    # They would be two processes, each with what it has read.
    monkeypatch.setattr(type(Pieces.of(store).decoded), "drop", lambda held, key: None)
    before = memory(sleeper)
    for number, frame in enumerate(MORE):
        other.offer(number, {"hits": frame})
        other.epochs.log.sweep(keep=2, grace=0)
    for _ in range(2):
        # An epoch without rows: it needs nothing of what is gone.
        with pytest.raises(CheckpointError, match="another writer has committed so many epochs after 1"):
            sleeper.offer(1, {"hits": MORE[1][:0]})
        assert memory(sleeper) == before
    last = len(MORE)
    assert seen_since(tmp_path / "shared", last - 1) == {
        name: {last: by_epoch[last]} for name, by_epoch in expected["deltas"].items()
    }
    assert held(PLAN, store) == expected["held"]


# What no commit names


def test_junk_and_what_is_half_written_is_never_read(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed", elsewhere=True)
    folder = tmp_path / "littered"
    store = LocalStore(folder)
    for number, frame in enumerate(HITS):
        opened(store, elsewhere=True).offer(number, {"hits": frame})
        litter(folder)
    assert seen(folder) == expected
    assert offer_all(opened(store, elsewhere=True)) == [False] * len(HITS)
    orphans = [path for path in folder.rglob("*orphan*") if not path.name.startswith(".")]
    assert len(orphans) > 5 * len(HITS)
    CommitLog(store).sweep(keep=1000, grace=0)
    assert not any(path.exists() for path in orphans)
    assert not store.list("exchange/"), "no commit names what was on its way"
    assert seen(folder) == expected


def litter(folder: Path) -> None:
    """Files like those of other attempts: sound ones with other rows, cut off ones, and some that are nothing."""
    store = LocalStore(folder)
    for path in [path for path in folder.rglob("*.arrow") if "orphan" not in path.name]:
        content, name = path.read_bytes(), path.relative_to(folder).as_posix().removesuffix(".arrow")
        for suffix, data in (("whole", content), ("half", content[: len(content) // 2]), ("none", b"")):
            orphan = f"{name}-orphan-{suffix}.arrow"
            if not (folder / orphan).exists():
                store.put(orphan, [data])
        leave_half(store, f"{name}-orphan.arrow", [content])
    for name in ("pieces/orphan", "deltas/by_user/orphan.arrow", "deltas/orphan", "exchange/orphan"):
        if not (folder / name).exists():
            store.put(name, [b"junk"])
    leave_half(store, "commits/000000000099.json", [b'{"format": 1, "body": {}}'])


# Sweeping


class Swept(FailingStore):
    """Before every operation somebody else sweeps, as the driver of another time would."""

    grace = 3600.0

    def _do(self, *given: Any) -> Any:
        CommitLog(self.store, full_every=1).sweep(keep=1, grace=self.grace)
        return super()._do(*given)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["driver", "elsewhere"])
def test_what_an_epoch_goes_on_from_is_not_swept_away_under_it(elsewhere: bool, tmp_path: Path) -> None:
    frames = HITS if elsewhere else DRIVEN
    expected = undisturbed(tmp_path / "undisturbed", elsewhere=elsewhere, frames=frames)
    folder = tmp_path / "swept"
    for number, frame in enumerate(frames):
        opened(Swept(LocalStore(folder)), elsewhere=elsewhere, full_every=1).offer(number, {"hits": frame})
        age(folder)
    before = len(list(folder.rglob("*.arrow")))
    CommitLog(LocalStore(folder), full_every=1).sweep(keep=1, grace=3600)
    assert len(list(folder.rglob("*.arrow"))) < before
    found = seen_since(folder, len(frames) - 1)
    assert found == {
        name: {len(frames): by_epoch[len(frames)]} for name, by_epoch in expected["deltas"].items()
    }
    assert held(PLAN, LocalStore(folder)) == expected["held"]


def seen_since(folder: Path, since: int) -> dict[str, dict[int, list[Any]]]:
    forget_everything()
    return emitted_deltas(folder, VIEWS, since)


def age(folder: Path) -> None:
    """Two hours go by."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 7200,) * 2)


def test_what_is_retained_can_be_read_and_what_was_mapped_stays(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed", frames=MORE)
    store = LocalStore(tmp_path / "swept")
    offering = opened(store, full_every=1)
    kept, contents, mapped = 3, dict[int, Any](), list[tuple[int, pl.DataFrame]]()
    for number, frame in enumerate(MORE):
        offering.offer(number, {"hits": frame})
        log = CommitLog(store, full_every=1)
        mapped += [(ref.epoch, Pieces(store).read(ref.piece)) for ref in log.deltas("by_user", number)]
        log.sweep(keep=kept, grace=0)
        contents[number + 1] = held(PLAN, store)
        for epoch in range(max(0, number + 2 - kept), number + 2):
            assert epoch == 0 or held(PLAN, store, epoch) == contents[epoch]
        if number + 1 >= kept:
            with pytest.raises(EpochGoneError):
                held(PLAN, store, number + 1 - kept)
    assert {epoch: sorted(frame.rows(), key=repr) for epoch, frame in mapped} == expected["deltas"]["by_user"]
    assert contents[len(MORE)] == expected["held"]


def test_a_driver_is_killed_while_it_sweeps(tmp_path: Path) -> None:
    frames = MORE[:4]
    expected = undisturbed(tmp_path / "undisturbed", frames=frames)
    only = ("list", "delete")
    undisturbed_store = FailingStore(LocalStore(tmp_path / "counted"), only=only)
    sweeping(undisturbed_store, frames)
    done = undisturbed_store.done
    assert len(done) > 20
    for number in killed(done):
        folder = tmp_path / str(number)
        store = FailingStore(LocalStore(folder), number, "torn", error=Killed, only=only)
        with suppress(Killed):
            sweeping(store, frames)
        assert store.has_failed == (number < len(done))
        sweeping(LocalStore(folder), frames)
        found = seen_since(folder, len(frames) - 1)
        assert found == {name: {4: by_epoch[4]} for name, by_epoch in expected["deltas"].items()}, store.done[
            number:
        ]
        assert held(PLAN, LocalStore(folder)) == expected["held"]
        shutil.rmtree(folder)


def sweeping(store: Store, frames: Sequence[pl.DataFrame]) -> None:
    offering = opened(store, full_every=2)
    for number, frame in enumerate(frames):
        offering.offer(number, {"hits": frame})
        offering.epochs.log.sweep(keep=1, grace=0)
