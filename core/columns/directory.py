"""Finding words in a long sorted array of uniformly distributed ones: by their leading bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .kernels import Index, Words

FROM = 1 << 12
"""Arrays from this size on have a directory."""

FILTERED_BELOW = 1 << 22
"""Arrays below this size have a filter: the longest of a few hold most of what is looked for anyway."""

STEPS = 8
"""How many steps a search takes from the start of its slot."""

CHUNK = 1 << 18
"""How many words are counted at a time when a directory is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """Where each value of the leading bits begins in a sorted array, and which longer beginnings there are.

    ``starts`` has a slot for every one or two words; ``filter`` a bit for every quarter to eighth of a word,
    set where a word begins so. 2 to 4 and 0.5 to 1 bytes a word.
    """

    starts: npt.NDArray[np.integer[Any]]
    filter: npt.NDArray[np.uint8] | None

    @staticmethod
    def of(words: Words) -> Directory | None:
        """The directory of ascending words; None where there are too few to need one."""
        if len(words) < FROM:
            return None
        return Directory(_starts(words), _filter(words) if len(words) < FILTERED_BELOW else None)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.starts.nbytes + (0 if self.filter is None else self.filter.nbytes)

    def maybe(self, wanted: Words) -> Index | None:
        """Positions of the words that may be there: all that are, and few that are not. None: no filter."""
        if self.filter is None:
            return None
        slots = wanted >> np.uint64(65 - (8 * len(self.filter)).bit_length())
        bits = self.filter[(slots >> np.uint64(3)).view(np.int64)] >> (slots & np.uint64(7)).astype(np.uint8)
        return np.flatnonzero(bits & np.uint8(1))

    def search(self, words: Words, wanted: Words) -> Index:
        """``np.searchsorted(words, wanted)`` for the words that this is the directory of.

        From the start of its slot each search steps on until it is there: half of them at once. What has not
        arrived after some steps stands in a crowded slot, that of a key with many rows, and is searched for.
        """
        shift = np.uint64(65 - (len(self.starts) - 1).bit_length())
        found = self.starts[(wanted >> shift).view(np.int64)].astype(np.intp)
        last = len(words) - 1
        ahead = np.flatnonzero((words[np.minimum(found, last)] < wanted) & (found <= last))
        for _ in range(STEPS):
            if not len(ahead):
                return found
            found[ahead] += 1
            ahead = ahead[found[ahead] <= last]
            ahead = ahead[words[found[ahead]] < wanted[ahead]]
        found[ahead] = np.searchsorted(words, wanted[ahead])
        return found


class Deferred:
    """The directory of ascending words, made when it is first asked: words that are mapped from a file stay there."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._made: Directory | None = None

    @staticmethod
    def of(words: Words) -> Deferred | None:
        """See ``Directory.of``. Reads no word."""
        return Deferred(words) if len(words) >= FROM else None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0 if self._made is None else self._made.nbytes

    def maybe(self, wanted: Words) -> Index | None:
        """See ``Directory.maybe``."""
        return self._directory.maybe(wanted)

    def search(self, words: Words, wanted: Words) -> Index:
        """See ``Directory.search``."""
        return self._directory.search(words, wanted)

    @property
    def _directory(self) -> Directory:
        if self._made is None:
            self._made = Directory.of(self._words)
        assert self._made is not None, "there are enough words"
        return self._made


def _starts(words: Words) -> npt.NDArray[np.integer[Any]]:
    bits = len(words).bit_length() - 1
    kind = np.int32 if len(words) < 2**31 else np.int64
    counts = np.zeros((1 << bits) + 1, kind)
    # Chunk by chunk, as the slots of all words at once would take as much room as the words.
    for start in range(0, len(words), CHUNK):
        slots = (words[start : start + CHUNK] >> np.uint64(64 - bits)).view(np.int64)
        found = np.bincount(slots - slots[0]).astype(kind)
        first = int(slots[0]) + 1
        np.add(counts[first : first + len(found)], found, out=counts[first : first + len(found)])
    return np.cumsum(counts, dtype=kind)


def _filter(words: Words) -> npt.NDArray[np.uint8]:
    bits = len(words).bit_length() + 2
    there = np.zeros(1 << bits, np.bool_)
    there[(words >> np.uint64(64 - bits)).view(np.int64)] = True
    return np.packbits(there, bitorder="little")
