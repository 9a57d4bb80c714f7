"""A spine is a state of a few immutable sorted runs that add up to a collection by key.

Since runs add up, an epoch adds one small run, a reader holds a tuple of runs that no later epoch changes, and an epoch
is discarded by not adding its run.

Runs of similar size are merged as they pile up. With ``FAN`` = 4, an entry takes part in at most
log4(entries / FLOOR) + 1 merges and a look-up visits at most (FAN - 1) times as many runs.

Rows that are only added may wait unsorted beside the runs (``waiting``), until somebody looks them up, reads or saves them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from weakref import ref as weakref

import numpy as np
import polars as pl

from ..columns.kernels import FEW_VALUES, Ints, Keys
from ..columns.key_hash import in_force
from ..data.schema import DIFF
from .partitioning import WORDS, KeyColumns, Route
from .protocol import KeptIn
from .run import Layout, Run, empty_run, make_run, merge, run_of_distinct_rows, run_of_rows
from .run_columns import columns_of_run, run_of_columns
from .snapshot import Saved
from .waiting import (
    Chunk,
    Waiting,
    add_waiting,
    entries_of,
    frame_of_entries,
    rows_in,
    sorted_rows,
    with_another,
)

FAN = 4
"""How many runs of a level are kept before they are merged into one of the next."""

MOST_ENTRIES = 1 << 22
"""At most about so many entries wait in a state of numbers by key, so that sorting them never takes long."""

FLOOR = 512
"""Runs up to this size are of one level: merging them costs about as much as visiting one of them."""


Parts = tuple[tuple[Run, ...], Waiting]
"""The parts that add up to a state: its runs, the oldest first, and rows that wait."""

NO_PARTS: Parts = ((), ())

NO_DIFFS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version of a spine, as of one commit: its parts, their totals, and the counters for the next full merge.

    Its contents never change. Its waiting rows become a run when somebody first needs them by key (``settle``), whoever it
    is; it does not matter which of several threads did it first. Totals are modulo 2^64, as the sums of columns wrap.
    ``retracting`` counts entries of runs that were added while rows waited, and that may retract these. ``merged`` has all
    parts as one run, once a reader has merged them.
    """

    parts_now: list[Parts]
    totals: Mapping[str, int] = field(default_factory=dict)
    attempt_from: int = 0
    wasted: int = 0
    retracting: int = 0
    merged: list[Run] = field(default_factory=list)

    @property
    def parts(self) -> Parts:
        """Return the runs and the rows that still wait, as of one moment."""
        return self.parts_now[0]

    def settle(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Make these runs all that there is, unless another thread was faster, and return what is there now."""
        self.parts_now.append((runs, ()))
        self.parts_now[0] = self.parts_now[1]
        return self.parts_now[1][0]

    def with_parts(self, runs: tuple[Run, ...], waiting: Waiting, **changed: Any) -> Version:
        """Return the same version with other parts, not merged yet."""
        return replace(self, parts_now=[(runs, waiting)], merged=[], **changed)


@dataclass(frozen=True, slots=True, eq=False)
class _Merge:
    """A merge made outside of an epoch: the first parts of a version, and the runs that they were merged into."""

    runs: tuple[weakref[Run], ...]
    waiting: tuple[weakref[Chunk], ...]
    into: tuple[Run, ...]
    """The only thing that is kept alive: parts that nobody holds any more are not merged again."""

    @staticmethod
    def of(parts: Parts, into: tuple[Run, ...]) -> _Merge:
        """Return the merge of these parts."""
        return _Merge(tuple(map(weakref, parts[0])), tuple(map(weakref, parts[1])), into)

    def applied(self, parts: Parts) -> Parts | None:
        """Return the parts with those that were merged replaced; None if they are not the first ones."""
        runs, waiting = parts
        if not (_begins(runs, self.runs) and _begins(waiting, self.waiting)):
            return None
        return (*self.into, *runs[len(self.runs) :]), waiting[len(self.waiting) :]


def _begins(parts: Sequence[object], merged: Sequence[weakref[Any]]) -> bool:
    return len(merged) <= len(parts) and all(ref() is part for ref, part in zip(merged, parts, strict=False))


class Spine:
    """A few runs that add up to a collection by key: the one structure of which every state is made.

    ``runs`` is the last commit. ``stage`` does all the work of an epoch, merges included; ``commit`` moves a
    pointer. Between the two, ``delta`` is the run that this epoch adds, for operators further down that share
    this state. ``touched`` counts the entries that epochs have read and written since the beginning.

    ``stage_rows`` stages rows that are only added as they are. Whoever then takes ``runs`` or ``delta`` has them sorted, once;
    ``change`` is the rows of this epoch as they came. ``keys`` are the columns by which rows of such a state are kept, where
    a key may have many rows; otherwise they are kept by all columns.

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

    def __init__(self, layout: Layout, route: Route | None = WORDS, keys: KeyColumns | None = None) -> None:
        self.layout = layout
        self.route = route
        self._keys = keys
        self._nothing = empty_run(layout)
        self._committed = Version([NO_PARTS])
        self._merges: list[_Merge] = []
        """Merges made by readers, and of waiting rows: appended by any thread, removed by the one that writes."""
        self._merges_seen = 0
        self._staged: Version | None = None
        self._settled: tuple[Run, ...] | None = None
        """The runs of the last commit with its waiting rows among them: made in this epoch, and kept from its commit on."""
        self._added: tuple[Run, ...] = ()
        """The runs that are staged."""
        self._delta: Run | None = self._nothing
        """What this epoch adds; None while it is only ``change``."""
        self.change: pl.DataFrame | None = None
        self.touched = 0
        self._wasted = 0

    @property
    def version(self) -> Version:
        """Return the last commit."""
        return self._committed

    def at(self, version: Version) -> Self:
        """Return a copy of the spine for a reader, at this version. No run is copied."""
        own = copy.copy(self)
        own._committed, own._staged, own._settled, own._added = version, None, None, ()
        own._delta, own.change = self._nothing, None
        own.touched = own._wasted = 0
        return own

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs of the last commit, the oldest first. Cost: none; once, where rows wait, that of sorting them."""
        runs, waiting = self._committed.parts
        if not waiting or self._settled is not None:
            return runs if self._settled is None else self._settled
        runs, waiting = self._parts()
        self._settled = self._piled((*runs, self._sorted_waiting(waiting))) if waiting else runs
        if self._added:
            self._staged = self._with_runs(self._added)
        elif self.change is not None:
            self._staged = self._with_rows(self.change)
        return self._settled

    @property
    def delta(self) -> Run:
        """Return the run that this epoch adds. Cost: none; once, where rows were staged as they are, that of sorting them."""
        if self._delta is None:
            assert self.change is not None, "what is staged is rows or a run"
            self._delta = self._sorted(self.change)
            self._added = (self._delta,)
            self._staged = self._with_runs(self._added)
        return self._delta

    @property
    def has_delta(self) -> bool:
        """Return whether this epoch adds anything. Cost: none."""
        return self._delta is None or len(self._delta) > 0

    def stage(self, run: Run, gone: Run | None = None) -> None:
        """Stage this run, at most once per epoch.

        ``gone`` is the run that purges entries with this epoch: it is added to the state too, but is not in ``delta``,
        as readers in this epoch still see the entries that are purged at its end.
        """
        assert self._staged is None, "staged twice in one epoch"
        added = tuple(part for part in (run, gone) if part is not None and len(part))
        if added:
            self._staged, self._added, self._delta = self._with_runs(added), added, run

    def stage_rows(self, frame: pl.DataFrame) -> None:
        """Stage rows with their diffs, at most once per epoch: as they are, if they are only added.

        ``frame`` has the columns of the payload, then ``_diff``, and is not changed by anybody. Where merges have to stay
        within bounds, rows are sorted at once.
        """
        assert self._staged is None, "staged twice in one epoch"
        if not frame.height:
            return
        if self.most_merged is not None or not (frame.get_column(DIFF).to_numpy() > 0).all():
            self.stage(self._sorted(frame))
            return
        self._staged = self._with_rows(frame)
        self.change, self._delta = frame, None

    def stage_entries(self, keys: Keys, diffs: Ints) -> None:
        """Stage entries of a state that has nothing but sums of diffs, at most once per epoch: in any order, as they are.

        Keys may be repeated. The entries are sorted when ``runs`` are taken, or more than ``MOST_ENTRIES`` wait.
        """
        assert self._staged is None, "staged twice in one epoch"
        if not len(keys):
            return
        frame = frame_of_entries(keys, diffs)
        if self.most_merged is not None:
            self.stage(self._sorted(frame))
            return
        if rows_in(self._committed.parts[1]) > MOST_ENTRIES:
            self._settled = self.runs
        self._staged = self._with_rows(frame)
        self.change, self._delta = frame, None

    def words_of(self, frame: pl.DataFrame) -> Keys:
        """Return the words of the keys of rows, in their order."""
        assert self._keys is not None, "rows are kept by columns"
        return self._keys.words(frame)

    def waste(self, entries: int) -> None:
        """Count entries that were read in vain, as others retract them."""
        self._wasted += entries

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is None and self._settled is not None:
            self._committed.settle(self._settled)
        if self._staged is not None:
            self._committed = self._staged
            # After a discarded epoch they are left to the next one, which then stages what this one would have staged.
            del self._merges[: self._merges_seen]
        if self._wasted:
            self._committed = replace(self._committed, wasted=self._committed.wasted + self._wasted)
        self.discard()

    def discard(self) -> None:
        """Drop what was staged."""
        self._wasted, self._settled = 0, None
        if self._staged is not None:
            self._staged, self._added, self._delta, self.change = None, (), self._nothing, None

    @property
    def entries(self) -> int:
        """Return how many entries are kept, those that cancel between parts counted twice, and equal ones in several parts."""
        runs, waiting = self._committed.parts
        return sum(map(len, runs)) + rows_in(waiting)

    @property
    def nbytes(self) -> int:
        """Return bytes held in columns."""
        runs, waiting = self._committed.parts
        return sum(run.nbytes for run in runs) + sum(int(chunk.frame.estimated_size()) for chunk in waiting)

    def total(self, name: str) -> int:
        """Return the sum of an additive column over all entries of the last commit. Cost: none."""
        total = self._committed.totals.get(name, 0)
        return total - 2**64 if total >= 2**63 else total

    def totals(self, keys: Keys, *, with_delta: bool = False) -> dict[str, Ints]:
        """Return the additive columns of these ascending, distinct keys; zero where there is no entry."""
        return self._totals(keys, (*self.runs, self.delta) if with_delta else self.runs)

    def _totals(self, keys: Keys, runs: Sequence[Run]) -> dict[str, Ints]:
        totals: dict[str, Ints] = {}
        for run in runs:
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

    def totals_among(self, keys: Keys, looks: int) -> Ints:
        """Return the sums of the diffs of these ascending, distinct keys, in a state to which entries are added.

        If no more than ``looks`` entries wait, each is looked at; otherwise they are sorted first.
        """
        runs, waiting = self._committed.parts
        if rows_in(waiting) > looks:
            runs, waiting = self.runs, ()
        sums = self._totals(keys, runs).get(DIFF)
        totals = np.zeros(len(keys), np.int64) if sums is None else sums
        add_waiting(waiting, keys, totals)
        self.touched += rows_in(waiting)
        return totals

    def merged(self) -> Run:
        """Return all entries in one run. Cost: the state, once until it changes."""
        version = self._committed
        if not version.merged:
            if self.keeps_runs:
                self._settle(version)
            runs, waiting = parts = version.parts
            every = runs if not waiting else (*runs, self._sorted_waiting(waiting))
            version.merged.append(merge(self.layout, every) if every else self._nothing)
            merged = version.merged[0]
            if len(every) > 1 or waiting:
                into = tuple(filter(len, [merged]))
                if waiting:
                    version.settle(into)
                if not self.keeps_runs:
                    self._merges.append(_Merge.of(parts, into))
        return version.merged[0]

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``: the pieces are runs."""
        version = self._committed if self._staged is None else self._staged
        wasted = version.wasted + self._wasted
        facts = {"totals": dict(version.totals), "attempt_from": version.attempt_from, "wasted": wasted}
        return Saved(self._settle(version), facts)

    def restore(self, saved: Saved) -> None:
        """See ``State``. If the facts have no totals, they are added up in one pass over the additive columns."""
        runs, facts = saved.pieces, saved.facts
        totals: dict[str, int] = dict(facts.get("totals", {}))
        for run in runs if "totals" not in facts else ():
            _add_totals(totals, run)
        self._committed = Version([(runs, ())], totals, facts.get("attempt_from", 0), facts.get("wasted", 0))
        self.discard()

    def columns_of(self, piece: Run) -> pl.DataFrame:
        """See ``State``."""
        return columns_of_run(piece)

    def piece_of(self, columns: pl.DataFrame) -> Run:
        """See ``State``."""
        return run_of_columns(self.layout, columns)

    def _with_runs(self, added: Sequence[Run]) -> Version:
        """Return the last commit with these runs added, merged as far as is due."""
        then = self._committed
        runs, waiting = self._parts(to_stage=True)
        totals, retracting = dict(then.totals), then.retracting if waiting else 0
        for part in added:
            _add_totals(totals, part)
            runs = self._piled((*runs, part))
            retracting += int(np.count_nonzero(part.sums.get(DIFF, NO_DIFFS) < 0)) if waiting else 0
        if waiting and 2 * retracting > rows_in(waiting):
            # So that rows that were retracted are not kept for long.
            runs, waiting, retracting = self._piled((*runs, self._sorted_waiting(waiting))), (), 0
        return self._tidied(then.with_parts(runs, waiting, totals=totals, retracting=retracting))

    def _with_rows(self, frame: pl.DataFrame) -> Version:
        """Return the last commit with these rows added as they are."""
        then = self._committed
        runs, waiting = self._parts(to_stage=True)
        added = int(frame.get_column(DIFF).to_numpy().sum())
        totals = {**then.totals, DIFF: (then.totals.get(DIFF, 0) + added) % 2**64}
        retracting = then.retracting if waiting else 0
        waiting = with_another(waiting, Chunk(frame, in_force()))
        return self._tidied(then.with_parts(runs, waiting, totals=totals, retracting=retracting))

    def _parts(self, *, to_stage: bool = False) -> Parts:
        """Return the parts of the last commit, as far as they were sorted or merged since."""
        return (
            self._as_read(self._committed, to_stage=to_stage)
            if self._settled is None
            else (self._settled, ())
        )

    def _settle(self, version: Version) -> tuple[Run, ...]:
        """Return the runs of a version whose waiting rows are among them from now on."""
        parts = version.parts
        if not parts[1]:
            return parts[0]
        if version is self._committed and self._settled is not None:
            return version.settle(self._settled)
        if version.merged and not self.keeps_runs:
            return version.settle(tuple(filter(len, version.merged[:1])))
        runs, waiting = self._as_read(version)
        if waiting:
            runs = self._piled((*runs, self._sorted_waiting(waiting)))
        runs = version.settle(runs)
        self._merges.append(_Merge.of(parts, runs))
        return runs

    def _sorted(self, frame: pl.DataFrame) -> Run:
        if not self.layout.payload:
            keys, diffs = entries_of(frame)
            return make_run(self.layout, keys, pl.DataFrame(), {DIFF: diffs})
        if not self.layout.by_row:
            return run_of_distinct_rows(self.layout, frame)
        assert self._keys is not None, "rows are kept by columns"
        return run_of_rows(self.layout, self._keys, frame)

    def _sorted_waiting(self, waiting: Waiting) -> Run:
        return sorted_rows(waiting, self._sorted)

    def _as_read(self, version: Version, *, to_stage: bool = False) -> Parts:
        """Return the parts of a version, with those that readers have merged replaced by the merge, so that it is kept once.

        A reader may have merged an earlier commit, whose parts are still the oldest of this one.
        """
        parts, seen = version.parts, len(self._merges)
        if to_stage:
            self._merges_seen = seen
        for merge_of_reader in reversed(self._merges[:seen]):
            parts = merge_of_reader.applied(parts) or parts
        return parts

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
        runs, waiting = version.parts
        entries = sum(map(len, runs)) + rows_in(waiting)
        attempts = not any(version.totals.values()) or entries > 2 * (self.most_merged or entries)
        attempts = attempts and entries >= version.attempt_from
        if len(runs) + len(waiting) < 2 or not (attempts or version.wasted > entries):
            return version
        every = runs if not waiting else (*runs, self._sorted_waiting(waiting))
        merged = tuple(self._merged_in_ranges(every, 0, 2**64 - 1))
        attempt_from = 2 * sum(map(len, merged)) if attempts else version.attempt_from
        return version.with_parts(merged, (), attempt_from=attempt_from, wasted=0)

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
        added = sum(column.tolist()) if len(column) <= FEW_VALUES else int(column.sum())
        totals[name] = (totals.get(name, 0) + added) % 2**64


def _level(size: int) -> int:
    """Return the power of ``FAN`` by which a run of so many entries exceeds ``FLOOR``."""
    level, most = 0, FLOOR
    while size > most:
        level, most = level + 1, most * FAN
    return level
