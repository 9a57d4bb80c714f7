"""A value of up to 64 bits has an *order word*: an integer that sorts as the value does. A decimal has two, which sort together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from .kernels import Ints, is_one_word, physical
from .nulls import nulls_as
from .value_words import one_of_each
from .whole_columns import AnyColumn, IntColumn
from .wide_words import decimals_of, wide_words

MAGNITUDE = np.int64(2**63 - 1)
LEAST = np.int64(-(2**63))


def has_order_word(dtype: pl.DataType) -> bool:
    """Return whether values of this type have an order word: integers, instants, durations, booleans and floats."""
    return is_one_word([dtype]) or dtype.is_float()


def order_word_count(dtype: pl.DataType) -> int:
    """Return how many order words a value of this type has; 0 if there are none."""
    if dtype.is_decimal():
        return 2
    return 1 if has_order_word(dtype) else 0


def word_kind(dtype: pl.DataType) -> str:
    """Return the kind of a type. Equal values of two types of one kind have the same word."""
    if dtype.is_float():
        return "float"
    return "integer" if dtype.is_integer() and dtype != pl.UInt64 else str(dtype)


def order_words(column: pl.Series) -> Ints:
    """Return integers that sort as the values do, with NaN above all numbers; a null may have any word."""
    if column.dtype.is_float():
        bits = one_of_each(nulls_as(0.0, column)).view(np.int64)
        return bits ^ ((bits >> 63) & MAGNITUDE)
    words = physical(column)
    return words ^ LEAST if column.dtype == pl.UInt64 else words


def values_of(name: str, words: Ints, dtype: pl.DataType) -> AnyColumn:
    """Return the values that have these order words.

    >>> values = pl.Series("x", [-1.5, 0.0, float("inf")])
    >>> values_of("x", order_words(values), pl.Float64()).to_list()
    [-1.5, 0.0, inf]
    """
    if type(dtype) is pl.Int64:
        return IntColumn(name, words)
    if dtype.is_float():
        return pl.Series(name, (words ^ ((words >> 63) & MAGNITUDE)).view(np.float64)).cast(dtype)
    if dtype == pl.UInt64:
        return IntColumn(name, (words ^ LEAST).view(np.uint64))
    return pl.Series(name, words).cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)


def several_order_words(column: pl.Series) -> list[Ints]:
    """Return as many words as ``order_word_count`` for each value: the first ones sort as the values do, then the next."""
    if not column.dtype.is_decimal():
        return [order_words(column)]
    words = wide_words(column)
    return [words[:, 1].view(np.int64), words[:, 0].view(np.int64) ^ LEAST]


def values_of_several(name: str, words: Sequence[Ints], dtype: pl.DataType) -> AnyColumn:
    """Return the values that have these order words.

    >>> values = pl.Series("x", ["-0.01", "0.00", "98765432109876543210.99"]).cast(pl.Decimal(38, 2))
    >>> values_of_several("x", several_order_words(values), values.dtype).equals(values)
    True
    """
    if not isinstance(dtype, pl.Decimal):
        return values_of(name, words[0], dtype)
    upper, lower = words
    return decimals_of(
        name, np.stack([(lower ^ LEAST).view(np.uint64), upper.view(np.uint64)], axis=1), dtype
    )
