"""Rows that wait in a state: kept as they came, by reference, until somebody needs them by key.

Rows that only come, and that nobody looks up by key, are neither hashed nor sorted: so a view of rows costs what its
rows cost to compute, and a side of a join costs nothing until the other side changes. Only additions wait. Several
chunks of waiting rows add up, as runs do.

In a state that keeps nothing but numbers by key, entries wait as the words of their keys: a few keys are found among
many of these by looking at each, which costs less than sorting them, unless it is done often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..columns.directory import entries_among
from ..columns.kernels import Ints, Keys, stack
from ..columns.key_hash import KeyHash, hashing_by
from ..data.schema import DIFF
from .merge_policy import to_merge
from .run import Run
from .snapshot import KEY, SECOND

APART_FROM = 1 << 16
"""Chunks of this many rows are not put together any more: there are few of them, and each copy costs time."""

Sorter = Callable[[pl.DataFrame], Run]
"""A function that returns rows with their diffs as a run."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Chunk:
    """Rows with positive diffs, the payload's columns and ``_diff``, and the hash that makes the words of their keys."""

    frame: pl.DataFrame
    key_hash: KeyHash

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height


Waiting = tuple[Chunk, ...]


def rows_in(waiting: Waiting) -> int:
    """Return how many rows wait."""
    return sum(map(len, waiting))


def with_another(waiting: Waiting, chunk: Chunk) -> Waiting:
    """Return the chunks with another one; small ones are put together as they pile up. Cost: logarithmic for each row."""
    waiting = (*waiting, chunk)
    while True:
        few = len(waiting)
        while few and len(waiting[few - 1]) < APART_FROM:
            few -= 1
        place = to_merge([*map(len, waiting[few:])])
        if place is None:
            return waiting
        waiting = (*waiting[: few + place], Chunk(_together(waiting[few + place :]), chunk.key_hash))


def too_many(waiting: Waiting, most: int) -> Waiting:
    """Return the oldest chunks, without which no more than ``most`` rows wait: so many rows of these at a time, or one chunk."""
    left, chunks = rows_in(waiting), 0
    while left > most and (not chunks or rows_in(waiting[: chunks + 1]) <= most):
        left, chunks = left - len(waiting[chunks]), chunks + 1
    return waiting[:chunks]


def sorted_rows(waiting: Waiting, as_run: Sorter) -> Run:
    """Return all waiting rows as one run. Cost: their hashes, and one sort."""
    # A reader's thread, too, has to use the hash of the circuit.
    with hashing_by(waiting[0].key_hash):
        return as_run(_together(waiting))


def frame_of_entries(keys: Keys, diffs: Ints) -> pl.DataFrame:
    """Return entries as a frame, by reference."""
    words = [pl.Series(KEY, keys.first)] + ([] if keys.second is None else [pl.Series(SECOND, keys.second)])
    return pl.DataFrame([*words, pl.Series(DIFF, diffs)])


def entries_of(frame: pl.DataFrame) -> tuple[Keys, Ints]:
    """Return the keys and diffs of entries; the inverse of ``frame_of_entries``."""
    second = frame.get_column(SECOND).to_numpy() if SECOND in frame.columns else None
    return Keys(frame.get_column(KEY).to_numpy(), second), frame.get_column(DIFF).to_numpy()


def add_waiting(waiting: Waiting, keys: Keys, totals: Ints) -> None:
    """Add the diffs of waiting entries to the totals of these ascending, distinct keys. Cost: a look at each entry."""
    for chunk in waiting:
        entries, diffs = entries_of(chunk.frame)
        places, owners = entries_among(entries, keys)
        np.add.at(totals, owners, diffs[places])


def _together(chunks: Sequence[Chunk]) -> pl.DataFrame:
    frames = [chunk.frame for chunk in chunks]
    if len(frames) == 1:
        return frames[0]
    if len({frame.width for frame in frames}) > 1:  # Only keys with a null have a second word.
        entries = [entries_of(frame) for frame in frames]
        frames = [frame_of_entries(Keys(keys.first, keys.seconds()), diffs) for keys, diffs in entries]
    return stack(frames).rechunk()
