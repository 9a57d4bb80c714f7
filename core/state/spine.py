"""A spine is a state of a few immutable sorted runs that add up to a collection by key.

Since runs add up, an epoch adds one small run, a reader holds a tuple of runs that no later epoch changes, and an epoch
is discarded by not adding its run.

Runs of similar size are merged as they pile up. With ``FAN`` = 4, an entry takes part in at most
log4(entries / FLOOR) + 1 merges and a look-up visits at most (FAN - 1) times as many runs.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl

from ..columns.kernels import Ints, Keys
from .partitioning import WORDS, Route
from .protocol import KeptIn
from .run import Layout, Run, empty_run, merge
from .run_columns import columns_of_run, run_of_columns
from .snapshot import Saved

FAN = 4
"""How many runs of a level are kept before they are merged into one of the next."""

FLOOR = 512
"""Runs up to this size are of one level: merging them costs about as much as visiting one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """An immutable version of a spine, as of one commit: its runs, their totals, and the counters for the next full merge.

    Totals are modulo 2^64, as the sums of columns wrap. ``merged`` has the runs as one, once a reader has merged them;
    it does not matter which of several readers did it first.
    """

    runs: tuple[Run, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    attempt_from: int = 0
    wasted: int = 0
    merged: list[Run] = field(default_factory=list)

    def with_runs(self, runs: tuple[Run, ...], **changed: Any) -> Version:
        """Return the same version with other runs, not merged yet."""
        return replace(self, runs=runs, merged=[], **changed)


class Spine:
    """A few runs that add up to a collection by key: the one structure of which every state is made.

    ``runs`` is the last commit. ``stage`` does all the work of an epoch, merges included; ``commit`` moves a
    pointer. Between the two, ``delta`` is the run that this epoch adds, for operators further down that share
    this state. ``touched`` counts the entries that epochs have read and written since the beginning.

    Epochs run in one thread at a time. Any other reader takes the ``version`` of a commit and reads a copy of the
    spine ``at`` it, which does not affect epochs, except that they may adopt a merge of all runs that it has made.

    ``keeps_runs``: reading everything does not replace the runs by a merged one, as they are on disk and it is not.
    ``most_merged``: runs that would merge into more entries than this stay apart, so that every merge fits into memory; a
    look-up then visits about entries / most_merged runs. Entries that cancel between such runs are removed when the state
    has doubled: then they are merged a range of keys at a time.
    """

    kept_in: KeptIn = "buckets"
    keeps_runs = False
    most_merged: int | None = None

    def __init__(self, layout: Layout, route: Route | None = WORDS) -> None:
        self.layout = layout
        self.route = route
        self._nothing = empty_run(layout)
        self._committed = Version()
        self._merges: list[tuple[tuple[Run, ...], Run]] = []
        """Merges made by readers, with the runs merged: appended by any thread, removed by the one that writes."""
        self._merges_seen = 0
        self._staged: Version | None = None
        self.delta = self._nothing
        self.touched = 0
        self._wasted = 0

    @property
    def version(self) -> Version:
        """Return the last commit."""
        return self._committed

    def at(self, version: Version) -> Self:
        """Return a copy of the spine for a reader, at this version. No run is copied."""
        own = copy.copy(self)
        own._committed, own._staged, own.delta = version, None, self._nothing
        own.touched = own._wasted = 0
        return own

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs of the last commit, the oldest first."""
        return self._committed.runs

    def stage(self, run: Run, gone: Run | None = None) -> None:
        """Stage this run, at most once per epoch.

        ``gone`` is the run that purges entries with this epoch: it is added to the state too, but is not in ``delta``,
        as readers in this epoch still see the entries that are purged at its end.
        """
        assert self._staged is None, "staged twice in one epoch"
        added = [part for part in (run, gone) if part is not None and len(part)]
        if not added:
            return
        then = self._committed
        totals, piled = dict(then.totals), self._as_read(then)
        for part in added:
            _add_totals(totals, part)
            piled = self._piled((*piled, part))
        self._staged = self._tidied(then.with_runs(piled, totals=totals))
        self.delta = run

    def waste(self, entries: int) -> None:
        """Count entries that were read in vain, as others retract them."""
        self._wasted += entries

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is not None:
            self._committed = self._staged
            # After a discarded epoch they are left to the next one, which then stages what this one would have staged.
            del self._merges[: self._merges_seen]
        if self._wasted:
            self._committed = replace(self._committed, wasted=self._committed.wasted + self._wasted)
        self.discard()

    def discard(self) -> None:
        """Drop what was staged."""
        self._wasted = 0
        if self._staged is not None:
            self._staged, self.delta = None, self._nothing

    @property
    def entries(self) -> int:
        """Return how many entries are kept, those that cancel between runs counted twice."""
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        """Return bytes held in columns."""
        return sum(run.nbytes for run in self.runs)

    def total(self, name: str) -> int:
        """Return the sum of an additive column over all entries of the last commit. Cost: none."""
        total = self._committed.totals.get(name, 0)
        return total - 2**64 if total >= 2**63 else total

    def totals(self, keys: Keys, *, with_delta: bool = False) -> dict[str, Ints]:
        """Return the additive columns of these ascending, distinct keys; zero where there is no entry."""
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
        """Return all entries in one run. Cost: the state, once until it changes."""
        version = self._committed
        if not version.merged:
            merged = merge(self.layout, version.runs) if version.runs else self._nothing
            version.merged.append(merged)
            if len(version.runs) > 1 and not self.keeps_runs:
                self._merges.append((version.runs, merged))
        return version.merged[0]

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``: the pieces are runs."""
        version = self._committed if self._staged is None else self._staged
        wasted = version.wasted + self._wasted
        facts = {"totals": dict(version.totals), "attempt_from": version.attempt_from, "wasted": wasted}
        return Saved(version.runs, facts)

    def restore(self, saved: Saved) -> None:
        """See ``State``. If the facts have no totals, they are added up in one pass over the additive columns."""
        runs, facts = saved.pieces, saved.facts
        totals: dict[str, int] = dict(facts.get("totals", {}))
        for run in runs if "totals" not in facts else ():
            _add_totals(totals, run)
        self._committed = Version(runs, totals, facts.get("attempt_from", 0), facts.get("wasted", 0))
        self.discard()

    def columns_of(self, piece: Run) -> pl.DataFrame:
        """See ``State``."""
        return columns_of_run(piece)

    def piece_of(self, columns: pl.DataFrame) -> Run:
        """See ``State``."""
        return run_of_columns(self.layout, columns)

    def _as_read(self, version: Version) -> tuple[Run, ...]:
        """Return the runs of a version, with runs that readers have merged replaced by the merge, so that it is kept once.

        A reader may have merged an earlier commit, whose runs are still the oldest of this one.
        """
        runs, self._merges_seen = version.runs, len(self._merges)
        for merged_runs, merged in reversed(self._merges[: self._merges_seen]):
            if len(merged_runs) <= len(runs) and all(map(operator.is_, merged_runs, runs)):
                runs = (*filter(len, [merged]), *runs[len(merged_runs) :])
        return runs

    def _piled(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Merge the youngest run with those that it exceeds, and all runs of its level as soon as there are ``FAN``.

        So levels descend from the oldest run to the youngest, with fewer than ``FAN`` runs each.
        """
        while len(runs) > 1:
            sizes = [*map(len, runs)]
            level, start = _level(sizes[-1]), len(runs) - 1
            while start and _level(sizes[start - 1]) < level:
                start -= 1
            first = start
            while first and _level(sizes[first - 1]) == level:
                first -= 1
            if start - first + 1 >= FAN:
                start = first
            start = self._within_bounds(runs, start)
            if start == len(runs) - 1:
                return runs
            runs = (*runs[:start], *filter(len, [self._merge(runs[start:])]))
        return runs

    def _tidied(self, version: Version) -> Version:
        """Merge all runs if they may cancel, or if as many entries were read in vain as there are to merge.

        Runs can cancel each other only if their columns add up to zero, as after an undo. If they then do not cancel
        (some diffs are negative), there is no second attempt before they have doubled. Runs that are too large for
        other merges are merged when they have doubled.
        """
        runs = version.runs
        entries = sum(map(len, runs))
        attempts = not any(version.totals.values()) or entries > 2 * (self.most_merged or entries)
        attempts = attempts and entries >= version.attempt_from
        if len(runs) < 2 or not (attempts or version.wasted > entries):
            return version
        merged = tuple(self._merged_in_ranges(runs, 0, 2**64 - 1))
        attempt_from = 2 * sum(map(len, merged)) if attempts else version.attempt_from
        return version.with_runs(merged, attempt_from=attempt_from, wasted=0)

    def _within_bounds(self, runs: Sequence[Run], start: int) -> int:
        """Return the first place, not before ``start``, from which all runs to the last may be merged."""
        if self.most_merged is None:
            return start
        entries = np.cumsum([len(run) for run in runs[start:]][::-1])
        fitting = max(1, int(np.searchsorted(entries, self.most_merged, side="right")))
        return len(runs) - fitting

    def _merged_in_ranges(self, runs: Sequence[Run], least: int, greatest: int) -> Iterator[Run]:
        """Yield merged runs of all entries whose first words are in this range, none above the size limit."""
        entries = sum(map(len, runs))
        if self.most_merged is None or entries <= self.most_merged or least == greatest:
            yield from filter(len, [self._merge(runs)])
            return
        middle = (least + greatest) // 2
        lower = [run.between(least, middle) for run in runs]
        upper = [run.between(middle + 1, greatest) for run in runs]
        yield from self._merged_in_ranges([run for run in lower if len(run)], least, middle)
        yield from self._merged_in_ranges([run for run in upper if len(run)], middle + 1, greatest)

    def _merge(self, runs: Sequence[Run]) -> Run:
        if not runs:
            return self._nothing
        self.touched += sum(map(len, runs)) if len(runs) > 1 else 0
        return merge(self.layout, runs)


def _add_totals(totals: dict[str, int], run: Run) -> None:
    for name, column in run.sums.items():
        totals[name] = (totals.get(name, 0) + int(column.sum())) % 2**64


def _level(size: int) -> int:
    """Return the power of ``FAN`` by which a run of so many entries exceeds ``FLOOR``."""
    level, most = 0, FLOOR
    while size > most:
        level, most = level + 1, most * FAN
    return level
