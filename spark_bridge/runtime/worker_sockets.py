"""How Spark's Java and its Python workers exchange bytes: by sockets of the Unix domain, where Spark has them.

By TCP, which is Spark's default, a task waits some 40 ms for a packet that is held back until the one before it has been
acknowledged. A micro-batch of 200,000 rows, in twelve tasks of one executor, took 1.0 s, and takes 0.66.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import Any

from .spark_versions import version_numbers

FIRST = (4, 1)
"""The first version of Spark that has them."""

LONGEST = 104 - len("/.01234567-0123-0123-0123-0123456789ab.sock")
"""Bytes in the path of a folder for sockets: the whole path has at most 104 on macOS, 108 on Linux, and Spark's name takes the rest."""

TEMPORARY = "/tmp"
"""The folder for temporary files of every Unix; Java's own one, in a container of YARN, has too long a path."""

_ENABLED, _FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def socket_settings(folder: str = TEMPORARY) -> dict[str, str]:
    """Return the settings, by name, for sockets in this folder, or in ``/tmp`` if its path is too long.

    None if Spark or the operating system has no such sockets.
    """
    if os.name != "posix" or version_numbers() < FIRST:
        return {}
    return {_ENABLED: "true", _FOLDER: folder if len(os.fsencode(folder)) <= LONGEST else TEMPORARY}


def delete_at_end(spark: Any) -> None:
    """Delete the socket on which this process listens to Java when the process ends: Spark does only if the session is stopped."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None) if hasattr(spark, "_jsc") else None
    path = getattr(server, "server_address", None)
    if isinstance(path, str):  # By TCP it is a host and a port.
        atexit.register(delete_socket, path, os.getpid())


def delete_socket(path: str, owner: int) -> None:
    """Delete a socket, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)
