"""Free functions on columns: key words, grouping, consolidation, ranges. They keep nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, odd: multiplying by it permutes the 64-bit words and spreads runs of integers."""

UNSPREAD = np.uint64(pow(int(SPREAD), -1, 2**64))
"""The inverse of ``SPREAD`` modulo 2^64."""

SEEDS = (0x65766572, 0x63757272)
"""Seeds of the two 64-bit hashes that make a key of 128 bits."""

NULL_WORD = np.uint64(0xD1B54A32D192ED03)
"""The first word of a null: any that hardly an integer has, so that the second word is hardly ever asked."""

SMALL = 256
"""Up to so many words a plain sort of positions is as fast."""

PACKED_BELOW = 1 << 25
"""From so many words on, too few bits are left of a word beside its position."""

DENSE_BELOW = 1 << 22
"""From so many integers on, the counts and codes of a group by counting take more room than a sort does."""

EXACT_FLOATS = 2**53
"""Integers below this are floats, every one of them."""

SWAPS = 16
"""How often neighbours that stand the wrong way round are swapped before the words are sorted otherwise."""

MANY_ROWS = 4096
"""From so many rows on, frames are handled as a whole, in several threads, and not column by column."""

HASH_NAME = f"polars-{pl.__version__}"
"""What ordered hashed keys: polars promises its hash within one version only."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as unsigned words, uniformly distributed, so that they can be sorted, cut and looked up.

    One integer column is permuted (``SPREAD``), so ``first`` alone is the key and gives the value back.
    Any other key is a 128-bit hash: ``first`` orders, ``second`` tells collisions apart. ``second`` is None
    where it is zero throughout; a null integer is (``NULL_WORD``, 1).
    """

    first: Words
    second: Words | None = None

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.first)

    def take(self, index: Index) -> Keys:
        """The keys at these positions."""
        return Keys(self.first[index], None if self.second is None else self.second[index])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.first.nbytes + (0 if self.second is None else self.second.nbytes)

    def seconds(self) -> Words:
        """``second`` with its zeros written out."""
        return np.zeros_like(self.first) if self.second is None else self.second

    def seconds_at(self, index: Index) -> Words:
        """``second`` at these positions, with its zeros written out."""
        return np.zeros(len(index), np.uint64) if self.second is None else self.second[index]

    def words(self) -> list[Words]:
        """The words that are there: the first, and the second if any is not zero."""
        return [self.first] if self.second is None else [self.first, self.second]

    @staticmethod
    def concat(parts: Sequence[Keys]) -> Keys:
        """All keys, one part after the other."""
        first = np.concatenate([part.first for part in parts])
        if all(part.second is None for part in parts):
            return Keys(first)
        return Keys(first, np.concatenate([part.seconds() for part in parts]))


def is_one_word(dtypes: Sequence[pl.DataType]) -> bool:
    """Whether a key of these types is its own word: one column of integers, instants, durations or booleans."""
    return (
        len(dtypes) == 1
        and (dtypes[0].is_integer() or dtypes[0].is_temporal() or dtypes[0] == pl.Boolean)
        and dtypes[0] not in (pl.Int128, pl.UInt128)
    )


def key_words(columns: Sequence[pl.Series], height: int) -> Keys:
    """The words of a key that stands in these columns of ``height`` rows. No columns: all have the same key.

    Equal as polars groups them: null equals null, NaN equals NaN, -0.0 equals 0.0.
    """
    if not columns:
        return Keys(np.zeros(height, np.uint64))
    if not is_one_word([column.dtype for column in columns]):
        frame = pl.DataFrame(columns)
        return Keys(frame.hash_rows(seed=SEEDS[0]).to_numpy(), frame.hash_rows(seed=SEEDS[1]).to_numpy())
    column = columns[0]
    values = physical(column)
    words = values.view(np.uint64) * SPREAD
    if not column.has_nulls():
        return Keys(words)
    nulls = column.is_null().to_numpy()
    return Keys(np.where(nulls, NULL_WORD, words), nulls.astype(np.uint64))


def physical(column: pl.Series) -> Ints:
    """The values of an integer, temporal or boolean column as int64; null is 0. UInt64 wraps, losslessly."""
    if column.dtype != pl.Int64:
        column = column.to_physical()
        if column.dtype == pl.UInt64:
            filled = column.fill_null(0) if column.has_nulls() else column
            words: Ints = filled.to_numpy().view(np.int64)
            return words
        column = column.cast(pl.Int64)
    values: Ints = (column.fill_null(0) if column.has_nulls() else column).to_numpy()
    return values


