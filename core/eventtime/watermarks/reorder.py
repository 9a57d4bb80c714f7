"""Rows in the order of event time: kept until the watermark has passed them, then emitted in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from ...data.clock import Clock, Now
from ...data.columns.grouping import consolidated_rows, group
from ...data.columns.kernels import Index, Ints, gather, keep, key_words, stack
from ...data.columns.sorting import sorted_by
from ...data.delta import Delta
from ...data.instants import instants_in, shown
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.ledger import Ledger, Refused
from ...state.merge_policy import to_merge
from ...state.operator_contract import Operator
from ...state.partitioning import ONE
from ...state.run import Layout, run_of_groups
from ...state.snapshot import INSTANT, PAYLOAD, SPENT, Saved
from ...state.spine import Spine
from ...state.staged import StagedValue


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Entries:
    """A piece: rows with diffs in ``frame``, in the order of their instants."""

    instants: Ints
    frame: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The rest of a piece: all but its first ``spent`` entries, of which ``negatives`` are retractions."""

    piece: Entries
    negatives: int
    spent: int = 0

    def __len__(self) -> int:
        return len(self.piece.instants) - self.spent

    @property
    def instants(self) -> Ints:
        return self.piece.instants[self.spent :]

    @property
    def frame(self) -> pl.DataFrame:
        return self.piece.frame.slice(self.spent) if self.spent else self.piece.frame

    def cut(self, until: int) -> tuple[_Run | None, _Run | None]:
        """Return the entries before an instant and the others, by reference; None if there are none."""
        place = int(np.searchsorted(self.instants, until))
        if not place:
            return None, self
        if place == len(self):
            return self, None
        head = _run(self.instants[:place], self.frame.slice(0, place))
        return head, _Run(self.piece, self.negatives - head.negatives, self.spent + place)

    def compact(self) -> _Run:
        """Return the same entries, without the spent ones."""
        return _Run(
            Entries(self.instants.copy(), self.frame[pl.Series(np.arange(len(self)))]), self.negatives
        )


def _run(instants: Ints, frame: pl.DataFrame) -> _Run:
    return _Run(Entries(instants, frame), _negatives(frame))


def _negatives(frame: pl.DataFrame) -> int:
    return int((frame.get_column(DIFF).to_numpy() < 0).sum())


@dataclass(frozen=True, slots=True)
class _Version:
    """The buffer at one epoch. From ``attempt_from`` entries on, a merge is tried to cancel retractions."""

    runs: tuple[_Run, ...] = ()
    attempt_from: int = 0


