"""The operators by which pushed rows enter the circuit; rows that cannot be accepted go to the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.comparisons import differ
from ..data.columns.directory import entries_among
from ..data.columns.grouping import Groups, group
from ..data.columns.json_texts import shown_row
from ..data.columns.kernels import (
    Index,
    Ints,
    Keys,
    Mask,
    at,
    gather,
    has_floats,
    keep,
    key_words,
    stack,
    with_plain_zeros,
)
from ..data.columns.marks import Marks, marked_columns, marks_of
from ..data.delta import Delta
from ..data.errors import RetractionError
from ..data.tags import tagged
from ..state.ledger import Ledger as Ledger
from ..state.ledger import Refused as Refused
from ..state.lookup import KeyRows, first_rows
from ..state.marked_rows import is_compared
from ..state.operator_contract import KeyedOperator, Operator
from ..state.partitioning import KeyColumns
from ..state.run import Layout, run_of_rows
from ..state.spine import Spine
from ..state.waiting import Chunk

NO_KEYS = Keys(np.zeros(0, np.uint64))


@tagged("core.operators.inputs:Append")
class Append(Operator):
    """A source of rows that are only added, or whose retractions are trusted: the delta passes unchanged. No state."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self._has_floats = any(map(has_floats, schema.dtypes()))

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change, with 0.0 for -0.0."""
        return _plain(deltas[0]) if self._has_floats else deltas[0]


def _plain(delta: Delta) -> Delta:
    """Return the delta with 0.0 for -0.0, so that equal rows look alike from here on."""
    return delta.with_values(with_plain_zeros)


@dataclass(frozen=True, slots=True, eq=False)
class _Retracted:
    """The different rows of which an epoch retracts some: which entries are one of them, and which, and sums of diffs.

    ``keys`` are the keys of the rows, in their order; none where no row is refused. ``added`` is what the epoch adds to each
    row, and ``accepted`` as much of it as leaves no negative count.
    """

    keys: Keys
    entries: Index
    owners: Index
    added: Ints
    accepted: Ints


@tagged("core.operators.inputs:CheckRetractions")
class CheckRetractions(Operator):
    """Accept a retraction as often as the row is there, and refuse the rest.

    State: the sum of the diffs of each row, by the row's hash, never negative. So only rows of which the epoch retracts some
    are looked up, in that state and in the epoch itself: an addition and a retraction of one row within one epoch cancel
    before they are checked. All others pass, neither sorted nor brought together, nor hashed if they are many and have numbers
    to be ruled out by. Cost: the delta.
    """

    role = "counts of rows"
    counts_rows = True

    def __init__(self, source: str, schema: pl.Schema, ledger: Ledger, *, strict: bool) -> None:
        self.schema = schema
        self.spine = Spine(Layout())
        self._marked = marked_columns(schema)
        self._is_compared = is_compared(schema.dtypes())
        self._source = source
        self._ledger = ledger
        self._strict = strict

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the accepted part of the change."""
        delta = _plain(deltas[0])
        if not len(delta):
            return delta
        unhashed = self.spine.unhashed(delta.frame, self._marked)
        retracted = self._by_values(delta, unhashed) or self._by_words(delta, unhashed)
        excess = np.flatnonzero(retracted.accepted != retracted.added)
        self._stage(
            delta, unhashed, retracted.keys.take(excess), (retracted.accepted - retracted.added)[excess]
        )
        retractions = np.count_nonzero(delta.diffs < 0)
        if not len(excess) and len(retracted.entries) == retractions and delta.diffs.all():
            return delta
        return self._accepted(now, delta, retracted)

    def _by_values(self, delta: Delta, unhashed: Chunk | None) -> _Retracted | None:
        """Return the rows that are retracted, without their keys; None where these are needed, as they are if some are refused."""
        retracted = None if unhashed is None or not self._is_compared else unhashed.retracted_rows()
        if retracted is None:
            return None
        rows, entries, owners = retracted
        added = np.zeros(len(rows), np.int64)
        np.add.at(added, owners, delta.diffs[entries])
        accepted = np.maximum(added, -self.spine.totals_of_rows(rows)) if len(rows) else added
        return None if (accepted != added).any() else _Retracted(NO_KEYS, entries, owners, added, accepted)

    def _by_words(self, delta: Delta, unhashed: Chunk | None) -> _Retracted:
        """Return the rows that are retracted, in the order of their keys."""
        diffs = delta.diffs
        retractions = np.flatnonzero(diffs < 0)
        if unhashed is not None:
            keys, entries, owners = unhashed.retracted()
        else:
            keys = group(delta.words.take(retractions)).keys
            entries, owners = entries_among(delta.words, keys)
        added = np.zeros(len(keys), np.int64)
        np.add.at(added, owners, diffs[entries])

        @cache
        def marks() -> Marks:
            return marks_of([delta.frame.get_column(name)[retractions] for name in self._marked])

        accepted = np.maximum(added, -self.spine.totals_among(keys, marks)) if len(keys) else added
        return _Retracted(keys, entries, owners, added, accepted)

    def _stage(self, delta: Delta, unhashed: Chunk | None, excess: Keys, refused: Ints) -> None:
        """Stage the entries of the change, and the diffs that were refused of some keys."""
        if not len(excess):
            if unhashed is None:
                self.spine.stage_entries(delta.words, delta.diffs)
            else:
                self.spine.stage_unhashed(unhashed)
            return
        words = delta.words if unhashed is None else unhashed.entries()[0]
        self.spine.stage_entries(Keys.concat([words, excess]), np.concatenate([delta.diffs, refused]))

    def _accepted(self, now: Now, delta: Delta, retracted: _Retracted) -> Delta:
        """Return the change without rows that cancel, and without those that are refused."""
        added, accepted, entries = retracted.added, retracted.accepted, retracted.entries
        first = np.full(len(added), len(delta))
        np.minimum.at(first, retracted.owners, entries)
        excess = np.flatnonzero(accepted != added)
        if len(excess):
            self._refuse(now, Delta.of(gather(delta.rows, first[excess]), (added - accepted)[excess]))
        # Rows that cancel do not reach any operator, clocks included, whatever else is in the batch or its bucket.
        diffs = delta.diffs.copy()
        diffs[entries] = 0
        diffs[first] = accepted
        remaining = np.flatnonzero(diffs)
        return Delta.of(gather(delta.rows, remaining), diffs[remaining])

    def _refuse(self, now: Now, refused: Delta) -> None:
        if self._strict:
            first = shown_row(refused.rows, 0)
            raise RetractionError(
                f"source {self._source!r}: retraction of a row that is not there: {first} "
                f"({len(refused)} in this batch); nothing was changed. Declare the source with strict=False to "
                "have such rows refused into the ledger instead"
            )
        self._ledger.stage(
            Refused(now.epoch, self._source, "retraction of a row that is not there", refused.frame)
        )


