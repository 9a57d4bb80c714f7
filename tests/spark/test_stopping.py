"""A query is stopped again where Spark's interrupt of its thread was lost, and as a signal ends the wait for it. Needs no Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Condition, Event, Thread, current_thread
from typing import Any

import pytest

pytest.importorskip("pyspark")

from evercurrent.spark_bridge.execution.streaming import Streaming, in_thread, stop_again


class Interrupted:
    """A query that ends when it was interrupted so many times."""

    def __init__(self, interrupts: int, error: Exception | None = None) -> None:
        self._left = interrupts
        self._error = error
        self._ended = Event()

    def stop(self) -> None:
        """As Spark does: interrupt once, and wait."""
        self._left -= 1
        if self._left <= 0:
            self._ended.set()
        assert self._ended.wait(60)
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("interrupts", [1, 2, 4])
def test_it_is_stopped_until_it_has_ended(interrupts: int) -> None:
    query: Any = Interrupted(interrupts)
    stop_again(query, seconds=0.02)
    assert query._left <= 0


def test_what_spark_raises_is_raised() -> None:
    query: Any = Interrupted(2, RuntimeError("no server"))
    with pytest.raises(RuntimeError, match="no server"):
        stop_again(query, seconds=0.02)


@pytest.mark.filterwarnings("error")
def test_a_wait_ends_also_with_what_is_no_exception() -> None:
    def leave() -> None:
        raise SystemExit(3)

    outcome = in_thread(leave).get(timeout=60)
    with pytest.raises(SystemExit, match="3"):
        outcome.result()


class Connected:
    """A query of Spark's Java. Py4J has a connection for each thread, which is of no use any more where a call was cut short."""

    def __init__(self) -> None:
        self._ended = Event()
        self._cut_short: set[Thread] = set()

    def awaitTermination(self) -> None:  # noqa: N802 (Spark's name)
        self._call(self._ended.wait)

    processAllAvailable = awaitTermination  # noqa: N815

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._call(lambda: not self._ended.is_set())

    def stop(self) -> None:
        self._call(self._ended.set)

    def _call(self, work: Callable[[], Any]) -> Any:
        assert current_thread() not in self._cut_short, "it would wait for the answer to the call before"
        self._cut_short.add(current_thread())
        result = work()
        self._cut_short.remove(current_thread())
        return result


@pytest.mark.parametrize("wait", ["await_termination", "process_all_available"])
def test_a_handler_of_a_signal_may_end_the_wait_and_stop_the_query(wait: str) -> None:
    query: Any = Connected()
    streaming: Any = object.__new__(Streaming)
    streaming.query, streaming._is_changing, streaming._changed = query, False, Condition()
    streaming._is_done = Event()
    streaming.ended = lambda: None
    watching = Thread(target=streaming._watch, daemon=True)
    watching.start()
    waits = (
        (lambda: streaming.await_termination(None))
        if wait == "await_termination"
        else streaming.process_all_available
    )

    def handle(*_: Any) -> None:
        raise SystemExit(3)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        Thread(
            target=lambda: (query._ended.wait(0.05), os.kill(os.getpid(), signal.SIGUSR1)), daemon=True
        ).start()
        with pytest.raises(SystemExit):
            waits()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not streaming.await_termination(0.001)
    assert streaming.is_active
    query.stop()
    watching.join(10)
    assert streaming.await_termination(10)
    assert not streaming.is_active
    streaming.process_all_available()
