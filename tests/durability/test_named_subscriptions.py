"""A subscription with a name goes on after the last epoch that was delivered to it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from commit_cadence import each_epoch_committed
from durability.observing import delta_epochs


def started(checkpoint: Any = None, **options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(checkpoint=checkpoint, **options)
    rows = engine.source("a", {"k": pl.Int64, "x": pl.Int64})
    engine.view("other", rows.filter(pl.col("k") > 100))
    return engine, engine.view("totals", rows.group_by("k").agg(pl.col("x").sum()))


def push(engine: ec.Engine, k: int = 1) -> int:
    return engine.push("a", {"k": [k], "x": [1]})


def test_it_receives_first_what_it_has_missed(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    engine, view = started(tmp_path)
    with engine:
        push(engine)
        view.subscribe(received.append, name="sink")
        push(engine)
    engine, view = started(tmp_path)
    with engine:
        push(engine)
        push(engine)
        assert delta_epochs(received) == [2]
        view.subscribe(received.append, name="sink")
        assert delta_epochs(received) == [2, 3, 4]
        push(engine)
    assert delta_epochs(received) == [2, 3, 4, 5]


def test_since_is_about_the_first_time_only(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    for _ in range(3):
        engine, view = started(tmp_path)
        with engine:
            push(engine)
            view.subscribe(received.append, since=0, name="sink")
    assert delta_epochs(received) == [1, 2, 3]


def test_after_a_crash_the_last_epoch_may_come_again_and_none_is_left_out(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    engine, view = started(tmp_path)
    view.subscribe(received.append, name="sink")
    for _ in range(3):
        push(engine)
    engine._running.durability._lock.close()  # as the system does for a process that is gone
    again, view = started(tmp_path)
    with again:
        view.subscribe(received.append, name="sink")
        push(again)
    assert delta_epochs(received) in ([1, 2, 3, 3, 4], [1, 2, 3, 4])
    assert sorted(set(delta_epochs(received))) == [1, 2, 3, 4]


def test_an_epoch_whose_callback_raised_is_delivered_again(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    broken = True

    def sink(frame: pl.DataFrame) -> None:
        if broken:
            raise OSError("no room")
        received.append(frame)

    engine, view = started(tmp_path)
    with engine:
        view.subscribe(sink, name="sink")
        for _ in range(3):
            with pytest.raises(ec.SubscriberError, match="no room"):
                push(engine)
    engine, view = started(tmp_path)
    with engine:
        with pytest.raises(OSError, match="no room"):
            view.subscribe(sink, name="sink")
        broken = False
        view.subscribe(sink, name="sink")
        assert delta_epochs(received) == [1, 2, 3]


def test_an_epoch_that_leaves_the_view_as_it_was_counts_as_delivered(tmp_path: Path) -> None:
    engine, _ = started(tmp_path)
    with engine:
        engine.views["other"].subscribe(lambda frame: None, name="sink")
        for _ in range(3):
            push(engine)
        assert engine.readers.delivered() == {"other/sink": 3}
    engine, _ = started(tmp_path)
    with engine:
        assert engine.epoch_number == 3
        assert engine.readers.delivered() == {"other/sink": 3}


def test_names_are_of_one_view_and_one_at_a_time() -> None:
    engine, view = started()
    subscription = view.subscribe(lambda frame: None, name="sink")
    assert repr(subscription) == "Subscription(view 'totals', name 'sink')"
    with pytest.raises(ec.PlanError, match="'sink' is in use"):
        view.subscribe(lambda frame: None, name="sink")
    engine.views["other"].subscribe(lambda frame: None, name="sink")
    received: list[pl.DataFrame] = []
    push(engine)
    subscription.close()
    push(engine)
    view.subscribe(received.append, name="sink")
    assert delta_epochs(received) == [2], "without a checkpoint too"
    for name in ("", 3):
        with pytest.raises(ec.PlanError, match="name="):
            view.subscribe(received.append, name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("raises", [False, True])
def test_a_name_is_in_use_while_its_subscription_gets_what_it_has_missed(raises: bool) -> None:
    """A callback could subscribe again under its own name, and every later delta was delivered twice under it."""
    engine = ec.Engine()
    view = engine.view("rows", engine.source("rows", {"n": pl.Int64}))
    engine.push("rows", [(1,)])
    received = []

    def again(delta: pl.DataFrame) -> None:
        received.append(delta["n"].to_list())
        if len(received) == 1:
            with pytest.raises(
                ec.PlanError, match="the name 'sink' is in use; close that subscription first"
            ):
                view.subscribe(again, since=0, name="sink")
            if raises:
                raise ValueError("not yet")

    if raises:
        with pytest.raises(ValueError, match="not yet"):
            view.subscribe(again, since=0, name="sink")
    subscription = view.subscribe(again, since=0, name="sink")
    engine.push("rows", [(2,)])
    assert received == [[1], [1], [2]][not raises :]
    assert view.subscriptions == (subscription,)


def test_a_callback_that_pushes_receives_every_epoch_once_and_in_order() -> None:
    engine, view = started()
    received: list[int] = []

    def sink(frame: pl.DataFrame) -> None:
        received.append(int(frame["_epoch"][0]))
        if len(received) < 4:
            push(engine)

    view.subscribe(sink, name="sink")
    push(engine)
    assert received == [1, 2, 3, 4]


@each_epoch_committed()
def test_what_is_no_longer_retained_is_an_error(tmp_path: Path) -> None:
    checkpoint = ec.Checkpoint(tmp_path, keep=1, grace="0s")
    engine, view = started(checkpoint, retain=ec.Retain(epochs=1))
    with engine:
        view.subscribe(lambda frame: None, name="sink").close()
        for _ in range(140):
            push(engine)
    engine, view = started(checkpoint)
    with engine, pytest.raises(ec.EpochGoneError, match="snapshot"):
        view.subscribe(lambda frame: None, name="sink")


def test_rows_of_a_view_that_was_replaced_are_read_from_files_if_memory_retains_none(tmp_path: Path) -> None:
    received: list[Any] = []
    engine, _ = started(tmp_path, retain=ec.Retain(epochs=0))
    with engine:
        rows = engine.source("b", {"k": pl.Int64}, retained=True)
        engine.view("kept", rows)
        engine.push("b", {"k": [1]})
        engine.views["kept"].subscribe(received.append, name="sink", on_schema=received.append)
        kept = engine.view("kept", rows.select(n=pl.col("k") + 1), replace=True)
        change, delta = received
        assert (change.after.names(), delta.rows()) == (["n"], [(2, change.epoch, 1)])
        engine.push("b", {"k": [2]})
        assert delta_epochs(received[1:]) == [change.epoch, change.epoch + 1]
        for since in (None, kept.earliest):
            assert delta_epochs(kept.deltas(since)) == [change.epoch, change.epoch + 1]


def killed(folder: Path, to: Path) -> Path:
    """A copy of what is on disk, as a process finds it after another one was killed."""
    return Path(shutil.copytree(folder, to))


@pytest.mark.parametrize("least", [0, 5], ids=["rows", "no-rows"])
@pytest.mark.parametrize("keep", [1, 1000])
def test_other_columns_are_announced_after_a_kill_in_the_epoch_of_the_replacement(
    least: int, keep: int, tmp_path: Path
) -> None:
    def opened(folder: Path) -> tuple[ec.Engine, ec.Collection]:
        engine = ec.Engine(checkpoint=ec.Checkpoint(folder, keep=keep))
        return engine, engine.source("a", {"k": pl.Int64, "b": pl.String}, retained=True)

    def other(rows: ec.Collection) -> ec.Collection:
        return rows.select(z="b", a=pl.col("k") * 2).filter(pl.col("a") > least)

    received: list[Any] = []
    engine, rows = opened(tmp_path / "first")
    with engine:
        view = engine.view("v", rows)
        engine.push("a", [(1, "x")])
        view.subscribe(received.append, name="sink", since=0, on_schema=received.append)
        engine.view("v", other(rows), replace=True)
        folder = killed(tmp_path / "first", tmp_path / "second")
    engine, rows = opened(folder)
    with engine:
        view = engine.view("v", other(rows))
        with pytest.raises(ec.EpochGoneError, match=r"other columns from epoch 2 on.*up to 1.*on_schema="):
            view.subscribe(received.append, name="sink")
        again: list[Any] = []
        is_ready = False

        def taken(delta: pl.DataFrame) -> None:
            if not is_ready:
                raise OSError("not ready")
            again.append(delta)

        if not least:
            with pytest.raises(OSError, match="not ready"):
                view.subscribe(taken, name="sink", on_schema=again.append)
            assert again.pop().epoch == 2
        is_ready = True
        view.subscribe(taken, name="sink", on_schema=again.append)
        engine.push("a", [(7, "y")])
    change, *deltas = again
    assert change == ec.SchemaChange(
        "v", 2, pl.Schema({"k": pl.Int64, "b": pl.String}), pl.Schema({"z": pl.String, "a": pl.Int64})
    )
    assert list(change.before) == ["k", "b"]
    expected = [[("y", 14, 3, 1)]] if least else [[("x", 2, 2, 1)], [("y", 14, 3, 1)]]
    assert [delta.rows() for delta in deltas] == expected
    engine, rows = opened(folder)
    with engine:
        engine.view("v", other(rows)).subscribe(again.append, name="sink", on_schema=again.append)
        engine.push("a", [(8, "z")])
    assert again[len(deltas) + 1].rows() == [("z", 16, 4, 1)]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["closed", "restarted"])
def test_a_subscription_that_is_not_open_gets_other_columns_when_it_is_made_again(
    is_restarted: bool, tmp_path: Path
) -> None:
    def opened(value: pl.Expr) -> tuple[ec.Engine, ec.View]:
        engine = ec.Engine(checkpoint=tmp_path)
        rows = engine.source("a", {"k": pl.Int64, "b": pl.Int64}, retained=True)
        return engine, engine.view("v", rows.group_by("k").agg(value))

    before, after = pl.col("b").sum().alias("n"), pl.col("b").max().alias("most")
    taken: list[Any] = []
    engine, view = opened(before)
    subscription = view.subscribe(taken.append, name="mail")
    engine.push("a", [(1, 3)])
    subscription.close()
    if is_restarted:
        engine.close()
        engine, view = opened(before)
    engine.push("a", [(2, 5)])
    view = engine.view("v", engine.sources["a"].group_by("k").agg(after), replace=True)
    engine.push("a", [(1, 4)])
    with pytest.raises(ec.EpochGoneError, match=r"other columns from epoch 3 on.*up to 1.*on_schema="):
        view.subscribe(taken.append, name="mail")
    taken.clear()
    view.subscribe(taken.append, name="mail", on_schema=taken.append)
    change, *deltas = taken
    assert (list(change.before), list(change.after), change.epoch) == (["k", "n"], ["k", "most"], 3)
    assert [sorted(delta.rows()) for delta in deltas] == [
        [(1, 3, 3, 1), (2, 5, 3, 1)],
        [(1, 3, 4, -1), (1, 4, 4, 1)],
    ]
    engine.close()
    engine, view = opened(after)
    with engine:
        view.subscribe(taken.append, name="mail")  # It has got everything.
    assert len(taken) == 3
