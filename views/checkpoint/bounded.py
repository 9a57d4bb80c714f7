"""A mapping of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any


class Bounded:
    """A mapping that drops the least recently used values when there are too many, by count and by bytes.

    Several threads may use it.
    """

    def __init__(self, entries: int, nbytes: int | None = None) -> None:
        self._most_entries = entries
        self._most_bytes = nbytes
        self._held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()
        self.nbytes: int = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._held)

    def get(self, key: Any) -> Any:
        """Return the value, or None."""
        with self._lock:
            entry = self._held.get(key)
            if entry is None:
                return None
            self._held.move_to_end(key)
            return entry[0]

    def put(self, key: Any, value: Any, nbytes: int = 0) -> None:
        """Set a value; one that is larger than the bound is not kept."""
        with self._lock:
            self._drop(key)
            if self._most_bytes is not None and nbytes > self._most_bytes:
                return
            self._held[key] = value, nbytes
            self.nbytes += nbytes
            while self._is_too_much():
                _, (_, dropped) = self._held.popitem(last=False)
                self.nbytes -= dropped

    def drop(self, key: Any) -> None:
        """Remove a value, if it is there."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Any) -> None:
        entry = self._held.pop(key, None)
        if entry is not None:
            self.nbytes -= entry[1]

    def _is_too_much(self) -> bool:
        if len(self._held) > self._most_entries:
            return True
        return self._most_bytes is not None and self.nbytes > self._most_bytes
