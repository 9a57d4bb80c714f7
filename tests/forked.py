"""Processes that tests start and kill: forked from one that has imported their programs, which takes longer than they run.

That one is a process without threads that compute: polars starts its own when it first computes. So each of those that are killed
has all of its own but the imports. What a whole process is like from its start, those show that ``subprocess`` starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import forkserver, get_context
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
    forkserver.set_forkserver_preload(PROGRAMS)
    # Python 3.11 hands the one that imports them no sys.path.
    with patch.dict(os.environ, {"PYTHONPATH": paths(TESTS, TESTS.parent / "src")}):
        forkserver.ensure_running()
    context = get_context("forkserver")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(program, sending, *arguments))
    process.start()
    sending.close()  # Who receives meets the end of the process.
    return process, receiving


def _run(program: Callable[..., None], sending: Connection, *arguments: object) -> None:
    program(*arguments, sending.send)
