"""The words of rows that are in the order of all their values are made when somebody first reads them: until then the values distinguish the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import polars as pl

from ..data.columns.kernels import Index, Keys, gather, key_words
from ..data.columns.key_hash import KeyHash, hashing_by, in_force


@dataclass(frozen=True, slots=True, eq=False)
class DeferredWords:
    """The words of rows, in place of ``Keys`` until they are read, such as by a commit; ``key_hash`` makes them."""

    payload: pl.DataFrame
    key_hash: KeyHash
    _keys: list[Keys] = field(default_factory=list)

    @staticmethod
    def of(payload: pl.DataFrame) -> DeferredWords:
        """Return the words of these rows, by the hash in force."""
        return DeferredWords(payload, in_force())

    def of_others(self, payload: pl.DataFrame) -> DeferredWords:
        """Return the words of other rows, by the same hash."""
        return self if payload is self.payload else DeferredWords(payload, self.key_hash)

    @property
    def nbytes(self) -> int:
        """Return bytes held beside the rows."""
        return sum(keys.nbytes for keys in self._keys)

    def keys(self) -> Keys:
        """Return the words. Cost: those of ``key_words``, once."""
        if not self._keys:
            self._keys.append(self._of(self.payload))
        return self._keys[0]

    def take(self, index: Index) -> Keys:
        """Return the words of the rows at these positions. Cost: that of these rows."""
        return self._keys[0].take(index) if self._keys else self._of(gather(self.payload, index))

    def _of(self, payload: pl.DataFrame) -> Keys:
        # A reader's thread, too, has to use the hash of the circuit.
        with hashing_by(self.key_hash):
            return key_words(payload.get_columns(), payload.height)


RowWords = Keys | DeferredWords
"""The words of rows, made or not."""


def deferred_for(payload: pl.DataFrame, parts: Iterable[RowWords | None]) -> DeferredWords | None:
    """Return the words of rows that were brought together from such parts; None where they cannot be made later."""
    first = next((part for part in parts if isinstance(part, DeferredWords)), None)
    return None if first is None or has_nulls(payload) else first.of_others(payload)


def has_nulls(payload: pl.DataFrame) -> bool:
    """Return whether a value of these rows is null, and so has no order word."""
    return any(column.has_nulls() for column in payload.get_columns())
