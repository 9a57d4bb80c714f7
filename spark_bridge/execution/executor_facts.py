"""The facts of an executor, gathered in a task.

This module is sent to executors by value (see ``preflight``), as they may lack this package: it imports the standard library
only; the libraries that it checks are imported inside functions.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
import zlib
from typing import Any

LIBRARIES = ("polars", "pyarrow", "numpy")
"""The libraries that tasks need besides this package, in the order in which they are imported."""

PROBES = "probes"
"""Folder of the store in which driver and executors write files for each other, for seconds."""


def gathered(url: str, token: str, place: int, pause: float) -> dict[str, Any]:
    """Return the facts of the executor of this task, which takes at least ``pause`` seconds so that others run elsewhere."""
    begun = time.time()
    libraries = {name: version_of(name) for name in LIBRARIES}
    own = version_of("evercurrent")
    is_complete = all("version" in fact for fact in (own, *libraries.values()))
    facts = {
        "host": socket.gethostname(),
        # All workers of an executor are started by one process.
        "executor": f"{socket.gethostname()}/{os.getppid()}",
        "python": sys.executable,
        "python_version": "{}.{}.{}".format(*sys.version_info[:3]),
        "clock": begun,
        "libraries": {"evercurrent": own, **libraries},
        "memory": available_memory(),
        "store": store_problem(url, token, place) if is_complete else "",
    }
    time.sleep(max(0.0, pause - (time.time() - begun)))
    return facts


def version_of(name: str) -> dict[str, str]:
    """Return the version of a library and the folder that it is in; or why it cannot be imported."""
    try:
        module = importlib.import_module(name)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    facts = {
        "version": str(getattr(module, "__version__", "")),
        "folder": os.path.dirname(module.__file__ or ""),
    }
    if name == "evercurrent":
        facts["code"] = checksum_of_code(facts["folder"])
    return facts


def checksum_of_code(folder: str) -> str:
    """Return a checksum of the source files of a package; empty if it is not in a folder."""
    checksum, count = 0, 0
    for path, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                place = os.path.relpath(os.path.join(path, name), folder)
                with open(os.path.join(path, name), "rb") as file:
                    checksum = zlib.crc32(file.read(), zlib.crc32(place.encode(), checksum))
                count += 1
    return f"{checksum:08x}" if count else ""


def available_memory() -> int | None:
    """Return how many bytes a worker can take: of the machine, of its container, and of the process; None if unknown."""
    return min(
        (each for each in (_of_machine(), _of_container(), _of_process()) if each is not None), default=None
    )


def _of_machine() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_container() -> int | None:
    limit, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit and used and limit[0].strip().isdigit():
        return max(0, int(limit[0]) - int(used[0]))
    return None


def _of_process() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else int(limit)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.readlines()
    except OSError:
        return []


def store_problem(url: str, token: str, place: int) -> str:
    """Check for the driver's file in the store, and write one of the task's own; return a description of what fails."""
    from uuid import uuid4

    from evercurrent.core.data.errors import CheckpointError, first_line
    from evercurrent.views.store import store_at
    from evercurrent.views.store.repeated_puts import put_own

    try:
        store = store_at(url)
        if bytes(store.read(f"{PROBES}/{token}")) != token.encode():
            return "the driver's file has other bytes"
        # A task may run twice: each attempt has a name of its own.
        put_own(store, f"{PROBES}/{token}-{place}-{uuid4().hex}", [b"seen"])
    except CheckpointError as error:
        return first_line(error)
    return ""
