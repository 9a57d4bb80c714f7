"""Ctrl-C in the middle of what must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Deferred:
    """The handler of interrupts while they are put off: it takes note of them for ``handler``, which was there before.

    ``lets_through``: for now they take effect at once.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.lets_through = False
        self.came: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """An interrupt has come."""
        if self.lets_through:
            self.handler(number, frame)
        else:
            self.came.append((number, frame))

    def end(self) -> None:
        """Interrupts take effect from now on, also one that has come meanwhile.

        Raises:
            KeyboardInterrupt: one has, and the handler is Python's own.
        """
        global _current
        _current = None
        known = signal.signal(signal.SIGINT, self.handler)
        if known is not self and callable(known):
            signal.signal(signal.SIGINT, known)  # A subscriber has set it.
        if self.came:
            self.handler(*self.came[0])


class _Again:
    """Interrupts are put off again, within what lets them through."""

    def __init__(self, within: Deferred) -> None:
        self._within = within
        self._before = len(within.came)
        within.lets_through = False

    def end(self) -> None:
        """See ``Deferred.end``."""
        within = self._within
        within.lets_through = True
        if len(within.came) > self._before:
            within.handler(*within.came.pop())


Ends = Deferred | _Again
"""What is to be ended, so that interrupts take effect again."""

_current: Deferred | None = None
"""The handler by which the main thread puts interrupts off."""


def defer() -> Ends | None:
    """Put interrupts off until ``end``. None: they are put off already, or never come: only the main thread has any."""
    global _current
    if threading.current_thread() is not threading.main_thread():
        return None
    if _current is not None:
        return _Again(_current) if _current.lets_through else None
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        return None
    deferred = Deferred(handler)
    signal.signal(signal.SIGINT, deferred)
    _current = deferred
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

    No generator: one that an interrupt has left half done is finished when it is collected, whatever goes on then.
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Let them through, if it is our turn to be interrupted at all."""
        is_ours = threading.current_thread() is threading.main_thread()
        self._deferred = _current if is_ours and _current is not None and not _current.lets_through else None
        if self._deferred is not None:
            self._deferred.lets_through = True

    def __exit__(self, *_: object) -> None:
        """Put interrupts off again."""
        if self._deferred is not None:
            self._deferred.lets_through = False
