"""A directory finds words in a long sorted array of uniformly distributed ones by their leading bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .dense import BLOCK, Places, in_blocks
from .kernels import Index, Keys, Words

FROM = 1 << 12
"""Arrays from this size on have a directory."""

FILTERED_BELOW = 1 << 22
"""Arrays below this size have a filter: longer ones are few and hold most of the words that are looked up anyway."""

STEPS = 8
"""How many steps a search takes from the start of its slot."""

FEW_AHEAD = 64
"""So few words that are still ahead are found by a binary search of each, which takes less than further steps of all."""

WIDEST = 22
"""The most leading bits in a table of a few keys."""

CHUNK = 1 << 18
"""How many words are counted at a time when a directory is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """A directory holds where each value of the leading bits begins in a sorted array, and a filter of longer prefixes.

    ``starts`` has a slot for every one or two words; ``filter`` a bit for every quarter to eighth of a word,
    set where a word has that prefix. Memory: 2 to 4 bytes a word for the slots, 0.5 to 1 for the filter.
    """

    starts: npt.NDArray[np.integer[Any]]
    filter: npt.NDArray[np.uint8] | None

    @staticmethod
    def of(words: Words, *, is_matched: bool = True) -> Directory | None:
        """Return the directory of ascending words; None where there are too few to need one.

        Only if it ``is_matched`` has it a filter, which finding ranges does not use.
        """
        if len(words) < FROM:
            return None
        is_filtered = is_matched and len(words) < FILTERED_BELOW
        return Directory(_starts(words), _filter(words) if is_filtered else None)

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return self.starts.nbytes + (0 if self.filter is None else self.filter.nbytes)

    def maybe(self, targets: Words) -> Index | None:
        """Return the positions of the words that may be there, which are all that are and few others; None without a filter."""
        if self.filter is None:
            return None
        slots = targets >> np.uint64(65 - (8 * len(self.filter)).bit_length())
        bits = self.filter.take((slots >> np.uint64(3)).view(np.int64)) >> (slots & np.uint64(7)).astype(
            np.uint8
        )
        return (bits & np.uint8(1)).nonzero()[0]

    def match(self, words: Words, targets: Words) -> tuple[Index, Index]:
        """Return which of these targets are among distinct words, and their places; it is the directory of these words."""
        if len(targets) > BLOCK:
            return in_blocks(self.match, words, targets)
        maybe = self.maybe(targets) if len(targets) < len(words) else None
        if maybe is not None:
            targets = targets.take(maybe)
        places = self.search(words, targets)
        same = (words.take(places, mode="clip") == targets).nonzero()[0]
        return same if maybe is None else maybe.take(same), places.take(same)

    def search(self, words: Words, targets: Words) -> Index:
        """Return ``np.searchsorted(words, targets)`` for the words that this is the directory of.

        Each search steps on from the start of its slot, and half of them are there at once. The last few, and words that are not
        reached in ``STEPS`` steps, as they are in a crowded slot, that of a key with many rows, are found by a binary search.
        """
        if len(targets) > BLOCK:
            blocks = range(0, len(targets), BLOCK)
            return np.concatenate([self.search(words, targets[start : start + BLOCK]) for start in blocks])
        shift = np.uint64(65 - (len(self.starts) - 1).bit_length())
        positions = self.starts.take((targets >> shift).view(np.int64)).astype(np.intp)
        # A target beyond the last word is ahead of it to the end, and is found by the binary search.
        ahead = (words.take(positions, mode="clip") < targets).nonzero()[0]
        for _ in range(STEPS):
            if len(ahead) <= FEW_AHEAD:
                break
            further = positions[ahead] + 1
            positions[ahead] = further
            ahead = ahead[words.take(further, mode="clip") < targets[ahead]]
        positions[ahead] = words.searchsorted(targets[ahead])
        return positions


def directory_of(words: Words, *, is_matched: bool = True) -> Directory | Places | None:
    """Return the directory of ascending words, or their places if they are matched and their integers lie close together.

    None where there are too few words to need one.
    """
    if len(words) < FROM:
        return None
    return (Places.of(words) if is_matched else None) or Directory.of(words, is_matched=is_matched)