def column_of_words(keys: Keys, name: str, dtype: pl.DataType) -> pl.Series:
    """The key column that these words were made of; the inverse of ``key_words`` for a one-word key."""
    nulls = None if keys.second is None or not keys.second.any() else keys.second != 0
    values = (keys.first if nulls is None else np.where(nulls, np.uint64(0), keys.first)) * UNSPREAD
    column = pl.Series(name, values.view(np.int64))
    if dtype == pl.UInt64:
        column = pl.Series(name, values)
    elif dtype != pl.Int64:
        column = column.cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    return column if nulls is None else column.set(pl.Series(nulls), None)


def is_ones(values: Ints) -> bool:
    """Whether all values are 1, as the diffs of rows that are only added are."""
    return len(values) > 0 and values[0] == 1 and bool((values == 1).all())


@dataclass(frozen=True)
class Segments:
    """Entries in an order, cut into segments: ``order`` sorts them, ``starts`` are where a segment begins."""

    order: Index
    starts: Index

    def __len__(self) -> int:
        """The number of segments; none is empty."""
        return len(self.starts)

    def sums(self, values: Ints) -> Ints:
        """The sum of the values of each segment, modulo 2^64."""
        if len(self.starts) == len(self.order):
            return values[self.order]
        if len(values) > SMALL and is_ones(values):
            return np.diff(self.starts, append=len(self.order))
        if len(self.order) - len(self.starts) < len(self.order) >> 2:
            totals = values[self.first_entries]
            entries, segments = self._further_entries
            np.add.at(totals, segments, values[entries])
            return totals
        # Differences of a running sum are exact modulo 2^64, and three times faster than np.add.reduceat.
        running = np.cumsum(values[self.order])
        ends: Ints = running[np.append(self.starts[1:], len(values)) - 1]
        ends[1:] -= ends[:-1].copy()
        return ends

    @cached_property
    def first_entries(self) -> Index:
        """The entry with which each segment begins."""
        return self.order if len(self.starts) == len(self.order) else self.order[self.starts]

    @cached_property
    def _further_entries(self) -> tuple[Index, Index]:
        """All other entries, and the number of the segment of each."""
        further = np.ones(len(self.order), np.bool_)
        further[self.starts] = False
        places = np.flatnonzero(further)
        return self.order[places], places - np.arange(1, len(places) + 1)


@dataclass(frozen=True)
class Groups(Segments):
    """Entries brought together by key: a segment for each of ``keys``, which are distinct and ascend."""

    keys: Keys


