"""Joins on equal keys, from two arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.grouping import boundaries, group
from ..data.columns.kernels import Index, Ints, Keys, Mask, expand, frame_of, gather, is_ones, stack
from ..data.columns.whole_columns import ones
from ..data.delta import Delta
from ..data.errors import ArithmeticRefusedError
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.near import runs_near
from ..state.operator_contract import Operator
from ..state.run import Run
from ..state.spine import Spine

LARGEST_DIFF = 2**31
"""Diffs from here on are refused."""

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]

Side = Literal["left", "right"]

KEPT_ALONE: Mapping[str, Sequence[Side]] = {
    "left": ("left",),
    "right": ("right",),
    "full": ("left", "right"),
}
"""The sides whose rows are in the result without a partner too, by kind of join."""


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One input of a join: its rows by key and, where presence of a key matters, the sum of the diffs of each key."""

    rows: Spine
    counts: Spine | None = None

    @property
    def counted(self) -> Spine:
        """The sums of diffs by key; read by outer, semi and anti joins only."""
        assert self.counts is not None, "this kind of join does not count keys"
        return self.counts

    def has(self, keys: Keys, *, with_delta: bool) -> Mask:
        """Return whether the rows of each of these keys add up to more than zero."""
        counts = self.counted.totals(keys, with_delta=with_delta).get(DIFF)
        return np.zeros(len(keys), np.bool_) if counts is None else counts > 0


@tagged("core.operators.join:JoinColumn")
@dataclass(frozen=True, slots=True)
class JoinColumn:
    """An output column: a column of the left or of the right input, or a key of both, taken from the side that has a row."""

    name: str
    left: str | None = None
    right: str | None = None


