"""Pure functions on columns: key words, orders, ranges, gathering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from .key_hash import IN_FORCE
from .nulls import nulls_in
from .value_words import NULL_WORD, SPREAD
from .value_words import Index as Index
from .value_words import Words as Words
from .whole_columns import FEW_VALUES as FEW_VALUES
from .whole_columns import AnyColumn, IntColumn
from .whole_columns import Ints as Ints
from .whole_columns import is_ones as is_ones
from .whole_columns import least_and_greatest as least_and_greatest
from .whole_columns import physical as physical

Column = TypeVar("Column", pl.Series, IntColumn, AnyColumn)

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

UNSPREAD = np.uint64(pow(int(SPREAD), -1, 2**64))
"""The inverse of ``SPREAD`` modulo 2^64."""

ROUTED_BITS = 16
"""How many leading bits of the word that a row is routed by are part of the key of its state."""

WHOLE: dict[type[pl.DataType], Any] = {pl.Int64: np.int64, pl.UInt64: np.uint64}
"""Types whose values are the words of a key, or the same bits, with those of numpy."""

MANY_ROWS = 4096
"""From this many rows on, frames are handled as a whole, in several threads, and not column by column."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as unsigned words, uniformly distributed, so that they can be sorted, cut and looked up.

    The values of one integer column are permuted (``SPREAD``), so ``first`` alone is the key and the value can be
    computed from it. Any other key is a 128-bit hash: ``first`` orders, ``second`` distinguishes keys whose first words
    collide. ``second`` is None where it is zero throughout; a null integer is (``NULL_WORD``, 1).
    """

    first: Words
    second: Words | None = None

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.first)

    def take(self, index: Index) -> Keys:
        """Return the keys at these positions."""
        return Keys(self.first.take(index), None if self.second is None else self.second.take(index))

    def cut(self, start: int, end: int) -> Keys:
        """Return the keys from one position to another, by reference."""
        return Keys(self.first[start:end], None if self.second is None else self.second[start:end])

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return self.first.nbytes + (0 if self.second is None else self.second.nbytes)

    def seconds(self) -> Words:
        """Return ``second`` with its zeros written out."""
        return np.zeros_like(self.first) if self.second is None else self.second

    def seconds_at(self, index: Index) -> Words:
        """Return ``second`` at these positions, with its zeros written out."""
        return np.zeros(len(index), np.uint64) if self.second is None else self.second[index]

    def words(self) -> list[Words]:
        """Return the words that are there: the first, and the second if any is not zero."""
        return [self.first] if self.second is None else [self.first, self.second]

    @staticmethod
    def concat(parts: Sequence[Keys]) -> Keys:
        """Return all keys, one part after the other."""
        first = np.concatenate([part.first for part in parts])
        if all(part.second is None for part in parts):
            return Keys(first)
        return Keys(first, np.concatenate([part.seconds() for part in parts]))


def series_of(column: AnyColumn) -> pl.Series:
    """Return a column as one of polars."""
    return column.series if isinstance(column, IntColumn) else column


def is_one_word(dtypes: Sequence[pl.DataType]) -> bool:
    """Return whether a key of these types is its own word: one column of integers, instants, durations or booleans."""
    return (
        len(dtypes) == 1
        and (dtypes[0].is_integer() or dtypes[0].is_temporal() or dtypes[0] == pl.Boolean)
        and dtypes[0] not in (pl.Int128, pl.UInt128)
    )


def key_words(columns: Sequence[AnyColumn], height: int, routed: int = 0) -> Keys:
    """Return the words of the key in these columns of ``height`` rows; without columns all rows have the same key.

    Equal as polars groups them: null equals null, NaN equals NaN, -0.0 equals 0.0.

    If rows are routed by the first ``routed`` columns only, the second word starts with the leading bits of the first
    word of these columns, so that the bucket follows from the key; the key then has 112 bits.
    """
    if not columns:
        return Keys(np.zeros(height, np.uint64))
    if not is_one_word([column.dtype for column in columns]):
        first, second = IN_FORCE.get().words([*map(series_of, columns)], height)
        if 0 < routed < len(columns):
            low = np.uint64(64 - ROUTED_BITS)
            second = (second >> np.uint64(ROUTED_BITS)) | (
                key_words(columns[:routed], height).first >> low << low
            )
        return Keys(first, second)
    column = columns[0]
    values = physical(column)
    words = values.view(np.uint64) * SPREAD
    if not column.has_nulls():
        return Keys(words)
    nulls = nulls_in(series_of(column))
    return Keys(np.where(nulls, NULL_WORD, words), nulls.astype(np.uint64))


def column_of_words(keys: Keys, name: str, dtype: pl.DataType) -> AnyColumn:
    """Return the key column that these words were made of; the inverse of ``key_words`` for a one-word key."""
    nulls = None if keys.second is None or not keys.second.any() else keys.second != 0
    values = (keys.first if nulls is None else np.where(nulls, np.uint64(0), keys.first)) * UNSPREAD
    if nulls is None and type(dtype) in WHOLE:
        return IntColumn(name, values.view(WHOLE[type(dtype)]))
    column = pl.Series(name, values.view(np.int64))
    if dtype == pl.UInt64:
        column = pl.Series(name, values)
    elif dtype != pl.Int64:
        column = column.cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    return column if nulls is None else column.set(pl.Series(nulls), None)


def expand(lower: Index, upper: Index) -> tuple[Index, Index]:
    """Return the positions of all ranges [lower, upper), one after the other, and the number of the range of each.

    >>> positions, owners = expand(np.array([3, 7]), np.array([5, 8]))
    >>> positions.tolist(), owners.tolist()
    ([3, 4, 7], [0, 0, 1])
    """
    counts = upper - lower
    owners = np.arange(len(lower)).repeat(counts)
    if not len(owners):
        return owners, owners
    shift = lower - (counts.cumsum() - counts)
    return np.arange(len(owners)) + shift[owners], owners


def frame_of(columns: Iterable[AnyColumn]) -> pl.DataFrame:
    """Return columns of one length as a frame. Cost: none that follows the rows; a third of that of ``pl.DataFrame(columns)``."""
    series = [*map(series_of, columns)]
    return series[0].to_frame().hstack(series[1:], in_place=True) if series else pl.DataFrame()


def gather(frame: pl.DataFrame, index: Index) -> pl.DataFrame:
    """Return the rows of the frame at these positions."""
    height = len(index)
    if not frame.width:
        return pl.DataFrame(height=height)
    if not height:
        return frame.clear()
    start = int(index[0])
    if int(index[-1]) - start == height - 1 and (height < 3 or bool((index[1:] - index[:-1] == 1).all())):
        return frame.slice(start, height)
    positions = _positions(index, frame.height)
    if height > MANY_ROWS:
        return frame[positions]
    # A frame's own gather costs a few times more than its columns', which only pays with many rows.
    return frame_of([column[positions] for column in frame.get_columns()])


def at(column: Column, index: Index) -> Column:
    """Return the values of a column at these positions."""
    if isinstance(column, IntColumn):
        return IntColumn(column.name, column.values[index])
    return column[_positions(index, len(column))]


def _positions(index: Index, height: int) -> pl.Series:
    """Return positions in the type in which polars takes them without a query."""
    return pl.Series(index.astype(np.uint32) if height < 2**32 else index)


def keep(frame: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """Return the rows of the frame where the mask is true."""
    if mask.all():
        return frame
    return frame.filter(pl.Series(mask)) if len(mask) > MANY_ROWS else gather(frame, np.flatnonzero(mask))


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return all rows of frames with the same columns, one frame after the other."""
    stacked = frames[0]
    if sum(frame.height for frame in frames) > MANY_ROWS:
        return pl.concat(frames, rechunk=True)
    for frame in frames[1:]:
        stacked = stacked.vstack(frame)
    return stacked


