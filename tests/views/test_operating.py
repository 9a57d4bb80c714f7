"""Operating an engine: figures, events for logs and traces, views followed by tasks, and slow subscribers."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from children import in_child
from evercurrent.views.epochs import merge_events
from evercurrent.views.epochs.queued import QueuedSubscription


def shop(**options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, kind="diffs")
    return engine, engine.view("takings", sales.group_by("shop").sum())


def row(price: int = 1, diff: int = 1) -> list[tuple[Any, ...]]:
    return [("north", price, diff)]


# Figures


def test_stats_are_the_figures_of_explain(tmp_path: Path) -> None:
    engine, _ = shop(checkpoint=tmp_path / "c")
    engine.push("sales", row(), position=7)
    engine.push("sales", row(99, -1))
    stats = engine.stats()
    assert stats["epoch"] == 2
    assert stats["sources"]["sales"]["position"] == 7
    assert stats["views"]["takings"]["entries"] == 1
    assert stats["ledger"] == {"rows": 1, "forgotten": 0, "sources": {"sales": 1}}
    assert stats["checkpoint"]["committed_epoch"] + stats["checkpoint"]["epochs_since"] == 2
    explained = engine.explain()
    for node in stats["nodes"]:
        line = next(line for line in explained.splitlines() if line.split()[:1] == [str(node["node"])])
        assert node["label"] in line
        assert f"{node['bytes']:,}" in line
    engine.checkpoint()
    written = engine.stats()["checkpoint"]
    assert written["files"] >= 1
    assert written["bytes"] > 0
    assert (
        f"evercurrent_checkpoint_files {written['files']}" in ec.prometheus_text(engine.stats()).splitlines()
    )
    engine.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_stats_count_the_epochs_that_change_a_view(workers: int) -> None:
    """An epoch counts at a node if rows come out of it, however many buckets they are in."""
    engine = ec.Engine(workers=workers)
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, kind="diffs")
    all_of_them = engine.view("all", sales.group_by("shop").sum())
    dear = engine.view("dear", all_of_them.filter(pl.col("price") > 100))
    for price in (1, 2, 500):
        engine.push("sales", {"shop": list(range(20)), "price": [price] * 20})
    engine.push("sales", {"shop": [1, 1], "price": [1, 1], "_diff": [1, -1]})
    stats = engine.stats()
    assert {name: figures["epochs"] for name, figures in stats["views"].items()} == {"all": 3, "dear": 1}
    assert stats["epoch"] == 4
    assert len(dear) == 20
    assert 'evercurrent_view_epochs_total{view="dear"} 1' in ec.prometheus_text(stats).splitlines()


def test_stats_have_what_explain_shows_of_windows_sequences_and_refused_rows() -> None:
    engine = ec.Engine()
    columns = {"k": pl.Int64, "x": pl.Int64, "at": pl.Datetime("us")}
    rows = engine.source("rows", columns, kind="upsert", key="k", sequence_by="x")
    timed = engine.source("timed", columns, event_time="at")
    engine.view("v", rows)
    windows = timed.window(ec.fixed("1h")).trigger(ec.after_watermark()).lateness("1h")
    engine.view("w", windows.group_by("k").len())
    noon = "2026-01-01 12:00"
    engine.push("rows", [(1, 5, noon), (1, 3, noon)])
    engine.push("timed", [(1, 5, None), (2, 5, noon)])
    engine.push("timed", [(1, 5, None), (2, 5, None)])
    stats, explained = engine.stats(), engine.explain()
    assert (stats["sources"]["rows"]["superseded"], stats["sources"]["rows"]["deletions"]) == (1, 0)
    assert stats["sources"]["timed"]["superseded"] is None
    windowed = [node for node in stats["nodes"] if node["windows"]]
    assert f"windows of {windowed[0]['node']}: {windowed[0]['windows']}" in explained
    assert stats["ledger"] == {"rows": 3, "forgotten": 0, "sources": {"timed": 3}}
    text = ec.prometheus_text(stats).splitlines()
    assert 'evercurrent_ledger_source_rows{source="timed"} 3' in text
    assert 'evercurrent_source_superseded_total{source="rows"} 1' in text


def test_stats_of_an_engine_without_rows() -> None:
    assert shop()[0].stats()["processing_time"] is None


def test_prometheus_reads_the_figures() -> None:
    engine = ec.Engine()
    name = 'a "b"\\\n'
    source = engine.source("s", {"x": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
    engine.view(name, source.group_by("x").len())
    engine.push("s", {"x": [1], "at": ["2026-01-01"]}, watermark="2026-01-01", at="2026-01-01T00:00:05Z")
    lines = ec.prometheus_text(engine.stats()).splitlines()
    assert "evercurrent_epoch 1" in lines
    assert 'evercurrent_source_behind_seconds{source="s"} 5.0' in lines
    assert r'evercurrent_view_entries{view="a \"b\"\\\n"} 1' in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


# Events


def test_events_have_fields(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG, "evercurrent"):
        engine, _ = shop(checkpoint=tmp_path / "c")
        engine.push("sales", row(5))
        engine.push("sales", row(6, -1))
        with pytest.raises(ec.InputError):
            engine.push("sales", {"shop": ["north"], "price": [2**62], "_diff": [2**30]})
        engine.close()
    events = [(record.event, record) for record in caplog.records]  # type: ignore[attr-defined]
    kinds = [kind for kind, _ in events]
    assert kinds.count("epoch") == 2
    assert {"commit", "refused", "failed"} <= set(kinds)
    fields = vars(dict(events)["epoch"])
    assert (fields["epoch"], fields["rows"], fields["refused"]) == (2, {"sales": 1}, 1)
    assert (dict(events)["refused"].levelname, dict(events)["refused"].rows) == ("WARNING", 1)  # type: ignore[attr-defined]
    assert "retract" in caplog.text or "not there" in caplog.text


@pytest.mark.parametrize("workers", [1, 2])
def test_large_merges_of_running_states_are_an_event(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int
) -> None:
    """Small ones are not, nor is what an epoch that was refused would have merged."""
    monkeypatch.setattr(merge_events, "LARGE", 2000)
    engine = ec.Engine(workers=workers)
    source = engine.source("s", {"k": pl.Int64}, kind="diffs")
    engine.view("v", source.group_by("k").len())
    epochs = []
    for number in range(40):
        level = logging.WARNING if number < 10 else logging.INFO
        with caplog.at_level(level, "evercurrent"):
            rows = {"k": range(number * 400, number * 400 + 400), "_diff": [1] * 400}
            engine.push("s", pl.DataFrame(rows))
            with pytest.raises(ec.InputError):
                engine.push("s", {"k": [-1], "_diff": [2**63]})
        merged = [record for record in caplog.records if record.event == "merge"]  # type: ignore[attr-defined]
        epochs = [(record.epoch, record.levelname) for record in merged]  # type: ignore[attr-defined]
    if workers == 1:
        assert epochs == [(16, "INFO"), (32, "INFO")]
        assert (merged[0].entries, merged[0].merged) == (6000, 6400)  # type: ignore[attr-defined]
        assert "group by" in merged[0].node  # type: ignore[attr-defined]


def test_late_rows_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us")}, event_time="at")
    engine.view("v", source.window(ec.fixed("1m")).lateness("0s").group_by().len())
    source.push({"at": ["2026-01-01"]}, watermark="2026-02-01")
    source.push({"at": ["2026-01-01"]})
    # Sinks of other tests, which another thread drives, may still log that they fail.
    events = [(record.levelname, record.event) for record in caplog.records if record.event != "sink"]  # type: ignore[attr-defined]
    assert events == [("WARNING", "late")]


def test_nothing_is_logged_unless_the_program_sets_up_logging(capfd: pytest.CaptureFixture[str]) -> None:
    engine, _ = shop()
    engine.push("sales", row(6, -1))
    assert engine.ledger().height == 1
    assert capfd.readouterr() == ("", "")


def test_a_watcher_gets_each_epoch() -> None:
    engine, _ = shop()
    seen: list[ec.EpochEvent] = []
    engine.watch(seen.append)
    engine.push("sales", row() + row(2))
    engine.push("sales", row(9, -1))
    assert [(event.epoch, event.rows, event.changes, event.refused) for event in seen] == [
        (1, {"sales": 2}, {"takings": 1}, 0),
        (2, {"sales": 1}, {}, 1),
    ]
    assert all(0 < event.seconds < 60 and event.begun <= time.time() for event in seen)
    with pytest.raises(ec.PlanError, match="cannot be called"):
        engine.watch(3)  # type: ignore[arg-type]


def test_a_watcher_that_raises_or_pushes_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    engine, view = shop()
    got: list[pl.DataFrame] = []
    view.subscribe(got.append)
    engine.watch(lambda event: print(1 / 0))
    engine.watch(lambda event: engine.push("sales", row()))
    assert engine.push("sales", row()) == 1
    assert len(got) == 1
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert ["ZeroDivisionError" in str(record.exc_info) for record in errors] == [True, False]
    assert "a watcher of epochs cannot push" in caplog.text
    assert engine.push("sales", row()) == 2


# Tasks


def test_a_task_follows_a_view_while_another_pushes() -> None:
    engine, view = shop()
    engine.push("sales", row())

    async def follow(since: int | None, count: int) -> list[int]:
        epochs = []
        async for delta in view.follow(since):
            epochs.append(int(delta["_epoch"][0]))
            if len(epochs) == count:
                break
        return epochs

    async def main() -> list[list[int]]:
        tasks = [asyncio.create_task(follow(0, 4)), asyncio.create_task(follow(None, 3))]
        while len(view._subscriptions) < 2:
            await asyncio.sleep(0.01)
        for price in (2, 3, 4):
            assert await engine.apush("sales", row(price)) == price
        return await asyncio.gather(*tasks)

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [[1, 2, 3, 4], [2, 3, 4]]
    engine.push("sales", row())  # The loops are closed, and nobody follows.


def test_coroutines_are_refused_and_not_dropped() -> None:
    engine, view = shop()

    async def callback(delta: pl.DataFrame) -> None: ...

    class Called:
        async def __call__(self, delta: pl.DataFrame) -> None: ...

    for function in (callback, Called()):
        with pytest.raises(ec.PlanError, match=r"view\.follow\(\)"):
            view.subscribe(function)
    view.subscribe(lambda delta: callback(delta))
    with pytest.raises(ec.SubscriberError, match=r"view\.follow\(\)"):
        engine.push("sales", row())


# Slow subscribers


class Slow:
    """A callback that goes on when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.got: list[int] = []

    def __call__(self, delta: pl.DataFrame) -> None:
        assert self.may.wait(60)
        self.got.append(int(delta["_epoch"][0]))


