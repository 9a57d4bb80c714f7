"""Additive aggregates: the contribution of each row to a group, and the result computed from a group's sums.

An aggregate of kind sum, mean, var ... is a function of a few *additive columns* (number of rows, number of
values, the sum in limbs ...), each named after what it adds up, so that aggregates over the same input share
them. The state of a group is these columns and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from ...data.columns.exact import (
    float_limbs,
    float_limbs_and_squares,
    integer_limbs,
    integers,
    is_finite,
    magnitude_parts,
    nearest,
    only_limb,
    spreads,
    square_limbs,
    wide_integers,
    wide_limbs,
)
from ...data.columns.grouping import BLOCK, Groups
from ...data.columns.kernels import (
    WHOLE,
    Floats,
    Index,
    Ints,
    Keys,
    at,
    is_ones,
    least_and_greatest,
    physical,
    series_of,
)
from ...data.columns.limbs import BITS, MASK
from ...data.columns.nulls import nulls_as, nulls_in
from ...data.columns.whole_columns import AnyColumn, IntColumn, ones
from ...data.columns.wide_words import decimals_of, wide_integers_of, wide_words
from ...data.errors import ArithmeticRefusedError
from ...data.schema import DIFF
from .aggregate_contract import AggregateState, Change
from .aggregate_contract import Sums as Sums
from .aggregates import Additive, AdditiveKind

LENGTH = "length"
"""The additive column that counts rows: a group is there while it is not zero."""

WHOLE_NUMBERS: dict[pl.DataType, Any] = {
    pl.UInt32(): np.iinfo(np.uint32),
    pl.Int32(): np.iinfo(np.int32),
}
"""Types of sums and counts that numpy has, with their bounds."""

MOST_ROWS = 2**30
"""One epoch with more rows than this could overflow the sums of their limbs."""

FROM_BLOCKS = 2
"""Rows of so many blocks are added up a block at a time."""

DIGITS = 38
"""The most digits of a decimal."""

RowPart = Callable[[str, AnyColumn, Ints], dict[str, Ints]]
"""What each row of an input, by its name, adds to additive columns that are called after it."""


def row_parts(aggregates: Sequence[Additive]) -> tuple[tuple[str, RowPart], ...]:
    """Return the columns that these aggregates read, each with what its rows add: once, whatever shares it."""
    needed = dict.fromkeys(
        (aggregate.input, part)
        for aggregate in aggregates
        if aggregate.input
        for part in KINDS[aggregate.kind].parts
    )
    # Sums and squares are cut into limbs in one go.
    both = [name for name, part in needed if part is _sums_and_squares]
    return tuple([each for each in needed if each[1] is not _sum or each[0] not in both])


def require_few(where: str, rows: float) -> None:
    """Check that an epoch has so few rows that their sums cannot wrap.

    Raises:
        ArithmeticRefusedError: it has ``MOST_ROWS`` or more.
    """
    if rows >= MOST_ROWS:
        raise ArithmeticRefusedError(
            f"{where}: one epoch aggregates more than 2^30 rows; push the input in smaller batches, and a row whose {DIFF!r} alone "
            "is that large in several pushes with parts of it"
        )


def contributions(
    parts: Sequence[tuple[str, RowPart]], columns: Sequence[AnyColumn], diffs: Ints
) -> dict[str, Ints]:
    """Return the additive columns of each row: what it adds to its group, its diff included. ``columns`` has that of each part."""
    added: dict[str, Ints] = {LENGTH: diffs}
    for (name, part), column in zip(parts, columns, strict=True):
        added |= part(name, column, diffs)
    return added


def additions(
    groups: Groups, parts: Sequence[tuple[str, RowPart]], columns: Sequence[AnyColumn], diffs: Ints
) -> dict[str, Ints]:
    """Return the sums of the ``contributions`` of the rows of each group. Cost: the rows; room for those of a block of them."""
    if len(diffs) < FROM_BLOCKS * BLOCK:
        return groups.sums_of(contributions(parts, columns, diffs))
    are_ones = is_ones(diffs)

    def of_rows(rows: slice | Index) -> dict[str, Ints]:
        # Several parts may read one column.
        of_column = {id(column): _rows_of(column, rows) for column in columns}
        chosen = [of_column[id(column)] for column in columns]
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        added = contributions(parts, chosen, ones(count) if are_ones else diffs[rows])
        del added[LENGTH]
        return added

    return {LENGTH: groups.sums(diffs), **groups.sums_by_block(of_rows)}


def _rows_of(column: AnyColumn, rows: slice | Index) -> AnyColumn:
    if not isinstance(rows, slice):
        return at(column, rows)
    if isinstance(column, IntColumn):
        return IntColumn(column.name, column.values[rows])
    return column.slice(rows.start, rows.stop - rows.start)


def spread(rows: Sequence[Sums], name: str, sizes: Sequence[int]) -> Ints:
    """Return one additive column over the rows of several inputs, of these sizes; zero in those that do not have it."""
    return np.concatenate(
        [part.get(name, np.zeros(size, np.int64)) for part, size in zip(rows, sizes, strict=True)]
    )


def _nulls(name: str, column: AnyColumn, diffs: Ints) -> dict[str, Ints]:
    # Nulls are counted rather than values: an input without nulls then needs no column.
    return {f"nulls:{name}": diffs * nulls_in(series_of(column))} if column.has_nulls() else {}


def _sum(name: str, column: AnyColumn, diffs: Ints) -> dict[str, Ints]:
    prefix, dtype = f"sum:{name}", column.dtype
    if isinstance(column, IntColumn) or type(dtype) in WHOLE:
        return integer_limbs(prefix, physical(column), diffs, unsigned=type(dtype) is pl.UInt64)
    if dtype.is_float():
        return float_limbs(prefix, _floats(column), diffs)
    if dtype.is_decimal() or dtype in (pl.Int128, pl.UInt128):
        return wide_limbs(prefix, wide_words(column), diffs, unsigned=dtype == pl.UInt128)
    if dtype == pl.Null:
        return {}
    return integer_limbs(prefix, physical(column), diffs)


def _sums_and_squares(name: str, column: AnyColumn, diffs: Ints) -> dict[str, Ints]:
    dtype, squares = column.dtype, f"squares:{name}"
    if dtype.is_float():
        return float_limbs_and_squares(f"sum:{name}", squares, _floats(series_of(column)), diffs)
    sums = _sum(name, column, diffs)
    if dtype.is_decimal() or dtype in (pl.Int128, pl.UInt128):
        parts = magnitude_parts(wide_words(series_of(column)), unsigned=dtype == pl.UInt128)
        return sums | square_limbs(squares, parts, diffs)
    whole = physical(column)
    magnitudes = (whole if dtype == pl.UInt64 else np.abs(whole)).view(np.uint64)
    return sums | square_limbs(squares, [magnitudes & np.uint64(MASK), magnitudes >> np.uint64(BITS)], diffs)


def _trues(name: str, column: AnyColumn, diffs: Ints) -> dict[str, Ints]:
    return {f"true:{name}": diffs * nulls_as(False, series_of(column).cast(pl.Boolean)).to_numpy()}


def _falses(name: str, column: AnyColumn, diffs: Ints) -> dict[str, Ints]:
    return {f"false:{name}": diffs * ~nulls_as(True, series_of(column).cast(pl.Boolean)).to_numpy()}


def _floats(column: pl.Series) -> Floats:
    floats: Floats = nulls_as(0, column).cast(pl.Float64).to_numpy()
    return floats


@dataclass(frozen=True, slots=True)
class Kind:
    """An additive aggregate: what its rows add to their group, and how the result is computed from the sums.

    ``parts`` are functions of the name of the input, its column and the diffs; kinds that have one in common keep it once.
    ``finish`` takes the aggregate, the type of its input, the sums and the number of groups.
    """

    parts: tuple[RowPart, ...]
    finish: Callable[[Additive, pl.DataType | None, Sums, int], AnyColumn]
    is_sum: bool = False
    """Whether the result is additive itself: then a difference of results is the result for the rows that came and went."""


class AdditiveState(AggregateState):
    """An aggregate that is a function of the group's additive columns. ``dtype`` is the type of its input.

    A value that does not fit the type that polars gives the aggregate raises an ``ArithmeticRefusedError``.
    """

    def __init__(self, aggregate: Additive, dtype: pl.DataType | None) -> None:
        self._aggregate = aggregate
        self._dtype = dtype
        self._finish = KINDS[aggregate.kind].finish

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``."""
        return series_of(self._finish(self._aggregate, self._dtype, sums, len(keys)))

    def change(self, change: Change) -> AnyColumn:
        """See ``AggregateState``."""
        return self._finish(self._aggregate, self._dtype, change.sums, len(change.groups))

    @property
    def is_kept(self) -> bool:
        """See ``AggregateState``: a variance is rounded from many columns."""
        return self._aggregate.kind in ("var", "std") and self._aggregate.dtype.is_float()

    def after(self, change: Change) -> pl.Series:
        """See ``AggregateState``."""
        return series_of(self._finish(self._aggregate, self._dtype, change.after, change.count_after))


