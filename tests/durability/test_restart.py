"""A restart after any epoch shows nothing: deltas, contents, ledger, watermarks and answers are those of an engine that ran on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given

import evercurrent as ec
from durability.every_operator import EVERY_OPERATOR
from durability.observing import all_of, delta_epochs, differences, frame_bytes
from durability.timed import Timed
from eventtime.pipelines import Both, Epoch, Run, Setup, runs
from oracle import TooLargeError
from strategies import Case, cases, of_profile

Start = Callable[..., Any]
"""Makes an engine with its views: something that has ``engine`` and ``push``."""


def check_restarts(start: Start, epochs: Sequence[Any], path: Path, **options: Any) -> None:
    """One engine runs through; on another checkpoint each epoch has an engine of its own."""
    steady = start()
    for number, epoch in enumerate(epochs, 1):
        steady.push(epoch)
        restarted = start(checkpoint=ec.Checkpoint(path, **options))
        with restarted.engine:
            restarted.push(epoch)
            seen = all_of(restarted.engine)
            assert differences(all_of(steady.engine), seen) == [], f"after epoch {number}"
        again = start(checkpoint=ec.Checkpoint(path, **options))
        with again.engine:
            assert differences(seen, all_of(again.engine)) == [], f"opened after epoch {number}"


def check_restarts_of(start: Start, epochs: Sequence[Any], **options: Any) -> None:
    with TemporaryDirectory() as folder:
        check_restarts(start, epochs, Path(folder), **options)


def test_every_operator(tmp_path: Path) -> None:
    """A160: an engine goes on from the copy of its state, whatever the state is of."""
    case = EVERY_OPERATOR
    check_restarts(lambda **o: Timed(case, **o), case.epochs, tmp_path)


@of_profile(0.1)
@given(case=cases(max_lines=3))
def test_any_program(case: Case) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    check_restarts_of(lambda **o: Timed(case, **o), case.epochs)


@of_profile(0.15)
@given(run=runs(max_epochs=5))
def test_any_pipeline_of_windows(run: Run) -> None:
    check_restarts_of(lambda **o: Both(run, **o), run.epochs)


def row(t: int, v: int = 1, diff: int = 1) -> Any:
    return (("a", t, v, 1, True), diff)


HISTORY = [
    Epoch([row(0), row(3), row(20)], 2),
    Epoch([], None, 6),
    Epoch([row(9, 2)], 4, 7),
    Epoch([row(6), row(-9), row(3, diff=-1)], 15, 12),
    Epoch([row(2)], None, 30),
    Epoch([], float("inf"), 40),
]


@pytest.mark.parametrize(
    "setup",
    [
        Setup("sessions(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "max", "distinct")),
        Setup("merging(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "max", "distinct")),
        Setup("sliding(10, 5)", "repeat(any_of(punctuation(), after_bytes(2)))", mode="accumulating", lateness=0, always=True),
        Setup("fixed(10)", "repeat(all_of(after_count(2), after_watermark()))", mode="discarding", lateness=9),
        Setup("fixed(10)", "repeat(at_period(5))", mode="discarding", aggregates=("n", "sum")),
        Setup("sessions(5)", "sequence(after_count(1), repeat(at_period(5)))"),
        Setup("fixed(10)", lateness=0),
    ],
    ids=lambda setup: f"{setup.window}, {setup.trigger}, {setup.mode}",
)  # fmt: skip
def test_timers_sessions_panes_and_lateness(setup: Setup, tmp_path: Path) -> None:
    run = Run(setup, HISTORY)
    check_restarts(lambda **o: Both(run, **o), run.epochs, tmp_path)


def counts(path: Any, **options: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=path, **options)
    words = engine.source("words", {"word": pl.String}, kind="diffs")
    by_word = engine.view("counts", words.group_by("word").agg(n=pl.len()))
    engine.view("histogram", by_word.group_by("n").agg(words=pl.len()))
    engine.view("all", words.group_by().agg(n=pl.len()))
    return engine


def test_a_group_of_nothing_has_its_row_before_any_input(tmp_path: Path) -> None:
    with counts(tmp_path) as engine:
        assert engine.views["all"].read().rows() == [(0,)]
        assert engine.epoch_number == 0
    with counts(tmp_path) as engine:
        assert engine.epoch_number == 0
        assert engine.views["all"].read().rows() == [(0,)]
        assert [frame.rows() for frame in engine.views["all"].deltas()] == [[(0, 0, 1)]]
        engine.push("words", {"word": ["a"]})
        assert engine.views["all"].read().rows() == [(1,)]


def test_deltas_of_long_ago_come_from_their_files(tmp_path: Path) -> None:
    retain = ec.Retain(epochs=2, rows=100)
    engine = counts(tmp_path, retain=retain)
    emitted: list[bytes] = []
    engine.views["counts"].subscribe(lambda frame: emitted.append(frame_bytes(frame)))
    for number in range(6):
        engine.push("words", {"word": [f"w{number % 3}"]})
    view = engine.views["counts"]
    assert [frame_bytes(frame) for frame in view.deltas()] == emitted
    assert delta_epochs(view.deltas(since=2)) == [3, 4, 5, 6]
    assert view.earliest == -1
    engine.close()
    with counts(tmp_path, retain=retain) as again:
        assert [frame_bytes(frame) for frame in again.views["counts"].deltas()] == emitted
        again.push("words", {"word": ["w0"]})
        assert delta_epochs(again.views["counts"].deltas(since=4)) == [5, 6, 7]
        assert again.views["counts"].deltas(since=6).frame().height == 2


def test_delta_files_are_for_everybody_who_reads_arrow(tmp_path: Path) -> None:
    with counts(tmp_path) as engine:
        engine.push("words", {"word": ["a", "b", "a"]})
        engine.push("words", {"word": ["b"], "_diff": [-1]})
        emitted = [frame.rows() for frame in engine.views["counts"].deltas()]
    found: list[tuple[Any, ...]] = []
    for record in sorted((tmp_path / "commits").glob("*.json")):
        for part in json.loads(record.read_bytes())["body"]["deltas"].get("counts", []):
            with pa.memory_map(str(tmp_path / part["file"])) as file:
                file.seek(part["start"])
                table = pa.ipc.open_file(file.read_buffer(part["size"])).read_all()
            found += [tuple(row.values()) for row in table.to_pylist()]
    assert found == [row for rows in emitted for row in rows]


def test_views_declared_after_it_was_opened_are_filled_and_committed_at_once(tmp_path: Path) -> None:
    with counts(tmp_path) as engine:
        assert engine.epoch_number == 0
        late = engine.view("late", engine.sources["words"].unique())
        assert late.epoch == 1
        assert engine.push("words", {"word": ["a"]}) == 2
        assert late.read().rows() == [("a",)]


def test_a_closed_engine_can_be_read_and_takes_nothing(tmp_path: Path) -> None:
    engine = counts(tmp_path)
    engine.push("words", {"word": ["a"]})
    engine.close()
    engine.close()
    assert engine.views["counts"].read().rows() == [("a", 1)]
    with pytest.raises(ec.CheckpointError, match="closed"):
        engine.push("words", {"word": ["a"]})
    assert engine.epoch_number == 1


def test_an_engine_without_a_checkpoint_can_be_closed_and_not_checkpointed() -> None:
    with ec.Engine() as engine:
        engine.view("rows", engine.source("a", {"x": pl.Int64}))
        engine.push("a", {"x": [1]})
        with pytest.raises(ec.InputError, match="checkpoint="):
            engine.checkpoint()
        with pytest.raises(ec.InputError, match="checkpoint="):
            engine.views["rows"].read(epoch=0)
    assert engine.push("a", {"x": [2]}) == 2
