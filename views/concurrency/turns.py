"""Threads write one at a time, in the order in which they came; a child made by ``fork`` finds its locks free."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any
from weakref import WeakSet

from evercurrent.core.data.errors import InputError

from .interrupts import Ends, defer, interruptible
from .polars_threads import before_fork, in_child_of_fork, require_polars_threads

PATIENCE = 1.0
"""Seconds of waiting after which a thread checks whether the holder of the turn waits for it."""

IN_AN_EPOCH = "an epoch is being evaluated: a function that a view uses cannot push; push from a subscriber"


class Guard:
    """A lock for a few steps that is free in a child made by ``fork``: ``with guard.lock``."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        """The lock itself: an interrupt cannot come between acquiring it and the block that releases it."""
        _guards.add(self)

    def _forked(self) -> None:
        """Free the lock in a child made by ``fork``, which has one thread."""
        self.lock = threading.Lock()


class Turn:
    """A fair, reentrant lock: it goes to the thread that has waited longest, and its holder may take it again.

    Its holder is not interrupted by Ctrl-C, except where it allows that (``interruptible``), so that it is always released.

    ``is_lost``: this process was forked while another thread had the turn, whose work is left half done here.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._owner: int | None = None
        self._depth = 0
        self._deferred: list[Ends | None] = []
        self._helpers: dict[int, str] = {}
        """The threads that cannot take the turn, each with the error of one that tries."""
        self.is_lost: bool = False
        _turns.add(self)

    def __enter__(self) -> None:
        """Wait for the turn, and take it.

        Raises:
            InputError: it would never come: its holder waits for this thread to end, or it was lost in a fork. Or polars cannot
                compute in this process, as its threads were lost in one.
        """
        require_polars_threads()
        deferred, gate = defer(), None
        try:
            me = threading.get_ident()
            if (refusal := self._helpers.get(me)) is not None:
                raise InputError(refusal)
            if self._owner == me:
                self._depth += 1
            elif self.is_lost:
                raise InputError(
                    "this process was forked while another thread was in the middle of an epoch of this engine, which "
                    "can only be read here; push in the process that made it, or make a new engine in this one"
                )
            else:
                with self._guard:
                    if self._owner is None:
                        self._owner, self._depth = me, 1
                    else:
                        gate = threading.Lock()
                        gate.acquire()
                        self._waiting.append((me, gate))
                if gate is not None:
                    self._wait(me, gate)
        except BaseException:
            if deferred is not None:
                deferred.end()
            raise
        self._deferred.append(deferred)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Pass the turn to the next thread."""
        deferred = self._deferred.pop()
        self._depth -= 1
        if not self._depth:
            self._hand_on()
        if deferred is not None:
            deferred.end()

    @property
    def is_ours(self) -> bool:
        """Whether this thread has the turn."""
        return self._owner == threading.get_ident()

    def is_awaited_by(self, thread: int) -> bool:
        """Return whether a thread waits for the turn."""
        with self._guard:
            return any(waiting == thread for waiting, _ in self._waiting)

    @contextmanager
    def helped(self, refusal: str = IN_AN_EPOCH) -> Iterator[None]:
        """Mark this thread as one that the holder may wait for, so that it does not take the turn itself.

        One that tries gets an ``InputError`` with this text.
        """
        me = threading.get_ident()
        self._helpers[me] = refusal
        try:
            yield
        finally:
            self._helpers.pop(me, None)

    def _hand_on(self) -> None:
        with self._guard:
            if not self._waiting:
                self._owner = None
                return
            self._owner, gate = self._waiting.popleft()
            self._depth = 1
            gate.release()

    def _wait(self, me: int, gate: threading.Lock) -> None:
        try:
            with interruptible():
                while not gate.acquire(timeout=PATIENCE):
                    owner = self._owner
                    if owner is not None and _waits_for(owner, me):
                        raise InputError(
                            "a subscriber waits for this thread, while this thread waits for the end of the epoch that the "
                            "subscriber is called for: push from the subscriber itself, or let it put the rows into a queue and "
                            "return"
                        )
        except BaseException:
            with self._guard:
                is_ours = (me, gate) not in self._waiting
                if not is_ours:
                    self._waiting.remove((me, gate))
            if is_ours:
                self._hand_on()
            raise

    def _forked(self) -> None:
        """Reset the turn in a child made by ``fork``, which has one thread."""
        self._guard = threading.Lock()
        self._waiting.clear()
        if self._owner not in (None, threading.get_ident()):
            self._owner, self._depth, self.is_lost = None, 0, True
            self._deferred.clear()


_guards: WeakSet[Guard] = WeakSet()
_turns: WeakSet[Turn] = WeakSet()


def _in_child() -> None:
    in_child_of_fork()
    for guard in _guards:
        guard._forked()
    for turn in _turns:
        turn._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: before_fork(has_engine=bool(_turns)), after_in_child=_in_child)


def _waits_for(one: int, other: int) -> bool:
    """Return whether a thread waits without a timeout for the end of another one, or for the result of its work."""
    frames = _frames()
    waited = _objects(frames.get(one), ("join", "result"))
    run = {id(value) for value in _objects(frames.get(other), ("run",))}
    run |= {id(getattr(value, "future", None)) for value in _objects(frames.get(other), ("run",))}
    return any(
        value.ident == other if isinstance(value, threading.Thread) else id(value) in run for value in waited
    )


def _frames() -> Mapping[int, FrameType]:
    """Return the stack of each thread.

    No garbage is collected meanwhile: it holds a lock of the interpreter, for which a thread that a collection lets run may
    wait with the interpreter's other lock (seen with Python 3.11.7).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def _objects(frame: FrameType | None, names: tuple[str, ...]) -> list[Any]:
    """Return the threads, futures and work items whose methods of these names are on a stack, except waits with a timeout."""
    objects = []
    while frame is not None:
        if frame.f_code.co_name in names:
            variables = frame.f_locals
            value = variables.get("self")
            is_one = isinstance(value, threading.Thread | Future) or hasattr(value, "future")
            if is_one and variables.get("timeout") is None:
                objects.append(value)
        frame = frame.f_back
    return objects
