"""Queries that still run when the process ends are stopped first, as by Ctrl-C or a handler of SIGTERM that raises SystemExit.

A micro-batch runs in a thread of Py4J, which Python ends wherever it is once the interpreter is finalized: within polars or pyarrow
that aborts the process ("Fatal Python error: PyGILState_Release"), so that its exit code is no longer that of the signal.
"""

from __future__ import annotations

import atexit
import logging
import os
from threading import Event, Thread
from typing import Protocol
from weakref import WeakSet

from evercurrent.core.data.errors import first_line
from evercurrent.views.concurrency.turns import Guard

LOG = logging.getLogger("evercurrent")

EXIT_SECONDS = 10.0
"""How long the end of the process waits for all queries together, as a function of the user may be under way."""


class Running(Protocol):
    """A query that can be stopped."""

    def stop(self) -> None:
        """Stop it, and wait for that."""
        ...


class EndOfProcess:
    """The queries of this process that run, and the thread that stops them at its end.

    That thread is there before the end, since none can be started then. Nor can it be the main thread that calls Java, which may have
    been interrupted within a call of Py4J, and would get the answer to that.
    """

    def __init__(self) -> None:
        self._running: WeakSet[Running] = WeakSet()
        self._guard = Guard()
        self._is_ending, self._are_stopped = Event(), Event()
        self._process: int | None = None

    def add(self, query: Running) -> None:
        """Have a query stopped at the end of the process."""
        with self._guard.lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                self._running.clear()  # Those of the process that has forked this one are its own.
                Thread(target=self._stop_all, daemon=True, name="evercurrent-exit").start()
                atexit.register(self.end, self._process)
            self._running.add(query)

    def discard(self, query: Running) -> None:
        """Note that a query has ended."""
        with self._guard.lock:
            self._running.discard(query)

    def end(self, process: int, seconds: float = EXIT_SECONDS) -> None:
        """Have all queries stopped, and wait so many seconds for it; in a child made by ``fork``, which has none, do nothing."""
        if process == os.getpid() and self._running:
            self._is_ending.set()
            self._are_stopped.wait(seconds)

    def _stop_all(self) -> None:
        self._is_ending.wait()
        for query in tuple(self._running):
            try:
                query.stop()
            except Exception as error:  # Java is ending as well where it got the same signal.
                LOG.debug("a query could not be stopped at the end of the process: %s", first_line(error))
        self._are_stopped.set()


END_OF_PROCESS = EndOfProcess()
"""The queries of this process."""
