"""Reading a checkpoint while another process writes it and deletes what it no longer retains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from evercurrent.core.data.errors import EpochGoneError, MissingFileError

from ..store import Store
from .marker import COMMITS

Read = TypeVar("Read")

TRIES = 8
"""How often a read begins again before it is given up."""


def read_beside_writer(
    store: Store, read: Callable[[], Read], look: Callable[[], None] | None = None
) -> Read:
    """Return what ``read`` returns, which begins again where a writer has meanwhile deleted a file that it needed.

    ``look`` is called before it begins again. If nothing was committed or deleted since the last try, the file is missing for
    another reason, and the error is that of ``read``.

    Raises:
        EpochGoneError: the writer deletes faster than this is read; names the way out.
        MissingFileError: the checkpoint is damaged.
    """
    error: MissingFileError | None = None
    before: list[str] = []
    for _ in range(TRIES):
        try:
            if error is not None and look is not None:
                look()
            return read()
        except MissingFileError as missing:
            now = records_there(store)
            if error is not None and now == before:
                raise
            error, before = missing, now
    what = str(error).partition("; ")[0]
    raise EpochGoneError(
        f"{what}: its writer has deleted what was being read {TRIES} times; retain more commits, or delete them later, with "
        "Checkpoint(keep=..., grace=...)"
    ) from error


def records_there(store: Store) -> list[str]:
    """Return the names of the records of commits, which change with each commit and each one that is deleted."""
    return sorted(file.name for file in store.list(COMMITS))
