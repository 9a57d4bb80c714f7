"""The end of an engine, or of the process, waits for threads that still deliver what has been pushed."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterable
from typing import Protocol

DRAIN_SECONDS = 30.0
"""How long the end waits for all of them together."""


class Draining(Protocol):
    """A thread that delivers, to a sink or a slow subscriber."""

    def drain(self, seconds: float) -> None:
        """Wait until all up to now is delivered, or cannot be, or so many seconds are over. Raises nothing."""
        ...


class Ending(Protocol):
    """A thread that delivers, and that can be ended."""

    def end(self) -> None:
        """End it after the step under way, for which this does not wait."""
        ...

    def close(self, seconds: float) -> None:
        """End it after the step under way, and wait so many seconds for that."""
        ...


def end_all(deliveries: Iterable[Ending], until: float | None = None) -> None:
    """End all of them after their steps under way, for which it waits until this time, and a second at least."""
    each, end = tuple(deliveries), max(_end_of_wait(until), time.monotonic() + 1.0)
    for delivery in each:
        delivery.end()
    for delivery in each:
        delivery.close(max(0.0, end - time.monotonic()))


def drain_all(deliveries: Iterable[Draining], until: float | None = None) -> None:
    """Wait for all of them, one after the other, until this time of ``time.monotonic``."""
    end = _end_of_wait(until)
    for delivery in tuple(deliveries):
        delivery.drain(max(0.0, end - time.monotonic()))


def drain_at_exit(deliveries: Iterable[Draining]) -> None:
    """Wait for all that there are at the end of the process: nobody may have closed their engine."""
    atexit.register(drain_all, deliveries)  # Threads that are daemons still run then.


def _end_of_wait(until: float | None) -> float:
    return time.monotonic() + DRAIN_SECONDS if until is None else until
