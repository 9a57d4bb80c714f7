"""A file of fsspec is written only if its name is free; each file system has its own way to ensure that."""

import inspect
import secrets
import threading
import time
from typing import Any

ATTEMPTS = 8
"""How often a write is tried that conflicts with a concurrent one."""

CONFLICTS = {"ConditionalRequestConflict", "OperationAborted"}
"""Codes of S3 when two conditional writes of a name meet and are to be tried again."""

TAKEN = {"PreconditionFailed", "412"}
"""Codes of stores like S3 when a name is taken."""

_one_at_a_time = threading.Lock()


class Writing:
    """The exclusive writes of one file system."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._is_memory = fs.protocol == "memory"
        method = type(fs)._pipe_file if getattr(fs, "async_impl", False) else type(fs).pipe_file
        # fsspec's default checks first and writes afterwards, and not all overrides support the mode.
        is_own = method.__module__ != "fsspec.spec"
        self._has_mode = is_own and "mode" in inspect.signature(method).parameters

    @property
    def is_exclusive(self) -> bool:
        """Return whether the file system claims to refuse a second file of a name."""
        return self._has_mode

    def write(self, path: str, content: bytes) -> None:
        """Write a new file.

        Raises:
            FileExistsError: the name is taken, and nothing was written.
            Exception: any error of the file system.
        """
        if self._is_memory:
            with _one_at_a_time:
                self._fs.pipe_file(path, content, mode="create")
        elif self._has_mode:
            self._write_on_condition(path, content)
        else:
            self._write_and_rename(path, content)

    def _write_on_condition(self, path: str, content: bytes) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._fs.pipe_file(path, content, mode="create")
                return
            except OSError as error:
                code = _code_of(error)
                if code in TAKEN:
                    raise FileExistsError(path) from error
                if code not in CONFLICTS or attempt == ATTEMPTS:
                    raise
            time.sleep(0.02 * 2**attempt)

    def _write_and_rename(self, path: str, content: bytes) -> None:
        """Write a file and rename it, so that it appears whole; check and rename are one step in this process only."""
        folder, _, _ = path.rpartition("/")
        unfinished = f"{folder}/.part-{secrets.token_hex(8)}"
        self._fs.pipe_file(unfinished, content)
        with _one_at_a_time:
            is_taken = self._fs.exists(path)
            if not is_taken:
                self._fs.mv(unfinished, path)
        if is_taken:
            self._fs.rm_file(unfinished)
            raise FileExistsError(path)


def _code_of(error: BaseException) -> str:
    """Return the code of S3 for an error that s3fs has translated."""
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
