"""A signal at any line of a push, Ctrl-C or a time limit: an epoch happens or not, nobody misses one, and others can go on."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.data.schema import DIFF, EPOCH
from evercurrent.views.concurrency import interrupts

ROOT = str(Path(ec.__file__).parent)


class Followed:
    """An engine of two views, and everybody who follows the first."""

    def __init__(self, folder: Path | None) -> None:
        self.engine = ec.Engine(checkpoint=folder)
        rows = self.engine.source("rows", {"k": pl.Int64})
        self.counts = self.engine.view("counts", rows.group_by("k").agg(n=pl.len()))
        self.histogram = self.engine.view("histogram", self.counts.group_by("n").agg(m=pl.len()))
        self.received: list[list[pl.DataFrame]] = [[], [], []]
        for received, name in zip(self.received, (None, None, "sink"), strict=True):
            self.counts.subscribe(received.append, name=name)
        self.engine.push("rows", {"k": [1, 2]})

    def push(self) -> None:
        self.engine.push("rows", {"k": [1, 3]})

    def require_whole(self) -> None:
        """Check that another thread can push, and that all who follow have what is there."""
        answer: list[int] = []
        other = threading.Thread(
            target=lambda: answer.append(self.engine.push("rows", {"k": [7]})), daemon=True
        )
        other.start()
        other.join(30)
        assert answer == [self.engine.epoch_number], "another thread cannot push"
        now = Counter(self.counts.read().rows())
        assert sum(k * n for k, n in self.histogram.read().rows()) == self.counts.read()["n"].sum()
        for frames in (list(self.counts.deltas()), *self.received):
            epochs = [frame[EPOCH][0] for frame in frames]
            assert epochs == sorted(set(epochs))
            found: Counter[tuple[Any, ...]] = Counter()
            for frame in frames:
                for row in frame.rows(named=True):
                    found[row["k"], row["n"]] += row[DIFF]
            assert {row: n for row, n in found.items() if n} == dict(now)


def ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of the engine that a signal must not leave half done.

    The code that lets interrupts through is excepted, and so is the call of a subscriber: a callback that was interrupted at
    its first line counts as called.
    """
    code = frame.f_code
    return (
        code.co_filename.startswith(ROOT)
        and not code.co_filename.endswith("interrupts.py")
        and code.co_name not in ("deliver", "catch_up")
    )


class TimeLimitError(Exception):
    """What the handler of a time limit raises, as that of pytest-timeout or of Celery does."""


RAISES: dict[signal.Signals, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGALRM: TimeLimitError,
    signal.SIGUSR1: TimeLimitError,
}


def exceed(number: int, frame: FrameType | None) -> None:
    raise TimeLimitError


@pytest.fixture
def time_limits() -> Iterator[None]:
    """Set handlers that raise for the signals of time limits, and check at the end that they are still set."""
    limits = (signal.SIGALRM, signal.SIGUSR1)
    before = {number: signal.signal(number, exceed) for number in limits}
    yield
    assert {number: signal.signal(number, handler) for number, handler in before.items()} == dict.fromkeys(
        limits, exceed
    )


def interrupted_at(line: int, action: Callable[[], object], number: signal.Signals = signal.SIGINT) -> bool:
    """Run an action, send the signal when so many lines have run, and return whether there were so many.

    No garbage is collected meanwhile: out of what finalizers of other engines run, Python raises nothing.
    """
    seen = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if event == "exception" and argument[0] is GeneratorExit:
            # A generator that is closed runs no line, and Python raises nothing out of it.
            frame.f_trace = None
            return None
        seen += 1
        if seen == line:
            signal.raise_signal(number)
        return local

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(lambda frame, event, argument: local if ours(frame) else None)
    interrupted = False
    try:
        action()
    except RAISES[number]:
        interrupted = True
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    assert interrupted == (seen >= line), f"line {line} of {seen}: the interrupt was lost, or came of itself"
    return interrupted


def lines_of(action: Callable[[], object]) -> int:
    """Return how many lines of the engine an action runs."""
    count = 0

    def counting(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return counting

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: counting if ours(frame) else None)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def lines_of_a_push(folder: Path | None) -> int:
    follower = Followed(folder)
    count = lines_of(lambda: follower.engine.push("rows", {"k": [1, 3]}))
    follower.engine.close()
    return count


