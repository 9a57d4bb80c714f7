"""Reading changes nothing: whatever is read between any two steps of an epoch, the epoch and all later ones are the same.

The threads of ``test_threads.py`` meet where they happen to. Here a reader comes at every place in turn: when a state
stages, commits, or has just committed, in one thread, so that what fails fails again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.state.run import Run
from evercurrent.core.state.run_merge import merge
from evercurrent.core.state.spine import Spine
from threaded import NAMES, Acknowledged, Writer, declared, plain, recomputed

EPOCHS = 8


def read_all(engine: ec.Engine) -> list[Any]:
    """All that can be read, in all ways."""
    found: list[Any] = [engine.epoch_number, engine.watermarks, engine.positions, engine.ledger().rows()]
    found.append(engine.run_log.epochs()["_epoch"].to_list())
    for view in engine.views.values():
        snapshot = view.snapshot()
        assert plain(snapshot.frame) == plain(view.read()) == plain(pl.DataFrame(view))
        assert repr(view).startswith(f"View {view.name!r} at epoch {snapshot.epoch}")
        found += [snapshot.epoch, plain(snapshot.frame), plain(view.deltas().frame()), view.earliest]
    return found


def run(writes: Writer, engine: ec.Engine) -> None:
    engine.push("names", NAMES)
    for _ in range(EPOCHS):
        writes.step()


@pytest.mark.parametrize("place", ["stage", "commit", "committed"])
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "checkpoint"])
def test_a_reader_in_the_middle_of_an_epoch(
    place: str, durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the epoch before, as a whole, and leaves no trace."""
    options = {"checkpoint": ec.Checkpoint(tmp_path / "here")} if durable else {}
    engine, acknowledged = declared(**options), Acknowledged()
    before: list[Any] = []
    is_within = [False]
    passed = [0]

    def looked(step: Callable[..., None]) -> Callable[..., None]:
        def looking(spine: Spine, *given: Any) -> None:
            if place == "committed":
                step(spine, *given)
            passed[0] += 1
            if before and not is_within[0] and passed[0] % 5 == 0:
                is_within[0] = True
                assert read_all(engine) == before[-1]
                is_within[0] = False
            if place != "committed":
                step(spine, *given)

        return looking

    engine.push("names", NAMES)
    name = "stage" if place == "stage" else "commit"
    monkeypatch.setattr(Spine, name, looked(getattr(Spine, name)))
    writer = Writer(engine, acknowledged, 1)
    for _ in range(EPOCHS):
        before.append(read_all(engine))
        writer.step()
    monkeypatch.undo()
    rows = acknowledged.rows(engine.epoch_number)
    for view in engine.views.values():
        assert plain(view.read()) == plain(recomputed(view.name, rows)), view.name
    unread = declared()
    run(Writer(unread, Acknowledged(), 1), unread)
    for view in engine.views.values():
        assert plain(view.deltas().frame()) == plain(unread.views[view.name].deltas().frame()), view.name


def test_an_epoch_in_the_middle_of_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a reader merges runs another thread pushes, is not held up, and nothing of its epoch is lost."""
    engine, acknowledged = declared(), Acknowledged()
    engine.push("names", NAMES)
    writer = Writer(engine, acknowledged, 4)
    is_reading = [False]

    def merging(*given: Any) -> Run:
        merged = merge(*given)
        if is_reading[0]:
            is_reading[0] = False
            push = threading.Thread(target=writer.step, daemon=True)
            push.start()
            push.join(60)
            assert not push.is_alive(), "a reader holds up a writer"
        return merged

    monkeypatch.setattr("evercurrent.core.state.spine.merge", merging)
    for _ in range(EPOCHS):
        for view in engine.views.values():
            writer.step()
            epoch, is_reading[0] = engine.epoch_number, True
            acknowledged.check(view.name, range(epoch, epoch + 1), view.read())
            is_reading[0] = False
    rows = acknowledged.rows(engine.epoch_number)
    for view in engine.views.values():
        assert plain(view.read()) == plain(recomputed(view.name, rows)), view.name


def test_what_was_read_stays_as_it_was() -> None:
    """Snapshots and deltas of every epoch are after all others what they were."""
    engine, acknowledged = declared(), Acknowledged()
    engine.push("names", NAMES)
    writer = Writer(engine, acknowledged, 2)
    taken = []
    for _ in range(EPOCHS):
        writer.step()
        taken.append((engine.published(), [(view, view.snapshot()) for view in engine.views.values()]))
    for published, snapshots in taken:
        for view, snapshot in snapshots:
            assert published.epoch == snapshot.epoch
            assert plain(published.rows(view.name)) == plain(snapshot.frame)
            acknowledged.check(view.name, range(snapshot.epoch, snapshot.epoch + 1), snapshot.frame)
            deltas = [int(delta["_epoch"][0]) for delta in published.deltas(view.name, 0)]
            assert max(deltas, default=0) <= published.epoch


def test_a_read_counts_no_work_and_moves_no_run() -> None:
    engine = declared()
    engine.push("names", NAMES)
    writer = Writer(engine, Acknowledged(), 3)
    for _ in range(EPOCHS):
        writer.step()
    spines = [state for state in engine.published().compiled.circuit.states if isinstance(state, Spine)]
    # Rows that wait are sorted by whoever takes the runs first: the first read, or after it this test.
    for _ in range(2):
        before = [(spine.touched, spine.version) for spine in spines]
        read_all(engine)
        engine.explain()
        after = [(spine.touched, spine.version) for spine in spines]
        for one, other in zip(before, after, strict=True):
            assert one[0] == other[0]
            assert one[1] is other[1]
        runs = [spine.runs for spine in spines]
        read_all(engine)
        assert all(spine.runs is one for spine, one in zip(spines, runs, strict=True))


def test_an_epoch_goes_on_from_the_merge_that_a_reader_has_made() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64})
    view = engine.view("counts", rows.group_by("k").agg(n=pl.len()))
    for start in range(3):
        engine.push("rows", {"k": list(range(start, start + 5))})
    (spine,) = [s for s in engine.published().compiled.circuit.states if isinstance(s, Spine)]
    assert len(spine.runs) == 3
    view.read()
    assert len(spine.runs) == 3
    engine.push("rows", {"k": [100]})
    assert len(spine.runs) == 2
    assert view.read()["n"].sum() == 16
