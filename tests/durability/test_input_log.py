"""Epochs of which only the input is on disk: a crash takes none of them, and what was refused does not come back."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import evercurrent as ec
from checkpoint.test_pieces import EVERY_TYPE
from commit_cadence import commits_put_off
from durability.every_operator import EVERY_OPERATOR
from durability.observing import all_of, delta_epochs, differences, held
from durability.test_editing import COUNTS, TOTALS, App, expected
from durability.test_options import crash, feed, records, started
from durability.timed import Timed, moment
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.cli import app
from evercurrent.views.durability import durability, input_log
from evercurrent.views.durability.input_log import InputLog, logged
from evercurrent.views.epochs.records import EpochInput
from evercurrent.views.store import LocalStore
from evercurrent.views.store.append_log import AppendLog, entries_after
from strategies import cases


@pytest.fixture(autouse=True)
def put_off():
    """Commits wait for many epochs."""
    with commits_put_off():
        yield


def copied(path: Path, to: Path) -> Path:
    """The folder as it is now: what a killed process leaves."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(path, to)
    return to


def broken(*_: Any) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def unlike(one: ec.Engine, other: ec.Engine) -> list[str]:
    """The parts in which two engines differ, as far as it can be seen: what lies beneath a null cannot."""
    first, second = all_of(one), all_of(other)
    return [part for part in differences(first, second) if seen(first[part]) != seen(second[part])]


def seen(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: seen(each) for name, each in part.items()}
    if isinstance(part, list):
        return [seen(each) for each in part]
    return str(pl.read_ipc_stream(part).rows()) if isinstance(part, bytes) else part


def same_at_every_epoch(case: Any, folder: Path, **options: Any) -> int:
    """Check after each epoch that an engine which starts from what is on disk is at the same place; how many there were."""
    running = Timed(case, numbered=True, checkpoint=ec.Checkpoint(folder / "kept", **options))
    for number, epoch in enumerate(case.epochs, 1):
        running.push(epoch, number)
        left = copied(folder / "kept", folder / "left")
        with Timed(case, numbered=True, checkpoint=ec.Checkpoint(left)).engine as engine:
            assert unlike(running.engine, engine) == [], number
            assert engine.epoch_number == number
    crash(running.engine)
    return number


def test_a_crash_takes_nothing(tmp_path: Path) -> None:
    """A163: an epoch is durable when `push` returns, with an operator of every kind."""
    same_at_every_epoch(EVERY_OPERATOR, tmp_path)
    assert records(tmp_path / "kept") == ["000000000000"]


@pytest.mark.parametrize("most", [2, 3])
def test_commits_come_now_and_then(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "MOST_WAITING", most)
    same_at_every_epoch(EVERY_OPERATOR, tmp_path)
    assert len(records(tmp_path / "kept")) == 1 + len(EVERY_OPERATOR.epochs) // most


@given(case=cases())
@settings(max_examples=15)
def test_random_programs(case: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert same_at_every_epoch(case, tmp_path_factory.mktemp("random")) == len(case.epochs)


def test_the_engine_goes_on_from_there(tmp_path: Path) -> None:
    """After each of ten crashes the epochs, positions and deltas are those of an engine that ran on, and a reader gets every delta."""
    steady, received = started(), []
    feed(steady, range(1, 31))
    for number in range(1, 31, 3):
        engine = started(tmp_path)
        assert engine.epoch_number == number - 1
        assert engine.positions == ({"a": number - 1} if number > 1 else {})
        engine.views["totals"].subscribe(
            lambda delta: received.append(int(delta["_epoch"][0])), since=-1, name="sink"
        )
        feed(engine, range(1, number + 3))
        crash(engine)
    with started(tmp_path) as engine:
        assert differences(all_of(steady), all_of(engine)) == []
        assert delta_epochs(engine.views["totals"].deltas()) == list(range(1, 31))
    assert sorted(set(received)) == list(range(1, 31))
    assert len(received) - 30 < 10, "the last epoch before a crash may be delivered again"


def test_a_clean_end_leaves_commits_alone(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 6))
        assert (tmp_path / "writer.inputs").exists()
        assert engine.checkpoint() == 5
        feed(engine, range(6, 8))
    assert not (tmp_path / "writer.inputs").exists()
    assert records(tmp_path) == ["000000000000", "000000000001", "000000000006"]


