"""The folder of this process for its workers of Spark: the program that starts them, and their sockets."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache

from .early_worker import as_program


@cache
def worker_folder() -> str:
    """Return the folder, made at the first call and deleted when this process ends: Java may start workers until then."""
    folder = tempfile.mkdtemp(prefix="evercurrent-")
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
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)


def delete(folder: str, owner: int) -> None:
    """Delete a folder, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