@tagged("core.operators.join:Join")
class Join(Operator):
    """Pairs of rows with equal keys and, for some kinds of join, rows without a partner.

        inner:  d(A*B) = dA*B + A*dB + dA*dB       with A, B as of the epoch before
        left:   A*B + A without B, padded with nulls;   right, full: the same on the other side, on both
        semi:   rows of A whose key B has;   anti: rows of A whose key B does not have

    "B has a key" when the diffs of its rows add up to more than zero. Rows with a null key match nothing and
    are not in the arrangements, unless nulls are equal. State: the two arrangements, with counts by key. Cost: the
    delta and the pairs that it makes; for all kinds but inner also the rows of keys that B gains or loses.
    """

    def __init__(
        self,
        schema: pl.Schema,
        kind: JoinKind,
        left: JoinSide,
        right: JoinSide,
        columns: Sequence[JoinColumn],
    ) -> None:
        self.schema = schema
        self._kind = kind
        self._left, self._right = left, right
        self._columns = tuple(columns)
        # The right rows of a semi or anti join are never shown: only whether a key is there.
        shown = (left,) if kind in ("semi", "anti") else (left, right)
        spines = (*(side.rows for side in shown), left.counts, right.counts)
        self._spines = tuple(spine for spine in spines if spine is not None)
        self.looks_at = self._spines
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change of the joined rows."""
        left, right = self._left.rows, self._right.rows
        if not any(spine.has_delta for spine in self._spines):
            return self._nothing
        alone = self._alone("left") or self._alone("right")
        if alone is not None:
            parts = self._of_one_side(*alone)
            return Delta(stack(parts)) if parts else self._nothing
        parts = []
        if self._kind in ("inner", "left", "right", "full"):
            parts += self._pairs(left.delta, (*runs_near(right, left.delta.keys), right.delta))
            parts += [
                part
                for run in runs_near(left, right.delta.keys)
                for part in self._pairs(run, (right.delta,), small_right=True)
            ]
        if self._kind in ("left", "full"):
            parts += [
                self._padded(run.payload, index, diffs, "left")
                for run, index, diffs in _unmatched(self._left, self._right)
            ]
        if self._kind in ("right", "full"):
            parts += [
                self._padded(run.payload, index, diffs, "right")
                for run, index, diffs in _unmatched(self._right, self._left)
            ]
        if self._kind in ("semi", "anti"):
            parts += [
                _rows(*changed)
                for changed in _unmatched(self._left, self._right, matched=self._kind == "semi")
            ]
        parts = [part for part in parts if part.height]
        return Delta(stack(parts)) if parts else self._nothing

    def _alone(self, side: Side) -> tuple[Side, pl.DataFrame] | None:
        """Return the change of a side, as it came, if the other side does not change.

        It need not be sorted then: each of its rows is looked up in the other side as it comes.
        """
        ours, theirs = (self._left, self._right) if side == "left" else (self._right, self._left)
        others = (theirs.rows, theirs.counts)
        if ours.rows.change is None or any(spine is not None and spine.has_delta for spine in others):
            return None
        return side, ours.rows.change

    def _of_one_side(self, side: Side, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the change that the change of one side makes."""
        ours, theirs = (self._left, self._right) if side == "left" else (self._right, self._left)
        keys, diffs = ours.rows.words_of(frame), frame.get_column(DIFF).to_numpy()
        if self._kind in ("semi", "anti"):
            entries = np.flatnonzero(theirs.has(keys, with_delta=False) == (self._kind == "semi"))
            return [gather(frame, entries)] if len(entries) else []
        kept_alone = KEPT_ALONE.get(self._kind, ())
        partners = np.zeros(len(keys), np.int64) if side in kept_alone else None
        parts = self._pairs_of_one_side(side, frame, keys, diffs, theirs.rows, partners)
        other: Side = "right" if side == "left" else "left"
        if partners is not None and len(alone := np.flatnonzero(partners <= 0)):
            parts.append(self._padded(frame, alone, diffs[alone], side))
        if other in kept_alone:
            # Rows of the other side that have a partner from now on, or no longer.
            parts += [
                self._padded(run.payload, index, changes, other)
                for run, index, changes in _unmatched(theirs, ours)
            ]
        return parts

    def _pairs_of_one_side(
        self, side: Side, frame: pl.DataFrame, keys: Keys, diffs: Ints, others: Spine, partners: Ints | None
    ) -> list[pl.DataFrame]:
        """Return all pairs of rows of one side with those of the other, and add up in ``partners`` how many each row has."""
        parts = []
        for run in runs_near(others, keys):
            entries, places = run.pairs(keys)
            if not len(places):
                continue
            others.touched += len(places)
            run_diffs = run.sums[DIFF]
            # To look at the diffs of all rows of a large run would take longer than all else.
            are_ones = len(run_diffs) <= len(places) and is_ones(run_diffs)
            their_diffs = ones(len(places)) if are_ones else run_diffs[places]
            if partners is not None and entries is not None:
                np.add.at(partners, entries, their_diffs)
            elif partners is not None:
                partners += their_diffs
            products = _products(diffs if entries is None else diffs[entries], their_diffs)
            if side == "left":
                parts.append(self._joined(frame, entries, run.payload, places, products))
            else:
                parts.append(self._joined(run.payload, places, frame, entries, products))
        return parts

    def _pairs(self, left: Run, rights: Sequence[Run], *, small_right: bool = False) -> list[pl.DataFrame]:
        """Return all pairs of a left run with the right ones, by looking up the smaller side's keys in the other."""
        pairs = []
        for right in rights:
            if not len(left) or not len(right):
                continue
            if small_right:
                right_index, left_index = _matches(right, left)
                self._left.rows.touched += len(left_index)
            else:
                left_index, right_index = _matches(left, right)
                self._right.rows.touched += len(right_index)
            if len(left_index):
                diffs = _products(left.sums[DIFF][left_index], right.sums[DIFF][right_index])
                pairs.append(self._joined(left.payload, left_index, right.payload, right_index, diffs))
        return pairs

    def _joined(
        self,
        left: pl.DataFrame,
        left_index: Index | None,
        right: pl.DataFrame,
        right_index: Index | None,
        diffs: Ints,
    ) -> pl.DataFrame:
        """Return pairs of the rows at these positions; None for all rows in their order."""
        ours = [column.left for column in self._columns if column.left]
        theirs = [column.right for column in self._columns if column.right and not column.left]
        of_left, of_right = _rows_at(left, ours, left_index), _rows_at(right, theirs, right_index)
        columns = [
            (
                of_left.get_column(column.left) if column.left else of_right.get_column(column.right or "")
            ).alias(column.name)
            for column in self._columns
        ]
        return frame_of([*columns, pl.Series(DIFF, diffs)])

    def _padded(self, rows: pl.DataFrame, index: Index, diffs: Ints, side: Side) -> pl.DataFrame:
        """Return rows without a partner, with nulls in the other side's columns."""
        rows = gather(rows, index)
        columns = []
        for column in self._columns:
            source = column.left if side == "left" else column.right
            if source is None:
                columns.append(
                    pl.Series(column.name, [None], self.schema[column.name]).new_from_index(0, len(index))
                )
            else:
                columns.append(rows.get_column(source).alias(column.name))
        return frame_of([*columns, pl.Series(DIFF, diffs)])