class DenseGroups(Groups):
    """Entries brought together by integers that lie close together: counted, without a sort of the entries.

    ``codes`` is each entry's integer less the smallest, ``used`` the codes that there are, by their words.
    """

    def __init__(self, codes: Ints, used: Ints, counts: Ints, keys: Keys) -> None:
        self.__dict__.update(codes=codes, used=used, counts=counts, keys=keys)

    codes: Ints
    used: Ints
    counts: Ints

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.used)

    def sums(self, values: Ints) -> Ints:
        """The sum of the values of each group, modulo 2^64."""
        if is_ones(values):
            return self.counts[self.used]
        bound = max(-float(values.min(initial=0)), float(values.max(initial=0)))
        if bound * len(values) >= EXACT_FLOATS:
            return super().sums(values)
        # np.bincount adds in floats: exact, as no sum on the way leaves the integers that floats hold.
        return np.bincount(self.codes, values, len(self.counts))[self.used].astype(np.int64)

    @cached_property
    def order(self) -> Index:
        """The positions of the entries, group by group."""
        rank = np.zeros(len(self.counts), np.intp)
        rank[self.used] = np.arange(len(self.used))
        return np.argsort(rank[self.codes], kind="stable")

    @cached_property
    def starts(self) -> Index:
        """Where each group begins in ``order``."""
        return np.concatenate(([0], np.cumsum(self.counts[self.used])[:-1]))

    @cached_property
    def first_entries(self) -> Index:
        """The first entry of each group."""
        first = np.zeros(len(self.counts), np.intp)
        first[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return first[self.used]


def boundaries(keys: Keys) -> Index:
    """The positions at which a key differs from the one before it, position 0 included."""
    return np.flatnonzero(differing(keys))


def differing(keys: Keys) -> Mask:
    """Where a key differs from the one before it; true for the first."""
    differs = np.empty(len(keys), np.bool_)
    differs[:1] = True
    np.not_equal(keys.first[1:], keys.first[:-1], out=differs[1:])
    if keys.second is not None:
        differs[1:] |= keys.second[1:] != keys.second[:-1]
    return differs


def group_columns(columns: Sequence[pl.Series], height: int) -> Groups:
    """Bring equal keys together that stand in these columns: ``group`` of their ``key_words``."""
    if is_one_word([column.dtype for column in columns]) and not columns[0].has_nulls():
        integers = physical(columns[0])
        return _dense_groups(integers) or _sorted_groups(Keys(integers.view(np.uint64) * SPREAD))
    return _sorted_groups(key_words(columns, height))


def group(keys: Keys) -> Groups:
    """Bring equal keys together; equal ones stay in the order in which they came.

    Cost: one sort of words; of both words only where the first ones collide. Integers that lie close together
    are counted instead.
    """
    if keys.second is not None or len(keys) >= DENSE_BELOW:
        return _sorted_groups(keys)
    return _dense_groups((keys.first * UNSPREAD).view(np.int64)) or _sorted_groups(keys)


def _sorted_groups(keys: Keys) -> Groups:
    order, first = sort_words(keys.first)
    ordered = Keys(first, None if keys.second is None else keys.second[order])
    if ordered.second is not None:
        same = ordered.first[1:] == ordered.first[:-1]
        if (same & (ordered.second[1:] != ordered.second[:-1])).any():
            order = np.lexsort((keys.seconds(), keys.first))
            ordered = keys.take(order)
    starts = boundaries(ordered)
    return Groups(order, starts, ordered if len(starts) == len(order) else ordered.take(starts))


def _dense_groups(integers: Ints) -> DenseGroups | None:
    """Groups of integers that lie so close together that counting them costs less than a sort; else None."""
    if not SMALL < len(integers) < DENSE_BELOW:
        return None
    smallest, largest = int(integers.min()), int(integers.max())
    if largest - smallest >= 2 * len(integers):
        return None
    codes = integers - smallest
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    order, words = sort_words((present + smallest).view(np.uint64) * SPREAD)
    return DenseGroups(codes, present[order], counts, Keys(words))


def sort_words(words: Words) -> tuple[Index, Words]:
    """The stable order of words, and the words in that order.

    Words and their positions are packed into one word each and sorted by value, three times faster than a sort
    of positions. That leaves 64 - log2(n) bits of the word to sort by: among uniformly distributed words there
    are few that agree in so many, and these are put right afterwards.
    """
    if SMALL < len(words) < PACKED_BELOW:
        low = np.uint64((1 << len(words).bit_length()) - 1)
        packed = words & ~low
        packed |= np.arange(len(words), dtype=np.uint64)
        packed.sort()
        packed &= low
        order = packed.view(np.int64)
        ordered = words[order]
        for _ in range(SWAPS):
            wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
            if not len(wrong):
                return order, ordered
            # Of neighbours that overlap only the first pair is swapped; the rest has its turn again.
            wrong = wrong[np.diff(wrong, prepend=-2) > 1]
            order[wrong], order[wrong + 1] = order[wrong + 1], order[wrong]
            ordered[wrong], ordered[wrong + 1] = ordered[wrong + 1], ordered[wrong]
    order = np.argsort(words, kind="stable")
    return order, words[order]


def consolidated_rows(rows: pl.DataFrame, diffs: Ints) -> tuple[Index | None, Ints]:
    """Which rows stand for all that are equal, in order of first appearance, and the sums of their diffs.

    None in place of positions: all rows are different and no diff is zero, so nothing is to be done.
    """
    groups = group(key_words(rows.get_columns(), len(diffs)))
    if len(groups) == len(diffs) and diffs.all():
        return None, diffs
    sums = groups.sums(diffs)
    alive = sums != 0
    first = groups.first_entries[alive]
    appearance = np.argsort(first)
    return first[appearance], sums[alive][appearance]


def expand(lower: Index, upper: Index) -> tuple[Index, Index]:
    """The positions of all ranges [lower, upper), one after the other, and the number of the range of each.

    >>> positions, owners = expand(np.array([3, 7]), np.array([5, 8]))
    >>> positions.tolist(), owners.tolist()
    ([3, 4, 7], [0, 0, 1])
    """
    counts = upper - lower
    owners = np.repeat(np.arange(len(lower)), counts)
    shift = lower - np.concatenate(([0], np.cumsum(counts)[:-1])) if len(lower) else lower
    return np.arange(len(owners)) + shift[owners], owners


def gather(frame: pl.DataFrame, index: Index) -> pl.DataFrame:
    """The rows of the frame at these positions."""
    height = len(index)
    if not frame.width:
        return pl.DataFrame(height=height)
    if not height:
        return frame.clear()
    start = int(index[0])
    if int(index[-1]) - start == height - 1 and (height < 3 or bool((index[1:] - index[:-1] == 1).all())):
        return frame.slice(start, height)
    positions = pl.Series(index.astype(np.uint32) if frame.height < 2**32 else index)
    if height > MANY_ROWS:
        return frame[positions]
    # A frame's own gather costs a few times more than its columns', which only pays with many rows.
    return pl.DataFrame([column[positions] for column in frame.get_columns()])


def keep(frame: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """The rows of the frame where the mask is true."""
    if mask.all():
        return frame
    return frame.filter(pl.Series(mask)) if len(mask) > MANY_ROWS else gather(frame, np.flatnonzero(mask))


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows of frames with the same columns, one frame after the other."""
    stacked = frames[0]
    if sum(frame.height for frame in frames) > MANY_ROWS:
        return pl.concat(frames, rechunk=True)
    for frame in frames[1:]:
        stacked = stacked.vstack(frame)
    return stacked


def sorted_by(
    columns: Sequence[pl.Series | Words], descending: Sequence[bool] = (), nulls_last: Sequence[bool] = ()
) -> Index:
    """The order of rows by these columns, the first one ruling, as ``polars.DataFrame.sort`` has it.

    A few rows of plain columns are sorted as words, without the fixed cost of a query.
    """
    flags = descending or [False] * len(columns), nulls_last or [False] * len(columns)
    if len(columns[0]) <= MANY_ROWS and all(map(_has_order_words, columns)):
        words = [_order_words(column, flag) for column, flag in zip(columns, flags[0], strict=True)]
        return np.lexsort(words[::-1])
    frame = pl.DataFrame([pl.Series(str(number), column) for number, column in enumerate(columns)])
    order = frame.select(pl.arg_sort_by(frame.columns, descending=list(flags[0]), nulls_last=list(flags[1])))
    return order.to_series().to_numpy().astype(np.intp)


def _has_order_words(column: pl.Series | Words) -> bool:
    if isinstance(column, np.ndarray):
        return True
    dtype = column.dtype
    return not column.has_nulls() and (is_one_word([dtype]) or dtype in (pl.Float64, pl.Float32))


def _order_words(column: pl.Series | Words, descending: bool) -> npt.NDArray[np.int64] | Words:
    """Words that sort as the column does: -0.0 equals 0.0, NaN stands above all numbers."""
    words: npt.NDArray[np.int64] | Words
    if isinstance(column, np.ndarray):
        words = column
    elif column.dtype.is_float():
        values = column.cast(pl.Float64).to_numpy() + 0.0
        values[np.isnan(values)] = np.nan
        bits = values.view(np.int64)
        words = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    elif column.dtype == pl.UInt64:
        words = column.to_numpy()
    else:
        words = physical(column)
    return ~words if descending else words


def computed(frame: pl.DataFrame, exprs: Sequence[pl.Expr]) -> pl.DataFrame:
    """These expressions over a frame; in one thread where there are too few rows to share out."""
    return frame.select(exprs) if frame.height > MANY_ROWS else frame.select_seq(exprs)


def with_plain_zeros(column: pl.Series) -> pl.Series:
    """The column with 0.0 for -0.0: they are one value to a key, and must be one to an expression."""
    if not column.dtype.is_float():
        return column
    values = column.to_numpy()
    negative = (values == 0) & np.signbit(values)
    return column.clone().scatter(np.flatnonzero(negative), 0.0) if negative.any() else column