class Deferred:
    """The directory of ascending words, built on its first use, so that words mapped from a file are not read before."""

    def __init__(self, words: Words, *, is_matched: bool) -> None:
        self._words = words
        self._is_matched = is_matched
        self._made: Directory | Places | None = None

    @staticmethod
    def of(words: Words, *, is_matched: bool = True) -> Deferred | None:
        """Return a directory to be built later, see ``directory_of``. Cost: reads no word."""
        return Deferred(words, is_matched=is_matched) if len(words) >= FROM else None

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return 0 if self._made is None else self._made.nbytes

    @property
    def is_made(self) -> bool:
        """Return whether it has been used."""
        return self._made is not None

    def match(self, words: Words, targets: Words) -> tuple[Index, Index]:
        """See ``Directory.match``."""
        return self._directory.match(words, targets)

    def search(self, words: Words, targets: Words) -> Index:
        """See ``Directory.search``."""
        return self._directory.search(words, targets)

    @property
    def _directory(self) -> Directory | Places:
        if self._made is None:
            self._made = directory_of(self._words, is_matched=self._is_matched)
        assert self._made is not None, "there are enough words"
        return self._made


@dataclass(frozen=True, slots=True, eq=False)
class GrowingDirectory:
    """The directory of ascending words that come part by part, so that it costs nothing when the last one is there.

    ``next_slot`` is the first one whose start is not known. What is written for a part may be written again: so a part that is
    taken back leaves nothing wrong.
    """

    starts: npt.NDArray[np.integer[Any]]
    filter: npt.NDArray[np.uint8] | None
    next_slot: int = 0

    @staticmethod
    def of(capacity: int, *, is_matched: bool = True) -> GrowingDirectory:
        """Return the directory of no words, with room for so many, at least one; with a filter only if it ``is_matched``."""
        kind = np.int32 if capacity < 2**31 else np.int64
        starts: npt.NDArray[np.integer[Any]] = np.zeros((1 << _bits_of_slots(capacity)) + 1, kind)
        is_filtered = is_matched and capacity < FILTERED_BELOW
        bits = np.zeros(1 << (_bits_of_filter(capacity) - 3), np.uint8) if is_filtered else None
        return GrowingDirectory(starts, bits)

    def with_part(self, at: int, words: Words) -> GrowingDirectory:
        """Return the directory with these words, at least one, which begin at this place. Cost: theirs."""
        shift = np.uint64(65 - (len(self.starts) - 1).bit_length())
        slots = (words >> shift).view(np.int64)
        first, last = int(slots[0]), int(slots[-1])
        self.starts[self.next_slot : first + 1] = at
        counts = np.bincount(slots - first)
        self.starts[first + 1 : last + 1] = at + np.cumsum(counts[:-1])
        if self.filter is not None:
            prefixes = (words >> np.uint64(65 - (8 * len(self.filter)).bit_length())).view(np.int64)
            begin, end = int(prefixes[0]) >> 3, (int(prefixes[-1]) >> 3) + 1
            there = np.zeros((end - begin) << 3, np.bool_)
            there[prefixes - (begin << 3)] = True
            self.filter[begin:end] |= np.packbits(there, bitorder="little")
        return replace(self, next_slot=last + 1)

    def finished(self, size: int) -> Directory:
        """Return the directory, as all words are there. Cost: none, but for slots behind the last one."""
        self.starts[self.next_slot :] = size
        return Directory(self.starts, self.filter)


def is_used(directory: Directory | Places | Deferred | None) -> bool:
    """Return whether words have been looked up in a directory, or it was made to do so."""
    return directory.is_made if isinstance(directory, Deferred) else directory is not None


def places_of_distinct(
    keys: Keys, among: Keys, directory: Directory | Places | Deferred | None
) -> tuple[Index, Index]:
    """Return the places of keys among ascending ones whose first words are distinct, and which of the keys these are.

    ``directory`` is that of the first words ``among`` them, if there is one. Cost: a search for each key.
    """
    words = among.first
    if not len(words):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    if directory is None:
        places = words.searchsorted(keys.first)
        owners = np.flatnonzero(words.take(places, mode="clip") == keys.first)
        places = places[owners]
    else:
        owners, places = directory.match(words, keys.first)
    if among.second is not None or keys.second is not None:
        is_same = among.seconds_at(places) == keys.seconds_at(owners)
        places, owners = places[is_same], owners[is_same]
    return places, owners


