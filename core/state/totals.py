"""What the parts of a state add up to: entries, bytes, and sums of additive columns, of all keys or of some, which are found once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from ..data.columns.kernels import Ints, Keys
from ..data.columns.marks import Marks
from ..data.schema import DIFF
from .marked_rows import MarkedRows
from .run import Matches, Run
from .version import Version
from .waiting import add_marked, add_waiting, rows_in


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
