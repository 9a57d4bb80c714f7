"""Law: the words of a key are a function of its values alone, for good: of the process, the machine and polars nothing is in them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evercurrent.core.data.columns import value_words
from evercurrent.core.data.columns.kernels import Words, key_words
from evercurrent.core.data.columns.key_hash import OF_POLARS, OURS, hashing_by
from evercurrent.core.data.columns.value_words import row_words
from key_values import CATALOGUE, NULL_WORD, PINNED, SPREAD, WORD, value_of, words_by_type, words_of_row
from strategies import of_profile

KNOWN: dict[str, list[list[str]]] = json.loads(PINNED.read_text())

each_type = pytest.mark.parametrize(("dtype", "values"), CATALOGUE, ids=lambda one: str(one)[:40])

BY_NAME = {str(dtype): (dtype, values) for dtype, values in CATALOGUE}


def hexadecimal(words: tuple[Words, Words]) -> list[list[str]]:
    return [
        [f"{first:016x}", f"{second:016x}"]
        for first, second in zip(*map(np.ndarray.tolist, words), strict=True)
    ]


def expected(columns: list[tuple[pl.DataType, list[Any]]], rows: range) -> list[list[str]]:
    found = [words_of_row([value_of(values[row], dtype) for dtype, values in columns]) for row in rows]
    return [[f"{word:016x}" for word in words] for words in found]


def test_the_words_that_are_kept_are_those_of_the_definition() -> None:
    """And there are as many values as there were: what is in the file stays there."""
    now = words_by_type()
    assert {name: now[name] for name in KNOWN} == KNOWN
    assert now.keys() == KNOWN.keys()


@each_type
def test_words_are_those_that_are_kept(dtype: pl.DataType, values: list[Any]) -> None:
    column = pl.Series("k", values, dtype)
    assert hexadecimal(row_words([column], len(column))) == KNOWN[str(dtype)]


def test_the_mark_of_checkpoints_is_the_one_that_is_kept() -> None:
    """It is computed of known values: with another one no checkpoint would be opened."""
    assert OURS.mark == "1968caadf9307be9"
    assert OURS.format == 2


@each_type
def test_where_a_value_stands_and_beside_what_does_not_matter(dtype: pl.DataType, values: list[Any]) -> None:
    column = pl.Series("k", values, dtype)
    alone = [hexadecimal(row_words([column[at : at + 1]], 1))[0] for at in range(len(column))]
    ways = {
        "as one": (column, alone),
        "behind others": (column[1:], alone[1:]),
        "in chunks": (pl.concat([column, column[1:]], rechunk=False), alone + alone[1:]),
        "gathered": (column.gather(list(range(len(column)))[::-1]), alone[::-1]),
        "out of a longer one": (pl.concat([column] * 3)[len(column) + 1 : -1], (alone * 2)[1:-1]),
        "many": (pl.concat([column] * 300), alone * 300),
        "none": (column.clear(), []),
    }
    for way, (held, words) in ways.items():
        assert hexadecimal(row_words([held], len(held))) == words, way


COLUMNS = st.lists(st.sampled_from(sorted(BY_NAME)), min_size=1, max_size=5)
SIZES = st.fixed_dictionaries(
    {
        "BLOCK": st.sampled_from([1, 7, 1 << 15]),
        "FEW": st.sampled_from([1, 3, 64]),
        "SIDE_BY_SIDE": st.sampled_from([1, 2, 30, 65535]),
        "MOST_WORDS": st.sampled_from([3, 1 << 14]),
    }
)


@of_profile(0.5)
@given(COLUMNS, st.lists(st.integers(0, 30), min_size=1, max_size=40), SIZES)
def test_words_of_rows_are_those_of_the_definition(
    names: list[str], picks: list[int], sizes: dict[str, int]
) -> None:
    """However many rows are taken at a time, and in whatever way texts are."""
    columns = [BY_NAME[name] for name in names]
    chosen = [(dtype, [values[pick % len(values)] for pick in picks]) for dtype, values in columns]
    series = [pl.Series(str(at), values, dtype) for at, (dtype, values) in enumerate(chosen)]
    with patch.multiple(value_words, **sizes):
        assert hexadecimal(row_words(series, len(picks))) == expected(chosen, range(len(picks)))


BYTES = st.lists(
    st.none() | st.binary(max_size=20) | st.integers(0, 300).map(lambda n: b"\xa7" * n), max_size=20
)


@of_profile(0.25)
@given(BYTES, SIZES, st.integers(0, 5))
def test_texts_of_any_length_in_any_buffers(
    texts: list[bytes | None], sizes: dict[str, int], cut: int
) -> None:
    column = pl.concat([pl.Series(texts, dtype=pl.Binary), pl.Series([b"q" * 50, None], dtype=pl.Binary)])[
        cut:
    ]
    with patch.multiple(value_words, **sizes):
        found = hexadecimal(row_words([column], len(column)))
    assert found == expected([(pl.Binary(), column.to_list())], range(len(column)))


HALVES = [pl.Float16()] if hasattr(pl, "Float16") else []

ALIKE: list[tuple[list[Any], list[pl.DataType]]] = [
    ([None, 0, 1, 127], [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt64()]),
    ([None, -1, -128], [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64()]),
    ([None, 1.5, -0.0, NAN := float("nan")], [pl.Float64(), pl.Float32(), *HALVES]),
    (["a", None, "b"], [pl.String(), pl.Categorical(), pl.Enum(["b", "c", "a"])]),
    ([[1], None, [None, -2]], [pl.List(pl.Int8()), pl.List(pl.Int64())]),
    ([[1, -2], None], [pl.List(pl.Int8()), pl.Array(pl.Int64(), 2)]),
    ([{"x": -1}, None], [pl.Struct({"x": pl.Int16()}), pl.Struct({"x": pl.Int64()})]),
    ([None], [dtype for dtype, _ in CATALOGUE]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "dtypes"), ALIKE, ids=lambda one: str(one)[:40])
def test_one_value_has_one_word_in_columns_of_different_widths(
    values: list[Any], dtypes: list[pl.DataType]
) -> None:
    other = pl.Series("other", ["key"] * len(values))
    found = [row_words([pl.Series("k", values, dtype), other], len(values)) for dtype in dtypes]
    assert all(hexadecimal(words) == hexadecimal(found[0]) for words in found)


def test_decimals_of_another_precision_have_the_same_words() -> None:
    whole = pl.Series([1, None, -3]).cast(pl.Decimal(10, 2))
    assert hexadecimal(row_words([whole], 3)) == hexadecimal(row_words([whole.cast(pl.Decimal(38, 2))], 3))


def test_a_key_of_one_integer_is_its_own_word() -> None:
    keys = key_words([pl.Series([0, 1, -5, None])], 4)
    assert keys.first.tolist() == [0, SPREAD, -5 * SPREAD % WORD, NULL_WORD]
    assert keys.seconds().tolist() == [0, 0, 0, 1]


def test_a_null_is_no_number_though_its_first_word_may_be_one() -> None:
    column = pl.Series([None, NULL_WORD], dtype=pl.UInt64)
    first, second = row_words([column, pl.Series([1, 1])], 2)
    assert first[0] == first[1]
    assert second[0] != second[1]


def test_values_that_are_exchanged_make_another_key() -> None:
    """Though each of them be moved by as much as the places differ, so that the items of the first word are the same."""
    first, second = row_words(
        [pl.Series([3, 5 + SPREAD], dtype=pl.UInt64), pl.Series([5, 3 - SPREAD + WORD], dtype=pl.UInt64)], 2
    )
    assert first[0] == first[1]
    assert second[0] != second[1]


def test_what_stands_behind_a_null_does_not_matter() -> None:
    hidden = pl.DataFrame(
        {"t": ["x" * 50, "short", ""], "n": [1, 2, 3], "f": [1.5, -0.0, 7.0], "l": [[1], [], [2]]}
    )
    hidden = hidden.select(pl.when(pl.lit(False) & (pl.col("n") > 0)).then(pl.all()))
    first, second = row_words(hidden.get_columns(), 3)
    assert len(set(first.tolist())) == len(set(second.tolist())) == 1


# How evenly words are spread: of given values, so that it is the same in every run. They are made by the test, as
# making them takes seconds.

NUMBERS = np.arange(1 << 16)
SPREAD_OUT: dict[str, Callable[[], list[pl.Series]]] = {
    "runs of integers": lambda: [pl.Series(NUMBERS), pl.Series(NUMBERS % 2)],
    "multiples of a power of two": lambda: [pl.Series(NUMBERS << 40), pl.Series(NUMBERS * 0)],
    "two small integers": lambda: [pl.Series(NUMBERS >> 8), pl.Series(NUMBERS & 255)],
    "the same twice": lambda: [pl.Series(NUMBERS), pl.Series(NUMBERS)],
    "four small integers": lambda: [pl.Series(NUMBERS >> shift & 15) for shift in (12, 8, 4, 0)],
    "one against the other": lambda: [pl.Series(NUMBERS), pl.Series(-NUMBERS)],
    "powers of two": lambda: [pl.Series(1 << NUMBERS % 62), pl.Series(NUMBERS // 62)],
    "the same three times": lambda: [pl.Series(NUMBERS)] * 3,
    "two whole floats": lambda: [pl.Series(each).cast(pl.Float64) for each in (NUMBERS >> 8, NUMBERS & 255)],
    "whole floats": lambda: [pl.Series(NUMBERS).cast(pl.Float64)],
    "negative floats": lambda: [pl.Series(NUMBERS / -1024)],
    "short texts": lambda: [pl.Series(NUMBERS).cast(pl.String)],
    "texts with a common beginning": lambda: [
        pl.Series(["a beginning that is long, and " + str(n) for n in NUMBERS])
    ],
    "texts with a common end": lambda: [
        pl.Series([f"{n:05} and an end that is long enough" for n in NUMBERS])
    ],
    "texts that differ in their length": lambda: [
        pl.Series([b"\0" * (n % 2048) + bytes([n >> 11]) for n in NUMBERS])
    ],
    "days": lambda: [
        pl.Series(NUMBERS.astype(np.int32)).cast(pl.Date),
        pl.Series(["x"]).new_from_index(0, 1 << 16),
    ],
    "lists": lambda: [pl.Series([[n >> 8, n & 255] for n in NUMBERS.tolist()])],
    "structs": lambda: [pl.DataFrame({"a": NUMBERS >> 8, "b": NUMBERS & 255}).to_struct("s")],
    "decimals": lambda: [pl.Series(NUMBERS).cast(pl.Decimal(20, 2))],
}


@pytest.mark.parametrize("values", SPREAD_OUT, ids=str)
def test_words_are_spread_evenly(values: str) -> None:
    """By leading bits, as buckets and directories see them; and no two of 65,536 different keys have one word.

    Of words at random, chi squared of 256 places is 255 with a deviation of 22.6: the bound is six of these.
    """
    columns = SPREAD_OUT[values]()
    for words in row_words(columns, len(NUMBERS)):
        assert len(np.unique(words)) == len(NUMBERS)
        for place in (56, 48, 40, 24):
            counts = np.bincount((words >> np.uint64(place)).view(np.int64) & 255, minlength=256)
            assert ((counts - 256.0) ** 2 / 256).sum() < 255 + 6 * 22.6, (place, values)


def test_checkpoints_of_format_1_have_the_hash_that_they_were_begun_with() -> None:
    columns = [pl.Series(["a", None]), pl.Series([1, 2])]
    with hashing_by(OF_POLARS):
        then = key_words(columns, 2)
    assert then.first.tolist() != key_words(columns, 2).first.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_nan_that_signals_is_one_as_others_and_nothing_warns(dtype: type[np.floating[Any]]) -> None:
    """Other systems send such; numpy warns when it computes with them, and warnings may be errors."""
    whole, bits = (
        (np.uint32, [0x7F800001, 0x7FC00000])
        if dtype is np.float32
        else (np.uint64, [0x7FF0000000000001, 0x7FF8000000000000])
    )
    column = pl.Series("x", np.array(bits, whole).view(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keys = key_words([column], 2)
    assert keys.first[0] == keys.first[1]
    assert keys.second is None or keys.second[0] == keys.second[1]
