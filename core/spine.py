"""State: a few immutable sorted runs that add up to a collection by key.

As runs add, an epoch adds one small run, a reader holds a tuple of runs that no later epoch disturbs, and
forgetting an epoch is not adding its run.

Runs of similar size are merged as they pile up. With ``FAN`` = 4, an entry takes part in at most
log4(entries / FLOOR) + 1 merges and a look-up visits at most (FAN - 1) times as many runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .kernels import Ints, Keys
from .run import Layout, Run, empty_run, merge

FAN = 4
"""How many runs of a level are kept before they are merged into one of the next."""

FLOOR = 512
"""Runs up to this size are of one level: merging them costs about as much as visiting one of them."""


class Spine:
    """A few runs that add up to a collection by key: the one structure of which every state is made.

    ``runs`` is the last commit. ``stage`` does all the work of an epoch, merges included; ``commit`` moves a
    pointer. Between the two, ``delta`` is the run that this epoch adds, for operators further down that share
    this state. ``touched`` counts the entries read and written since the beginning.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.runs: tuple[Run, ...] = ()
        self._nothing = empty_run(layout)
        self.delta = self._nothing
        self.touched = 0
        self._staged: tuple[Run, ...] | None = None
        self._totals: dict[str, int] = {}
        self._staged_totals: dict[str, int] = {}
        self._emptied_from = 0
        self._merged: tuple[tuple[Run, ...], Run] | None = None

    def stage(self, run: Run) -> None:
        """Make ready to add this run. Once per epoch at the most."""
        assert self._staged is None, "staged twice in one epoch"
        if len(run):
            totals = dict(self._totals)
            for name, column in run.sums.items():
                totals[name] = totals.get(name, 0) + int(column.sum())
            self._staged = self._emptied(self._piled((*self.runs, run)), totals)
            self._staged_totals = totals
            self.delta = run

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is not None:
            self.runs, self._totals = self._staged, self._staged_totals
            self.discard()

    def discard(self) -> None:
        """Forget what was staged."""
        if self._staged is not None:
            self._staged, self.delta = None, self._nothing

    @property
    def entries(self) -> int:
        """How many entries are kept, those that cancel between runs counted twice."""
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        """Bytes held in columns."""
        return sum(run.nbytes for run in self.runs)

    def totals(self, keys: Keys, *, with_delta: bool = False) -> dict[str, Ints]:
        """The additive columns of these ascending, distinct keys; zero where there is no entry."""
        totals: dict[str, Ints] = {}
        for run in (*self.runs, self.delta) if with_delta else self.runs:
            if not len(run):
                continue
            hit, position = run.match(keys)
            self.touched += len(hit)
            for name, column in run.sums.items() if len(hit) else ():
                if len(hit) == len(keys):
                    totals[name] = totals[name] + column[position] if name in totals else column[position]
                    continue
                if name not in totals:
                    totals[name] = np.zeros(len(keys), np.int64)
                totals[name][hit] += column[position]
        return totals

    def merged(self) -> Run:
        """All entries in one run. Cost: the state, once for as long as it does not change."""
        if self._merged is None or self._merged[0] is not self.runs:
            self._merged = self.runs, self._merge(self.runs)
        return self._merged[1]

    def _piled(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Merge the youngest runs until no level holds ``FAN`` of them."""
        while len(runs) > 1:
            level, start = _level(runs[-1]), len(runs)
            while start and _level(runs[start - 1]) <= level:
                start -= 1
            if sum(_level(run) == level for run in runs[start:]) < FAN:
                return runs
            runs = (*runs[:start], *filter(len, [self._merge(runs[start:])]))
        return runs

    def _emptied(self, runs: tuple[Run, ...], totals: dict[str, int]) -> tuple[Run, ...]:
        """No runs, if they cancel each other: what is undone leaves nothing.

        They can only cancel if their columns add up to zero. If they do not cancel then (some diffs are
        negative), there is no second attempt before they have doubled, so that attempts cost no more than
        what is added.
        """
        entries = sum(map(len, runs))
        if len(runs) < 2 or any(totals.values()) or entries < self._emptied_from:
            return runs
        merged = self._merge(runs)
        self._emptied_from = 2 * len(merged)
        return (merged,) if len(merged) else ()

    def _merge(self, runs: Sequence[Run]) -> Run:
        if not runs:
            return self._nothing
        self.touched += sum(map(len, runs)) if len(runs) > 1 else 0
        return merge(self.layout, runs)


def _level(run: Run) -> int:
    """The power of ``FAN`` by which the run exceeds ``FLOOR``."""
    level, size = 0, FLOOR
    while len(run) > size:
        level, size = level + 1, size * FAN
    return level
