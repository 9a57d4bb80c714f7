"""What a checkpoint keeps for sinks: a token that no other checkpoint has, and how far those are that do not know it."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote
from uuid import uuid4

from evercurrent.core.data.errors import NameTakenError

from ..store import Store

ORIGIN = "origin"

FOLDER = "sinks/"


def origin_of(store: Store) -> str:
    """Return the origin of a checkpoint, which is written when it is first needed.

    Raises:
        CheckpointError: the store fails.
    """
    if not store.list(ORIGIN):
        with suppress(NameTakenError):  # Another process was faster.
            store.put(ORIGIN, [uuid4().hex.encode()])
    return bytes(store.read(ORIGIN)).decode()


class SinkOffset:
    """The last epoch that a sink has taken from a view of a checkpoint, as the name of an empty file."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._folder = store, f"{FOLDER}{quote(key, safe='')}/"

    def last(self) -> int | None:
        """Return the epoch; None if there is none.

        Raises:
            CheckpointError: the store fails.
        """
        return max(
            (int(each.name.rpartition("/")[2]) for each in self._store.list(self._folder)), default=None
        )

    def note(self, epoch: int) -> None:
        """Put an epoch in the place of those before.

        Raises:
            CheckpointError: the store fails.
        """
        earlier = [each.name for each in self._store.list(self._folder)]
        name = f"{self._folder}{epoch:012d}"
        if name not in earlier:
            self._store.put(name, [b""])
            self._store.delete_all(earlier)
