"""Ctrl-C in the middle of what must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Deferred:
    """The handler of interrupts while they are put off: it takes note of them for ``handler``, which was there before."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._came: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """An interrupt has come."""
        self._came.append((number, frame))

    def end(self) -> None:
        """Interrupts take effect from now on, also one that has come meanwhile.

        Raises:
            KeyboardInterrupt: one has, and the handler is Python's own.
        """
        signal.signal(signal.SIGINT, self.handler)
        if self._came:
            self.handler(*self._came[0])


def defer() -> Deferred | None:
    """Put interrupts off until ``end``. None: they are put off already, or never come: only the main thread has any."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or isinstance(handler, Deferred):
        return None
    deferred = Deferred(handler)
    signal.signal(signal.SIGINT, deferred)
    return deferred


class interrupts_deferred:  # noqa: N801 - read as a function
    """Let an interrupt that comes meanwhile take effect at the end. Only the main thread is ever interrupted."""

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Put them off."""
        self._deferred = defer()

    def __exit__(self, *_: object) -> None:
        """Let them take effect."""
        if self._deferred is not None:
            self._deferred.end()


class interruptible:  # noqa: N801 - read as a function
    """Let an interrupt that comes meanwhile take effect at once, though they are put off; one of before still waits.

    No generator: one that an interrupt has left half done is finished when it is collected, and would put off all
    interrupts from then on.
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Put back the handler of before, if it is our turn to be interrupted at all."""
        self._deferred: Deferred | None = None
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if isinstance(handler, Deferred):
                self._deferred = handler
                signal.signal(signal.SIGINT, handler.handler)

    def __exit__(self, *_: object) -> None:
        """Put interrupts off again."""
        deferred = self._deferred
        if deferred is not None:
            now = signal.signal(signal.SIGINT, deferred)
            if callable(now) and not isinstance(now, Deferred):
                deferred.handler = now  # A subscriber may have another one from now on.
