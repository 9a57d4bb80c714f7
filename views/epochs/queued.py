"""Subscribers with a queue and a thread of their own, so that a slow one does not hold up ``push``."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Literal, get_args

import polars as pl

from evercurrent.core.data.errors import PlanError, SubscriberError
from evercurrent.core.data.schema import counted

from ..concurrency.draining import drain_at_exit
from ..concurrency.interrupts import interruptible, interrupts_deferred
from ..concurrency.turns import Turn
from .run_events import LOG
from .subscriptions import Callback, Followed, Subscription, require_no_coroutine

OnFull = Literal["wait", "drop", "fail"]

SLICE = 0.1
"""Seconds between two checks whether the subscriber that a full queue waits for waits itself for the turn."""


class Deliveries:
    """The deltas that wait for a slow callback, and the thread that delivers them.

    The thread holds this object and nothing of the engine, so that an engine that is dropped without being closed is freed.
    Its subscription ends then, what waits is delivered, and the thread ends.
    """

    def __init__(self, view: str, callback: Callback) -> None:
        self.view = view
        self.frames: deque[pl.DataFrame] = deque()
        """Those in the queue."""
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        """The error that has ended them."""
        self._callback = callback
        self._process = os.getpid()
        self._is_working = False
        self._has_ended = False
        # Of a queue of this kind, and of no lock, a finalizer may make use, which runs at any place of any thread.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self.thread = threading.Thread(
            target=self._work, name=f"evercurrent subscriber of {view}", daemon=True
        )
        self.thread.start()
        _deliveries.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether the thread is in the process of which this one is a fork, perhaps with the lock of ``changed``."""
        return self._process != os.getpid()

    @property
    def undelivered(self) -> int:
        """How many deltas are in the queue or with the callback."""
        return len(self.frames) + self._is_working

    def add(self, frame: pl.DataFrame) -> None:
        """Add a delta; ``changed`` is held, so that the thread that is woken sees it."""
        self._wakes.put(None)
        self.frames.append(frame)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all deltas so far are delivered; return False if they are not after ``timeout`` seconds, or never will be."""
        if self.is_lost:
            return not self.undelivered
        with self.changed:
            return self.changed.wait_for(lambda: self.error is not None or not self.undelivered, timeout)

    def drain(self, seconds: float) -> None:
        """Wait until all deltas so far are delivered, or so many seconds are over: what is lost then is a warning."""
        if threading.current_thread() is self.thread or self.is_lost or not self.thread.is_alive():
            return  # The callback closes the engine; or nobody would deliver anything.
        if not self.join(seconds):
            LOG.warning(
                "a subscriber of view %r has not taken %s in %.0f seconds: the end does not wait for it",
                self.view, counted(self.undelivered, "delta"), seconds,
                extra={"event": "subscriber", "view": self.view, "deltas": self.undelivered},
            )  # fmt: skip

    def end(self) -> None:
        """Let the thread end when what waits is delivered; nothing is added any more."""
        self._has_ended = True
        self._wakes.put(None)

    def discard(self) -> None:
        """Drop what waits, and let the thread end after the delivery under way."""
        if self.is_lost:
            self.frames.clear()
            return
        with self.changed:
            self.frames.clear()
            self.end()
            self.changed.notify_all()

    def _work(self) -> None:
        has_ended = False
        while not has_ended:
            self._wakes.get()
            has_ended = self._has_ended
            while (frame := self._next()) is not None:
                try:
                    require_no_coroutine(self._callback, self._callback(frame))
                except BaseException as error:
                    LOG.error(
                        "a subscriber of view %r raised %r", self.view, error, extra={"event": "subscriber"}
                    )
                    self._delivered(error)
                    return
                self._delivered()

    def _next(self) -> pl.DataFrame | None:
        with self.changed:
            if not self.frames:
                return None
            self._is_working = True
            self.changed.notify_all()
            return self.frames.popleft()

    def _delivered(self, error: BaseException | None = None) -> None:
        with self.changed:
            self._is_working = False
            if error is not None:
                self.error = error
                self.frames.clear()
            self.changed.notify_all()


_deliveries: weakref.WeakSet[Deliveries] = weakref.WeakSet()

drain_at_exit(_deliveries)


class QueuedSubscription(Subscription):
    """A subscription whose callback runs in a thread of its own, behind a queue of at most so many deltas.

    When the queue is full, ``on_full`` decides: "wait" until there is room; "drop" the delta, which ``dropped`` counts;
    "fail", which closes the subscription and raises ``SubscriberError`` from ``push``. If the callback raises, the
    subscription ends, and ``push`` raises the error once, as ``SubscriberError`` at the next delta.
    """

    def __init__(
        self, view: Followed, callback: Callback, delivered: int, turn: Turn, size: int, on_full: OnFull
    ) -> None:
        super().__init__(view, self.put, delivered)
        self.dropped: int = 0
        self._turn, self._size, self._on_full = turn, size, on_full
        self._deliveries = Deliveries(view.name, callback)
        self.on_end = self._deliveries.end
        weakref.finalize(self, self._deliveries.end).atexit = False  # The thread is drained there.

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the subscription."""
        return self._deliveries.error

    @property
    def waiting(self) -> int:
        """How many deltas are in the queue."""
        return len(self._deliveries.frames)

    def put(self, frame: pl.DataFrame) -> None:
        """Add a delta to the queue. An interrupt ends the wait for room in it, and not the subscription: no delta is lost.

        Raises:
            SubscriberError: the queue is full with "fail", the callback has raised before, it waits for this push, or the thread
                that would call it is in another process.
        """
        deliveries = self._deliveries
        if deliveries.is_lost:
            self.is_closed = True
            raise SubscriberError(
                "its thread is in the process of which this one is a fork; subscribe again in this one"
            )
        with interrupts_deferred(), deliveries.changed:
            while self.error is None and not self.is_closed and self.waiting >= self._size:
                if self._on_full == "drop":
                    self.dropped += 1
                    return
                if self._on_full == "fail":
                    raise self._ended("and on_full='fail'")
                try:
                    with interruptible():
                        deliveries.changed.wait(SLICE)
                except BaseException:
                    if self.error is None and not self.is_closed:
                        deliveries.add(frame)
                    raise
                ident = deliveries.thread.ident
                if self.waiting >= self._size and ident is not None and self._turn.is_awaited_by(ident):
                    raise self._ended(
                        "and the subscriber itself waits for its turn to push; give a larger queue, or on_full='drop' or 'fail'"
                    )
            if self.error is not None:
                self.is_closed = True
                raise SubscriberError(f"it raised {type(self.error).__name__}: {self.error}") from self.error
            if not self.is_closed:
                deliveries.add(frame)

    def _ended(self, reason: str) -> SubscriberError:
        self.is_closed = True
        self._deliveries.end()
        return SubscriberError(f"its queue of {counted(self._size, 'delta')} is full, {reason}")

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all deltas so far are delivered; return False if they are not after ``timeout`` seconds."""
        return self._deliveries.join(timeout)

    def drain(self, seconds: float) -> None:
        """Wait until all deltas so far are delivered, or so many seconds are over: what is lost then is a warning."""
        self._deliveries.drain(seconds)

    def _take(self, frame: pl.DataFrame) -> None:
        """Add a delta to the queue, where only the wait for room is interrupted."""
        self.put(frame)

    def close(self) -> None:
        """End the deliveries, those in the queue included."""
        super().close()
        self._deliveries.discard()


def queued_of(views: Iterable[Followed]) -> list[QueuedSubscription]:
    """Return the subscriptions of views that have a queue."""
    return [each for view in views for each in view._subscriptions if isinstance(each, QueuedSubscription)]


def require_queue(where: str, size: object, on_full: object, name: object, on_schema: object) -> None:
    """Check the options of a queue.

    Raises:
        PlanError: they make no sense, or the subscription has a name.
    """
    if size is None:
        if not isinstance(on_full, str) or on_full != "wait":
            raise PlanError(f"{where}: on_full={on_full!r} goes with queue=, the most deltas that wait")
        return
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PlanError(f"{where}: queue={size!r}; give the most deltas that wait, a whole number from 1")
    if not isinstance(on_full, str) or on_full not in get_args(OnFull):
        raise PlanError(f"{where}: on_full={on_full!r}; there are 'wait', 'drop' and 'fail'")
    if on_schema is not None:
        raise PlanError(
            f"{where}: on_schema= goes without queue=, as it would be called before the deltas that wait; leave out one of the two"
        )
    if name is not None:
        raise PlanError(
            f"{where}: name= goes without queue=, as the last delivered epoch is part of a commit and a delta in a queue "
            "is not delivered; leave out one of the two"
        )