class Buffer(StagedValue[_Version]):
    """Rows with diffs by event time: new ones are added, those before an instant are taken out.

    It is not a spine, which is sorted by key: what is taken out is a beginning of each run. It consists of a few runs, sorted by instant; a row and its retraction cancel when their runs are merged, at the latest
    when they are taken out, and before they are more than half of the entries. Cost: the entries that are added and taken
    out, each in a logarithmic number of merges; others are not visited. ``touched`` counts the entries that were sorted or
    moved.
    """

    def __init__(self) -> None:
        super().__init__(_Version(), ONE)
        self.touched: int = 0

    @property
    def first(self) -> int | None:
        """Return the earliest instant of an entry, as of the last commit."""
        return min((int(run.instants[0]) for run in self._committed.runs), default=None)

    def exchange(self, instants: Ints, frame: pl.DataFrame, until: int) -> tuple[Ints, pl.DataFrame] | None:
        """Stage these additions and the removal of all entries before ``until``; return the latter, sorted by instant."""
        assert self._staged is None, "staged twice in one epoch"
        then = self._committed
        parts = [run.cut(until) for run in then.runs]
        if len(instants):
            parts.append(self._sorted(instants, frame).cut(until))
        left = [self._compact(rest) for _, rest in parts if rest is not None]
        # The removal may have left an old run smaller than a young one.
        left.sort(key=len, reverse=True)
        self._staged = self._tidied(self._piled(tuple(left)), then.attempt_from)
        heads = [head for head, _ in parts if head is not None]
        if not heads:
            return None
        out = self._merged(heads) if len(heads) > 1 or heads[0].negatives else heads[0]
        return out.instants, out.frame

    @property
    def entries(self) -> int:
        """Return the number of entries; those that cancel between runs count twice."""
        return sum(map(len, self._committed.runs))

    @property
    def nbytes(self) -> int:
        """Return the bytes of columns, without spent entries."""
        return sum(run.instants.nbytes + int(run.frame.estimated_size()) for run in self._committed.runs)

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``."""
        version = self._latest
        runs = version.runs
        facts = {
            SPENT: [run.spent for run in runs],
            "negatives": [run.negatives for run in runs],
            "attempt_from": version.attempt_from,
        }
        return Saved(tuple(run.piece for run in runs), facts)

    def restore(self, saved: Saved) -> None:
        """See ``State``. If the facts do not count retractions, they are counted in one pass over the diffs."""
        pieces, facts = saved.pieces, saved.facts
        spent: Sequence[int] = facts.get(SPENT) or [0] * len(pieces)
        negatives: Sequence[int] | None = facts.get("negatives")
        if negatives is None:
            negatives = [
                _negatives(piece.frame.slice(gone)) for piece, gone in zip(pieces, spent, strict=True)
            ]
        self._committed = _Version(tuple(map(_Run, pieces, negatives, spent)), facts.get("attempt_from", 0))
        self._staged = None

    def columns_of(self, piece: Entries) -> pl.DataFrame:
        """See ``State``."""
        rows = [column.alias(PAYLOAD + column.name) for column in piece.frame.get_columns()]
        return pl.DataFrame([pl.Series(INSTANT, piece.instants), *rows])

    def piece_of(self, columns: pl.DataFrame) -> Entries:
        """See ``State``."""
        instant, *rows = columns.get_columns()
        frame = pl.DataFrame([column.alias(column.name.removeprefix(PAYLOAD)) for column in rows])
        return Entries(instant.to_numpy(), frame)

    def _compact(self, run: _Run) -> _Run:
        if run.spent <= len(run):
            return run
        self.touched += len(run)
        return run.compact()

    def _sorted(self, instants: Ints, frame: pl.DataFrame) -> _Run:
        self.touched += len(instants)
        if (instants[1:] >= instants[:-1]).all():
            return _run(instants, frame)
        order = np.argsort(instants, kind="stable")
        return _run(instants[order], gather(frame, order))

    def _merged(self, runs: Sequence[_Run]) -> _Run:
        """Return all entries in one run; if there are retractions, each row once."""
        instants, frame = np.concatenate([run.instants for run in runs]), stack([run.frame for run in runs])
        self.touched += len(instants)
        order: Index = np.argsort(instants, kind="stable")
        if not any(run.negatives for run in runs):
            return _run(instants[order], gather(frame, order))
        instants, frame = instants[order], gather(frame, order)
        entries, diffs = consolidated_rows(
            pl.DataFrame(frame.get_columns()[:-1]), frame.get_column(DIFF).to_numpy()
        )
        if entries is None:
            return _run(instants, frame)
        rows = gather(pl.DataFrame(frame.get_columns()[:-1]), entries)
        return _run(instants[entries], pl.DataFrame([*rows.get_columns(), pl.Series(DIFF, diffs)]))

    def _piled(self, runs: tuple[_Run, ...]) -> tuple[_Run, ...]:
        while (first := to_merge([len(run) for run in runs])) is not None:
            runs = (*runs[:first], *filter(len, [self._merged(runs[first:])]))
        return runs

    def _tidied(self, runs: tuple[_Run, ...], attempt_from: int) -> _Version:
        """Merge all runs if half of the entries may cancel; if retractions are left, not again before the size has doubled."""
        entries, negatives = sum(map(len, runs)), sum(run.negatives for run in runs)
        if len(runs) < 2 or entries < attempt_from or 4 * negatives < entries:
            return _Version(runs, attempt_from)
        merged = self._merged(runs)
        return _Version((merged,) if len(merged) else (), 2 * len(merged) if merged.negatives else 0)


@tagged("core.eventtime.ordering:ReleaseInOrder")
class ReleaseInOrder(Operator):
    """Holds rows back until the watermark has passed their event time, and emits them in its order.

        after each epoch:  sum of the output = the rows of the input with event time < watermark, except late ones

    Rows that are released in one epoch are in the order of event time, and then of all columns from left to right; no row
    of a later epoch precedes them, since rows with an event time equal to the watermark are still held back. Released rows
    are not behind the watermark as it was before the epoch, so operators after this one use the same clock.

    A row that is added behind the watermark can no longer be put in order. ``late="refuse"``: it goes to the ledger, and
    so does its retraction; ``late="release"``: it is emitted at once. Retractions of rows that are still held back cancel
    them, retractions of released ones are emitted as they come; both precede the released rows.

    The event time is the value of ``time_column`` plus ``shift`` microseconds.

    State: the rows held back, by event time, and a hash and a count of refused ones, unless the input has no retractions
    (``appends``). Cost: the rows that come and those that are released.
    """

    emits_without_rows = True

    may_wake = True
    has_timers = True
    awaits_clocks = True
    role = "rows kept back"
    other_roles = ("refused rows",)
    is_replayable = False

    def __init__(
        self,
        source: str,
        schema: pl.Schema,
        time_column: str,
        clock: Clock,
        ledger: Ledger,
        *,
        shift: int = 0,
        late: Literal["refuse", "release"] = "refuse",
        appends: bool = False,
    ) -> None:
        self.schema = schema
        self.clock = clock
        self.clocks = (clock,)
        self.buffer = Buffer()
        self.refused = Spine(Layout(), ONE)
        self._source = source
        self._time_column = time_column
        self._shift = shift
        self._ledger = ledger
        self._late = late
        self._appends = appends
        self._nothing = Delta.empty(schema)

    def is_due(self, now: Now) -> bool:
        """Return whether a step without rows would release some."""
        first = self.buffer.first
        return first is not None and first < self.clock.now

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return changes behind the watermark, then the released rows in order."""
        (delta,) = deltas
        times, usable = instants_in(delta.frame.get_column(self._time_column))
        if usable is not None:
            reason = f"event time {self._time_column!r} is null or too far from 1970 to count with"
            self._ledger.stage(Refused(now.epoch, self._source, reason, keep(delta.frame, ~usable)))
            delta, times = Delta(keep(delta.frame, usable), delta.is_consolidated), times[usable]
        times = times + self._shift if self._shift else times
        behind, passing = times < self.clock.before, self._nothing
        if behind.any():
            passing = Delta(keep(delta.frame, behind), delta.is_consolidated)
            passing = passing if self._late == "release" else self._without_late(now, passing)
            delta, times = Delta(keep(delta.frame, ~behind)), times[~behind]
        due = self.buffer.exchange(times, delta.frame, self.clock.now)
        if due is None:
            return passing
        released = gather(due[1], self._order(*due))
        return Delta(stack([passing.frame, released]) if len(passing) else released)

    def _without_late(self, now: Now, behind: Delta) -> Delta:
        """Return the retractions of released rows among the changes behind the watermark; refuse the others."""
        behind = behind.consolidate()
        rows, diffs = behind.rows, behind.diffs
        refused = np.maximum(diffs, 0)
        if not self._appends and len(diffs):
            groups = group(key_words(rows.get_columns(), len(diffs)))
            held = np.zeros(len(diffs), np.int64)
            held[groups.first_entries] = self.refused.totals(groups.keys).get(
                DIFF, np.zeros(len(groups), np.int64)
            )
            refused = np.where(diffs > 0, diffs, np.maximum(diffs, -held))
            self.refused.stage(run_of_groups(groups, pl.DataFrame(), {DIFF: refused[groups.first_entries]}))
        if refused.any():
            places = np.flatnonzero(refused)
            reason = (
                f"event time {self._time_column!r} is behind the watermark, {shown(self.clock.before)}: "
                "what follows it is released already"
            )
            late = Delta.of(gather(rows, places), refused[places]).frame
            self._ledger.stage(Refused(now.epoch, self._source, reason, late, self.clock.before))
        passing = np.flatnonzero(diffs != refused)
        return Delta.of(gather(rows, passing), (diffs - refused)[passing], is_consolidated=True)

    def _order(self, instants: Ints, frame: pl.DataFrame) -> Index:
        """Return the order by event time, in the precision of the column, then by all columns."""
        if (instants[1:] > instants[:-1]).all():
            return np.arange(len(instants))
        columns = [frame.get_column(name) for name in self.schema if name != self._time_column]
        return sorted_by([frame.get_column(self._time_column), *columns])
