"""What threads, tasks and forked processes may do with an engine, one case each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from children import in_child
from evercurrent import spark_bridge
from evercurrent.views.concurrency.turns import Guard, Turn

LONG = 60.0
"""Seconds after which something hangs."""


def words(**options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)
    source = engine.source("words", {"word": pl.String}, kind="diffs")
    return engine, engine.view("counts", source.group_by("word").agg(n=pl.len()))


def in_thread(run: Callable[[], Any]) -> Any:
    """What a function returns in a thread of its own, or raises there."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(LONG)


def contents(view: ec.View) -> dict[str, int]:
    return dict(view.read().rows())


# Turns


def test_the_turn_goes_to_whoever_has_waited_longest() -> None:
    turn, order, threads = Turn(), [], []

    def take(number: int) -> None:
        with turn:
            order.append(number)

    with turn:
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,), daemon=True))
            threads[-1].start()
            while len(turn._waiting) <= number:
                pass
        with turn:
            assert order == [], "taken again by whoever has it"
    for thread in threads:
        thread.join(LONG)
    assert order == list(range(5))


def test_a_batch_that_two_threads_offer_at_a_position_counts_once() -> None:
    engine, view = words()
    begun = threading.Barrier(4)

    def push() -> int:
        begun.wait(LONG)
        return engine.push("words", {"word": ["a"]}, position=1)

    with ThreadPoolExecutor(4) as pool:
        numbers = [future.result(LONG) for future in [pool.submit(push) for _ in range(4)]]
    assert numbers == [1, 1, 1, 1]
    assert contents(view) == {"a": 1}


def test_a_block_leaves_out_what_another_thread_has_pushed_before_it_ends() -> None:
    engine, view = words()
    with engine.epoch() as block:
        engine.push("words", {"word": ["a"]}, position=1)
        engine.push("words", {"word": ["b"]}, position=2)
        in_thread(lambda: engine.push("words", {"word": ["a"]}, position=1))
    assert (block.number, contents(view)) == (2, {"a": 1, "b": 1})
    with engine.epoch() as again:
        engine.push("words", {"word": ["c"]}, position=3)
        in_thread(lambda: engine.push("words", {"word": ["c"]}, position=3))
    assert (again.number, engine.epoch_number) == (None, 3)


def test_a_function_of_a_view_cannot_push() -> None:
    engine = ec.Engine()
    source = engine.source("words", {"word": pl.String})

    def pushing(frame: pl.DataFrame) -> pl.DataFrame:
        engine.push("words", {"word": ["again"]})
        return frame

    view = engine.view("same", source.map_batches(pushing, schema={"word": pl.String}))
    with pytest.raises(ec.InputError, match="cannot push; push from a subscriber"):
        engine.push("words", {"word": ["a"]})
    assert (engine.epoch_number, view.read().height) == (0, 0)


# Blocks


def test_a_push_of_another_thread_while_a_block_is_open_is_an_epoch_of_its_own() -> None:
    engine, view = words()
    with engine.epoch() as block:
        engine.push("words", {"word": ["a"]})
        assert in_thread(lambda: engine.push("words", {"word": ["b"]})) == 1
        assert contents(view) == {"b": 1}
        engine.push("words", {"word": ["a"]})
    assert block.number == 2
    assert contents(view) == {"a": 2, "b": 1}


def test_blocks_of_two_threads_are_two_epochs() -> None:
    engine, view = words()
    both = threading.Barrier(2)

    def block(word: str) -> int | None:
        with engine.epoch() as open_epoch:
            engine.push("words", {"word": [word]})
            both.wait(LONG)
            engine.push("words", {"word": [word]})
            both.wait(LONG)
        return open_epoch.number

    with ThreadPoolExecutor(2) as pool:
        numbers = {future.result(LONG) for future in [pool.submit(block, word) for word in "ab"]}
    assert numbers == {1, 2}
    assert [delta["n"].to_list() for delta in view.deltas()] == [[2], [2]]


def test_blocks_of_two_tasks_are_two_epochs_and_do_not_nest_in_one() -> None:
    engine, view = words()

    async def block(word: str) -> int | None:
        with engine.epoch() as open_epoch:
            engine.push("words", {"word": [word]})
            await asyncio.sleep(0)
            await asyncio.to_thread(engine.push, "words", {"word": [word]})
            with pytest.raises(ec.InputError, match="do not nest"), engine.epoch():
                pass
        return open_epoch.number

    async def both() -> list[int | None]:
        return list(await asyncio.gather(block("a"), block("b")))

    assert sorted(asyncio.run(both()), key=str) == [1, 2]
    assert [delta["n"].to_list() for delta in view.deltas()] == [[2], [2]]


