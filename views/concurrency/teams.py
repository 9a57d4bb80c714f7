"""A team of threads that runs functions for the thread that has the turn, which waits until all have ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Generic, TypeVar

from .interrupts import interruptible, interrupts_deferred
from .turns import Turn

Answer = TypeVar("Answer")


class Call(Generic[Answer]):
    """A call of a function, which is made once: by the first thread that comes, in the context of the thread that planned it.

    So a function of a user finds the same ``decimal`` context in every thread.
    """

    def __init__(self, function: Callable[[], Answer]) -> None:
        self.future: Future[Answer] = Future()
        self._function = function
        self._context = copy_context()
        self._is_taken = threading.Lock()

    def make(self) -> None:
        """Make the call, if no thread has begun it."""
        if not self._is_taken.acquire(blocking=False):
            return
        try:
            with interruptible():
                answer = self._context.run(self._function)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(answer)


class Team:
    """Runs functions in parallel, in the calling thread and in others, which are started when they are first needed.

    These functions cannot push, as the caller has the turn and waits for them. The caller also runs those that no other thread
    has begun, so that no thread has to start: at the end of the interpreter, or at a limit of the system, none does.
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
        with interrupts_deferred():  # A function that is begun has to be waited for.
            calls = [Call(function) for function in functions]
            self._offer(calls[1:])
            for call in calls:
                call.make()
            wait([call.future for call in calls])
        return [call.future.result() for call in calls]

    def close(self) -> None:
        """End the threads. They start again if they are needed again."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def _offer(self, calls: Sequence[Call[Answer]]) -> None:
        pool = self._threads()
        for call in calls:
            try:
                pool.submit(self._help, call)
            except RuntimeError:  # No thread can be started; the caller makes the call.
                return

    def _help(self, call: Call[Answer]) -> None:
        with self._turn.helped():
            call.make()

    def _threads(self) -> ThreadPoolExecutor:
        """Return the pool of the other threads. A child process gets a new one, as ``fork`` copies no threads."""
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self._size - 1, "evercurrent-worker"), os.getpid()
        return self._pool