@tagged("core.operators.inputs:Upsert")
class Upsert(KeyedOperator):
    """Rows replace the row of their key; a row with diff -1 deletes it. The engine derives the retractions.

    The last row of a key in a batch wins. State: the rows by key. Cost: the delta.
    """

    role = "rows"

    def __init__(self, source: str, schema: pl.Schema, keys: Sequence[str], ledger: Ledger) -> None:
        super().__init__(schema, KeyColumns.of(keys))
        self.spine = Spine(Layout(schema, by_row=True))
        self._source = source
        self._ledger = ledger
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return minus the rows that were there, plus those that replace them."""
        delta = _plain(deltas[0])
        if not len(delta):
            return self._nothing
        groups = group(self._keys.words_of(delta))
        last = groups.last_entries
        stands = delta.diffs[last] > 0
        before = first_rows(self.spine, groups.keys, 1)
        if not stands.all():
            self._refuse_missing(now, delta, groups, np.setdiff1d(np.flatnonzero(~stands), before.owners))
        change = self._change(delta, last, stands, before)
        self.spine.stage(run_of_rows(self.spine.layout, self._keys, change.frame))
        return change

    def _refuse_missing(self, now: Now, delta: Delta, groups: Groups, missing: Index) -> None:
        """Refuse the deletions that are the last change of these keys, which had no row."""
        missing = missing[~_came_just_before(groups, delta.diffs, missing)]
        if len(missing):
            rows = gather(delta.frame, groups.last_entries[missing])
            self._ledger.stage(Refused(now.epoch, self._source, "deletion of a key that is not there", rows))

    def _change(self, delta: Delta, last: Index, stands: Mask, before: KeyRows) -> Delta:
        """Return minus the rows before the epoch, plus the last ones of keys that are not deleted; a row that stays is in neither."""
        is_kept = np.zeros(len(delta), np.bool_)
        is_kept[last[stands]] = True
        after = gather(delta.rows, np.flatnonzero(is_kept))
        replaced = np.flatnonzero(stands[before.owners])
        place = np.cumsum(is_kept) - 1
        replacing = place[last[before.owners[replaced]]]
        is_same = _are_equal(before.payload, replaced, after, replacing)
        gone, come = np.ones(before.payload.height, np.bool_), np.ones(after.height, np.bool_)
        gone[replaced[is_same]] = come[replacing[is_same]] = False
        rows = stack([keep(before.payload, gone), keep(after, come)])
        diffs = np.ones(rows.height, np.int64)
        diffs[: np.count_nonzero(gone)] = -1
        return Delta.of(rows, diffs, is_consolidated=True)


def _are_equal(ones: pl.DataFrame, its: Index, others: pl.DataFrame, theirs: Index) -> Index:
    """Return which of these pairs of rows, given by their positions in two frames, are equal. Cost: the columns up to the first difference."""
    pairs = np.arange(len(its))
    for column in ones.get_columns():
        if not len(pairs):
            break
        one, other = at(column, its[pairs]), at(others.get_column(column.name), theirs[pairs])
        if column.dtype.is_nested():
            words, other_words = key_words([one], len(pairs)), key_words([other], len(pairs))
            is_same = (words.first == other_words.first) & (words.seconds() == other_words.seconds())
        else:
            is_same = ~differ(one, other)
        pairs = pairs[is_same]
    return pairs


def _came_just_before(groups: Groups, diffs: Ints, numbers: Index) -> Mask:
    """Return for some groups whether the row before the last one is there and an addition, so that the last deletes that one."""
    ends = np.append(groups.starts[1:], len(groups.order))[numbers]
    came: Mask = ends - groups.starts[numbers] > 1
    came[came] = diffs[groups.order[ends[came] - 2]] > 0
    return came
