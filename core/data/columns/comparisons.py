"""Values of columns are compared and ordered in the calling thread where they are numbers, or few.

A query of polars costs as much as some hundred values, and waits for a thread of its pool: on a machine whose cores are all busy
that takes longer than everything else in a small epoch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from .kernels import is_one_word, series_of
from .nulls import FEW_TEXTS, is_listed, nulls_in
from .order_words import several_order_words
from .value_words import Words, one_of_each
from .whole_columns import AnyColumn, IntColumn, physical

Mask = npt.NDArray[np.bool_]
OrderWords = npt.NDArray[np.int64] | Words


def differ(ones: AnyColumn, others: AnyColumn) -> Mask:
    """Return where two columns of one type differ; null equals null, NaN equals NaN, and 0.0 equals -0.0."""
    if isinstance(ones, IntColumn) and isinstance(others, IntColumn):
        unequal: Mask = np.not_equal(ones.values, others.values)
        return unequal
    one, other = series_of(ones), series_of(others)
    if len(one) <= FEW_TEXTS and is_listed(one.dtype):
        pairs = zip(one.to_list(), other.to_list(), strict=True)
        return np.array([mine != theirs for mine, theirs in pairs], np.bool_)
    if not (one.has_nulls() or other.has_nulls()):
        if is_one_word([one.dtype]):
            unequal_words: Mask = physical(one) != physical(other)
            return unequal_words
        if one.dtype in (pl.Float64, pl.Float32):
            bits: Mask = one_of_each(one).view(np.int64) != one_of_each(other).view(np.int64)
            return bits
        if one.dtype in (pl.String, pl.Binary):
            unequal_texts: Mask = (one != other).to_numpy()
            return unequal_texts
    mask: Mask = one.ne_missing(other).to_numpy()
    return mask


def order_words(column: pl.Series | Words, *, descending: bool, nulls_last: bool) -> list[OrderWords] | None:
    """Return columns of words that sort as the column does, the first one ruling; None if there are none without a query.

    -0.0 equals 0.0, and NaN is above all numbers. Nulls come first or last, whatever the direction.
    """
    if isinstance(column, np.ndarray):
        return [~column if descending else column]
    words = _words(column)
    if words is None:
        return None
    words = [~each for each in words] if descending else words
    if not column.has_nulls():
        return words
    nulls = nulls_in(column)
    return [nulls.astype(np.int64) * (1 if nulls_last else -1), *(np.where(nulls, 0, each) for each in words)]


def _words(column: pl.Series) -> list[OrderWords] | None:
    """Return words that sort as the values do, the first ones ruling; any words where these are null."""
    dtype = column.dtype
    if dtype == pl.UInt64:
        return [physical(column).view(np.uint64)]
    if is_one_word([dtype]):
        return [physical(column)]
    if dtype in (pl.Float64, pl.Float32):
        if column.has_nulls():
            return None
        bits = one_of_each(column).view(np.int64)
        return [bits ^ ((bits >> 63) & np.int64(2**63 - 1))]
    if dtype.is_decimal():
        return [*several_order_words(column)]
    if dtype in (pl.String, pl.Binary) and len(column) <= FEW_TEXTS:
        # Texts are ordered by code points, which is the order of their bytes.
        listed = column.to_list()
        places = {
            text: place for place, text in enumerate(sorted({text for text in listed if text is not None}))
        }
        return [np.array([places.get(text, 0) for text in listed], np.int64)]
    return None
