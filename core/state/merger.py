"""Runs of a spine are merged as they pile up, so that a look-up visits few of them, and an entry is moved a few times.

With ``FAN`` = 4, an entry takes part in at most log4(entries / FLOOR) + 1 merges and a look-up visits at most (FAN - 1)
times as many runs. The size of a level is that of ``merge_policy``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.columns.kernels import FEW_VALUES
from . import merge_policy
from .gradual import AT_ONCE, GRADUAL_FROM, PART, GradualMerge, Merging, advanced, end_of, merged_in_ranges
from .row_merge import merged_rows
from .run import Layout, Run, empty_run
from .run_merge import FEW_ENTRIES, added_to, merge
from .version import Version
from .waiting import Waiting, rows_in

REPEATED = 4
"""A run of at least one in so many entries of the run before it is added to that one at once, if their keys are mostly the same."""

SAMPLE = 32
"""So many keys are looked up before all are."""

Runs = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Merger:
    """Merges runs of one layout; ``count`` is called with the number of entries that are moved.

    Runs that would merge into more than ``most`` entries stay apart, so that every merge fits into memory.
    """

    layout: Layout
    most: int | None
    count: Callable[[int], None]

    def merged(self, runs: Sequence[Run]) -> Run:
        """Return the sum of these runs. Cost: their entries."""
        if not runs:
            return empty_run(self.layout)
        entries = sum(map(len, runs))
        self.count(entries if len(runs) > 1 else 0)
        if entries > 2 * PART and 2 * len(runs[0]) < entries and not self.layout.by_row:
            return next(iter(GradualMerge.of(tuple(runs)).completed(self.layout)), empty_run(self.layout))
        return merged_rows(self.layout, runs) or merge(self.layout, runs)

    def piled(self, runs: Runs) -> Runs:
        """Merge what is due, all at once."""
        while (start := self._due(runs)) is not None:
            runs = (*runs[:start], *filter(len, [self.merged(runs[start:])]))
        return runs

    def piled_gradually(self, runs: Runs, merging: Merging, added: int) -> tuple[Runs, Merging]:
        """Merge what is due: large runs in steps, of which this epoch does those that its entries pay for."""
        behind = end_of(merging, runs) if merging else 0
        runs = (*runs[:behind], *self._without_repeated(runs[behind:]))
        while (start := self._due(runs[behind:])) is not None:
            due = runs[behind + start :]
            if sum([run.size for run in due]) > max(GRADUAL_FROM, AT_ONCE * added) and self.most is None:
                merging = (*merging, GradualMerge.of(due))
                break
            runs = (*runs[: behind + start], *filter(len, [self.merged(due)]))
        if merging:
            runs, merging, moved = advanced(self.layout, runs, merging, added, self._due)
            self.count(moved)
        return runs, merging

    def _without_repeated(self, runs: Runs) -> Runs:
        """Return the runs, the last one added to the one before it where epochs go over the same keys again and again.

        So an epoch that touches much of a state finds all of it in one run. Cost: some entries for each one of the last run.
        """
        if len(runs) < 2 or self.layout.by_row or self.most is not None:
            return runs
        large, small = runs[-2:]
        if not FEW_ENTRIES <= small.size <= large.size <= REPEATED * small.size:
            return runs
        some = small.keys.take(np.arange(0, small.size, small.size // SAMPLE))
        is_repeated = 2 * len(large.match(some)[0]) > len(some)
        together = added_to(large, small) if is_repeated else None
        if together is None:
            return runs
        self.count(large.size + small.size)
        return (*runs[:-2], *filter(len, [together]))

    def tidied(self, version: Version, sorted_waiting: Callable[[Waiting], Run]) -> Version:
        """Merge all runs if they may cancel, or if as many entries were read in vain as there are to merge.

        Runs can cancel each other only if their columns add up to zero, as after an undo. If they then do not cancel
        (some diffs are negative), there is no second attempt before as many entries were added as are left, since fewer
        cannot cancel these. Runs that are too large for other merges are merged when they have doubled.
        """
        runs, waiting = version.parts
        entries = sum([run.size for run in runs]) + (rows_in(waiting) if waiting else 0)
        attempts = not any(version.totals.values()) or entries > 2 * (self.most or entries)
        attempts = attempts and not version.attempt_after
        if (len(runs) < 2 and not waiting) or not (attempts or version.wasted > entries):
            return version
        every = runs if not waiting else (*runs, sorted_waiting(waiting))
        whole = tuple(merged_in_ranges(self.merged, every, self.most))
        attempt_after = sum(map(len, whole)) if attempts else version.attempt_after
        return version.with_parts(whole, (), attempt_after=attempt_after, wasted=0, merging=())

    def _due(self, runs: Runs) -> int | None:
        """Return the place from which all runs are to be merged; None if none are. Call this again after a merge.

        The youngest run is merged with those that it exceeds, and all runs of its level as soon as there are ``FAN``. So levels
        descend from the oldest run to the youngest, with fewer than ``FAN`` runs each. No merge is of more entries than ``most``.
        """
        last = len(runs) - 1
        if last < 1:
            return None
        below, reached = merge_policy.level_bounds(runs[last].size)
        start = last
        while start and runs[start - 1].size <= below:
            start -= 1
        first = start
        while first and below < runs[first - 1].size <= reached:
            first -= 1
        if start - first + 1 >= merge_policy.FAN:
            start = first
        if self.most is not None:
            start = self._first_within_bounds(runs, start, self.most)
        return start if start < last else None

    @staticmethod
    def _first_within_bounds(runs: Runs, start: int, most: int) -> int:
        """Return the first place, not before ``start``, from which all runs to the last may be merged."""
        place, entries = len(runs) - 1, runs[-1].size
        while place > start and entries + runs[place - 1].size <= most:
            place, entries = place - 1, entries + runs[place - 1].size
        return place


def add_totals(totals: dict[str, int], run: Run) -> None:
    """Add the sums of all entries of a run to totals, which are modulo 2^64."""
    for name, column in run.sums.items():
        added = sum(column.tolist()) if run.size <= FEW_VALUES else int(column.sum())
        totals[name] = (totals.get(name, 0) + added) % 2**64
