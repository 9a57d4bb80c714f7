"""The lock of a query's checkpoint: held for as long as the query runs, by the process that has started it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.store import store_at

PATIENCE = 1.0
"""Seconds to wait for a query of this process that has ended and is about to release the lock."""


class WriterLock:
    """The lock on the checkpoint at a url, until it is released. Releasing twice is no error.

    Raises:
        CheckpointError: another writer has it open.
    """

    def __init__(self, url: str) -> None:
        self._held = ExitStack()
        self._guard = Lock()
        self._holders, self._is_released = 1, False
        given_up = time.monotonic() + PATIENCE
        while True:
            try:
                # This store is for the lock only: tasks and driver write through other ones, which sync at once.
                self._held.enter_context(store_at(url).lock())
                return
            except CheckpointError:
                if time.monotonic() > given_up:
                    raise
                time.sleep(0.05)

    def release(self) -> None:
        """Release the lock, once all work that holds it has ended."""
        with self._guard:
            self._holders -= not self._is_released
            self._is_released = True
            if not self._holders:
                self._held.close()

    @property
    def is_released(self) -> bool:
        """Whether the lock is released, or will be once the work that holds it has ended."""
        return self._is_released

    @contextmanager
    def during(self, refusal: Exception) -> Iterator[None]:
        """Hold the lock to the end of the block, even if it is released meanwhile.

        Raises:
            Exception: the ``refusal``, as the lock is released.
        """
        with self._guard:
            if self._is_released:
                raise refusal
            self._holders += 1
        try:
            yield
        finally:
            with self._guard:
                self._holders -= 1
                if not self._holders:
                    self._held.close()