def _rows_at(rows: pl.DataFrame, names: Sequence[str], index: Index | None) -> pl.DataFrame:
    """Return these columns of the rows at these positions."""
    chosen = frame_of([rows.get_column(name) for name in names])
    return chosen if index is None else gather(chosen, index)


def _products(left: Ints, right: Ints) -> Ints:
    """Return the diffs of joined rows.

    Raises:
        ArithmeticRefusedError: one of them is 2^31 or more, where sums of diffs might not be exact.
    """
    if is_ones(left) and is_ones(right):
        return left
    bound = int(np.abs(left).max()) * int(np.abs(right).max())
    if bound >= LARGEST_DIFF:
        products = left.astype(np.float64) * right
        if float(np.abs(products).max()) >= LARGEST_DIFF:
            raise ArithmeticRefusedError(
                "a joined row would be there 2^31 times or more; nothing has changed. "
                "Aggregate the inputs before they are joined"
            )
    return left * right


def _rows(run: Run, index: Index, diffs: Ints) -> pl.DataFrame:
    return gather(run.payload, index).hstack([pl.Series(DIFF, diffs)])


def _matches(small: Run, large: Run) -> tuple[Index, Index]:
    """Return the positions of all pairs of entries with equal keys. Cost: the small run's keys and the pairs."""
    starts = boundaries(small.keys)
    ends = np.append(starts[1:], len(small))
    lower, upper = large.find(small.keys.take(starts))
    hit = np.flatnonzero(lower < upper)
    # First each entry of the small run with the range of its key in the large one, then each pair.
    entries, owner = expand(starts[hit], ends[hit])
    positions, entry = expand(lower[hit][owner], upper[hit][owner])
    return entries[entry], positions


Unmatched = list[tuple[Run, Index, Ints]]


def _unmatched(ours: JoinSide, theirs: JoinSide, *, matched: bool = False) -> Unmatched:
    """Return the change of our rows whose key the other side lacks (``matched``: has), as run, positions and diffs.

    A key that the other side gains or loses adds or removes all our rows of it; for other keys only our delta counts.
    """
    mine = ours.rows.delta
    touched = group(Keys.concat([mine.keys, theirs.counted.delta.keys])).keys
    shown_before = theirs.has(touched, with_delta=False) == matched
    shown_after = theirs.has(touched, with_delta=True) == matched
    result: Unmatched = []
    change = shown_after.astype(np.int64) - shown_before
    turned = np.flatnonzero(change)
    turned_keys = touched.take(turned)
    for run in runs_near(ours.rows, turned_keys):
        positions, owner = expand(*run.find(turned_keys))
        if len(positions):
            ours.rows.touched += len(positions)
            result.append((run, positions, run.sums[DIFF][positions] * change[turned][owner]))
    positions, _ = expand(*mine.find(touched.take(np.flatnonzero(shown_after))))
    if len(positions):
        result.append((mine, positions, mine.sums[DIFF][positions]))
    return result
