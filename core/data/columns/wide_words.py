"""Integers of 128 bits as two words of 64: those of decimals, which are counted in their last digit, and of wide integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .nulls import nulls_as

WideWords = npt.NDArray[np.uint64]
"""The lower and the upper word of each integer, as two columns."""


def wide_words(column: pl.Series) -> WideWords:
    """Return the words of a decimal or wide integer column; null is 0."""
    filled = nulls_as(0, column).rechunk()
    if column.dtype.is_decimal():
        array = filled.to_arrow()
        words = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, 2)
        return words[array.offset : array.offset + len(array)]
    lower = (filled & pl.Series([2**64 - 1], dtype=column.dtype)).cast(pl.UInt64).to_numpy()
    upper = (filled // pl.Series([2**64], dtype=column.dtype)).cast(
        pl.Int64 if column.dtype == pl.Int128 else pl.UInt64
    )
    return np.stack([lower, upper.to_numpy().view(np.uint64)], axis=1)


def wide_integers_of(name: str, words: WideWords, dtype: pl.DataType) -> pl.Series:
    """Return the integers of 128 bits that have these words, with or without a sign."""
    upper = words[:, 1].view(np.int64) if dtype == pl.Int128 else words[:, 1]
    return pl.Series(name, upper).cast(dtype) * pl.Series([2**64], dtype=dtype) + pl.Series(words[:, 0]).cast(
        dtype
    )


def decimals_of(name: str, words: WideWords, dtype: pl.Decimal) -> pl.Series:
    """Return the decimals that have these words."""
    buffer = pa.py_buffer(np.ascontiguousarray(words))
    kind = pa.decimal128(dtype.precision or 38, dtype.scale)
    return pl.Series(name, pa.Array.from_buffers(kind, len(words), [None, buffer]))