@pytest.mark.parametrize(
    ("kept", "number"),
    [(False, signal.SIGINT), (True, signal.SIGINT), (False, signal.SIGUSR1), (True, signal.SIGALRM)],
)
def test_a_signal_at_any_line_of_a_push_loses_nothing(
    kept: bool, number: signal.Signals, tmp_path: Path, time_limits: None
) -> None:
    is_long = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
    lines = lines_of_a_push(tmp_path / "first" if kept else None)
    interrupts = []
    for line in range(1, lines, 1 if is_long else lines // 20):
        follower = Followed(tmp_path / str(line) if kept else None)
        interrupts.append(interrupted_at(line, follower.push, number))
        follower.require_whole()
        follower.engine.close()
    assert sum(interrupts) > len(interrupts) // 2, "later pushes run fewer lines: what is cached is counted"


def test_an_interrupt_that_comes_while_an_epoch_is_made_real_is_raised_when_all_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = Followed(None)
    real = Circuit.commit

    def commit(circuit: Circuit, evaluated: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        real(circuit, evaluated)

    with monkeypatch.context() as patch:
        patch.setattr(Circuit, "commit", commit)
        with pytest.raises(KeyboardInterrupt):
            follower.engine.push("rows", {"k": [1, 3]})
    assert follower.engine.epoch_number == 2
    follower.require_whole()


def test_of_several_signals_that_wait_each_takes_effect_once(
    monkeypatch: pytest.MonkeyPatch, time_limits: None
) -> None:
    """Signals that come while an epoch is committed are handled once each afterwards; the error of each is the context of the next one's."""
    follower, calls = Followed(None), list[int]()
    real = Circuit.commit

    def commit(circuit: Circuit, evaluated: Any) -> None:
        for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGUSR1, signal.SIGINT):
            signal.raise_signal(number)
        real(circuit, evaluated)

    def count(number: int, frame: FrameType | None) -> None:
        calls.append(number)
        raise TimeLimitError(number)

    signal.signal(signal.SIGUSR1, count)
    with monkeypatch.context() as patch:
        patch.setattr(Circuit, "commit", commit)
        with pytest.raises(KeyboardInterrupt) as raised:
            follower.engine.push("rows", {"k": [1, 3]})
    signal.signal(signal.SIGUSR1, exceed)
    assert calls == [signal.SIGUSR1]
    contexts = []
    error = raised.value.__context__
    while error is not None:
        contexts.append(type(error))
        error = error.__context__
    assert contexts == [TimeLimitError, TimeLimitError]
    follower.require_whole()


def test_a_handler_that_a_subscriber_sets_stays(time_limits: None) -> None:
    def other(number: int, frame: FrameType | None) -> None:
        """Another one."""

    follower = Followed(None)
    subscription = follower.counts.subscribe(lambda frame: signal.signal(signal.SIGUSR1, other))
    follower.push()
    subscription.close()
    follower.push()
    assert signal.signal(signal.SIGUSR1, exceed) is other


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_others_have_the_epoch_of_a_subscriber_that_is_interrupted(error: type[BaseException]) -> None:
    follower = Followed(None)
    subscription = follower.counts.subscribe(lambda frame: (_ for _ in ()).throw(error()))
    late: list[pl.DataFrame] = []
    follower.counts.subscribe(late.append)
    with pytest.raises(error):
        follower.engine.push("rows", {"k": [1, 3]})
    assert [frame[EPOCH][0] for frame in late] == [2]
    subscription.close()
    follower.require_whole()


def test_a_subscriber_that_does_not_end_can_be_interrupted() -> None:
    follower = Followed(None)
    handler = signal.getsignal(signal.SIGINT)  # Python's own, or that of a Spark session in this process

    def endless(frame: pl.DataFrame) -> None:
        signal.raise_signal(signal.SIGINT)
        while True:
            pass

    subscription = follower.counts.subscribe(endless)
    with pytest.raises(KeyboardInterrupt):
        follower.engine.push("rows", {"k": [1]})
    subscription.close()
    follower.require_whole()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    "begin",
    [
        lambda view, call: view.foreach(call, name="mine"),
        lambda view, call: view.subscribe(call, name="mine"),
        lambda view, call: view.subscribe(call, queue=5),
    ],
    ids=["sink", "named", "queued"],
)
def test_a_subscription_that_was_interrupted_while_it_began_is_closed_and_can_begin_again(
    tmp_path: Path, begin: Callable[[ec.View, Callable[[pl.DataFrame], object]], Any], kept: bool
) -> None:
    first = Followed(tmp_path / "first" if kept else None)
    lines = lines_of(lambda: begin(first.counts, lambda frame: None))
    first.engine.close()
    assert lines > 150
    for line in range(1, lines - 6, 7):  # In the last ones it returns.
        follower, frames = Followed(tmp_path / str(line) if kept else None), list[pl.DataFrame]()
        followers = len(follower.counts.subscriptions)
        call = frames.append
        assert interrupted_at(line, lambda view=follower.counts, call=call: begin(view, call))
        assert sum(each.is_open for each in follower.counts.subscriptions) == followers
        begin(follower.counts, call)
        follower.push()
        follower.engine.close()
        totals = Counter[tuple[Any, ...]]()
        for frame in frames:
            for row in frame.filter(pl.col(EPOCH) == 2).rows(named=True):
                totals[row["k"], row["n"]] += row[DIFF]
        assert totals in ({(1, 1): -1, (1, 2): 1, (3, 1): 1}, {(1, 2): 1, (2, 1): 1, (3, 1): 1})


def test_the_handlers_of_before_are_set_again_although_one_raises_meanwhile(time_limits: None) -> None:
    before, raised = {number: signal.getsignal(number) for number in RAISES}, 0
    for step in range(1, 30):
        deferred, steps = interrupts.Deferred({number: before[number] for number in RAISES}), 0  # type: ignore[misc]

        def stepping(frame: FrameType, event: str, argument: object, last: int = step) -> Any:
            nonlocal steps
            steps += frame.f_code.co_name in ("_restore", "signal")
            if steps == last:
                signal.raise_signal(signal.SIGUSR1)
            return stepping

        for number in RAISES:
            signal.signal(number, deferred)
        tracing = sys.gettrace()
        sys.settrace(stepping)
        try:
            deferred.end()
        except TimeLimitError:
            raised += 1
        finally:
            sys.settrace(tracing)
        after = {number: signal.signal(number, handler) for number, handler in before.items()}
        assert after == before, f"step {step}"
    assert raised > 10
