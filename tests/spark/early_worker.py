"""A Python for workers of Spark that connects to Spark before it imports anything that takes long.

Spark gives a worker that it starts by itself, as it does for ``foreachBatch`` under Spark Connect, 10 seconds to connect,
and no setting says otherwise; on a busy machine the imports of pyspark alone take longer. Once connected, it waits.
"""

from __future__ import annotations

import os
import runpy
import socket
import stat
import sys
from pathlib import Path
from typing import Any


def as_program(folder: Path) -> str:
    """A program in this folder, for ``PYSPARK_PYTHON``, that is this Python with this file before whatever is to run."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def connected() -> tuple[Any, socket.socket] | None:
    """The connection that Spark waits for; None if this is no worker that has to make one."""
    port, secret = (
        os.environ.get("PYTHON_WORKER_FACTORY_PORT"),
        os.environ.get("PYTHON_WORKER_FACTORY_SECRET"),
    )
    if port is None or secret is None:
        return None
    connection = socket.create_connection(("127.0.0.1", int(port)))
    file = connection.makefile("rwb", 65536)
    said = secret.encode()
    file.write(len(said).to_bytes(4, "big") + said)
    file.flush()
    answer = file.read(int.from_bytes(file.read(4), "big"))
    assert answer == b"ok", answer
    return file, connection


def main() -> None:
    """Connect, and then be ``python -m MODULE ARGUMENTS``."""
    sys.path[0] = os.getcwd()
    connection = connected()
    if connection is not None:
        import pyspark.worker_util

        pyspark.worker_util.local_connect_and_auth = lambda *_: connection
    flag, module, *arguments = sys.argv[1:]
    assert flag == "-m", sys.argv
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
