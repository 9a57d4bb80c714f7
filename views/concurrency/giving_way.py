"""Threads that poll a view while epochs run take turns with the epochs.

Python runs one thread at a time. A thread that reads without pause keeps the interpreter for five milliseconds at a
stretch, and an epoch yields it a hundred times: four such readers made epochs of 10,000 rows fifteen times as long.
So a thread that polls while others write, reading a view again as soon as it has read it, sleeps until the next period
begins. All of them wake at the same instants: the rows of a version are made once for all, and the epochs have the time
in between. A thread that waits or works between two reads, as one that answers requests, never sleeps here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .polars_threads import require_polars_threads

AT_ONCE, IDLE = 0.005, 0.000_05
"""Seconds. A thread polls if it reads a view again within ``AT_ONCE`` of its last read, and has worked no longer than
``IDLE`` in between: it may have waited for the interpreter, which others keep for five milliseconds at most."""

PERIOD = 0.05
"""Seconds. Threads that poll read once in each period, until one period after the last epoch."""


class _LastReads(threading.local):
    """The reads of each view by this thread that others wrote during: by the clock, and by the thread's CPU time.

    Nothing is measured where nobody else writes: to read the CPU time of a thread is a call of the system.
    """

    def __init__(self) -> None:
        self.ended: dict[str, tuple[float, float]] = {}


class GivingWay:
    """A context for writers that leaves them the interpreter while other threads poll."""

    def __init__(self) -> None:
        self._writers: list[int] = []
        self._last_write = 0, float("-inf")
        self._last_reads = _LastReads()

    def __enter__(self) -> None:
        """Note that this thread writes from now on.

        Raises:
            InputError: polars cannot compute in this process.
        """
        require_polars_threads()
        self._writers.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        """Note that this thread no longer writes."""
        thread = threading.get_ident()
        self._last_write = thread, time.monotonic()
        self._writers.remove(thread)

    @contextmanager
    def reading(self, view: str) -> Iterator[None]:
        """Yield for a read of the view; a thread that polls it while others write first sleeps until the next period."""
        now, ended = time.monotonic(), self._last_reads.ended
        if view in ended and self._others_write(now):
            last, worked = ended[view]
            if now < last + AT_ONCE and time.thread_time() < worked + IDLE:
                time.sleep(PERIOD - now % PERIOD)
        try:
            yield
        finally:
            if self._others_write(ended_at := time.monotonic()):
                ended[view] = ended_at, time.thread_time()
            else:
                ended.pop(view, None)

    def _others_write(self, now: float) -> bool:
        if self._writers:
            return threading.get_ident() not in self._writers
        thread, ended = self._last_write
        return now < ended + PERIOD and thread != threading.get_ident()
