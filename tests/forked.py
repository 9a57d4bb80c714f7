"""Processes that tests start and kill: forked from one that has imported their programs, which takes longer than they run.

That one is a process without threads that compute: polars starts its own when it first computes. So each of those that are killed
has all of its own but the imports. What a whole process is like from its start, those show that ``subprocess`` starts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from multiprocessing import current_process, forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from started import paths

TESTS = Path(__file__).resolve().parent
PROGRAMS = [
    "durability.doomed",
    "sinks.doomed_writer",
    "sqlalchemy.dialects.sqlite",
    "evercurrent.views.sinks.sql_table",
    "evercurrent.views.compiler.windowed_groups",
    "evercurrent.core.eventtime.sessions",
]
"""Modules that are imported once for all processes."""

Send = Callable[[object], None]


def forked(program: Callable[..., None], *arguments: object) -> tuple[ForkServerProcess, Connection]:
    """Run the program in a process of its own; its last argument sends what the connection receives."""
    _begin()
    context = get_context("forkserver")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(program, sending, *arguments))
    process.start()
    sending.close()  # Who receives meets the end of the process.
    return process, receiving


def end() -> None:
    """End the process that forks, if there is one, and the one that multiprocessing starts with it.

    Both would live as long as this one, which waits for all that it has started before it removes their files.
    """
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def _begin() -> None:
    config = current_process()._config  # type: ignore[attr-defined]
    if "tempdir" not in config:
        # Removed with the folder of the run: the one that multiprocessing makes, it would look for there after that.
        config["tempdir"] = tempfile.mkdtemp(prefix="forked-")
    forkserver.set_forkserver_preload(PROGRAMS)
    # Python 3.11 hands the one that imports them no sys.path.
    with patch.dict(os.environ, {"PYTHONPATH": paths(TESTS, TESTS.parent / "src")}):
        forkserver.ensure_running()


def _run(program: Callable[..., None], sending: Connection, *arguments: object) -> None:
    program(*arguments, sending.send)