def _sum_of(name: str, sums: Sums, height: int) -> Ints:
    """Return an additive column; zeros if no row has added to it."""
    return sums.get(name, np.zeros(height, np.int64))


def _finish_len(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> AnyColumn:
    return _whole_numbers(aggregate, _sum_of(LENGTH, sums, height))


def _finish_count(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> AnyColumn:
    return _whole_numbers(aggregate, _values(aggregate, sums, height))


def _finish_null_count(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> AnyColumn:
    return _whole_numbers(aggregate, _sum_of(f"nulls:{aggregate.input}", sums, height))


def _finish_any(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> pl.Series:
    return pl.Series(aggregate.output, _sum_of(f"true:{aggregate.input}", sums, height) > 0)


def _finish_all(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> pl.Series:
    return pl.Series(aggregate.output, _sum_of(f"false:{aggregate.input}", sums, height) <= 0)


def _values(aggregate: Additive, sums: Sums, height: int) -> Ints:
    """Return the number of values of the input that are not null."""
    lengths = sums.get(LENGTH, np.zeros(height, np.int64))
    nulls = sums.get(f"nulls:{aggregate.input}")
    return lengths if nulls is None else lengths - nulls


def _whole_numbers(aggregate: Additive, numbers: Ints) -> AnyColumn:
    if type(aggregate.dtype) is pl.Int64:
        return IntColumn(aggregate.output, numbers)
    bounds = WHOLE_NUMBERS.get(aggregate.dtype)
    if bounds is None:
        return _fitted(aggregate, pl.Series(aggregate.output, numbers))
    if len(numbers):
        least, greatest = least_and_greatest(numbers)
        if least < bounds.min or greatest > bounds.max:
            raise _does_not_fit(aggregate)
    return IntColumn(aggregate.output, numbers.astype(bounds.dtype))


def _fitted(aggregate: Additive, column: pl.Series) -> pl.Series:
    if column.dtype == aggregate.dtype:
        return column
    try:
        return column.cast(aggregate.dtype)
    except pl.exceptions.InvalidOperationError as error:
        raise _does_not_fit(aggregate) from error


def _does_not_fit(aggregate: Additive) -> ArithmeticRefusedError:
    if aggregate.dtype.is_decimal() or aggregate.dtype in (pl.Int128, pl.UInt128):
        remedy = "there is no wider type that is exact; to have it rounded, aggregate .cast(pl.Float64)"
    else:
        remedy = (
            "cast the column to a wider type before it is aggregated, for example .cast(pl.Decimal(38, 0)) or "
            ".cast(pl.Float64)"
        )
    return ArithmeticRefusedError(f"the {aggregate.kind} does not fit {aggregate.dtype}; {remedy}")


def _has_too_many_digits(decimals: pl.Series) -> bool:
    """Return whether a decimal has more than 38 digits, which may fit into 128 bits, but not into a decimal type."""
    assert isinstance(decimals.dtype, pl.Decimal)
    most = [Decimal((sign, (9,) * DIGITS, -decimals.dtype.scale)) for sign in (0, 1)]
    above, below = (pl.Series([bound], dtype=decimals.dtype) for bound in most)
    return bool(((decimals > above) | (decimals < below)).any())


def _finish_sum(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> AnyColumn:
    assert dtype is not None, "a sum has an input"
    prefix = f"sum:{aggregate.input}"
    is_int64 = type(dtype) is type(aggregate.dtype) is pl.Int64
    if is_int64 and (whole := only_limb(prefix, sums)) is not None:
        return IntColumn(aggregate.output, whole)
    if dtype == pl.Null:
        return _nothing(aggregate, height)
    if dtype.is_float():
        return _fitted(aggregate, pl.Series(aggregate.output, nearest(prefix, sums, height)))
    if dtype.is_decimal() or dtype in (pl.Int128, pl.UInt128):
        words, lost = wide_integers(prefix, sums, height, unsigned=dtype == pl.UInt128)
        if lost.any():
            raise _does_not_fit(aggregate)
        if isinstance(dtype, pl.Decimal):
            column = decimals_of(aggregate.output, words, pl.Decimal(38, dtype.scale))
            if _has_too_many_digits(column):
                raise _does_not_fit(aggregate)
        else:
            column = wide_integers_of(aggregate.output, words, dtype)
        return _fitted(aggregate, column)
    unsigned = aggregate.dtype == pl.UInt64
    numbers, lost = integers(prefix, sums, height, unsigned=unsigned)
    if lost.any():
        raise _does_not_fit(aggregate)
    if unsigned:
        return IntColumn(aggregate.output, numbers.view(np.uint64))
    return _whole_numbers(aggregate, numbers)


def _nothing(aggregate: Additive, height: int) -> pl.Series:
    return pl.Series(aggregate.output, [None]).new_from_index(0, height)


def _finish_mean(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> pl.Series:
    assert dtype is not None, "a mean has an input"
    if dtype == pl.Null:
        return _nothing(aggregate, height)
    values = _values(aggregate, sums, height)
    totals = nearest(f"sum:{aggregate.input}", sums, len(values))
    units = 10.0**dtype.scale if isinstance(dtype, pl.Decimal) else 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        means = totals / (values * units)
    if dtype.is_temporal():
        # polars gives the mean of dates as an instant in microseconds.
        microseconds = np.where(values == 0, 0.0, means) * (86_400_000_000 if dtype == pl.Date else 1)
        column = pl.Series(aggregate.output, microseconds.astype(np.int64))
    else:
        column = pl.Series(aggregate.output, means)
    column = _fitted(aggregate, column)
    return column.set(pl.Series(values == 0), None) if (values == 0).any() else column


def _finish_variance(aggregate: Additive, dtype: pl.DataType | None, sums: Sums, height: int) -> pl.Series:
    """Return (n * sum of squares - sum^2) / (n * (n - ddof)), whose numerator is exact until it is rounded once.

    Exponents are kept apart until the end, as the numerator may be out of the range of floats where the result is not.
    """
    assert dtype is not None, "a variance has an input"
    if dtype == pl.Null:
        return _nothing(aggregate, height)
    values = _values(aggregate, sums, height)
    total, squares = f"sum:{aggregate.input}", f"squares:{aggregate.input}"
    degrees = values - aggregate.ddof
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        below = np.maximum(values, 1).astype(np.float64) * np.maximum(degrees, 1)
        spread, power = spreads(total, squares, sums, values, degrees > 0)
        variance = np.maximum(spread, 0.0) / below
        if isinstance(dtype, pl.Decimal):
            variance = variance / 10.0 ** (2 * dtype.scale)
        finite = is_finite(total, sums, len(values))
        if not finite.all():
            variance = np.where(finite, variance, np.nan)
        is_std = aggregate.kind == "std"
        result = np.sqrt(variance) if is_std else variance
        if power.any():
            result = np.ldexp(result, power // 2 if is_std else power)
    column = _fitted(aggregate, pl.Series(aggregate.output, result))
    return column.set(pl.Series(degrees <= 0), None) if (degrees <= 0).any() else column


KINDS: dict[AdditiveKind, Kind] = {
    "len": Kind((), _finish_len, is_sum=True),
    "count": Kind((_nulls,), _finish_count, is_sum=True),
    "null_count": Kind((_nulls,), _finish_null_count, is_sum=True),
    "sum": Kind((_sum,), _finish_sum, is_sum=True),
    "mean": Kind((_nulls, _sum), _finish_mean),
    "var": Kind((_nulls, _sums_and_squares), _finish_variance),
    "std": Kind((_nulls, _sums_and_squares), _finish_variance),
    "any": Kind((_trues,), _finish_any),
    "all": Kind((_falses,), _finish_all),
}
"""The additive aggregates by name. A function of polars of that name needs no rule in views: it becomes this aggregate."""
