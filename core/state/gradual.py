"""Large runs are merged a range of keys at a time, over many epochs, so that no epoch pays for all of it.

Until the merge is complete the runs stand as they are, and look-ups visit them. How far it has come is a part of a version:
it depends on the entries that came, and on nothing else, and a discarded epoch has not advanced it. It is not saved: an
engine that is restored begins it anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from ..data.columns.dense import SAMPLE, are_close
from ..data.columns.directory import FROM, Deferred, Directory, GrowingDirectory, is_used
from ..data.columns.kernels import Ints, Keys, Words, stack
from .run import Layout, Run
from .run_merge import merge

GRADUAL_FROM = 1 << 18
"""Merges of more entries than this are gradual, unless an epoch adds a large part of them."""

AT_ONCE = 8
"""An epoch merges at once up to so many entries for each one that it adds."""

AHEAD = 4
"""A gradual merge takes so many entries for each one that is added: it ends long before its level is full again."""

STEP = 1 << 14
"""At least about so many entries are merged in one step."""

PART = 1 << 17
"""At most about so many entries are merged at a time: what is computed on the way takes several times their room."""

ROOMY = 2
"""Columns that have room for more than so many times their entries are copied into smaller ones when the merge is complete."""

FEW_LEFT = 8
"""Of a merge of more than so many times the entries that are left, the directory is made anew: it has room for all that were merged."""

WORDS = 1 << 64

NO_WORDS = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The columns of a merged run, with room for ``capacity`` entries, so that memory is taken part by part.

    A part is written behind those before it. If its epoch is discarded, the next one writes in the same place. The ``directory``
    grows with them where the runs are looked up.
    """

    capacity: int
    directory: GrowingDirectory | None = None
    words: Mapping[str, Words] = field(default_factory=dict)
    sums: Mapping[str, Ints] = field(default_factory=dict)
    payloads: tuple[pl.DataFrame, ...] = ()

    def with_part(self, at: int, part: Run) -> _Columns:
        """Return the columns with another part, the entries of which are written from a place on."""
        rows = Keys(NO_WORDS) if part.rows is None else part.rows
        words = {
            "first": part.keys.first,
            "second": part.keys.second,
            "row": rows.first,
            "row second": rows.second,
        }
        columns_of_words = {
            name: column for name, column in words.items() if column is not None and len(column)
        }
        held = self._room(self.words, columns_of_words, np.dtype(np.uint64))
        sums = self._room(self.sums, part.sums, np.dtype(np.int64))
        for columns, values in ((held, columns_of_words), (sums, part.sums)):
            for name, column in columns.items():
                column[at : at + len(part)] = values.get(name, 0)
        directory = None if self.directory is None else self.directory.with_part(at, part.keys.first)
        return _Columns(self.capacity, directory, held, sums, (*self.payloads, part.payload))

    def _room(
        self, held: Mapping[str, Any], values: Mapping[str, Any], dtype: np.dtype[Any]
    ) -> dict[str, Any]:
        return {**{name: np.zeros(self.capacity, dtype) for name in values if name not in held}, **held}

    def run(self, size: int) -> Run:
        """Return the first entries as a run."""
        # Without the room of entries that have cancelled or were of the same key, if that is most of it.
        cut = np.array if ROOMY * size < self.capacity else np.asarray
        words = {name: cut(column[:size]) for name, column in self.words.items()}
        rows = Keys(words["row"], words.get("row second")) if "row" in words else None
        payload = stack(self.payloads) if self.payloads[0].width else self.payloads[0]
        sums = {name: cut(column[:size]) for name, column in self.sums.items()}
        return Run(
            Keys(words["first"], words.get("second")), payload, sums, rows, self._directory(words["first"])
        )

    def _directory(self, words: Words) -> Directory | Deferred | None:
        is_matched = "row" not in self.words
        # Integers that lie close together are found in a table of them.
        is_table = is_matched and are_close(words[:SAMPLE], len(words))
        is_roomy = self.capacity > FEW_LEFT * len(words)
        if self.directory is None or is_table or is_roomy or len(words) < FROM:
            return Deferred.of(words, is_matched=is_matched)
        return self.directory.finished(len(words))


