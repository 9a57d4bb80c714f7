"""What the parts of a state add up to: entries, bytes, and sums of additive columns, of all keys or of some, which are found once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..columns.kernels import Index, Ints, Keys, gather, stack
from ..columns.marks import Marks
from ..data.schema import DIFF
from .marked_rows import MarkedRows
from .run import Layout, Run
from .version import Version
from .waiting import add_marked, add_waiting, rows_in


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The entries of some ascending, distinct keys in runs of one entry per key.

    ``parts`` are the runs that have some of them, each with the places of the keys that it has, and the positions of their entries.
    """

    size: int
    parts: list[tuple[Run, Index, Index]]

    @staticmethod
    def of(runs: Iterable[Run], keys: Keys) -> Matches:
        """Find the entries. Cost: a look-up of each key in each run."""
        parts = [(run, *run.match(keys)) for run in runs if run.size]
        return Matches(len(keys.first), [part for part in parts if len(part[1])])

    @property
    def entries(self) -> int:
        """The number of entries."""
        return sum([len(positions) for _, _, positions in self.parts])

    def totals(self) -> dict[str, Ints]:
        """Return the additive columns of the keys; zero where there is no entry."""
        totals: dict[str, Ints] = {}
        for run, hit, positions in self.parts:
            for name, column in run.sums.items():
                if len(hit) == self.size:
                    totals[name] = totals[name] + column[positions] if name in totals else column[positions]
                    continue
                if name not in totals:
                    totals[name] = np.zeros(self.size, np.int64)
                totals[name][hit] += column[positions]
        return totals

    def payload(self, layout: Layout, places: Index | None = None) -> pl.DataFrame:
        """Return the payload of the keys, or of those at these places. A key that has no entry gets nulls; of several, any will do."""
        run_of, position_of = np.full(self.size, -1), np.zeros(self.size, np.intp)
        for number, (_, hit, positions) in enumerate(self.parts):
            run_of[hit], position_of[hit] = number, positions
        if places is not None:
            run_of, position_of = run_of[places], position_of[places]
        size, owners, parts = len(run_of), [], []
        for number, (run, _, _) in enumerate(self.parts):
            if len(own := np.flatnonzero(run_of == number)):
                owners.append(own)
                parts.append(gather(run.payload, position_of[own]))
        if len(parts) == 1 and len(owners[0]) == size:
            return parts[0]
        without = np.flatnonzero(run_of < 0)
        if len(without) or not parts:
            nulls = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in layout.payload.items()])
            owners.append(without)
            parts.append(gather(nulls, np.zeros(len(without), np.intp)))
        order = np.empty(size, np.intp)
        order[np.concatenate(owners)] = np.arange(size)
        return gather(stack(parts), order)


class Totals(ABC):
    """The numbers of a spine, as of its last commit. ``touched`` counts the entries that are read for them."""

    version: Version
    touched: int
    _settled: tuple[Run, ...] | None
    """The runs of the last commit with its waiting rows among them: made in this epoch, and kept from its commit on."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs of the last commit, the oldest first. Cost: none; once, where rows wait, that of sorting them."""
        if self._settled is not None:
            return self._settled
        runs, waiting = self.version.parts
        return self._with_sorted_rows() if waiting else runs

    @abstractmethod
    def _with_sorted_rows(self) -> tuple[Run, ...]:
        """Return the runs of the last commit, those of its waiting rows among them, which are sorted once."""

    @property
    @abstractmethod
    def delta(self) -> Run:
        """Return the run that this epoch adds."""

    @property
    def entries(self) -> int:
        """Return how many entries are kept, those that cancel between parts counted twice, and equal ones in several parts."""
        runs, waiting = self.version.parts
        return sum(map(len, runs)) + rows_in(waiting)

    @property
    def nbytes(self) -> int:
        """Return bytes held in columns."""
        runs, waiting = self.version.parts
        return sum(run.nbytes for run in runs) + sum(chunk.nbytes for chunk in waiting)

    def total(self, name: str) -> int:
        """Return the sum of an additive column over all entries of the last commit. Cost: none."""
        total = self.version.totals.get(name, 0)
        return total - 2**64 if total >= 2**63 else total

    def totals(self, keys: Keys, *, with_delta: bool = False) -> dict[str, Ints]:
        """Return the additive columns of these ascending, distinct keys; zero where there is no entry."""
        return self._totals(keys, (*self.runs, self.delta) if with_delta else self.runs)

    def matches(self, keys: Keys, delta: Run | None = None) -> Matches:
        """Return where these ascending, distinct keys are, in a state of one entry per key in each run; with those that are added, if given."""
        return self._matches(keys, self.runs if delta is None else (*self.runs, delta))

    def _totals(self, keys: Keys, runs: Sequence[Run]) -> dict[str, Ints]:
        return self._matches(keys, runs).totals()

    def _matches(self, keys: Keys, runs: Sequence[Run]) -> Matches:
        matches = Matches.of(runs, keys)
        self.touched += matches.entries
        return matches

    def totals_among(self, keys: Keys, marks: Callable[[], Marks]) -> Ints:
        """Return the sums of the diffs of these ascending, distinct keys, in a state to which entries are added.

        Each entry that waits is looked at. ``marks`` returns those of the rows with these keys.
        """
        runs, waiting = self.version.parts
        sums = self._totals(keys, runs).get(DIFF)
        totals = np.zeros(len(keys), np.int64) if sums is None else sums
        add_waiting(waiting, keys, marks, totals)
        self.touched += rows_in(waiting)
        return totals

    def totals_of_rows(self, rows: MarkedRows) -> Ints:
        """Return the sums of the diffs of these rows, at least one, as ``totals_among`` does: their words are made if need be."""
        runs, waiting = self.version.parts
        totals = np.zeros(len(rows), np.int64)
        others = add_marked(waiting, rows, totals)
        if runs or others:
            order, keys = rows.keys()
            more = self._totals(keys, runs).get(DIFF)
            by_key = np.zeros(len(rows), np.int64) if more is None else more
            add_waiting(others, keys, lambda: rows.marks[order], by_key)
            totals[order] += by_key
        self.touched += rows_in(waiting)
        return totals