def push_often(engine: ec.Engine) -> None:
    for _ in range(4):
        engine.push("sales", row())


def queued(view: ec.View, callback: Any, **options: Any) -> QueuedSubscription:
    subscription = view.subscribe(callback, **options)
    assert isinstance(subscription, QueuedSubscription)
    return subscription


def test_a_slow_subscriber_does_not_hold_up_push() -> None:
    engine, view = shop()
    slow = Slow()
    engine.push("sales", row())
    subscription = queued(view, slow, since=0, queue=10)
    for _ in range(4):
        engine.push("sales", row())
    assert slow.got == []
    assert not subscription.join(0.01)
    slow.may.set()
    assert subscription.join(60)
    assert slow.got == [1, 2, 3, 4, 5]
    subscription.close()
    engine.push("sales", row())
    assert slow.got == [1, 2, 3, 4, 5]


def test_a_full_queue_drops() -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=2, on_full="drop")
    engine.push("sales", row())
    while subscription.waiting:  # The first is with the callback, and the queue is empty.
        time.sleep(0.001)
    for _ in range(4):
        engine.push("sales", row())
    slow.may.set()
    assert subscription.join(60)
    assert (slow.got, subscription.dropped) == ([1, 2, 3], 2)


def test_a_full_queue_fails() -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=1, on_full="fail")
    with pytest.raises(ec.SubscriberError, match="queue of 1 delta is full"):
        push_often(engine)
    assert not subscription.is_open
    slow.may.set()
    engine.push("sales", row())


