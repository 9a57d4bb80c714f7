"""The origin of a checkpoint: a token that no other one has, by which sinks know from where they were written."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from evercurrent.core.data.errors import NameTakenError

from ..store import Store

ORIGIN = "origin"


def origin_of(store: Store) -> str:
    """Return the origin of a checkpoint, which is written when it is first needed.

    Raises:
        CheckpointError: the store fails.
    """
    if not store.list(ORIGIN):
        with suppress(NameTakenError):  # Another process was faster.
            store.put(ORIGIN, [uuid4().hex.encode()])
    return bytes(store.read(ORIGIN)).decode()
