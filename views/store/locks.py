"""Locks on files, which the system releases when the process that holds them dies."""

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evercurrent.core.data.errors import CheckpointError

try:
    import fcntl
except (
    ImportError
):  # Windows. Exclusive names alone keep two writers apart there: the slower one fails at its commit.
    fcntl = None  # type: ignore[assignment]

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
"""Errors of file systems without locks."""


class _LockedFile:
    """An open file that is locked by this process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        _locked_files.add(self)

    def release(self) -> None:
        if self in _locked_files:
            _locked_files.discard(self)
            if fcntl is not None:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)


_locked_files: set[_LockedFile] = set()


def _forget_in_child() -> None:
    """Close the locks in a child made by ``fork``, which would keep them alive after its parent's death."""
    for locked_file in _locked_files:
        os.close(locked_file.descriptor)
    _locked_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def writer_lock(path: Path, url: str) -> Iterator[bool]:
    """Hold the lock on this file, which then names its holder; yield False where the file system has no locks.

    Raises:
        CheckpointError: another process holds it; names the holder.
        OSError: the file cannot be made.
    """
    if fcntl is None:
        yield False
        return
    locked_file = _LockedFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    is_ours = True
    try:
        try:
            fcntl.flock(locked_file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"{url}: {_holder(locked_file.descriptor)} writes to this checkpoint; "
                "end that process (or close the engine that has it open), or choose another place"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            is_ours = False
        os.ftruncate(locked_file.descriptor, 0)
        os.pwrite(locked_file.descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield is_ours
    finally:
        locked_file.release()


def _holder(descriptor: int) -> str:
    """Return the holder of the lock, by what it wrote into the file."""
    holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
    us = f"process {os.getpid()} on {socket.gethostname()}"
    return f"this process ({os.getpid()})" if holder == us else holder or "another process"


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock on this file as soon as it is free."""
    if fcntl is None:
        yield
        return
    locked_file = _LockedFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    try:
        fcntl.flock(locked_file.descriptor, fcntl.LOCK_EX)
        yield
    finally:
        locked_file.release()


_writing: set[str] = set()
_guard = threading.Lock()


@contextmanager
def lock_in_process(url: str) -> Iterator[None]:
    """Make the caller the only writer of this process, for stores that cannot hold a lock.

    Raises:
        CheckpointError: this process writes there already.
    """
    with _guard:
        if url in _writing:
            raise CheckpointError(
                f"{url}: this process ({os.getpid()}) writes to this checkpoint; close the engine that has it"
            )
        _writing.add(url)
    try:
        yield
    finally:
        with _guard:
            _writing.discard(url)
