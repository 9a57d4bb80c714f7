"""Threads that poll while epochs run read once in a period; nobody else waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

import evercurrent as ec
from evercurrent.views.concurrency.giving_way import AT_ONCE, IDLE, PERIOD, GivingWay


class Clock:
    """A clock that moves when somebody sleeps, or by hand."""

    def __init__(self) -> None:
        self.now = 1000 * PERIOD + PERIOD / 4
        self.worked = 7.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(time, "thread_time", lambda: clock.worked)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def in_another_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def read(giving_way: GivingWay, view: str = "counts") -> None:
    with giving_way.reading(view):
        pass


def test_who_polls_while_another_writes_reads_when_the_next_period_begins(clock: Clock) -> None:
    giving_way = GivingWay()

    def poll() -> None:
        for _ in range(3):
            read(giving_way)

    with giving_way:
        in_another_thread(poll)
    assert len(clock.slept) == 2
    assert clock.now / PERIOD == pytest.approx(round(clock.now / PERIOD))


@pytest.mark.parametrize(("waits", "works"), [(AT_ONCE, 0.0), (2 * IDLE, 2 * IDLE)])
def test_who_waits_or_works_between_two_reads_never_sleeps(clock: Clock, waits: float, works: float) -> None:
    giving_way = GivingWay()

    def read_now_and_then() -> None:
        for _ in range(20):
            read(giving_way)
            read(giving_way, "another view")
            clock.now += waits
            clock.worked += works

    with giving_way:
        in_another_thread(read_now_and_then)
    assert clock.slept == []


def test_who_writes_never_waits(clock: Clock) -> None:
    giving_way = GivingWay()
    with giving_way:
        read(giving_way)
        read(giving_way)
    assert clock.slept == []


def test_a_period_after_the_last_epoch_nobody_sleeps(clock: Clock) -> None:
    giving_way = GivingWay()

    def write() -> None:
        with giving_way:
            pass

    in_another_thread(write)
    read(giving_way)
    read(giving_way)
    assert len(clock.slept) == 1
    clock.now += PERIOD
    read(giving_way)
    read(giving_way)
    assert len(clock.slept) == 1


def test_what_a_thread_pushed_it_reads_at_once(clock: Clock) -> None:
    engine = ec.Engine()
    view = engine.view("rows", engine.source("words", {"word": str}))
    for number in range(5):
        engine.push("words", [{"word": "a"}])
        assert view.read().height == number + 1
    assert clock.slept == []