def test_a_task_that_outlives_the_block_pushes_epochs_of_its_own() -> None:
    engine, view = words()

    async def later() -> int:
        await asyncio.sleep(0.01)
        return engine.push("words", {"word": ["later"]})

    async def run() -> int:
        with engine.epoch():
            engine.push("words", {"word": ["a"]})
            task = asyncio.create_task(later())
        return await task

    assert asyncio.run(run()) == 2
    assert contents(view) == {"a": 1, "later": 1}


# Subscribers


def test_a_subscriber_from_another_thread_misses_nothing_and_repeats_nothing() -> None:
    engine, view = words()
    received: list[list[int]] = [[] for _ in range(6)]
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            engine.push("words", {"word": ["a"]})

    pusher = threading.Thread(target=push, daemon=True)
    pusher.start()
    for number in range(6):
        kept = received[number]
        view.subscribe(lambda delta, kept=kept: kept.append(int(delta["_epoch"][0])), since=0)  # type: ignore[misc]
    stop.set()
    pusher.join(LONG)
    for epochs in received:
        assert epochs == list(range(1, engine.epoch_number + 1))


def test_a_reader_in_another_thread_is_not_held_up_by_a_subscriber() -> None:
    engine, view = words()
    read: list[dict[str, int]] = []
    view.subscribe(lambda _: read.append(in_thread(lambda: contents(view))))
    engine.push("words", {"word": ["a"]})
    assert read == [{"a": 1}]


