"""Subscribers with a queue and a thread of their own, so that a slow one does not hold up ``push``."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Literal, get_args

import polars as pl

from evercurrent.core.data.errors import PlanError, SubscriberError
from evercurrent.core.data.schema import counted

from ..concurrency.draining import drain_at_exit
from ..concurrency.turns import Turn
from .run_events import LOG
from .subscriptions import Callback, Followed, Subscription, require_no_coroutine

OnFull = Literal["wait", "drop", "fail"]

SLICE = 0.1
"""Seconds between two checks whether the subscriber that a full queue waits for waits itself for the turn."""


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
        self.error: BaseException | None = None
        """The error that has ended the subscription."""
        self._slow, self._turn, self._size, self._on_full = callback, turn, size, on_full
        self._waiting: deque[pl.DataFrame] = deque()
        self._changed = threading.Condition()
        self._is_working = False
        self._thread = threading.Thread(
            target=self._work, name=f"evercurrent subscriber of {view.name}", daemon=True
        )
        self._thread.start()
        _subscriptions.add(self)

    @property
    def waiting(self) -> int:
        """How many deltas are in the queue."""
        return len(self._waiting)

    def put(self, frame: pl.DataFrame) -> None:
        """Add a delta to the queue.

        Raises:
            SubscriberError: the queue is full with "fail", the callback has raised before, or it waits for this push.
        """
        with self._changed:
            while self.error is None and not self.is_closed and len(self._waiting) >= self._size:
                if self._on_full == "drop":
                    self.dropped += 1
                    return
                if self._on_full == "fail":
                    self.is_closed = True
                    raise SubscriberError(
                        f"its queue of {counted(self._size, 'delta')} is full, and on_full='fail'"
                    )
                self._changed.wait(SLICE)
                ident = self._thread.ident
                if len(self._waiting) >= self._size and ident is not None and self._turn.is_awaited_by(ident):
                    self.is_closed = True
                    raise SubscriberError(
                        f"its queue of {counted(self._size, 'delta')} is full, and the subscriber itself waits for its turn to push; "
                        "give a larger queue, or on_full='drop' or 'fail'"
                    )
            if self.error is not None:
                self.is_closed = True
                raise SubscriberError(f"it raised {type(self.error).__name__}: {self.error}") from self.error
            if not self.is_closed:
                self._waiting.append(frame)
                self._changed.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all deltas so far are delivered; return False if they are not after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.error is not None or not (self._waiting or self._is_working), timeout
            )

    def drain(self, seconds: float) -> None:
        """Wait until all deltas so far are delivered, or so many seconds are over: what is lost then is a warning."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return  # The callback closes the engine; or the thread is in the process of which this one is a fork.
        if not self.join(seconds):
            lost = self.waiting + self._is_working
            LOG.warning(
                "a subscriber of view %r has not taken %s in %.0f seconds: the end does not wait for it",
                self._view.name, counted(lost, "delta"), seconds,
                extra={"event": "subscriber", "view": self._view.name, "deltas": lost},
            )  # fmt: skip

    def close(self) -> None:
        """End the deliveries, those in the queue included."""
        super().close()
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self.is_closed)
                if not self._waiting:
                    return
                frame, self._is_working = self._waiting.popleft(), True
                self._changed.notify_all()
            try:
                require_no_coroutine(self._slow, self._slow(frame))
            except BaseException as error:
                LOG.error(
                    "a subscriber of view %r raised %r", self._view.name, error, extra={"event": "subscriber"}
                )
                with self._changed:
                    self.error, self._is_working = error, False
                    self._waiting.clear()
                    self._changed.notify_all()
                return
            with self._changed:
                self._is_working = False
                self._changed.notify_all()


_subscriptions: weakref.WeakSet[QueuedSubscription] = weakref.WeakSet()

drain_at_exit(_subscriptions)


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
