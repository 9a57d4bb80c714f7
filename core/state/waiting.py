"""Rows that wait in a state: kept as they came, by reference, until somebody needs them by key.

Rows that only come, and that nobody looks up by key, are neither hashed nor sorted: so a view of rows costs what its
rows cost to compute, and a side of a join costs nothing until the other side changes. Several chunks of waiting rows add up,
as runs do; once half as many are retractions as additions, all are sorted.

In a state that keeps nothing but numbers by key, entries wait as the words of their keys: a few keys are found among
many of these by looking at each, which costs less than sorting them, unless it is done often. Where the keys are whole rows,
many at once wait as rows, and their words are only made of those whose marks are those of the rows that are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ..data.columns.directory import entries_among
from ..data.columns.grouping import group
from ..data.columns.kernels import (
    Index,
    Ints,
    Keys,
    frame_of,
    gather,
    is_one_word,
    key_words,
    of_one_chunk,
    stack,
)
from ..data.columns.key_hash import KeyHash, hashing_by
from ..data.columns.marks import Marks, first_of_each, marked
from ..data.schema import DIFF
from .marked_rows import Candidates, MarkedRows
from .merge_policy import to_merge
from .partitioning import KeyColumns
from .run import Run
from .snapshot import KEY, SECOND

APART_FROM = 1 << 16
"""Chunks of this many rows are not put together any more: there are few of them, and each copy costs time."""

UNHASHED_FROM = APART_FROM
"""From so many rows on, an epoch's rows wait without words: they are not put together with others."""

FEW_MARKED = 4
"""If more than one row in so many has a mark that is looked for, the words of all are made."""

