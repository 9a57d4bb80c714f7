"""Parts of states are sorted in a thread, for look-ups that come later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextvars import copy_context

from ...concurrency.turns import Guard

Sort = Callable[[], object]


class SortedAhead:
    """Calls functions one after the other in a thread, each of which sorts a part and notes the result itself.

    Nobody waits for it: until a part is sorted it is scanned. The thread ends when nothing is left to do, and with the interpreter.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Sort] = {}
        self._is_running = False
        self._guard = Guard()

    def begin(self, name: Hashable, sort: Sort) -> None:
        """Have a part sorted, unless that waits already. ``name`` stands for the part and the columns."""
        with self._guard.lock:
            self._waiting.setdefault(name, sort)
            if self._is_running:
                return
            self._is_running = True
        context = copy_context()
        thread = threading.Thread(
            target=lambda: context.run(self._run), name="evercurrent index", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # At the end of the interpreter no thread can be started.
            self._end()

    def _run(self) -> None:
        while (sort := self._next()) is not None:
            try:
                sort()
            except BaseException:
                self._end()
                raise

    def _next(self) -> Sort | None:
        """Return what comes next; None if nothing is left, and the thread ends."""
        with self._guard.lock:
            name = next(iter(self._waiting), None)
            self._is_running = name is not None
            return None if name is None else self._waiting.pop(name)

    def _end(self) -> None:
        with self._guard.lock:
            self._waiting.clear()
            self._is_running = False