def test_a_full_queue_waits() -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=1)
    threading.Timer(0.3, slow.may.set).start()
    for _ in range(6):
        engine.push("sales", row())
    assert subscription.join(60)
    assert slow.got == [1, 2, 3, 4, 5, 6]


def test_an_interrupt_while_a_full_queue_waits_loses_no_delta() -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=1)
    threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        push_often(engine)
    last = engine.epoch_number
    slow.may.set()
    push_often(engine)
    assert subscription.join(60)
    assert last < 4
    assert slow.got == list(range(1, last + 5))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("holds_lock", [False, True], ids=["between", "within"])
def test_a_queued_subscription_is_an_error_and_no_deadlock_in_a_child(holds_lock: bool) -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=3)
    engine.push("sales", row())
    while subscription.waiting:
        time.sleep(0.001)
    engine.push("sales", row())

    def use() -> None:
        assert not subscription.join()
        with pytest.raises(ec.SubscriberError, match="subscribe again in this one"):
            engine.push("sales", row())
        for _ in range(5):
            engine.push("sales", row())
        assert not subscription.is_open
        assert engine.epoch_number == 8
        subscription.close()
        engine.close()

    changed, has_it, may_end = subscription._deliveries.changed, threading.Event(), threading.Event()

    def hold() -> None:
        with changed:
            has_it.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    if holds_lock:
        holder.start()
        has_it.wait(60)
    in_child(use, seconds=20, few_rows=True)
    may_end.set()
    slow.may.set()
    engine.push("sales", row())
    assert subscription.join(60)
    assert slow.got == [1, 2, 3]


