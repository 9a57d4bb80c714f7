"""Whether polars can compute in this process: its threads do not survive ``fork``, and what needs them waits for ever.

polars starts them when it first computes, so a child made before that starts its own.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from evercurrent.core.data.errors import InputError

TASKS = Path("/proc/self/task")
"""The threads of this process, where the system lists them."""

_COMPUTES = re.compile(r"polars-\d+\s*")
"""The name of a thread of polars that computes; others of its threads are there from its import on."""


class _PolarsThreads:
    """Whether polars had started its threads when this process was about to fork, and whether they are lost in this one."""

    def __init__(self) -> None:
        self.started = False
        self.lost = False


_threads = _PolarsThreads()


def require_polars_threads() -> None:
    """Check that what polars computes here ends; this reads a flag.

    Raises:
        InputError: this process was forked from one in which polars had computed.
    """
    if _threads.lost:
        raise InputError(
            "this process was forked from one in which polars had computed; polars' threads are not in this one, and what is "
            "computed here would wait for them for ever. Start the process by 'spawn' or 'forkserver', as in "
            'multiprocessing.get_context("spawn"), and declare the engine there, or open its checkpoint there'
        )


def has_polars_threads() -> bool:
    """Return whether polars can compute here."""
    return not _threads.lost


def before_fork(has_engine: bool) -> None:
    """Note whether polars has started its threads; where threads are not listed, it has if there is an engine."""
    if not TASKS.is_dir():
        _threads.started = has_engine
        return
    _threads.started = False
    for task in TASKS.iterdir():
        with suppress(OSError):  # A thread may end meanwhile.
            if _COMPUTES.fullmatch((task / "comm").read_text()):
                _threads.started = True
                return


def in_child_of_fork() -> None:
    """Mark the threads as lost if polars had started them before the fork; a child of this process lacks them too."""
    _threads.lost |= _threads.started