# When there is a commit all the same


def test_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = started(tmp_path)
    feed(engine, range(1, 3))
    monkeypatch.setattr(durability, "MOST_SECONDS", 0)
    feed(engine, range(3, 5))
    assert records(tmp_path) == ["000000000000", "000000000001", "000000000004"]


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES", 100), ("FULL", 0)])
def test_where_there_is_much_input(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_log, limit, value)
    engine = started(tmp_path)
    feed(engine, range(1, 3))
    assert len(records(tmp_path)) == (3 if limit == "MOST_BYTES" else 2)
    with started(copied(tmp_path, tmp_path.with_name("left"))) as again:
        assert differences(all_of(engine), all_of(again)) == []


def test_an_epoch_that_is_more_than_its_input(tmp_path: Path) -> None:
    """An epoch in which a window was fired on request is restored with the pane that it emitted."""

    def declared(path: Path) -> ec.Engine:
        engine = ec.Engine(checkpoint=path)
        rows = engine.source("rows", {"k": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
        counts = rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.signal())).group_by("k").agg(n=pl.len())
        engine.view("counts", counts)
        return engine

    engine = declared(tmp_path / "kept")
    engine.push("rows", {"k": [1], "at": [datetime(2026, 1, 1)]}, at=datetime(2026, 1, 1, tzinfo=UTC))
    engine.views["counts"].fire(1)
    assert engine.views["counts"].read().height == 1
    with declared(copied(tmp_path / "kept", tmp_path / "left")) as again:
        assert differences(all_of(engine), all_of(again)) == []


def entry_of(frame: pl.DataFrame, path: Path) -> tuple[bool, list[memoryview]]:
    """Whether an epoch with these rows of one source is logged, and what is on disk of it."""
    delta = Delta.of(frame, np.ones(frame.height, np.int64), is_consolidated=True)
    with AppendLog(str(path)) as log:
        inputs = InputLog(log)
        is_logged = inputs.begin(Now(Epoch(1), moment(1)), EpochInput(), {"a": delta}, {"v/sink": 0}, None)
        inputs.wait()
    return is_logged, list(entries_after(str(path), 0))


@pytest.mark.parametrize(
    "frame", [EVERY_TYPE, EVERY_TYPE.clear(), EVERY_TYPE[1:], pl.concat([EVERY_TYPE] * 3, rechunk=False)]
)
def test_rows_come_back_as_they_were(frame: pl.DataFrame, tmp_path: Path) -> None:
    is_logged, (entry,) = entry_of(frame, tmp_path / "log")
    again = logged(entry)
    assert is_logged
    assert (again.epoch, again.now, again.delivered) == (1, Now(Epoch(1), moment(1)), {"v/sink": 0})
    (delta,) = again.epoch_input.deltas["a"]
    assert delta.is_consolidated
    assert delta.rows.schema == frame.schema
    assert_frame_equal(delta.rows, frame)


def test_a_few_rows_do_not_bring_along_the_text_of_all(tmp_path: Path) -> None:
    texts = pl.DataFrame({"text": [f"{number:0200}" for number in range(50_000)]})
    _, (entry,) = entry_of(texts.slice(100, 10), tmp_path / "log")
    assert len(entry) < 10_000