def test_an_error_in_a_queued_callback_is_raised_at_the_next_delta() -> None:
    engine, view = shop()

    def broken(delta: pl.DataFrame) -> None:
        raise ValueError("no disk")

    subscription = queued(view, broken, queue=3)
    engine.push("sales", row())
    assert subscription.join(60)
    with pytest.raises(ec.SubscriberError, match="ValueError: no disk"):
        engine.push("sales", row())


def test_a_queued_callback_that_pushes_into_a_full_queue_is_an_error_and_no_deadlock() -> None:
    engine, view = shop()
    other = engine.source("other", {"x": pl.Int64})
    engine.view("others", other)
    begun = threading.Event()

    def pushes(delta: pl.DataFrame) -> None:
        begun.wait(60)
        time.sleep(0.2)
        other.push({"x": [1]})

    queued(view, pushes, queue=1)
    engine.push("sales", row())
    begun.set()
    with pytest.raises(ec.SubscriberError, match="waits for its turn to push"):
        push_often(engine)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": 0}, "queue=0"),
        ({"queue": True}, "queue=True"),
        ({"queue": 3, "on_full": "block"}, "'wait', 'drop' and 'fail'"),
        ({"on_full": "drop"}, "goes with queue="),
        ({"queue": 3, "name": "mail"}, "goes without queue="),
        ({"queue": 3, "on_schema": print}, "goes without queue="),
    ],
)
def test_options_of_a_queue_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ec.PlanError, match=message):
        shop()[1].subscribe(print, **options)


# What a new user does wrong


def test_a_follower_ends_when_the_checkpoint_is_closed(tmp_path: Path) -> None:
    engine, view = shop(checkpoint=tmp_path / "c")

    async def follow() -> list[int]:
        return [int(delta["_epoch"][0]) async for delta in view.follow(0)]

    async def main() -> list[int]:
        task = asyncio.create_task(follow())
        while not view._subscriptions:
            await asyncio.sleep(0.01)
        await engine.apush("sales", row())
        await asyncio.to_thread(engine.close)
        return await task

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [1]
    assert asyncio.run(asyncio.wait_for(follow(), 60)) == [1], "begun after the end"
    assert not view.subscriptions


def test_generators_are_not_dropped() -> None:
    engine, view = shop()

    def callback(event: object) -> Iterator[object]:
        yield event

    async def in_task(event: object) -> AsyncIterator[object]:
        yield event

    for generator in (callback, in_task):
        for give in (view.subscribe, engine.watch, lambda f: view.foreach(f, name="out")):
            with pytest.raises(ec.PlanError, match=r"is a generator, .* write a function without yield"):
                give(generator)  # type: ignore[operator]
    subscription = queued(view, lambda delta: callback(delta), queue=2)
    engine.push("sales", row())
    assert subscription.join(60)
    assert "returned a generator" in str(subscription.error)


def test_coroutines_are_not_dropped_by_queues_and_watchers(caplog: pytest.LogCaptureFixture) -> None:
    engine, view = shop()

    async def callback(event: object) -> None: ...

    with pytest.raises(ec.PlanError, match=r"watch: .* is a coroutine function"):
        engine.watch(callback)  # type: ignore[arg-type]
    engine.watch(lambda event: callback(event))  # type: ignore[arg-type,return-value]
    subscription = queued(view, lambda delta: callback(delta), queue=2)
    engine.push("sales", row())
    assert subscription.join(60)
    assert isinstance(subscription.error, ec.PlanError)
    assert "which nobody awaits" in str(caplog.records[0].exc_info)


def test_an_error_in_a_queued_callback_is_raised_once() -> None:
    engine, view = shop()
    subscription = queued(view, lambda delta: print(1 / 0), queue=3)
    engine.push("sales", row())
    assert subscription.join(60)
    with pytest.raises(ec.SubscriberError, match="ZeroDivisionError"):
        engine.push("sales", row())
    assert not subscription.is_open
    assert engine.push("sales", row()) == 3


