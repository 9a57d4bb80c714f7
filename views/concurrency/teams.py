"""A team of threads that runs functions for the thread that has the turn, which waits until all have ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from .interrupts import interrupts_deferred
from .turns import Turn

Answer = TypeVar("Answer")


class Team:
    """Runs functions in parallel, in the calling thread and in others, which are started when they are first needed.

    These functions cannot push, as the caller has the turn and waits for them.
    """

    def __init__(self, size: int, turn: Turn) -> None:
        self._size = size
        self._turn = turn
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def run(self, functions: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Return the results of the functions. If some raise, the error of the first of these is raised at the end."""
        if len(functions) < 2:
            return [function() for function in functions]
        pool = self._threads()
        futures: list[Future[Answer]] = []
        try:
            with interrupts_deferred():  # A function that is begun has to be waited for.
                futures += [pool.submit(self._helping, function) for function in functions[1:]]
            return [functions[0](), *(future.result() for future in futures)]
        finally:
            with interrupts_deferred():
                wait(futures)

    def _helping(self, function: Callable[[], Answer]) -> Answer:
        with self._turn.helped():
            return function()

    def _threads(self) -> ThreadPoolExecutor:
        """Return the pool of the other threads. A child process gets a new one, as ``fork`` copies no threads."""
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self._size - 1, "evercurrent"), os.getpid()
        return self._pool
