"""Ctrl-C at any line of a push: an epoch happens or not, nobody misses one, and others can go on."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.data.schema import DIFF, EPOCH

ROOT = str(Path(ec.__file__).parent)


class Followed:
    """An engine of two views, and everybody who follows the first."""

    def __init__(self, folder: Path | None) -> None:
        self.engine = ec.Engine(checkpoint=folder)
        rows = self.engine.source("rows", {"k": pl.Int64})
        self.counts = self.engine.view("counts", rows.group_by("k").agg(n=pl.len()))
        self.histogram = self.engine.view("histogram", self.counts.group_by("n").agg(m=pl.len()))
        self.heard: list[list[pl.DataFrame]] = [[], [], []]
        for heard, name in zip(self.heard, (None, None, "sink"), strict=True):
            self.counts.subscribe(heard.append, name=name)
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
        for frames in (list(self.counts.deltas()), *self.heard):
            epochs = [frame[EPOCH][0] for frame in frames]
            assert epochs == sorted(set(epochs))
            found: Counter[tuple[Any, ...]] = Counter()
            for frame in frames:
                for row in frame.rows(named=True):
                    found[row["k"], row["n"]] += row[DIFF]
            assert {row: n for row, n in found.items() if n} == dict(now)


def ours(frame: FrameType) -> bool:
    """Whether a frame is of the engine.

    Not so where interrupts are let through, and where a callback is called: it was, if it is interrupted at its first step.
    """
    code = frame.f_code
    is_callback = code.co_name in ("hear", "catch_up")
    return (
        code.co_filename.startswith(ROOT)
        and not code.co_filename.endswith("interrupts.py")
        and not is_callback
    )


def interrupted_at(line: int, action: Callable[[], object]) -> bool:
    """Do something, and have the signal come when so many lines were run; False: there are not so many."""
    seen = 0

    def local(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        seen += 1
        if seen == line:
            os.kill(os.getpid(), signal.SIGINT)
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local if ours(frame) else None)
    interrupted = False
    try:
        action()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        sys.settrace(before)
    assert interrupted == (seen >= line), f"line {line} of {seen}: the interrupt was lost, or came of itself"
    return interrupted


def lines_of_a_push(folder: Path | None) -> int:
    follower, count = Followed(folder), 0

    def counting(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return counting

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: counting if ours(frame) else None)
    try:
        follower.engine.push("rows", {"k": [1, 3]})
    finally:
        sys.settrace(before)
    follower.engine.close()
    return count


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_at_any_line_of_a_push_loses_nothing(kept: bool, tmp_path: Path) -> None:
    is_long = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
    lines = lines_of_a_push(tmp_path / "first" if kept else None)
    interrupts = []
    for line in range(1, lines, 1 if is_long else lines // 20):
        follower = Followed(tmp_path / str(line) if kept else None)
        interrupts.append(interrupted_at(line, follower.push))
        follower.require_whole()
        follower.engine.close()
    assert sum(interrupts) > len(interrupts) // 2, "later pushes run fewer lines: what is cached is counted"


def test_an_interrupt_that_comes_while_an_epoch_is_made_real_is_raised_when_all_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = Followed(None)
    real = Circuit.commit

    def commit(circuit: Circuit, evaluated: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(circuit, evaluated)

    with monkeypatch.context() as patch:
        patch.setattr(Circuit, "commit", commit)
        with pytest.raises(KeyboardInterrupt):
            follower.engine.push("rows", {"k": [1, 3]})
    assert follower.engine.epoch_number == 2
    follower.require_whole()


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
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass

    subscription = follower.counts.subscribe(endless)
    with pytest.raises(KeyboardInterrupt):
        follower.engine.push("rows", {"k": [1]})
    subscription.close()
    follower.require_whole()
    assert signal.getsignal(signal.SIGINT) is handler
