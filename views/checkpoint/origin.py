"""What a checkpoint keeps for sinks: who has written its epochs, and how far those sinks are that do not record it themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import quote
from uuid import uuid4

from evercurrent.core.data.errors import NameTakenError

from ..store import Store
from ..store.repeated_puts import put_own

WRITERS = "origins/"

OFFSETS, BEGINNINGS = "sinks/", "sink-beginnings/"
"""The last epochs that sinks have taken, and the epochs with whose contents they begin."""

BEFORE_ALL = -1

MOST_WRITERS = 1000
"""How many writers are remembered; what a sink has of those before counts as of another checkpoint."""

Writers: TypeAlias = Sequence[tuple[int, str]]
"""Each writer of a checkpoint: the epoch after which its own begin, and a token that no other one has; the oldest first."""


def writers_of(store: Store) -> Writers:
    """Return the writers of a checkpoint; the first sink makes the first one.

    Raises:
        CheckpointError: the store fails.
    """
    if not store.list(WRITERS):
        with suppress(NameTakenError):  # Another process was faster.
            _put(store, 0, [(BEFORE_ALL, uuid4().hex)])
    return _last(store)[1]


def note_writer(store: Store, epoch: int) -> None:
    """Note that another process writes the epochs after this one, if there are sinks. Cost: a listing, and a small file.

    Raises:
        CheckpointError: the store fails.
    """
    if store.list(WRITERS):
        number, writers = _last(store)
        earlier = [(begin, token) for begin, token in writers if begin < epoch]
        _put(store, number + 1, [*earlier, (epoch, uuid4().hex)][-MOST_WRITERS:])


def _last(store: Store) -> tuple[int, Writers]:
    name = max(each.name for each in store.list(WRITERS))
    entries = json.loads(bytes(store.read(name)))
    return int(name.removeprefix(WRITERS)), [(begin, token) for begin, token in entries]


def _put(store: Store, number: int, writers: Writers) -> None:
    earlier = [each.name for each in store.list(WRITERS)]
    put_own(store, f"{WRITERS}{number:012d}", [json.dumps(writers).encode()])
    store.delete_all(earlier)


class SinkOffset:
    """An epoch of a view in a checkpoint that is noted for a sink, as the name of an empty file: by default the last one taken."""

    def __init__(self, store: Store, key: str, folder: str = OFFSETS) -> None:
        self._store, self._folder = store, f"{folder}{quote(key, safe='')}/"

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
            put_own(self._store, name, [b""])
            self._store.delete_all(earlier)
