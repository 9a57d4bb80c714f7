"""The hash that makes the words of keys: ours, or in a checkpoint of format 1 the one with which it was begun.

The words are part of states, and many states keep nothing else of their rows, so the words cannot be computed again. So
all work on the states of a checkpoint is done with its hash, from the first commit to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
import polars as pl

from .value_words import Words, row_words

SEEDS = (0x65766572, 0x63757272)
"""Seeds of the two hashes of polars that make a key in checkpoints of format 1."""

FIRST_MARK, FIRST_KNOWN = "polars-2.1.0", "b5181127dfddbc48"
"""The mark of the hash in files of format 1, and the digest of sample values by that hash."""


@dataclass(frozen=True, slots=True)
class KeyHash:
    """A hash of keys, and the format of the checkpoints that have their words from it."""

    format: int
    words: Callable[[Sequence[pl.Series], int], tuple[Words, Words]]

    @property
    def mark(self) -> str:
        """Return the mark of the hash in files: a digest of sample values, by which hashes are distinguished."""
        digest = _digest(self)
        return FIRST_MARK if self.format == 1 and digest == FIRST_KNOWN else digest


def _words_of_polars(columns: Sequence[pl.Series], height: int) -> tuple[Words, Words]:
    """Return the words by polars' own hash, which it promises to keep within one version only."""
    frame = pl.DataFrame(columns)
    first, second = (frame.hash_rows(seed=seed).to_numpy() for seed in SEEDS)
    return first, second


OURS = KeyHash(2, row_words)
"""The hash of new checkpoints and of views without one."""

OF_POLARS = KeyHash(1, _words_of_polars)
"""The hash of checkpoints of format 1, which were all begun with polars 2.1."""

IN_FORCE: ContextVar[KeyHash] = ContextVar("key_hash", default=OURS)
"""The hash that makes the words of keys, in each thread."""


def in_force() -> KeyHash:
    """Return the hash that makes the words of keys in this thread."""
    return IN_FORCE.get()


class hashing_by:  # noqa: N801 - read as a function
    """A context in which the words of keys are made by this hash, in this thread."""

    __slots__ = ("_before", "_key_hash")

    def __init__(self, key_hash: KeyHash) -> None:
        self._key_hash = key_hash

    def __enter__(self) -> None:
        """Put the hash in force."""
        self._before = IN_FORCE.set(self._key_hash)

    def __exit__(self, *_: object) -> None:
        """Put the one before it in force again."""
        IN_FORCE.reset(self._before)


@cache
def _digest(key_hash: KeyHash) -> str:
    """Return a digest of the words of sample values of the types that keys have."""
    texts = [None, "", "a", "ß" * 4, "user-1234567", *("x" * count for count in (13, 16, 100, 300))]
    height = len(texts)
    samples = [
        pl.Series("text", texts),
        pl.Series("bytes", texts).cast(pl.Binary),
        pl.Series("whole", [None, 0, 1, -1, 2**63 - 1, -(2**63), 7, 8, 9], pl.Int64),
        pl.Series("short", range(-4, 5), pl.Int16),
        pl.Series("float", [None, 0.0, -0.0, float("nan"), float("inf"), 1.5, -2.5, 1e300, 0.1], pl.Float64),
        pl.Series("flag", [None, True, False] * 3),
        pl.Series("day", range(height), pl.Int32).cast(pl.Date),
        pl.Series("decimal", range(height), pl.Int64).cast(pl.Decimal(20, 2)),
        pl.Series("list", [None, [], [1], [1, None], [2, 1], [0], [3], [4], [5, 6, 7]], pl.List(pl.Int64)),
    ]
    samples.append(pl.DataFrame(samples[:3]).to_struct("struct"))
    digest = blake2b(digest_size=8)
    for columns in ([column] for column in samples):
        for words in key_hash.words(columns, height):
            digest.update(words.astype("<u8").tobytes())
    for words in key_hash.words(samples, height):
        digest.update(np.ascontiguousarray(words, "<u8").tobytes())
    return digest.hexdigest()
