"""Files and names are synced to the disk, and waits are shared."""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

AT_ONCE = 8
"""How many waits for a disk or a server run together, as both serve several in the time of one."""

FULL = {errno.ENOSPC, errno.EDQUOT}
"""Errors of a disk that has no room."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def sync_data(descriptor: int) -> None:
    """Sync the content of an open file to the disk."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def erase(descriptor: int, at: int, size: int) -> None:
    """Overwrite a head in an open file with zeros, durably.

    Where the file ends before it there is nothing to overwrite, and a full disk would have no room for the zeros. Where the
    system writes what is overwritten to another place, and has no room either, the file is cut off there.
    """
    if os.fstat(descriptor).st_size <= at:
        return
    try:
        os.pwrite(descriptor, bytes(size), at)
    except OSError as error:
        if error.errno not in FULL:
            raise
        os.ftruncate(descriptor, at)
    sync_data(descriptor)


def sync_folder(folder: str) -> None:
    """Sync the names in a folder to the disk."""
    if os.name == "nt":  # Folders cannot be opened there, and the file system's journal keeps names in order.
        return
    _sync(folder)


def make_folders(folder: str) -> None:
    """Create a folder and those above it, durably."""
    absent, above = [], folder
    while not os.path.lexists(above):
        absent.append(above)
        above = os.path.dirname(above)
    os.makedirs(folder, exist_ok=True)
    for each in absent:
        sync_folder(os.path.dirname(each))


def sync_together(paths: Iterable[str]) -> None:
    """Sync these files, as far as they exist, and the names in their folders to the disk."""
    paths = set(paths)
    all_at_once(_sync_if_there, paths)
    all_at_once(_sync_if_there, {os.path.dirname(path) for path in paths})


def all_at_once(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Call ``work`` for all items, several at a time; raise the first error after all are done."""
    items = list(items)
    if len(items) < 2 or is_ending():
        for item in items:
            work(item)
        return
    futures, remaining = [], list(items)
    with ThreadPoolExecutor(min(AT_ONCE, len(items)), "evercurrent-store") as pool, suppress(RuntimeError):
        while remaining:
            futures.append(pool.submit(work, remaining[0]))
            del remaining[0]
    for item in remaining:  # The interpreter has begun to end, and no pool takes more.
        work(item)
    for each in futures:
        each.result()


class OneThread:
    """A background thread that calls functions one after another; it is started with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = 0
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, work: Callable[[], Result]) -> Future[Result]:
        """Call ``work`` after all earlier calls; the returned future holds its result or error.

        While the interpreter ends, or if no thread can be started, it is called in this thread.
        """
        if is_ending():
            return _called(work)
        if self._pool is None or self._process != os.getpid():  # Threads do not survive ``fork``.
            self._process, self._pool = os.getpid(), ThreadPoolExecutor(1, self._name)
        try:
            return self._pool.submit(work)
        except RuntimeError:  # The call waits for a thread nevertheless, until the end of the pool.
            self.end()
            return _called(work)

    def end(self) -> None:
        """End the thread after the present call, without those that wait; another call starts it again."""
        pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.shutdown(wait=False, cancel_futures=True)


def _called(work: Callable[[], Result]) -> Future[Result]:
    """Return a future that has the result or the error of ``work``."""
    future: Future[Result] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


def is_ending() -> bool:
    """Return whether the interpreter is ending, so that no thread can be started; engines may be closed even then."""
    return not threading.main_thread().is_alive()


def _sync_if_there(path: str) -> None:
    with suppress(FileNotFoundError):  # Deleted since.
        _sync(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
