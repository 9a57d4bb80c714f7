"""Signals are deferred while code runs that must not be left half done: Ctrl-C, and all others that run a function of Python.

The handler of any signal may raise: that of Ctrl-C by default, those of time limits (``SIGALRM``, ``SIGUSR1``), and one of
``SIGTERM`` that ends the process in order.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
Noted = tuple[int, FrameType | None]
"""A signal that came, and where."""

SIGNALS = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGBREAK",
    )
    if hasattr(signal, name)
)  # fmt: skip
"""The signals that programs handle. Those of children and of terminals have handlers that raise nothing."""


class Deferred:
    """The handler of signals while they are deferred: it notes them for ``handlers``, the handlers before it.

    While ``lets_through`` is true they take effect at once.
    """

    def __init__(self, handlers: dict[int, Handler]) -> None:
        self.handlers = handlers
        self.lets_through = False
        self.came: list[Noted] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal, or let it take effect."""
        if self.lets_through:
            self.handlers[number](number, frame)
        else:
            self.came.append((number, frame))

    def end(self) -> None:
        """Let signals take effect from now on, and those that were noted meanwhile at once, each once.

        Raises:
            BaseException: what the handler of one raises; of Ctrl-C by default KeyboardInterrupt.
        """
        global _current
        try:
            # So that whichever of them takes effect before its own handler is set again is not noted where nobody looks.
            self.lets_through = True
            _current = None
            self._restore()
        except BaseException:
            self._restore()  # One that took effect meanwhile has raised, before all were set.
            raise
        finally:
            self.deliver(self.came)

    def _restore(self) -> None:
        """Set the handlers of before, of all signals."""
        for number, handler in self.handlers.items():
            handler_meanwhile = signal.signal(number, handler)
            if handler_meanwhile is not self:
                signal.signal(number, handler_meanwhile)  # A subscriber has set it.

    def deliver(self, came: Sequence[Noted]) -> None:
        """Let these take effect, each signal once; all of them, whatever the handler of one raises."""
        if not came:
            return
        number, frame = came[0]
        try:
            self.handlers[number](number, frame)
        finally:
            self.deliver([each for each in came if each[0] != number])


class _Again:
    """Signals deferred again, within a block that lets them through."""

    def __init__(self, within: Deferred) -> None:
        self._within = within
        self._before = len(within.came)
        within.lets_through = False

    def end(self) -> None:
        """See ``Deferred.end``."""
        within = self._within
        within.lets_through = True
        came = within.came[self._before :]
        del within.came[self._before :]
        within.deliver(came)


Ends = Deferred | _Again
"""A deferral to ``end``, so that signals take effect again."""

_current: Deferred | None = None
"""The handler by which the main thread defers signals."""


def defer() -> Ends | None:
    """Defer signals until ``end``; None if they are deferred already, or in a thread other than the main one."""
    global _current
    if threading.current_thread() is not threading.main_thread():
        return None
    if _current is not None:
        return _Again(_current) if _current.lets_through else None
    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    if not handlers:
        return None
    deferred = Deferred(handlers)
    try:
        _current = deferred
        for number in handlers:
            signal.signal(number, deferred)
    except BaseException:
        deferred.end()  # The handler of one that was not yet deferred has raised.
        raise
    return deferred


class interrupts_deferred:  # noqa: N801 - read as a function
    """A context that defers signals to its end. Only the main thread runs their handlers."""

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Defer signals."""
        self._deferred = defer()

    def __exit__(self, *_: object) -> None:
        """Let signals take effect."""
        if self._deferred is not None:
            self._deferred.end()


class interruptible:  # noqa: N801 - read as a function
    """A context in which new signals take effect at once although they are deferred; earlier ones still wait.

    It is not a generator: one that an interrupt leaves half done would be finished whenever it is collected.
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        """Let signals through, if this is the main thread and they are deferred."""
        is_ours = threading.current_thread() is threading.main_thread()
        self._deferred = _current if is_ours and _current is not None and not _current.lets_through else None
        if self._deferred is not None:
            self._deferred.lets_through = True

    def __exit__(self, *_: object) -> None:
        """Defer signals again."""
        if self._deferred is not None:
            self._deferred.lets_through = False
