"""A hash of values is the same in every process, on every machine and with every version of polars.

Decisions made by it may be kept and shown, as they follow from the value alone. It is slower than the hash of keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from .kernels import is_one_word
from .nulls import nulls_as
from .value_words import NULL_WORD, SPREAD, Index, Words, one_of_each
from .whole_columns import Ints, physical


def stable_words(columns: Sequence[pl.Series], height: int) -> Words:
    """Return one word for each of ``height`` rows, by the values in these columns; no columns: one word for all.

        word(row) = mix(n + sum over its n values of mix(word(value) + place * SPREAD)),  modulo 2^64

    Texts and lists are words of their bytes and items in the same way. Equal are -0.0 and 0.0, all NaN, and an
    integer in columns of different widths; instants count in the unit of their column. Cost: some 10 ns a value,
    and a byte of text.
    """
    total = np.zeros(height, np.uint64)
    for place, column in enumerate(columns):
        total += _mixed(_column_words(column) + _spread(np.array([place])))
    return _mixed(total + np.uint64(len(columns)))


def _column_words(column: pl.Series) -> Words:
    dtype = column.dtype
    if dtype == pl.Null:
        return np.full(len(column), NULL_WORD)
    if is_one_word([dtype]):
        words = physical(column).view(np.uint64)
    elif dtype.is_float():
        words = one_of_each(nulls_as(0.0, column)).view(np.uint64)
    elif isinstance(dtype, pl.Struct):
        words = stable_words(column.struct.unnest().get_columns(), len(column))
    elif isinstance(dtype, pl.List | pl.Array):
        words = _list_words(column.arr.to_list() if isinstance(dtype, pl.Array) else column)
    else:
        words = _byte_words(column if dtype == pl.Binary else column.cast(pl.String).cast(pl.Binary))
    return np.where(column.is_null().to_numpy(), NULL_WORD, words) if column.has_nulls() else words


def _list_words(column: pl.Series) -> Words:
    counts = column.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    items = column.filter(pl.Series(counts > 0)).explode(empty_as_null=False)
    return _sequence_words(_column_words(items), counts)


def _byte_words(column: pl.Series) -> Words:
    counts = column.bin.size().fill_null(0).cast(pl.Int64).to_numpy()
    texts = column.drop_nulls().to_arrow()
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = texts.buffers()[2]
    if held is None or not counts.any():
        return _sequence_words(np.zeros(0, np.uint64), counts)
    return _sequence_words(np.frombuffer(held, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64), counts)


def _sequence_words(items: Words, counts: Ints) -> Words:
    """Return one word for each sequence of items; the sequences follow each other, and ``counts`` are their lengths."""
    ends = np.cumsum(counts)
    places = np.arange(len(items)) - np.repeat(ends - counts, counts)
    running = np.zeros(len(items) + 1, np.uint64)
    # Differences of a running sum are exact modulo 2^64.
    np.cumsum(_mixed(items + _spread(places)), out=running[1:])
    return _mixed(running[ends] - running[ends - counts] + counts.astype(np.uint64))


def _spread(places: Index) -> Words:
    return places.astype(np.uint64) * SPREAD


def _mixed(words: Words) -> Words:
    """Return a permutation of the words in which every bit depends on every bit: splitmix64 (Steele et al., 2014)."""
    words = words + SPREAD
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
