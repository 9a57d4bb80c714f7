"""The folder of this process for its workers of Spark: the program that starts them, and their sockets."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from .early_worker import as_program

PREFIX = "ec-workers-"

SETTLED = 60.0
"""Seconds after which a folder is locked, if its process lives."""


@cache
def worker_folder() -> str:
    """Return the folder, made at the first call and deleted when this process ends: Java may start workers until then.

    A process that is killed leaves its folder to the next one, which deletes it.
    """
    delete_left(Path(tempfile.gettempdir()))
    folder = tempfile.mkdtemp(prefix=PREFIX)
    atexit.register(delete, folder, os.getpid())
    _keep(folder)
    return folder


@cache
def worker_program() -> str:
    """Return the path of the program that starts workers, in that folder."""
    return as_program(worker_folder())


def _keep(folder: str) -> None:
    """Lock the folder while this process lives: services that delete old temporary files leave a locked one alone."""
    try:
        import fcntl
    except ImportError:
        return
    with suppress(OSError):  # Some file systems have no locks; a folder there is left alone, too.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)


def delete_left(temporary: Path) -> None:
    """Delete the folders of processes that were killed: those of this user that are not locked."""
    try:
        import fcntl
    except ImportError:
        return
    for folder in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):  # Another user's, or one that another process deletes as well.
            if folder.stat().st_uid != os.getuid() or time.time() - folder.stat().st_mtime < SETTLED:
                continue
            opened = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(opened)


def delete(folder: str, owner: int) -> None:
    """Delete a folder, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
