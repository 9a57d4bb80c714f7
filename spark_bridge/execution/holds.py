"""Files of a checkpoint by which one process of a query makes another wait: under Spark Connect micro-batches run elsewhere.

In one process there are locks for that: see ``MicroBatches.turn`` and ``Upkeep.deleting``.
"""

from __future__ import annotations

import time
from typing import Literal
from uuid import uuid4

from evercurrent.views.store import Store
from evercurrent.views.store.repeated_puts import put_own

from .interruptions import interruption

POLL_SECONDS = 0.05
"""Seconds between two looks."""

Kind = Literal["batches", "files"]
"""What is held: no micro-batch begins, or no file is deleted."""

HOLDS = "holds"
"""Folder of the checkpoint."""


class Holds:
    """The holds in the store of a checkpoint."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, kind: Kind) -> str:
        """Begin to hold, and return the name by which it is ended."""
        name = f"{HOLDS}/{kind}/{uuid4().hex}"
        put_own(self._store, name, [b""])
        return name

    def end(self, name: str) -> None:
        """End a hold."""
        self._store.delete(name)

    def is_held(self, kind: Kind) -> bool:
        """Return whether anybody holds. Cost: a folder is listed."""
        return bool(self._store.list(f"{HOLDS}/{kind}/"))

    def await_end(self, kind: Kind) -> InterruptedError:
        """Wait until nobody holds, and return the error with which a micro-batch that has not begun ends."""
        while self.is_held(kind):
            time.sleep(POLL_SECONDS)
        return interruption(InterruptedError("the query is started again"))

    def clear(self) -> None:
        """End the holds of processes that were killed. The caller has the lock of the checkpoint."""
        self._store.delete_all([each.name for each in self._store.list(f"{HOLDS}/")])
