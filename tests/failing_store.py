"""A store that fails on purpose, at its n-th operation: for tests "for every n".

for n in itertools.count():
    store = FailingStore(LocalStore(folder), fail_at=n)
    ...
    if not store.has_failed:
        break  # there are fewer operations than that
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from evercurrent.core.data.errors import CheckpointError, NameTakenError
from evercurrent.views.store import Acknowledged, Buffer, FileBytes, Item, Listed, LocalStore, Store

When = Literal["before", "after", "torn"]

OPERATIONS = ("put", "read", "list", "delete", "lock")
"""What is counted: ``put_all`` and ``delete_all`` are as many puts and deletes as they have names."""


class Killed(BaseException):
    """Stands for ``kill -9``: no ``except Exception`` holds it, and the store does nothing from then on."""


class InjectedError(CheckpointError):
    """What a store raises whose disk has failed."""


class FailingStore:
    """Passes everything on and counts; fails at operation number ``fail_at`` (from 0; None: never).

    ``before``: nothing has happened. ``after``: it has happened, and then the error. ``torn``: of a put, half of the
    bytes are left as a store leaves them that is killed in the middle (a folder: under an unfinished name; elsewhere
    nothing); any other operation: as ``before``.

    ``error=Killed``: the process is gone: every later operation raises too and does nothing. ``lasting=True``: every
    later operation fails in the same way (a disk that stays broken). ``only``: the operations that are counted.

    ``done`` lists what was counted, as (operation, name); ``has_failed`` is whether the failure has happened.
    """

    def __init__(
        self,
        store: Store,
        fail_at: int | None = None,
        when: When = "before",
        *,
        error: type[InjectedError] | type[Killed] = InjectedError,
        lasting: bool = False,
        only: Container[str] = OPERATIONS,
    ) -> None:
        self.store = store
        self.fail_at = fail_at
        self.when = when
        self.error = error
        self.lasting = lasting
        self.only = only
        self.done: list[tuple[str, str]] = []
        self.has_failed = False

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def excludes_writers(self) -> bool:
        return self.store.excludes_writers

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        self._do("put", name, lambda: self.store.put(name, data), lambda: leave_half(self.store, name, data))

    def put_all(self, items: Sequence[Item]) -> None:
        taken: NameTakenError | None = None
        for item in items:
            try:
                self.put(*item)
            except NameTakenError as error:
                taken = error
        if taken is not None:
            raise taken

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        """All of them: so each file of a commit is an operation that may fail."""
        self.put_all(items)
        return ()

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        self.put_all(items)
        self.put(name, data)

    def read(self, name: str) -> FileBytes:
        return self._do("read", name, lambda: self.store.read(name))

    def list(self, prefix: str = "") -> list[Listed]:
        return self._do("list", prefix, lambda: self.store.list(prefix))

    def delete(self, name: str) -> None:
        self._do("delete", name, lambda: self.store.delete(name))

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def input_log(self) -> None:
        return None

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        return ()

    def acknowledge(self, first: int, epoch: int) -> None:
        """Nobody waits for it, so it is not counted; it is not done by who is dead."""
        if not (self.has_failed and issubclass(self.error, Killed)):
            self.store.acknowledge(first, epoch)

    def retain_from(self, oldest: int) -> None:
        if not (self.has_failed and issubclass(self.error, Killed)):
            self.store.retain_from(oldest)

    def acknowledged(self) -> Acknowledged | None:
        return self.store.acknowledged()

    def own_faults(self) -> Sequence[tuple[str, str]]:
        return self.store.own_faults()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """A failure ``after`` gives the lock back, as the death of a process does."""
        with ExitStack() as stack:
            self._do("lock", "", lambda: stack.enter_context(self.store.lock()))
            yield

    def _do(
        self, operation: str, name: str, work: Callable[[], Any], tear: Callable[[], None] = lambda: None
    ) -> Any:
        if self.has_failed and (self.lasting or issubclass(self.error, Killed)):
            raise self._failure(operation, name)
        fails = operation in self.only and len(self.done) == self.fail_at
        if operation in self.only:
            self.done.append((operation, name))
        if not fails:
            return work()
        self.has_failed = True
        if self.when == "after":
            work()
        elif self.when == "torn":
            tear()
        raise self._failure(operation, name)

    def _failure(self, operation: str, name: str) -> BaseException:
        cause = OSError(errno.EIO, os.strerror(errno.EIO))
        error = self.error(f"{self.url}: {operation} {name}: failed on purpose ({cause})")
        error.__cause__ = cause
        return error


def leave_half(store: Store, name: str, data: Sequence[Buffer]) -> None:
    """What is left by a process that was killed in the middle of this put."""
    while isinstance(store, FailingStore):
        store = store.store
    if isinstance(store, LocalStore):
        content = b"".join(bytes(memoryview(each)) for each in data)
        path = Path(store.url, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".part-0-{len(content)}").write_bytes(content[: len(content) // 2])
