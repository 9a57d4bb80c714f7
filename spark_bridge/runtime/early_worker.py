"""The start of a Spark worker, which connects to Spark before any slow import, and imports PySpark compiled.

Spark gives a worker that it starts by itself 10 seconds to connect, and no setting changes that: these are the workers of a
heartbeat, and of ``foreachBatch`` under Spark Connect. On a busy machine the imports of pyspark alone take longer. Once a
worker is connected, Spark waits. Workers of jobs are forked by a daemon, which has no such limit.

Spark lets all of them import PySpark from an archive of source files, which each process compiles for itself: a second of
processor time each. The package beside the archive has the same files, and is compiled once.

The workers' Python runs this file by its path, so it imports as little as possible, and nothing of this package.
"""

from __future__ import annotations

import os
import sys

PORT, SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
SOCKET = "PYTHON_WORKER_FACTORY_SOCK_PATH"
"""The environment variables that give a worker started by Spark its connection: by TCP, or to a Unix domain socket."""


def as_program(folder: str, python: str = sys.executable) -> str:
    """Return a script in this folder for ``PYSPARK_PYTHON``, which runs this file before a worker that has to connect."""
    import shlex
    import stat

    program = os.path.join(folder, "python")
    early, plain = shlex.join([python, os.path.abspath(__file__)]), shlex.quote(python)
    with open(program, "w", encoding="utf-8") as file:
        file.write(
            f'#!/bin/sh\n{_without_archives()}[ -n "${PORT}${SOCKET}" ] && [ "$1" = -m ] && exec {early} "$@"\nexec {plain} "$@"\n'
        )
    os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
    return program


def _without_archives() -> str:
    """Return the lines of a script that take the archives of this PySpark off Python's path, and put its package at the end.

    They change no other path: Spark may have been installed elsewhere. Empty if this process imports PySpark from an archive.
    """
    import shlex
    from importlib.util import find_spec

    spec, py4j = find_spec("pyspark"), find_spec("py4j")
    if spec is None or py4j is None or not all(os.path.isfile(each.origin or "") for each in (spec, py4j)):
        return ""
    package = os.path.dirname(spec.origin or "")
    archives = shlex.quote(os.path.join(package, "python", "lib") + os.sep)
    within = f"{archives}pyspark.zip:{archives}py4j-*-src.zip:"
    end = shlex.quote(os.path.dirname(package))
    # Where Spark plans with a data source, they are on the path twice.
    return (
        "before=$PYTHONPATH\n"
        f"while case $PYTHONPATH in *{within}*) true;; *) false;; esac; do\n"
        f"PYTHONPATH=${{PYTHONPATH%%{within}*}}${{PYTHONPATH#*{within}}}; done\n"
        f'[ "$PYTHONPATH" = "$before" ] || PYTHONPATH=$PYTHONPATH:{end}\n'
    )


def _connected() -> tuple[object, object]:
    """Return the connection with Spark that the environment names, as a file and as a socket."""
    import socket

    buffer = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    path = os.environ.get(SOCKET)
    if path is not None:
        # Whoever can open it is the same user, so there is no secret.
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        return connection.makefile("rwb", buffer), connection
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, int(os.environ[PORT])))
    file = connection.makefile("rwb", buffer)
    secret = os.environ[SECRET].encode()
    file.write(len(secret).to_bytes(4, "big") + secret)
    file.flush()
    answer = file.read(int.from_bytes(file.read(4), "big"))
    if answer != b"ok":
        raise SystemExit(f"Spark did not take the secret of its worker: {answer!r}")
    return file, connection


def main() -> None:
    """Connect, and then continue as ``python -m MODULE ARGUMENTS``."""
    try:
        early = [_connected()]
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise SystemExit(f"a Python worker of Spark ends, as its query has: {error}") from None

    import runpy

    sys.path[0] = os.getcwd()
    import pyspark.util
    import pyspark.worker_util

    connect = pyspark.util.local_connect_and_auth

    def connected(conn_info: str | int | None, auth_secret: str | None) -> tuple[object, ...]:
        return early.pop() if early else connect(conn_info, auth_secret)

    # PySpark 4.0 and 4.1 import it from the first module, later versions from the second.
    pyspark.util.local_connect_and_auth = pyspark.worker_util.local_connect_and_auth = connected
    _, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
