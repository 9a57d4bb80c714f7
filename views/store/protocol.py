"""The protocol of stores, and the names of files that they take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from evercurrent.core.data.errors import CheckpointError

from .acknowledged import Acknowledged


class FileBytes(Protocol):
    """The bytes of a file: what is used of a ``pyarrow.Buffer``, which has no types of its own."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def slice(self, offset: int = 0, length: int | None = None) -> Self:
        """Return a part of them, by reference."""

    def to_pybytes(self) -> bytes:
        """Return a copy of them."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview:
        """``memoryview(...)``, and what else takes a buffer, does not copy them."""


Buffer: TypeAlias = bytes | bytearray | memoryview | FileBytes
"""Contiguous bytes: whatever ``memoryview`` takes."""

Item: TypeAlias = tuple[str, Sequence[Buffer]]
"""A file to be written: its name and its bytes."""

LOCK = "writer.lock"
JOURNALS = ("writer.journal", "writer.journal2")
INPUTS = "writer.inputs"
ACKNOWLEDGED = "writer.acknowledged"
"""Names that are a store's own, besides all that begin with a dot."""

OWN = (LOCK, INPUTS, ACKNOWLEDGED, *JOURNALS)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a store: its name, its size, and when it was written (seconds since 1970, by the store's clock)."""

    name: str
    size: int
    modified: float


class Abandoned(BaseException):
    """The exception that ends a lock, or a log, of an owner that was collected as garbage.

    That happens at any point, with any lock of the standard library held, so the handler must neither wait for a thread nor
    start work in one. Anything left undone is left to the next process that locks the store.
    """


class LogGapError(CheckpointError):
    """A log of inputs begins after the epoch that follows the last commit, so the commit before ``first`` is lost."""

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


class Log(Protocol):
    """Entries with numbers that grow, each durable when it has been added; emptied as a whole."""

    @property
    def is_ours(self) -> bool:
        """Return whether this process has made it, and not the one that it was forked from."""

    @property
    def size(self) -> int:
        """Return bytes of the entries."""

    def begin(self, number: int, parts: Sequence[Buffer]) -> None:
        """Begin to add an entry; ``wait`` for it before the next one."""

    def wait(self) -> None:
        """Wait until the entry that was begun is on the disk.

        Raises:
            OSError: it is unknown whether it is; then call ``take_back``.
            CheckpointError: it is, and no reopening would find it there; call ``take_back``, too.
        """

    def take_back(self) -> None:
        """Undo the entry that was begun and not waited for, durably, however much of it is there.

        Raises:
            OSError: it is unknown whether the entry is still there.
        """

    def restart(self) -> None:
        """Drop all entries."""

    def remove(self) -> None:
        """Remove the log, which is not needed any more."""

    def __enter__(self) -> Self:
        """Return the log, until the end of the context."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the log; its entries stay."""


class Store(Protocol):
    """A store of files that are written once, whole, and never changed. It may be pickled, and used by several threads.

    A name is a relative path with ``/``: ``commits/000000000012.json``. Every method raises ``CheckpointError`` if the
    store fails; it names store, file and reason.
    """

    @property
    def url(self) -> str:
        """Return the store's url without passwords; ``store_at`` of it is the same store."""

    @property
    def excludes_writers(self) -> bool:
        """Return whether ``lock`` excludes writers of other processes; otherwise their commits are refused, and not their files."""

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        """Write a file, the buffers one after another. It is complete and durable when this returns.

        An error other than of a taken name may be raised after the file got its name; the file is then whole.

        Raises:
            NameTakenError: there is a file of that name. It stays as it is.
        """

    def put_all(self, items: Sequence[Item]) -> None:
        """Write several files at less cost than one ``put`` after another. After an error some may be there.

        Raises:
            NameTakenError: as ``put``; the other files are written nevertheless.
        """

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        """Write files that a commit will name, as ``put_all``; return those that are better written by ``commit``.

        The names must be unique, and not read before the commit is there. Only the holder of the lock, who alone
        commits, gets any back.
        """

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        """Write these items, and then, as ``put``, the file that names them. All of them are durable when this returns.

        ``items`` are those that ``put_ahead`` returned. An error has the same meaning as for a ``put`` of the last file.

        Raises:
            NameTakenError: there is a file of that name. It stays as it is; the items may be there.
        """

    def read(self, name: str) -> FileBytes:
        """Return the bytes of a file: mapped, not loaded, wherever that can be. They stay readable if the file is deleted.

        Raises:
            MissingFileError: there is no such file.
        """

    def list(self, prefix: str = "") -> list[Listed]:
        """Return all files whose names begin with the prefix, by name, except unfinished ones and the store's own."""

    def delete(self, name: str) -> None:
        """Delete a file, durably. No error if it is not there."""

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete several files in any order, durably; costs less than one ``delete`` after another."""

    def input_log(self) -> Log | None:
        """Return the log of the input of uncommitted epochs; None without the lock, or if the store has no such log."""

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        """Return the log's entries for the epochs that follow this one, which is the last committed one.

        Only the last entry may be cut off, if its epoch was not acknowledged; anything else is damage.

        Raises:
            CorruptFileError, MissingFileError: acknowledged epochs are not there; names the file.
            LogGapError: it begins with a later epoch.
        """

    def acknowledge(self, first: int, epoch: int) -> None:
        """Note, without waiting, that the record of the epochs from ``first`` up to this one is there.

        A note that cannot be written is a warning, as the commit is there without it.
        """

    def retain_from(self, oldest: int) -> None:
        """Note durably that the oldest record is that of the epochs from ``oldest`` on, before earlier ones are deleted.

        Raises:
            CheckpointError: the store fails; none of them may be deleted.
        """

    def acknowledged(self) -> Acknowledged | None:
        """Return the progress that the writer has noted, up to which all files must be there; None without a note."""

    def own_faults(self) -> Sequence[tuple[str, str]]:
        """Return the faults of the store's own files, except the log: their names, and what is wrong."""

    def lock(self) -> AbstractContextManager[None]:
        """Make the caller the only writer for as long as the context lasts, or until it is ``Abandoned``.

        Raises:
            CheckpointError: there is another writer; names its process if it is known.
        """


def checked(name: str, url: str) -> str:
    """Return a name, checked to be the name of a file.

    Raises:
        CheckpointError: it leads out of the store, is the store's own, or is not in normal form.
    """
    odd = "\\" in name or "\0" in name or not all(name.split("/"))
    if odd or is_own(name):
        raise CheckpointError(
            f"{url}: {name!r} is not a file name in a checkpoint; names are relative paths such as 'pieces/a.arrow', "
            "without '\\', of which no part is empty or begins with a dot"
        )
    return name


def checked_prefix(prefix: str, url: str) -> str:
    """Return a prefix, checked to be a possible beginning of names.

    Raises:
        CheckpointError: no name begins with it.
    """
    if prefix:
        checked(prefix + "x", url)
    return prefix


def is_own(name: str) -> bool:
    """Return whether a store keeps a file of this name for itself."""
    return name in OWN or any(part.startswith(".") for part in name.split("/"))


def size_of(data: Sequence[Buffer]) -> int:
    """Return the bytes in all buffers."""
    return sum(memoryview(each).nbytes for each in data)