def of_one_chunk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with each column in one piece. Few rows are copied column by column, as a frame's own way is by threads.

    >>> pieces = pl.concat([pl.Series("x", range(100))] * 3, rechunk=False)
    >>> frame = frame_of([pl.Series("n", range(300)), pieces])
    >>> frame.n_chunks("all"), of_one_chunk(frame).n_chunks("all"), of_one_chunk(frame).equals(frame)
    ([1, 3], [1, 1], True)
    """
    if frame.height > MANY_ROWS:
        return frame.rechunk()
    if max(frame.n_chunks("all"), default=1) == 1:
        return frame
    return frame_of([column.rechunk() for column in frame.get_columns()])


def with_plain_zeros(column: pl.Series) -> pl.Series:
    """Return the column with 0.0 for -0.0: they are one value in a key, and must be one in an expression."""
    if not column.dtype.is_float():
        if not has_floats(column.dtype):
            return column
        return column.to_frame().select_seq(_plain_within(pl.col(column.name), column.dtype)).to_series()
    values = column.to_numpy()
    # -0.0 is the float that has the bits of the least integer.
    negative = values.view(f"i{values.itemsize}") == np.iinfo(f"i{values.itemsize}").min
    return column.clone().scatter(np.flatnonzero(negative), 0.0) if negative.any() else column


@cache
def has_floats(dtype: pl.DataType) -> bool:
    """Return whether values of a type are floats or hold some, at any depth."""
    if isinstance(dtype, pl.Struct):
        return any(has_floats(inner) for inner in dtype.to_schema().values())
    if isinstance(dtype, pl.List | pl.Array):
        return has_floats(dtype.inner)
    return dtype.is_float()


def _plain_within(values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return the values with 0.0 for -0.0 at any depth. (polars leaves out an addition of zero.)"""
    if not has_floats(dtype):
        return values
    if isinstance(dtype, pl.List):
        return values.list.eval(_plain_within(pl.element(), dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Array):
        return values.arr.eval(_plain_within(pl.element(), dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        fields = pl.Schema(dtype.to_schema()).items()
        plain = [
            _plain_within(pl.field(name), inner).alias(name) for name, inner in fields if has_floats(inner)
        ]
        return values.struct.with_fields(plain)
    return pl.when(values == 0).then(pl.lit(0.0, dtype)).otherwise(values)