@pytest.mark.parametrize("wait", ["join", "result"])
def test_a_subscriber_that_waits_for_a_thread_that_pushes_is_no_deadlock(
    wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.views.concurrency.turns.PATIENCE", 0.01)
    engine, view = words()
    raised: list[BaseException] = []
    pool = ThreadPoolExecutor(1)

    def push() -> None:
        try:
            engine.push("words", {"word": ["b"]})
        except ec.InputError as error:
            raised.append(error)

    def wait_for_push(_: pl.DataFrame) -> None:
        if wait == "join":
            thread = threading.Thread(target=push, daemon=True)
            thread.start()
            thread.join()
        else:
            pool.submit(push).result()

    view.subscribe(wait_for_push)
    thread = threading.Thread(target=engine.push, args=("words", {"word": ["a"]}), daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()
    pool.shutdown()
    assert "push from the subscriber itself" in str(raised[0])
    assert contents(view) == {"a": 1}


def test_a_closed_subscription_is_called_no_more_and_its_name_is_free() -> None:
    engine, view = words()
    received: list[pl.DataFrame] = []
    subscription = view.subscribe(received.append, name="sink")
    subscription.close()
    engine.push("words", {"word": ["a"]})
    assert received == []
    view.subscribe(received.append, name="sink")
    assert len(received) == 1


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_lock_that_another_thread_has_is_free_in_a_child() -> None:
    guard, has_it, may_end = Guard(), threading.Event(), threading.Event()

    def hold() -> None:
        with guard.lock:
            has_it.set()
            may_end.wait(LONG)

    def take() -> None:
        assert guard.lock.acquire(timeout=1)

    def take_and_fork() -> None:
        take()
        in_child(take)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(LONG)
    try:
        in_child(take_and_fork)
        assert guard.lock.locked()
    finally:
        may_end.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
class TestFork:
    def test_a_child_made_in_the_middle_of_an_epoch_can_read_and_is_refused_by_name(self) -> None:
        engine, view = words()
        engine.push("words", {"word": ["a"]})
        view.read()
        has_turn, done = threading.Event(), threading.Event()

        def hold() -> None:
            with engine.turn:
                has_turn.set()
                done.wait(LONG)

        holder = threading.Thread(target=hold, daemon=True)
        holder.start()
        has_turn.wait(LONG)

        def run() -> None:
            assert contents(view) == {"a": 1}
            with pytest.raises(ec.InputError, match="forked while another thread"):
                engine.push("words", {"word": ["b"]})

        in_child(run, few_rows=True)
        done.set()
        holder.join(LONG)
        assert engine.push("words", {"word": ["b"]}) == 2

    def test_a_child_does_not_write_to_the_checkpoint_of_its_parent(self, tmp_path: Path) -> None:
        engine, view = words(checkpoint=tmp_path / "here")
        engine.push("words", {"word": ["a"]})
        view.read()

        def run() -> None:
            assert contents(view) == {"a": 1}
            with pytest.raises(ec.CheckpointError, match="from which this one was forked"):
                engine.push("words", {"word": ["b"]})
            engine.close()

        in_child(run, few_rows=True)
        assert engine.push("words", {"word": ["b"]}) == 2
        engine.close()
        again, counts = words(checkpoint=tmp_path / "here")
        with again:
            assert contents(counts) == {"a": 1, "b": 1}

    def test_a_child_is_refused_at_once_what_needs_the_threads_of_polars(self, tmp_path: Path) -> None:
        engine, view = words(checkpoint=tmp_path / "here")
        engine.push("words", {"word": ["a"]})
        assert contents(view) == {"a": 1}
        other, unread = words()
        reads, _ = words()
        other.push("words", {"word": ["a"]})
        source = other.sources["words"]

        def run() -> None:
            assert contents(view) == {"a": 1}
            for call in (
                lambda: engine.push("words", {"word": ["b"]}),
                lambda: other.push("words", {"word": ["b"]}),
                lambda: source.push({"word": ["b"]}),
                unread.read, unread.snapshot, lambda: list(unread.deltas()), unread.changes, lambda: unread.lookup("a"),
                other.tick, other.fork, other.explain, other.stats, other.prove, words,
                lambda: spark_bridge.views(reads, tmp_path / "here"),
                lambda: other.view("more", unread.filter(pl.col("n") > 1)),
            ):  # fmt: skip
                with pytest.raises(
                    ec.InputError, match=r"in which polars had computed.*'spawn' or 'forkserver'"
                ):
                    call()
            assert (other.epoch_number, engine.epoch_number) == (1, 1)
            other.close()
            engine.close()

        in_child(lambda: in_child(run), seconds=60)
        assert engine.push("words", {"word": ["b"]}) == 2
        engine.close()


FORKING = """
import multiprocessing, sys
import evercurrent as ec
import polars as pl

def engine_and_view():
    engine = ec.Engine()
    source = engine.source("words", {"word": pl.String})
    return engine, engine.view("counts", source.group_by("word").len())

ENGINE = None
if sys.argv[1] == "parent has computed":
    ENGINE = engine_and_view()

def push(rows):
    engine, view = ENGINE or engine_and_view()
    engine.push("words", {"word": [f"{n % 1000}" for n in range(rows)]})
    return view.read().height

def main():
    if sys.argv[1] == "parent has computed":
        push(3)
    with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
        try:
            print(pool.apply_async(push, (100_000,)).get(60))
        except ec.InputError as error:
            print(error)

if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list threads")
@pytest.mark.parametrize(
    ("parent", "method", "printed"),
    [
        ("parent has computed", "fork", "Start the process by 'spawn'"),
        ("parent has imported", "fork", "1000\n"),
        ("parent has computed", "forkserver", "1000\n"),
        ("parent has computed", "spawn", "1000\n"),
    ],
)
def test_processes_of_multiprocessing(tmp_path: Path, parent: str, method: str, printed: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(FORKING)
    run = [sys.executable, "-W", "ignore", str(program), parent, method]
    assert printed in subprocess.run(run, check=True, capture_output=True, text=True, timeout=LONG).stdout


def test_a_block_has_its_epoch_also_when_a_subscriber_raises() -> None:
    engine, view = words()

    def failing(frame: pl.DataFrame) -> None:
        raise ValueError("full")

    view.subscribe(failing)
    with pytest.raises(ec.SubscriberError), engine.epoch() as block:
        engine.push("words", {"word": ["a"]})
    assert block.number == engine.epoch_number == 1


def test_the_engine_explains_itself_while_views_are_declared() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64})
    first = engine.view("first", rows)
    first.read()
    compiled = engine._current()
    # As if the thread that explains had looked at the circuit just before another one declared this.
    engine.view("second", rows.filter(pl.col("k") > 1))
    running, calls = engine._running, []

    def explained(known: object) -> str:
        calls.append(known)
        return engine._explained(compiled if len(calls) == 1 else engine._current())

    assert "second" in running.steadily(explained)


def test_a_row_of_no_groups_is_read_as_it_was_published() -> None:
    """A grouping without keys and rows is published as a row of nulls, which rows that come later do not change."""
    engine = ec.Engine()
    rows = engine.source("rows", {"t": pl.String, "x": pl.Int64}, kind="diffs")
    x, t = pl.col("x"), pl.col("t")
    engine.view(
        "all", rows.group_by().agg(n=pl.len(), mid=x.median(), first=t.sort_by("x").first(), least=t.min())
    )
    for diff in (1, -1):
        engine.push("rows", {"t": ["q"], "x": [1], "_diff": [diff]})
    published = engine.published()
    engine.push("rows", {"t": ["z"], "x": [7]})
    assert published.rows("all").rows() == [(0, None, None, None)]
    assert engine.views["all"].read().rows() == [(1, 7.0, "z", "z")]