def search_distinct(words: Words, targets: Words) -> Index:
    """Return ``np.searchsorted(words, targets)`` for ascending words that mostly are distinct, of which most of many targets are there.

    Cost: a pass over the words, and a look-up of each target.
    """
    table = Places.of(words) if len(words) >= FROM else None
    if table is None:
        directory = Directory.of(words, is_matched=False)
        return words.searchsorted(targets) if directory is None else directory.search(words, targets)
    hit, positions = table.match(words, targets)
    if len(hit) == len(targets):
        return positions
    is_missing = np.ones(len(targets), np.bool_)
    is_missing[hit] = False
    missing = np.flatnonzero(is_missing)
    places = np.empty(len(targets), np.intp)
    places[hit] = positions
    places[missing] = words.searchsorted(targets[missing])
    return places


def entries_among(entries: Keys, keys: Keys) -> tuple[Index, Index]:
    """Return which entries, in any order, have one of these ascending, distinct keys, and which key it is.

    Cost: one look at each entry, in a table of the leading bits of the keys, and a search for the few that may have one.
    """
    if not len(keys):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    maybe = _maybe_among(entries.first, keys.first)
    words, seconds, last = entries.first[maybe], entries.seconds_at(maybe), len(keys) - 1
    directory = Directory.of(keys.first)
    places = np.searchsorted(keys.first, words) if directory is None else directory.search(keys.first, words)
    owners = np.minimum(places, last)
    stored = keys.seconds()
    # A second pass only where the first words of two keys collide.
    while len(behind := np.flatnonzero((keys.first[owners] == words) & (stored[owners] != seconds))):
        following = owners[behind] + 1
        behind = behind[(following <= last) & (keys.first[np.minimum(following, last)] == words[behind])]
        if not len(behind):
            break
        owners[behind] += 1
    same = np.flatnonzero((keys.first[owners] == words) & (stored[owners] == seconds))
    return maybe[same], owners[same]


def _maybe_among(entries: Words, keys: Words) -> Index:
    """Return the positions of all entries that are one of these keys, and of a few more."""
    bits = min(max(8, len(keys).bit_length() + 7), WIDEST)
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, np.bool_)
    table[(keys >> shift).view(np.int64)] = True
    maybe = np.empty(len(entries), np.bool_)
    for start in range(0, len(entries), BLOCK):
        slots = (entries[start : start + BLOCK] >> shift).view(np.int64)
        np.take(table, slots, out=maybe[start : start + len(slots)], mode="clip")
    return np.flatnonzero(maybe)


def _bits_of_slots(count: int) -> int:
    return count.bit_length() - 1


def _bits_of_filter(count: int) -> int:
    return count.bit_length() + 2


def _starts(words: Words) -> npt.NDArray[np.integer[Any]]:
    bits = _bits_of_slots(len(words))
    kind = np.int32 if len(words) < 2**31 else np.int64
    counts = np.zeros((1 << bits) + 1, kind)
    # Chunk by chunk, as the slots of all words at once would take as much room as the words.
    for start in range(0, len(words), CHUNK):
        slots = (words[start : start + CHUNK] >> np.uint64(64 - bits)).view(np.int64)
        slot_counts = np.bincount(slots - slots[0]).astype(kind)
        first = int(slots[0]) + 1
        np.add(
            counts[first : first + len(slot_counts)],
            slot_counts,
            out=counts[first : first + len(slot_counts)],
        )
    return np.cumsum(counts, dtype=kind)


def _filter(words: Words) -> npt.NDArray[np.uint8]:
    bits = _bits_of_filter(len(words))
    there = np.zeros(1 << bits, np.bool_)
    there[(words >> np.uint64(64 - bits)).view(np.int64)] = True
    return np.packbits(there, bitorder="little")
