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


def drain_all(deliveries: Iterable[Draining], until: float | None = None) -> None:
    """Wait for all of them, one after the other, until this time of ``time.monotonic``."""
    end = time.monotonic() + DRAIN_SECONDS if until is None else until
    for delivery in tuple(deliveries):
        delivery.drain(max(0.0, end - time.monotonic()))


def drain_at_exit(deliveries: Iterable[Draining]) -> None:
    """Wait for all that there are at the end of the process: nobody may have closed their engine."""
    atexit.register(drain_all, deliveries)  # Threads that are daemons still run then.