def test_columns_that_arrow_does_not_have(tmp_path: Path) -> None:
    def declared(path: Path) -> ec.Engine:
        engine = ec.Engine(checkpoint=path)
        engine.view("n", engine.source("a", {"big": pl.Int128}).group_by().agg(n=pl.len()))
        return engine

    engine = declared(tmp_path / "kept")
    for _ in range(3):
        engine.push("a", {"big": [2**100]})
    with declared(copied(tmp_path / "kept", tmp_path / "left")) as again:
        assert held(again) == held(engine)


# What fails


def test_what_was_refused_does_not_come_back(tmp_path: Path) -> None:
    """Input of an epoch that was refused, which is on disk while it is evaluated, is not evaluated after a restart."""

    def odd(rows: pl.DataFrame) -> pl.DataFrame:
        if 13 in rows["x"]:
            raise ValueError("thirteen")
        return rows

    def declared(path: Path) -> ec.Engine:
        engine = ec.Engine(checkpoint=path)
        engine.view("rows", engine.source("a", {"x": pl.Int64}).map_batches(odd))
        return engine

    engine = declared(tmp_path / "kept")
    for x in (1, 2, 13, 13, 4, 13):
        if x == 13:
            with pytest.raises(ec.EvercurrentError, match="thirteen"):
                engine.push("a", {"x": [x]})
        else:
            engine.push("a", {"x": [x]})
        with declared(copied(tmp_path / "kept", tmp_path / "left")) as again:
            assert differences(all_of(engine), all_of(again)) == []
    assert engine.epoch_number == 3


