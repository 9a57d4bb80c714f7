"""Ctrl-C is deferred while code runs that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Deferred:
    """The handler of interrupts while they are deferred: it notes them for ``handler``, the handler before it.

    While ``lets_through`` is true they take effect at once.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.lets_through = False
        self.came: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note an interrupt, or let it take effect."""
        if self.lets_through:
            self.handler(number, frame)
        else:
            self.came.append((number, frame))

    def end(self) -> None:
        """Let interrupts take effect from now on, and one that was noted meanwhile at once.

        Raises:
            KeyboardInterrupt: one was noted, and the handler is Python's own.
        """
        global _current
        _current = None
        handler_meanwhile = signal.signal(signal.SIGINT, self.handler)
        if handler_meanwhile is not self and callable(handler_meanwhile):
            signal.signal(signal.SIGINT, handler_meanwhile)  # A subscriber has set it.
        if self.came:
            self.handler(*self.came[0])


class _Again:
    """Interrupts deferred again, within a block that lets them through."""

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
"""A deferral to ``end``, so that interrupts take effect again."""

_current: Deferred | None = None
"""The handler by which the main thread defers interrupts."""


def defer() -> Ends | None:
    """Defer interrupts until ``end``; None if they are deferred already, or in a thread other than the main one."""
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
    """A context that defers interrupts to its end. Only the main thread is ever interrupted."""

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Defer interrupts."""
        self._deferred = defer()

    def __exit__(self, *_: object) -> None:
        """Let interrupts take effect."""
        if self._deferred is not None:
            self._deferred.end()


class interruptible:  # noqa: N801 - read as a function
    """A context in which new interrupts take effect at once although they are deferred; earlier ones still wait.

    It is not a generator: one that an interrupt leaves half done would be finished whenever it is collected.
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Let interrupts through, if this is the main thread and they are deferred."""
        is_ours = threading.current_thread() is threading.main_thread()
        self._deferred = _current if is_ours and _current is not None and not _current.lets_through else None
        if self._deferred is not None:
            self._deferred.lets_through = True

    def __exit__(self, *_: object) -> None:
        """Defer interrupts again."""
        if self._deferred is not None:
            self._deferred.lets_through = False
