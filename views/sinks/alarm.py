"""What wakes the thread of a delivery, without keeping the delivery from being collected."""

from __future__ import annotations

import threading
import weakref
from typing import Generic, TypeVar

T = TypeVar("T")


class Alarm(Generic[T]):
    """What the thread of a delivery waits for: an epoch, the next look, the next attempt, or the end."""

    def __init__(self, poll_seconds: float | None) -> None:
        self.changed: threading.Condition = threading.Condition()
        self.is_ending: bool = False
        self._woken: T | None = None
        """The delivery that has something to write, which is not collected before it is written."""
        self._poll = poll_seconds

    def wait(self, waiting: weakref.ref[T]) -> T | None:
        """Wait for an epoch or the next look; return the delivery, or None at the end."""
        with self.changed:
            self.changed.wait_for(lambda: self._woken is not None or self.is_ending, self._poll)
            woken, self._woken = self._woken or waiting(), None
            return None if self.is_ending else woken

    def pause(self, seconds: float) -> bool:
        """Wait before the next attempt, whatever epochs there are; return whether to go on."""
        with self.changed:
            return not self.changed.wait_for(lambda: self.is_ending, seconds)

    def wake(self, delivery: T) -> None:
        """Let the thread look for new epochs."""
        with self.changed:
            self._woken = delivery
            self.changed.notify_all()

    def end(self) -> None:
        """Let the thread end after the step under way."""
        with self.changed:
            self.is_ending = True
            self.changed.notify_all()