Sorter = Callable[[pl.DataFrame], Run]
"""A function that returns rows with their diffs as a run."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Chunk:
    """Rows with their diffs, the payload's columns and ``_diff``, and the hash that makes the words of their keys.

    ``retracting`` is the number of rows with negative diffs; of entries, which are words of keys with diffs, it is 0. If there
    are ``marks``, the entries are rows whose words are not made: ``words`` has them once they are.
    """

    frame: pl.DataFrame
    key_hash: KeyHash
    marks: Marks | None = None
    retracting: int = 0
    words: list[Keys] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        marks = 0 if self.marks is None else self.marks.nbytes
        return int(self.frame.estimated_size()) + marks + sum(words.nbytes for words in self.words)

    def part(self, start: int, end: int) -> Chunk:
        """Return the rows from one position to another, by reference."""
        frame = self.frame.slice(start, end - start)
        retracting = np.count_nonzero(frame.get_column(DIFF).to_numpy() < 0) if self.retracting else 0
        marks = None if self.marks is None else self.marks[start:end]
        words = [words.cut(start, end) for words in self.words]
        return Chunk(frame, self.key_hash, marks, int(retracting), words)

    def entries(self) -> tuple[Keys, Ints]:
        """Return the keys of entries and their diffs. Cost: none; that of the words of rows, where they are not made."""
        if self.marks is None:
            return entries_of(self.frame)
        if not self.words:
            with hashing_by(self.key_hash):
                self.words.append(_words_of_rows(self.frame))
        return self.words[0], self.frame.get_column(DIFF).to_numpy()

    def words_by(self, columns: KeyColumns) -> Keys:
        """Return the words of the keys of rows in these columns, always the same. Cost: kept once made, unless they are values."""
        if self.words:
            return self.words[0]
        with hashing_by(self.key_hash):
            words = columns.words(self.frame)
        if not is_one_word([self.frame.schema[name] for name in columns.names]):
            self.words.append(words)
        return words

    def of_keys(self, keys: Keys, marks: Callable[[], Marks]) -> tuple[Index, Index]:
        """Return which entries have one of these ascending, distinct keys, and which key; ``marks`` returns those of the keys."""
        if self.marks is None or self.words:
            return entries_among(self.entries()[0], keys)
        candidates, words = self.marked(marks())
        entries, owners = entries_among(words, keys)
        return candidates[entries], owners

    def marked(self, marks: Marks) -> tuple[Index, Keys]:
        """Return the positions of all rows that have one of these marks, candidates of more, and the words of these rows."""
        assert self.marks is not None, "rows have marks where their words are not made"
        candidates = marked(self.marks, marks)
        if self.words or FEW_MARKED * len(candidates) > len(self):
            return np.arange(len(self)), self.entries()[0]
        with hashing_by(self.key_hash):
            return candidates, _words_of_rows(gather(self.frame, candidates))

    def retracted_rows(self) -> tuple[MarkedRows, Index, Index] | None:
        """Return the different rows that are retracted, which entries are one of them, and which; no words are made.

        None where two of these rows have the same mark, or where marks rule out too few.
        """
        assert self.marks is not None, "rows have marks where their words are not made"
        diffs = self.frame.get_column(DIFF).to_numpy()
        retractions = np.flatnonzero(diffs < 0)
        marks, first = first_of_each(self.marks[retractions])
        own = retractions[first]
        rows = MarkedRows(marks, gather(frame_of(self.frame.get_columns()[:-1]), own), self.key_hash)
        candidates = rows.table.passing(self.marks) if len(rows) else retractions
        if FEW_MARKED * len(candidates) > len(self):
            return None
        is_own = np.zeros(len(self), np.bool_)
        is_own[own] = True
        others = candidates[~is_own[candidates]]
        ((entries, owners),) = rows.among([Candidates(self.frame, self.marks, others)])
        entries, owners = np.concatenate((own, entries)), np.concatenate((np.arange(len(own)), owners))
        return None if np.count_nonzero(diffs[entries] < 0) < len(retractions) else (rows, entries, owners)

    def retracted(self) -> tuple[Keys, Index, Index]:
        """Return the keys of the retractions, ascending and distinct, which entries have one of them, and which key it is."""
        assert self.marks is not None, "rows have marks where their words are not made"
        diffs = self.frame.get_column(DIFF).to_numpy()
        candidates, words = self.marked(self.marks[diffs < 0])
        keys = group(words.take(np.flatnonzero(diffs[candidates] < 0))).keys
        entries, owners = entries_among(words, keys)
        return keys, candidates[entries], owners


Waiting = tuple[Chunk, ...]


def rows_in(waiting: Waiting) -> int:
    """Return how many rows wait."""
    return sum(map(len, waiting))


def retractions_in(waiting: Waiting) -> int:
    """Return how many of the rows that wait are retractions."""
    return sum(chunk.retracting for chunk in waiting)


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
        together = waiting[few + place :]
        added = Chunk(_together(together), chunk.key_hash, retracting=retractions_in(together))
        waiting = (*waiting[: few + place], added)


def too_many(waiting: Waiting, most: int) -> Waiting:
    """Return the oldest chunks, without which no more than ``most`` rows wait: so many rows of these at a time, or one chunk."""
    left, chunks = rows_in(waiting), 0
    while left > most and (not chunks or rows_in(waiting[: chunks + 1]) <= most):
        left, chunks = left - len(waiting[chunks]), chunks + 1
    return waiting[:chunks]


def oldest(waiting: Waiting, rows: int) -> tuple[Waiting, Waiting]:
    """Return the oldest rows that wait, so many if there are, and the others."""
    for place, chunk in enumerate(waiting):
        if len(chunk) > rows:
            parts = chunk.part(0, rows), chunk.part(rows, len(chunk))
            return (*waiting[:place], parts[0]), (parts[1], *waiting[place + 1 :])
        rows -= len(chunk)
    return waiting, ()


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


def add_marked(waiting: Waiting, rows: MarkedRows, totals: Ints) -> Waiting:
    """Add the diffs of waiting entries to the totals of these rows; return the chunks in which they have to be found by words."""
    others: list[Chunk] = []
    parts: list[Candidates] = []
    for chunk in waiting:
        candidates = None if chunk.marks is None else rows.table.passing(chunk.marks)
        if chunk.marks is None or candidates is None or FEW_MARKED * len(candidates) > len(chunk):
            others.append(chunk)
        elif len(candidates):
            parts.append(Candidates(chunk.frame, chunk.marks, candidates))
    for part, (entries, owners) in zip(parts, rows.among(parts) if parts else (), strict=True):
        np.add.at(totals, owners, part.frame.get_column(DIFF).to_numpy()[entries])
    return tuple(others)


def add_waiting(waiting: Waiting, keys: Keys, marks: Callable[[], Marks], totals: Ints) -> None:
    """Add the diffs of waiting entries to the totals of these ascending, distinct keys. Cost: a look at each entry."""
    for chunk in waiting:
        entries, owners = chunk.of_keys(keys, marks)
        np.add.at(totals, owners, chunk.frame.get_column(DIFF).to_numpy()[entries])


def _words_of_rows(frame: pl.DataFrame) -> Keys:
    return key_words(frame.get_columns()[:-1], frame.height)


def _together(chunks: Sequence[Chunk]) -> pl.DataFrame:
    frames = [chunk.frame for chunk in chunks]
    if any(chunk.marks is not None for chunk in chunks):
        frames = [frame_of_entries(*chunk.entries()) for chunk in chunks]
    if len(frames) == 1:
        return frames[0]
    if len({frame.width for frame in frames}) > 1:  # Only keys with a null have a second word.
        entries = [entries_of(frame) for frame in frames]
        frames = [frame_of_entries(Keys(keys.first, keys.seconds()), diffs) for keys, diffs in entries]
    return of_one_chunk(stack(frames))