def test_a_crash_before_it_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input that nobody had time to refuse is refused by who evaluates it again, in silence."""

    def odd(rows: pl.DataFrame) -> pl.DataFrame:
        if 13 in rows["x"]:
            raise ValueError("thirteen")
        return rows

    def declared(path: Path, *more: str) -> ec.Engine:
        engine = ec.Engine(checkpoint=path)
        rows = engine.source("a", {"x": pl.Int64}, retained=True)
        for name in ("rows", *more):
            engine.view(name, rows.map_batches(odd))
        return engine

    engine = declared(tmp_path)
    engine.push("a", {"x": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(input_log.InputLog, "take_back", lambda log: None)
        with pytest.raises(ec.EvercurrentError, match="thirteen"):
            engine.push("a", {"x": [13]})
    crash(engine)
    assert len(LocalStore(tmp_path).inputs_after(0)) == 2
    left = copied(tmp_path, tmp_path.with_name("left"))
    for _ in range(2):
        with pytest.raises(
            ec.CheckpointError, match=r"epoch 2 was finished and not committed, .* failed: .*thirteen"
        ):
            declared(left, "others").views["rows"].read()
    with declared(tmp_path) as again:
        assert again.epoch_number == 1
        again.push("a", {"x": [2]})
        assert sorted(again.views["rows"].read().rows()) == [(1,), (2,)]


def test_interrupted_while_it_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that Ctrl-C interrupts when its input was logged does not happen, and the epochs after it are logged."""
    steady = started()
    feed(steady, range(1, 4))
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 2))
    begin = AppendLog.begin

    def interrupted(log: AppendLog, *given: Any) -> None:
        begin(log, *given)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(AppendLog, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            feed(engine, range(2, 3))
    assert engine.epoch_number == 1
    feed(engine, range(2, 4))
    with started(copied(tmp_path / "kept", tmp_path / "left")) as again:
        assert differences(all_of(steady), all_of(again)) == []


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_disk_that_fails(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push is refused and nothing has changed; the next one is taken; what was refused does not come back."""
    steady = started()
    feed(steady, range(1, 3))
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 2))
    real, failures = getattr(os, call), iter([True])
    with monkeypatch.context() as patch:
        patch.setattr(os, call, lambda *given: broken() if next(failures, False) else real(*given))
        with pytest.raises(ec.CheckpointError, match=r"the input of the epoch was not written: the disk"):
            feed(engine, range(2, 3))
    assert engine.epoch_number == 1
    with started(copied(tmp_path / "kept", tmp_path / "left")) as again:
        assert again.epoch_number == 1
    feed(engine, range(2, 3))
    assert differences(all_of(steady), all_of(engine)) == []
    with started(copied(tmp_path / "kept", tmp_path / "left")) as again:
        assert differences(all_of(steady), all_of(again)) == []


def test_a_disk_that_goes_on_failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not known then what is there: nothing is taken until that is known, by this engine or the next one."""
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(ec.CheckpointError, match="was not written"):
            feed(engine, range(2, 3))
        for _ in range(2):
            with pytest.raises(ec.CheckpointError, match=r"input of epoch 2.*push again, which finds out"):
                feed(engine, range(2, 3))
        left = copied(tmp_path / "kept", tmp_path / "left")
    feed(engine, range(2, 4))
    assert engine.epoch_number == 3
    crash(engine)
    for path, epochs in ((tmp_path / "kept", (3,)), (left, (1, 2))):
        with started(path) as again:
            assert again.epoch_number in epochs
            feed(again, range(1, 4))
            assert again.epoch_number == 3


# Somebody else opens it


def test_maintenance_is_refused_until_the_application_has_opened_it(tmp_path: Path) -> None:
    engine = started(tmp_path)
    feed(engine, range(1, 4))
    crash(engine)
    store = LocalStore(tmp_path)
    listed = CliRunner().invoke(app, ["checkpoint", "ls", str(tmp_path)])
    assert "1 commit; then 3 epochs of which only the input is on disk" in " ".join(listed.output.split())
    for work in (lambda: compact(store, keep=1, grace=0), lambda: rebucket(store, 2)):
        with pytest.raises(
            ec.CheckpointError, match=r"3 epochs after epoch 0 .* Open the checkpoint with its application"
        ):
            work()
    with started(tmp_path) as again:
        assert again.epoch_number == 3
    assert rebucket(store, 2).epoch == 4


def test_an_engine_that_commits_otherwise(tmp_path: Path) -> None:
    engine = started(tmp_path)
    feed(engine, range(1, 4))
    seen = all_of(engine)
    crash(engine)
    with started(ec.Checkpoint(tmp_path, every=5)) as again:
        assert differences(seen, all_of(again)) == []
        feed(again, range(4, 7))
    assert records(tmp_path)[-1] == "000000000004"


def test_an_edited_program(tmp_path: Path) -> None:
    """A view that is added after a crash holds the result of all input, and has deltas from the epoch in which it was added."""
    rows = [[(1, 1), (2, 2)], [(1, 3), (3, 0)], [(2, -2), (4, 9)]]
    app = App(tmp_path, {"totals": TOTALS})
    for each in rows:
        app.push(*each)
    crash(app.engine)
    views = {"totals": TOTALS, "counts": COUNTS}
    for _ in range(2):
        with App(tmp_path, views).engine as engine:
            assert engine.epoch_number == 4
            assert held(engine) == expected(views)
            assert delta_epochs(engine.views["totals"].deltas()) == [1, 2, 3]
            assert delta_epochs(engine.views["counts"].deltas()) == [4]
            with pytest.raises(ec.EpochGoneError, match="its present definition begins at epoch"):
                engine.views["counts"].deltas(since=2)


def test_a_source_that_is_gone(tmp_path: Path) -> None:
    def declared(*names: str, **options: Any) -> ec.Engine:
        engine = ec.Engine(checkpoint=ec.Checkpoint(tmp_path, **options))
        for name in names:
            engine.view(f"{name}s", engine.source(name, {"x": pl.Int64}).group_by("x").agg(n=pl.len()))
        return engine

    engine = declared("one", "two")
    for number in range(4):
        with engine.epoch(at=moment(number)):
            engine.push("one", {"x": [number]}, position=number)
            engine.push("two", {"x": [random.randrange(9)]}, position=number)
    crash(engine)
    with declared("one", drop=("two", "twos")) as again:
        assert again.epoch_number == 5, "one has recorded that it is gone"
        assert again.positions == {"one": 3}
        assert again.views["ones"].read().height == 4


def test_an_engine_that_is_collected_in_the_middle_of_anything(tmp_path: Path) -> None:
    """Also while its thread begins another one: it waits for nobody, and lets go of the checkpoint."""
    code = """
        import gc, sys, threading
        from concurrent.futures import thread
        import evercurrent as ec, polars as pl

        def declared():
            engine = ec.Engine(checkpoint=sys.argv[1])
            engine.view("n", engine.source("a", {"x": pl.Int64}).group_by().agg(n=pl.len()))
            return engine

        engine = declared()
        for number in range(5):
            engine.push("a", {"x": [number]})
        gc.collect()
        with thread._global_shutdown_lock, threading._active_limbo_lock:
            del engine
            gc.collect()
        with declared() as again:
            print(again.epoch_number, again.views["n"].read().rows())
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, "5 [(5,)]\n"), done.stderr


def test_rows_that_no_commit_could_keep_are_not_taken(tmp_path: Path) -> None:
    """The log of inputs could hold them, and then nobody could open the checkpoint any more."""
    for cast in (pl.Int128, pl.UInt128, pl.List(pl.Int128)):
        engine = ec.Engine(checkpoint=tmp_path / str(cast))
        rows = engine.source("rows", {"k": pl.Int64, "big": cast}, kind="upsert", key="k")
        engine.view("now", rows)
        with pytest.raises(CheckpointError, match=r"column 'big' is .*cannot be kept in Arrow files"):
            engine.push("rows", pl.DataFrame({"k": [1], "big": [None]}, {"k": pl.Int64, "big": cast}))
        assert not list((tmp_path / str(cast)).rglob("*.json"))


def test_arrays_of_no_values_are_not_taken(tmp_path: Path) -> None:
    """A log of inputs that has them could be written, and not be read."""
    empty = pl.Array(pl.Int32, 0)
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    for dtype in (empty, pl.List(empty), pl.Struct({"a": empty}), pl.Array(pl.Int32, (2, 0))):
        with pytest.raises(
            ec.PlanError, match=r"^source 'rows': column 'v' is .* arrays of no values .* declare a list"
        ):
            engine.source("rows", {"k": pl.Int64, "v": dtype})
    rows = engine.source("rows", {"k": pl.List(pl.Int32)})
    engine.view("now", rows.with_columns(k=pl.col("k").list.to_array(0)))
    with pytest.raises(
        CheckpointError, match=r"view 'now': column 'k' is Array.* arrays of no values .* make it a list"
    ):
        rows.push({"k": [[]]})
    assert not list(tmp_path.rglob("*.json"))


def test_a_sum_that_no_commit_could_keep_is_refused_with_the_name_of_its_view(tmp_path: Path) -> None:
    """Only the deltas of the view have it: its state, from which it is computed, is of other columns."""
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    rows = engine.source("rows", {"k": pl.Int64, "big": pl.Int128})
    engine.view("sums", rows.group_by("k").agg(total=pl.col("big").sum()))
    with pytest.raises(CheckpointError, match=r"view 'sums': column 'total' is Int128, and Int128 cannot be"):
        rows.push(pl.DataFrame({"k": [1], "big": [2]}, {"k": pl.Int64, "big": pl.Int128}))
    assert not list(tmp_path.rglob("*.json"))
    engine.close()
    again = ec.Engine(checkpoint=tmp_path / "kept")
    small = again.source("rows", {"k": pl.Int64, "big": pl.Int128})
    sums = again.view("sums", small.group_by("k").agg(total=pl.col("big").sum().cast(pl.Int64)))
    small.push(pl.DataFrame({"k": [1], "big": [2]}, {"k": pl.Int64, "big": pl.Int128}))
    assert sums.read().rows() == [(1, 2)]
    again.close()
