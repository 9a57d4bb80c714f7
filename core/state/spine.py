"""A spine is a state of a few immutable sorted runs that add up to a collection by key.

Since runs add up, an epoch adds one small run, a reader holds a tuple of runs that no later epoch changes, and an epoch
is discarded by not adding its run. Runs of similar size are merged as they pile up (``merger``). Rows may wait unsorted
beside the runs (``waiting``), until somebody looks them up, reads or saves them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import polars as pl

from ..data.columns.kernels import Ints, Keys, gather
from ..data.columns.key_hash import in_force
from ..data.columns.marks import marks_of
from ..data.delta import Delta
from ..data.schema import DIFF
from .gradual import AT_ONCE
from .key_rows import KeyRows
from .merger import Merger, add_totals
from .partitioning import WORDS, KeyColumns, Route
from .protocol import KeptIn
from .run import Layout, Run, empty_run, make_run, run_of_distinct_rows, run_of_rows
from .run_columns import columns_of_run, run_of_columns
from .run_merge import have_most_entries, merge
from .snapshot import KEY, Saved
from .totals import Totals
from .unsorted import in_one_chunk, present_rows
from .version import NO_PARTS, Merge, Parts, forget_lost
from .version import Version as Version
from .waiting import (
    UNHASHED_FROM,
    Chunk,
    Waiting,
    entries_of,
    frame_of_entries,
    oldest,
    retractions_in,
    rows_in,
    sorted_rows,
    too_many,
    with_another,
)

MOST_ENTRIES = 1 << 19
"""Where an epoch adds more entries than this to a state of numbers by key, they are sorted at once."""

LOOKS = 16
"""At most so many entries wait for each one that an epoch adds, as it looks at each of them."""

NO_DIFFS = np.zeros(0, np.int64)

FEW_WAITING = 1024
"""So few rows wait whether or not some are retractions: those of many small epochs are sorted together."""


class Spine(Totals):
    """A few runs that add up to a collection by key: the one structure of which every state is made.

    ``runs`` is the last commit. ``stage`` does all the work of an epoch, merges included; ``commit`` moves a
    pointer. Between the two, ``delta`` is the run that this epoch adds, for operators further down that share
    this state. ``touched`` counts the entries that epochs have read and written since the beginning.

    ``stage_rows`` stages rows as they are. Whoever then takes ``runs`` or ``delta`` has them sorted, once;
    ``change`` is the rows of this epoch as they came. ``keys`` are the columns by which rows of such a state are kept, where
    a key may have many rows; otherwise they are kept by all columns.

    Epochs run in one thread at a time. Any other reader takes the ``version`` of a commit and reads a copy of the
    spine ``at`` it, which does not affect epochs, except that they may adopt a merge of all runs that it has made.

    ``keeps_runs``: reading everything does not replace the runs by a merged one, as they are on disk and it is not.
    ``most_merged``: runs that would merge into more entries than this stay apart, so that every merge fits into memory; a
    look-up then visits about entries / most_merged runs. Entries that cancel between such runs are removed when the state
    has doubled: then they are merged a range of keys at a time. That does not happen while it ``is_growing``: more rows of the
    same epoch are to come, and all entries do not fit into memory beside them. ``keeps_first``: of rows that are never retracted
    it has the first of each key, and no others (``leading_rows``).
    """

    kept_in: KeptIn = "buckets"
    keeps_runs = False
    most_merged: int | None = None
    is_growing = False
    keeps_first = False

    def __init__(self, layout: Layout, route: Route | None = WORDS, keys: KeyColumns | None = None) -> None:
        self.layout = layout
        self.route = route
        self.key_columns = keys
        self._nothing = empty_run(layout)
        self.version: Version = Version(NO_PARTS)
        """The last commit."""
        self._merges: list[Merge] = []
        """Merges made by readers, and of waiting rows: appended by any thread, removed by the one that writes."""
        self._merges_seen = 0
        self.wasted: int = 0
        self._sorts = 0  # How many of the rows that wait are sorted with this epoch.
        self._staged: Version | None = None
        self._settled: tuple[Run, ...] | None = None
        self._added: tuple[Run, ...] = ()
        self._chunk: Chunk | None = None  # The runs that are staged, and the rows that are to wait.
        self._looks: int | None = None  # How many entries may go on waiting; None: all.
        self._whole: tuple[Run, Run] | None = None  # All entries before this epoch, and after it.
        self.looked_up: tuple[int, Keys, KeyRows] | None = None  # The last ``first_rows`` of this version.
        self._delta: Run | None = self._nothing
        """What this epoch adds; None while it is only ``change``."""
        self.change: pl.DataFrame | None = None
        self.touched: int = 0

    def at(self, version: Version) -> Self:
        """Return a copy of the spine for a reader, at this version. No run is copied."""
        own = copy.copy(self)
        own.version, own._staged, own._settled, own._whole, own._added = version, None, None, None, ()
        own._delta, own.change, own._chunk, own._looks, own.looked_up = self._nothing, None, None, None, None
        own.touched = own.wasted = own._sorts = 0
        return own

    def _with_sorted_rows(self) -> tuple[Run, ...]:
        """See ``Totals``."""
        runs, waiting = self.parts()
        self._settled = self._merger.piled((*runs, self._sorted_waiting(waiting))) if waiting else runs
        if self._staged is not None:
            self._staged = self._with(self._added, self._chunk)
        return self._settled

    @property
    def delta(self) -> Run:
        """Return the run that this epoch adds. Cost: none; once, where rows were staged as they are, that of sorting them."""
        if self._delta is None:
            assert self.change is not None, "what is staged is rows or a run"
            assert self._chunk is not None, "rows are staged to wait"
            is_hashed = self._chunk.marks is None
            self._delta = self._sorted(self.change) if is_hashed else self._sorted_waiting((self._chunk,))
            self._added, self._chunk = (self._delta,), None
            self._staged = self._with(self._added)
        return self._delta

    @property
    def unsorted_change(self) -> pl.DataFrame | None:
        """Return the rows of this epoch as they came, if they are not sorted yet."""
        return self.change if self._delta is None else None

    @property
    def staged_run(self) -> Run | None:
        """Return all entries after this epoch if it adds some, and they are one run then; None otherwise. Cost: none."""
        parts = None if self._staged is None else self._staged.parts
        return parts[0][0] if parts is not None and len(parts[0]) == 1 and not parts[1] else None

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
        added = tuple([part for part in (run, gone) if part is not None and part.size])
        if added:
            self._staged, self._added, self._delta = self._with(added), added, run

    def stage_rows(self, frame: pl.DataFrame) -> None:
        """Stage rows with their diffs, at most once per epoch: those that are added as they are.

        ``frame`` has the columns of the payload, then ``_diff``, and is not changed by anybody. Where merges have to stay
        within bounds, or where most of the rows are retractions, all are sorted at once.
        """
        assert self._staged is None, "staged twice in one epoch"
        if not frame.height:
            return
        added = int(np.count_nonzero(frame.get_column(DIFF).to_numpy() > 0))
        if self.most_merged is not None or 2 * added < frame.height:
            self.stage(self._sorted(frame))
        else:
            self._stage_change(frame, Chunk(frame, in_force(), retracting=frame.height - added))

    def stage_entries(self, keys: Keys, diffs: Ints) -> None:
        """Stage entries of a state that has nothing but sums of diffs, at most once per epoch: in any order, as they are.

        Keys may be repeated. The oldest entries that wait are sorted where too many wait for an epoch of this size.
        """
        assert self._staged is None, "staged twice in one epoch"
        if not len(keys):
            return
        frame = frame_of_entries(keys, diffs)
        if self.most_merged is not None or len(keys) > MOST_ENTRIES:
            self.stage(self._sorted(frame))
        else:
            self._stage_change(frame, Chunk(frame, in_force()), looks=LOOKS * len(keys))

    def unhashed(self, frame: pl.DataFrame, columns: Sequence[str]) -> Chunk | None:
        """Return rows and their diffs as a chunk without words, marked by these columns; None if they are to be hashed at once."""
        if not columns or self.most_merged is not None or not UNHASHED_FROM <= frame.height <= MOST_ENTRIES:
            return None
        return Chunk(frame, in_force(), marks_of([frame.get_column(name) for name in columns]))

    def stage_unhashed(self, chunk: Chunk) -> None:
        """Stage the entries of rows whose words are not made, as ``stage_entries`` does."""
        assert self._staged is None, "staged twice in one epoch"
        self._stage_change(chunk.frame, chunk, looks=LOOKS * len(chunk))

    def _stage_change(self, change: pl.DataFrame, waiting: Chunk, *, looks: int | None = None) -> None:
        self._added, self._chunk, self._looks = (), waiting, looks
        self._staged = self._with(self._added, self._chunk)
        self.change, self._delta = change, None

    def sort_some(self, rows: int) -> None:
        """Have the oldest rows that wait sorted with this epoch, so many of them, whether or not it adds anything."""
        if rows > self._sorts:
            self._sorts = rows
            self._staged = self._with(self._added, self._chunk)

    def with_sorted(self, waiting: Run, delta: Run) -> Self:
        """Return a copy of the spine for look-ups of some keys, of which the rows that wait and those of this epoch are these."""
        own = self.at(self.version)
        own.version, own._delta = Version(((*self.parts()[0], *filter(len, [waiting])), ())), delta
        return own

    def whole(self, keys: Keys) -> tuple[Run, Run] | None:
        """Return all entries in one run: those of the last commit, and those after this epoch; the state is then that run.

        None where that would cost more than some entries for each one that this epoch adds, unless these keys, which are to be
        read and have few entries each, have most of all entries; and where runs stay apart.
        """
        if self._whole is None and self.has_delta and not self.keeps_runs and self.most_merged is None:
            runs, delta = self.runs, self.delta
            staged = self._staged
            if staged is None or not (
                sum(map(len, runs)) <= AT_ONCE * len(delta) or have_most_entries(keys, runs)
            ):
                return None
            before = self._merger.merged(runs)
            after = self._merger.merged((before, delta))
            purged = tuple(run for run in self._added if run is not delta)
            self._staged = staged.with_parts((*filter(len, [after]), *purged), (), merging=())
            self._whole = before, after
        return self._whole

    def words_of(self, frame: pl.DataFrame) -> Keys:
        """Return the words of the keys of rows, in their order."""
        assert self.key_columns is not None, "rows are kept by columns"
        return self.key_columns.words(frame)

    def waste(self, entries: int) -> None:
        """Count entries that were read in vain, as others retract them."""
        self.wasted += entries

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is None and self._settled is not None:
            self.version.settle(self._settled)
        if self._staged is not None:
            self.version, self.looked_up = self._staged, None
            # After a discarded epoch they are left to the next one, which then stages what this one would have staged.
            del self._merges[: self._merges_seen]
        if self.wasted:
            self.version = replace(self.version, wasted=self.version.wasted + self.wasted)
        self.discard()

    def discard(self) -> None:
        """Drop what was staged."""
        self.wasted, self._settled, self._whole = 0, None, None
        if self._staged is not None:
            self._staged, self._added, self._chunk, self._looks, self._sorts = None, (), None, None, 0
            self._delta, self.change = self._nothing, None

    def merged(self) -> Run:
        """Return all entries in one run. Cost: the state, once until it changes."""
        version = self.version
        if not version.merged:
            if self.keeps_runs:
                self._settle(version)
            runs, waiting = parts = version.parts
            merged = version.whole
            if merged is None:
                every = runs if not waiting else (*runs, self._sorted_waiting(waiting))
                merged = merge(self.layout, every) if every else self._nothing
            version.merged.append(merged)
            if len(runs) > 1 or waiting:
                into = tuple(filter(len, version.merged[:1]))
                if waiting:
                    version.settle(into)
                if not self.keeps_runs:
                    self._merges.append(Merge.of(parts, into))
        return version.merged[0]

    def present(self) -> pl.DataFrame:
        """Return the rows of a state of rows, each as often as its diffs add up to. Cost: the state, once until it changes.

        Many rows of which none is sorted yet come as they came, without those that were retracted since; else they are sorted.
        """
        chunk = self._unsorted()
        if chunk is not None:
            return present_rows(chunk)
        run = self.merged()
        diffs = run.sums.get(DIFF, NO_DIFFS)
        if (diffs == 1).all():
            return run.payload
        return gather(run.payload, np.repeat(np.arange(len(run)), np.maximum(diffs, 0)))

    def summed(self) -> Delta:
        """Return the rows of a state of rows with their diffs. Cost: see ``present``."""
        chunk = self._unsorted()
        if chunk is not None:
            return Delta(chunk.frame)
        run = self.merged()
        return Delta.of(run.payload, run.sums[DIFF]) if len(run) else Delta.empty(self.layout.payload)

    def _unsorted(self) -> Chunk | None:
        """Return all rows as one chunk, which waits in the place of theirs from now on; None if they are to be sorted."""
        version = self.version
        runs, waiting = parts = self._as_read(version)
        if version.merged or runs or not waiting or rows_in(waiting) < UNHASHED_FROM:
            return None
        chunk = in_one_chunk(waiting)
        if chunk is not None and chunk is not waiting[0]:
            version.wait_as(chunk)
            self._merges.append(Merge.of(parts, (), (chunk,)))
        return chunk

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``: the pieces are runs."""
        version = self.version if self._staged is None else self._staged
        wasted = version.wasted + self.wasted
        facts = {"totals": dict(version.totals), "attempt_after": version.attempt_after, "wasted": wasted}
        return Saved(self._settle(version), facts)

    def restore(self, saved: Saved) -> None:
        """See ``State``. If the facts have no totals, they are added up in one pass over the additive columns."""
        runs, facts = saved.pieces, saved.facts
        totals: dict[str, int] = dict(facts.get("totals", {}))
        for run in runs if "totals" not in facts else ():
            add_totals(totals, run)
        self.version = Version((runs, ()), totals, facts.get("attempt_after", 0), facts.get("wasted", 0))
        self.looked_up = None
        self.discard()
        forget_lost(self._merges)

    def share(self, version: Version) -> None:
        """Become a version of another spine with the same layout. Nothing is copied, sorted or merged. Cost: none."""
        self.version, self.looked_up = version.shared(), None
        self.discard()

    def columns_of(self, piece: Run) -> pl.DataFrame:
        """See ``State``."""
        return columns_of_run(piece)

    def piece_of(self, columns: pl.DataFrame) -> Run:
        """See ``State``."""
        return run_of_columns(self.layout, columns)

    def _with(self, added: Sequence[Run], chunk: Chunk | None = None) -> Version:
        """Return the last commit with these runs and waiting rows added, merged as far as is due."""
        then, merger = self.version, self._merger
        runs, waiting = self.parts(to_stage=True)
        totals, retracting = dict(then.totals), then.retracting if waiting else 0
        merging = tuple([each for each in then.merging if each.place_in(runs) is not None])
        if self._looks is not None:
            for chunk_of_before in too_many(waiting, self._looks):
                run = self._sorted_waiting((chunk_of_before,))
                runs, merging = merger.piled_gradually((*runs, run), merging, run.size)
                waiting = waiting[1:]
        if self._sorts and waiting:
            sorted_now, waiting = oldest(waiting, self._sorts)
            run = self._sorted_waiting(sorted_now)
            runs, merging = merger.piled_gradually((*runs, run), merging, run.size // AT_ONCE)
            retracting += retractions_in(sorted_now)
        if chunk is not None:
            retracting += chunk.retracting
            more = int(chunk.frame.get_column(DIFF).to_numpy().sum())
            totals[DIFF] = (totals.get(DIFF, 0) + more) % 2**64
            waiting = with_another(waiting, chunk)
        for part in added:
            add_totals(totals, part)
            runs, merging = merger.piled_gradually((*runs, part), merging, part.size)
            retracting += int(np.count_nonzero(part.sums.get(DIFF, NO_DIFFS) < 0)) if waiting else 0
        many = waiting and (rows := rows_in(waiting)) > FEW_WAITING
        if many and 2 * retracting > rows - retractions_in(waiting):
            # So that rows that were retracted are not kept for long.
            runs, waiting, retracting = merger.piled((*runs, self._sorted_waiting(waiting))), (), 0
            merging = ()
        attempt_after = then.attempt_after
        if attempt_after:
            entries = sum(part.size for part in added) + (0 if chunk is None else len(chunk))
            attempt_after = max(attempt_after - entries, 0)
        changed = Version((runs, waiting), totals, attempt_after, then.wasted, retracting, merging)
        return changed if self.is_growing else merger.tidied(changed, self._sorted_waiting)

    def parts(self, *, to_stage: bool = False) -> Parts:
        """Return the parts of the last commit, as far as they were sorted or merged since. Cost: none."""
        return (
            self._as_read(self.version, to_stage=to_stage) if self._settled is None else (self._settled, ())
        )

    def _settle(self, version: Version) -> tuple[Run, ...]:
        """Return the runs of a version whose waiting rows are among them from now on."""
        parts = version.parts
        if not parts[1]:
            return parts[0]
        if version is self.version and self._settled is not None:
            return version.settle(self._settled)
        if version.merged and not self.keeps_runs:
            return version.settle(tuple(filter(len, version.merged[:1])))
        runs, waiting = self._as_read(version)
        if waiting:
            runs = self._merger.piled((*runs, self._sorted_waiting(waiting)))
        runs = version.settle(runs)
        self._merges.append(Merge.of(parts, runs))
        return runs

    def _sorted(self, frame: pl.DataFrame) -> Run:
        if not self.layout.payload and KEY in frame.columns:
            keys, diffs = entries_of(frame)
            return make_run(self.layout, keys, pl.DataFrame(), {DIFF: diffs})
        if not self.layout.by_row:
            return run_of_distinct_rows(self.layout, frame)
        assert self.key_columns is not None, "rows are kept by columns"
        return run_of_rows(self.layout, self.key_columns, frame)

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

    @property
    def _merger(self) -> Merger:
        return Merger(self.layout, self.most_merged, self._count_moved)

    def _count_moved(self, entries: int) -> None:
        self.touched += entries
