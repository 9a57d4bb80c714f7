"""What a store does, and which names it takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import pyarrow as pa

from evercurrent.core.data.errors import CheckpointError

from .acknowledged import Acknowledged

Buffer: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Bytes that lie together: whatever ``memoryview`` takes and is contiguous."""

Item: TypeAlias = tuple[str, Sequence[Buffer]]
"""A file to be: its name and its bytes."""

LOCK = "writer.lock"
JOURNALS = ("writer.journal", "writer.journal2")
INPUTS = "writer.inputs"
ACKNOWLEDGED = "writer.acknowledged"
"""Names that are a store's own, beside all that begin with a dot."""

OWN = (LOCK, INPUTS, ACKNOWLEDGED, *JOURNALS)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a store: its name, its bytes, when it was written (seconds since 1970, by the store's clock)."""

    name: str
    size: int
    modified: float


class Abandoned(BaseException):
    """What ends a lock, or a log, of an owner that was collected as garbage.

    That happens in the middle of anything, with any lock of the standard library held: nobody may wait for a thread
    then, nor give one work. What is left undone is left to who locks the store next.
    """


class LogGapError(CheckpointError):
    """A log of inputs goes on from an epoch after the last commit: that of the epoch before ``first`` is lost."""

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


class Log(Protocol):
    """Entries with numbers that grow, each durable when it has been added; emptied as a whole."""

    @property
    def is_ours(self) -> bool:
        """Whether this process has made it, and not the one that it was forked from."""

    @property
    def size(self) -> int:
        """Bytes of the entries."""

    def begin(self, number: int, parts: Sequence[Buffer]) -> None:
        """Begin to add an entry; ``wait`` for it before the next one."""

    def wait(self) -> None:
        """Return when the entry that was begun is on the disk.

        Raises:
            OSError: it is not known whether it is: ``take_back``.
        """

    def take_back(self) -> None:
        """Undo the entry that was begun and not waited for, durably, whatever of it is there.

        Raises:
            OSError: it may be there, and may be not.
        """

    def restart(self) -> None:
        """Forget all entries."""

    def remove(self) -> None:
        """Nobody needs the log any more."""

    def __enter__(self) -> Self:
        """The log, until the end of the context."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write nothing any more; what is there stays."""


class Store(Protocol):
    """Files that are written once, whole, and never changed. May be pickled, and used by several threads at once.

    A name is a relative path with ``/``: ``commits/000000000012.json``. Every method raises ``CheckpointError`` where
    the store lets us down; it names store, file and reason.
    """

    @property
    def url(self) -> str:
        """Where it is; ``store_at`` of it is the same store. Without passwords."""

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        """Write a file, the buffers one after another. It is complete and durable when this returns.

        An error other than of a taken name may come after the file got its name: what lies there is whole then.

        Raises:
            NameTakenError: there is a file of that name. It stays as it is.
        """

    def put_all(self, items: Sequence[Item]) -> None:
        """Write several files; costs less than one ``put`` after another. After an error some may be there.

        Raises:
            NameTakenError: as ``put``; the others are written all the same.
        """

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        """Write files that a commit will name, as ``put_all``; returns those that are better given to ``commit``.

        Nobody else may have such names, or look for them before the commit is there. Only who has the lock, and so
        is the only one to commit, is given any back.
        """

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        """Write these items, and then, as ``put`` does, the file that names them. All is durable when this returns.

        ``items`` are what ``put_ahead`` has returned. An error means what it means of a ``put`` of the last file.

        Raises:
            NameTakenError: there is a file of that name. It stays as it is; the items may be there.
        """

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file: mapped, not loaded, wherever that can be. They stay readable if the file is deleted.

        Raises:
            MissingFileError: there is no such file.
        """

    def list(self, prefix: str = "") -> list[Listed]:
        """All files whose names begin with the prefix, by name; none that is unfinished or the store's own."""

    def delete(self, name: str) -> None:
        """Delete a file, durably. No error if it is not there."""

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete several files in any order, durably; costs less than one ``delete`` after another."""

    def input_log(self) -> Log | None:
        """The log that takes the input of epochs until they are committed. None: we have no lock, or it has no such log."""

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        """What the log has of the epochs that follow this one, which is the last that was committed.

        Only the last entry may be cut off, as that of an epoch that nobody acknowledged; anything else is damage.

        Raises:
            CorruptFileError, MissingFileError: by name, where epochs were acknowledged that are not there.
            LogGapError: it goes on from a later epoch.
        """

    def acknowledge(self, first: int, epoch: int) -> None:
        """Note that the record that covers the epochs from ``first`` up to this one is there. Nobody waits for the note.

        That it cannot be written is a warning: a commit is there without it.
        """

    def retain_from(self, oldest: int) -> None:
        """Have it noted, durably, that the oldest record is that of the epochs from ``oldest`` on: those before it go.

        Raises:
            CheckpointError: the store fails; none of them may go.
        """

    def acknowledged(self) -> Acknowledged | None:
        """How far the writer has come, as far as that was noted: there must be that much. None: nothing is known."""

    def own_faults(self) -> Sequence[tuple[str, str]]:
        """What is wrong with files that are the store's own, but for the log: names, and what is the matter."""

    def lock(self) -> AbstractContextManager[None]:
        """Be the only writer for as long as the context lasts, or until it is ``Abandoned``.

        Raises:
            CheckpointError: there is another one; names its process where that is known.
        """


def checked(name: str, url: str) -> str:
    """The name of a file, if it is one.

    Raises:
        CheckpointError: it leads out of the store, is the store's own, or is not spelled in the one way.
    """
    odd = "\\" in name or "\0" in name or not all(name.split("/"))
    if odd or is_own(name):
        raise CheckpointError(
            f"{url}: {name!r} is no name of a file here; names are relative paths such as 'pieces/a.arrow', "
            "without '\\', and no part of them is empty or begins with a dot"
        )
    return name


def checked_prefix(prefix: str, url: str) -> str:
    """The beginning of names, if names can begin like that.

    Raises:
        CheckpointError: no name does.
    """
    if prefix:
        checked(prefix + "x", url)
    return prefix


def is_own(name: str) -> bool:
    """Whether a store keeps a file of this name for itself."""
    return name in OWN or any(part.startswith(".") for part in name.split("/"))


def size_of(data: Sequence[Buffer]) -> int:
    """The bytes in all buffers."""
    return sum(memoryview(each).nbytes for each in data)