def test_a_push_without_the_name_of_a_source_is_refused_with_how_to_push() -> None:
    engine, _ = shop()
    for source in (engine.sources["sales"], {"shop": ["a"]}, None):
        with pytest.raises(ec.InputError, match=r"there are 'sales': .*source\.push"):
            engine.push(source, row())  # type: ignore[arg-type]


@pytest.mark.parametrize("n", ["3", 1.5, None, True])
def test_head_of_what_is_no_number_names_the_view(n: Any) -> None:
    with pytest.raises(ec.InputError, match="view 'takings': head: n="):
        shop()[1].head(n)
    assert shop()[1].head(10**30).height == 0


@pytest.mark.parametrize("stats", [{}, None, "epoch"])
def test_prometheus_text_of_other_things_is_refused(stats: Any) -> None:
    with pytest.raises(ec.InputError, match=r"prometheus_text\(engine\.stats\(\)\)"):
        ec.prometheus_text(stats)


def test_a_queue_that_cannot_begin_where_it_should_leaves_no_thread() -> None:
    engine, view = shop(retain=ec.Retain(epochs=1))
    for _ in range(4):
        engine.push("sales", row())
    before = set(threading.enumerate())
    with pytest.raises(ec.EpochGoneError):
        view.subscribe(print, since=0, queue=2)
    end = time.monotonic() + 60
    while set(threading.enumerate()) - before:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_follower_ends_when_its_subscription_is_closed() -> None:
    engine, view = shop()

    async def main() -> list[int]:
        task = asyncio.create_task(follow())
        while not view.subscriptions:
            await asyncio.sleep(0.01)
        engine.push("sales", row())
        for subscription in view.subscriptions:
            subscription.close()
        return await task

    async def follow() -> list[int]:
        return [int(delta["_epoch"][0]) async for delta in view.follow()]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [1]


@pytest.mark.parametrize("end", ["", "engine.close()"], ids=["left open", "closed"])
def test_the_end_of_a_program_waits_for_what_is_in_a_queue(end: str) -> None:
    program = f"""
import time
import polars as pl
import evercurrent as ec

engine = ec.Engine()
numbers = engine.source("numbers", {{"x": pl.Int64}})
view = engine.view("v", numbers)

def slow(delta):
    time.sleep(0.02)
    print(delta["x"][0], flush=True)

view.subscribe(slow, queue=100)
for x in range(20):
    numbers.push([(x,)])
{end}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.stdout.split(), ended.stderr) == ([str(x) for x in range(20)], "")


def test_what_a_subscriber_has_not_taken_at_the_end_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    engine, view = shop()
    slow = Slow()
    subscription = queued(view, slow, queue=10)
    for _ in range(3):
        engine.push("sales", row())
    with caplog.at_level(logging.WARNING, logger="evercurrent"):
        subscription.drain(0.01)
    # Deliveries of engines of other tests may go on in threads of theirs.
    (event,) = [record for record in caplog.records if record.module != "delivery"]
    assert (event.event, event.view, event.deltas) == ("subscriber", view.name, 3)  # type: ignore[attr-defined]
    assert "has not taken 3 deltas" in event.getMessage()
    slow.may.set()
    engine.close()
    assert slow.got == [1, 2, 3]


def test_a_queued_callback_may_close_the_engine() -> None:
    engine, view = shop()
    subscription = queued(view, lambda delta: engine.close(), queue=10)
    engine.push("sales", row())
    assert subscription.join(60)
    assert subscription.error is None


def test_an_engine_that_is_dropped_unclosed_is_freed_and_what_waits_for_its_slow_subscriber_is_delivered() -> (
    None
):
    engine, view = shop()
    slow = Slow()
    thread = queued(view, slow, queue=10)._deliveries.thread
    for _ in range(3):
        engine.push("sales", row())
    dropped = weakref.ref(engine)
    del engine, view
    gc.collect()
    assert dropped() is None
    slow.may.set()
    thread.join(60)
    assert (slow.got, thread.is_alive()) == ([1, 2, 3], False)


def test_the_thread_of_a_slow_subscriber_ends_with_the_checkpoint(tmp_path: Path) -> None:
    engine, view = shop(checkpoint=tmp_path / "c")
    slow = Slow()
    thread = queued(view, slow, queue=10)._deliveries.thread
    engine.push("sales", row())
    slow.may.set()
    engine.close()
    thread.join(60)
    assert (slow.got, thread.is_alive()) == ([1], False)
