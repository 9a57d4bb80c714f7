"""A function runs in a child of the process of a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from evercurrent.views.concurrency import polars_threads


def in_child(run: Callable[[], None], seconds: int = 300, *, few_rows: bool = False) -> None:
    """Run a function in a child made by ``fork``, for so many seconds at most; what it raises is a failure.

    With ``few_rows`` it may compute, as if polars had not been used before: its rows are so few that polars uses no other thread.
    """
    child = os.fork()
    if not child:
        status = 1
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            if few_rows:
                polars_threads._threads.lost = False
            run()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