@dataclass(frozen=True, slots=True, eq=False)
class GradualMerge:
    """A merge under way of some neighbouring runs, whose entries with words below ``done`` are merged.

    These are the first ``size`` entries of ``columns``; what is behind them is of no meaning. ``credit`` counts the entries that
    may be merged next.
    """

    runs: tuple[Run, ...]
    columns: _Columns
    size: int = 0
    done: int = 0
    credit: int = 0

    @staticmethod
    def of(runs: tuple[Run, ...]) -> GradualMerge:
        """Return the merge of these runs, of which nothing is done."""
        entries, are_looked_up = sum(map(len, runs)), any(is_used(run.directory) for run in runs)
        is_matched = runs[0].row_words is None
        directory = GrowingDirectory.of(entries, is_matched=is_matched) if are_looked_up else None
        return GradualMerge(runs, _Columns(entries, directory))

    @property
    def entries(self) -> int:
        """Return how many entries are merged altogether."""
        return sum(map(len, self.runs))

    def place_in(self, runs: tuple[Run, ...]) -> int | None:
        """Return where the runs begin among these; None if they are not there any more, as a reader has merged them."""
        place = next((at for at, run in enumerate(runs) if run is self.runs[0]), None)
        there = () if place is None else runs[place : place + len(self.runs)]
        is_whole = len(there) == len(self.runs) and all(map(operator.is_, self.runs, there))
        return place if is_whole else None

    def advanced(self, layout: Layout, added: int) -> tuple[GradualMerge, int]:
        """Return the merge after an epoch that adds so many entries, and how many it has merged. Cost: those."""
        credit = self.credit + AHEAD * added
        if credit < STEP:
            return replace(self, credit=credit), 0
        until = min(WORDS, self.done + max(1, credit * WORDS // max(1, self.entries)))
        advanced, merged = self, 0
        for end in _ends(self.done, until, credit):
            advanced, entries = advanced._with_range(layout, end)
            merged += entries
        return advanced, merged

    def _with_range(self, layout: Layout, until: int) -> tuple[GradualMerge, int]:
        """Return the merge with all entries below a word merged, and how many these are."""
        ranges = [run.between(self.done, until - 1) for run in self.runs]
        ranges = [run for run in ranges if len(run)]
        columns, size = self.columns, self.size
        if ranges:
            part = merge(layout, ranges)
            if len(part):  # Otherwise all entries of these ranges cancel.
                columns, size = columns.with_part(size, part), size + len(part)
        return GradualMerge(self.runs, columns, size, until), sum(map(len, ranges))

    def completed(self, layout: Layout) -> tuple[Run, ...]:
        """Return the merged run, or none if all entries cancel. Cost: all entries that are left."""
        advanced = self
        for end in _ends(self.done, WORDS, self.entries):
            advanced, _ = advanced._with_range(layout, end)
        return advanced.result()

    @property
    def is_complete(self) -> bool:
        """Return whether all entries are merged."""
        return self.done == WORDS

    def result(self) -> tuple[Run, ...]:
        """Return the merged run, or none if all entries cancel. Cost: a copy of its payload."""
        return (self.columns.run(self.size),) if self.size else ()


def _ends(begin: int, until: int, entries: int) -> list[int]:
    """Return where ranges of words end, so that of entries that are spread evenly none has many more than ``PART``."""
    count = max(1, min(entries // PART, until - begin))
    return [begin + (until - begin) * number // count for number in range(1, count + 1)]


Merging = tuple[GradualMerge, ...]
"""The merges under way, those of older runs first."""


def end_of(merging: Merging, runs: tuple[Run, ...]) -> int:
    """Return the place behind the last of the runs that are being merged."""
    place = merging[-1].place_in(runs) if merging else None
    return 0 if place is None else place + len(merging[-1].runs)


def advanced(
    layout: Layout,
    runs: tuple[Run, ...],
    merging: Merging,
    added: int,
    due: Callable[[tuple[Run, ...]], int | None],
) -> tuple[tuple[Run, ...], Merging, int]:
    """Return runs and merges after an epoch that adds so many entries, and how many entries it has merged.

    ``due`` returns from which of its runs on a merge is due: the result of a merge may be the one that makes it so.
    """
    left: Merging = ()
    work = 0
    for each in merging:
        each, merged = each.advanced(layout, added)
        work += merged
        place = each.place_in(runs)
        assert place is not None, "a merge is of runs that are there"
        if not each.is_complete:
            left = (*left, each)
            continue
        result = each.result()
        runs = (*runs[:place], *result, *runs[place + len(each.runs) :])
        before = end_of(left, runs)
        if result and (start := due(runs[before : place + 1])) is not None:
            left = (*left, GradualMerge.of(runs[before + start : place + 1]))
    return runs, left, work


def merged_in_ranges(
    merged: Callable[[Sequence[Run]], Run],
    runs: Sequence[Run],
    most: int | None,
    least: int = 0,
    greatest: int = WORDS - 1,
) -> Iterator[Run]:
    """Yield merged runs of all entries whose first words are in this range, none of more than ``most`` entries."""
    if most is None or sum(map(len, runs)) <= most or least == greatest:
        yield from filter(len, [merged(runs)])
        return
    middle = (least + greatest) // 2
    for first, last in ((least, middle), (middle + 1, greatest)):
        ranges = [run.between(first, last) for run in runs]
        yield from merged_in_ranges(merged, [run for run in ranges if len(run)], most, first, last)
