"""Few values are compared, ordered, searched and hashed without polars, or without Arrow, and with the same results."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

import evercurrent.core.data.columns.value_words as words_module
from evercurrent.core.data.columns.comparisons import differ, order_words
from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.kernels import Keys, at, is_ones, key_words, least_and_greatest, series_of
from evercurrent.core.data.columns.nulls import FEW_TEXTS, nulls_in
from evercurrent.core.data.columns.polars_versions import arg_sort
from evercurrent.core.data.columns.sorting import sorted_by
from evercurrent.core.data.columns.value_words import row_words
from evercurrent.core.data.columns.whole_columns import TYPES, IntColumn
from every_type import LEAVES

SIZES = [0, 1, 2, 40, FEW_TEXTS + 30]


def column(dtype: Any, kept: Any, values: list[Any], size: int, generator: random.Random) -> pl.Series:
    chosen = [generator.choice(values) for _ in range(size)]
    made = pl.Series("c", chosen, kept)
    return made if made.dtype == dtype else made.cast(dtype)


@pytest.fixture(params=LEAVES, ids=lambda leaf: str(leaf[0]))
def leaf(request: pytest.FixtureRequest) -> tuple[Any, Any, list[Any]]:
    given: tuple[Any, Any, list[Any]] = request.param
    return given


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("with_nulls", [True, False], ids=["nulls", "no nulls"])
def test_nulls_differences_and_order_are_those_of_polars(
    leaf: tuple[Any, Any, list[Any]], size: int, with_nulls: bool
) -> None:
    dtype, kept, values = leaf
    values = values if with_nulls else [value for value in values if value is not None]
    generator = random.Random(size)
    one, other = (column(dtype, kept, values, size, generator) for _ in range(2))
    assert nulls_in(one).tolist() == one.is_null().to_list()
    assert differ(one, other).tolist() == one.ne_missing(other).to_list()
    numbers = np.arange(size, dtype=np.uint64)
    for descending in (False, True):
        for nulls_last in (False, True):
            frame = pl.DataFrame([one.alias("0"), pl.Series("1", numbers)])
            expected = arg_sort(frame, [descending, False], [nulls_last, False]).to_list()
            assert sorted_by([one, numbers], [descending, False], [nulls_last, False]).tolist() == expected


def test_what_is_ordered_without_a_query() -> None:
    def is_ordered(values: pl.Series) -> bool:
        return order_words(values, descending=False, nulls_last=True) is not None

    assert is_ordered(pl.Series(["a", None]))
    assert is_ordered(pl.Series([1, None]))
    assert is_ordered(pl.Series([1.5, float("nan")]))
    assert not is_ordered(pl.Series(["a"] * (FEW_TEXTS + 1)))
    assert not is_ordered(pl.Series([[1], [2]]))


@pytest.mark.parametrize("most", [0, 1, 12, 13, 64, 65])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 128, 129, 400])
def test_words_of_few_texts_are_those_of_many(most: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(most * 1000 + count)

    def text() -> str | None:
        size = generator.randint(0, most)
        return None if generator.random() < 0.1 else "".join(generator.choices("abz\0ß", k=size))

    texts = pl.Series("t", [text() for _ in range(count)], pl.String)
    for given in (texts, texts.cast(pl.Binary), pl.concat([texts, texts]).slice(count // 2)):
        few = row_words([given], len(given))
        with monkeypatch.context() as patches:
            patches.setattr(words_module, "FEW_TEXTS", 0)
            patches.setattr(words_module, "FEW_LONG_TEXTS", 0)
            many = row_words([given], len(given))
        assert few[0].tolist() == many[0].tolist()
        assert few[1].tolist() == many[1].tolist()


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 300])
def test_bounds_and_ones_and_sums(count: int) -> None:
    generator = np.random.default_rng(count)
    ends = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    values = generator.choice(ends, count)
    assert least_and_greatest(values) == (min(values.tolist()), max(values.tolist()))
    ones = np.ones(count, np.int64)
    assert is_ones(ones)
    ones[-1] = 2
    assert not is_ones(ones)
    groups = group(Keys(generator.integers(0, 5, count).astype(np.uint64)))
    expected = [0] * len(groups)
    for place, value in zip(groups.numbers.tolist(), values.tolist(), strict=True):
        expected[place] += value
    assert groups.sums(values).view(np.uint64).tolist() == [total % 2**64 for total in expected]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_column_of_whole_numbers_is_the_series_of_its_values(kind: np.dtype[Any]) -> None:
    bounds = np.iinfo(kind)
    values = np.array([bounds.min, bounds.max, 0, 1], kind)
    whole = IntColumn("n", values)
    assert whole.series.equals(pl.Series("n", values), check_dtypes=True, check_names=True)
    assert whole.dtype == whole.series.dtype
    assert whole.int64.tolist() == values.astype(np.int64).tolist()
    assert series_of(whole.alias("m")).name == "m"
    assert not whole.has_nulls()
    index = np.array([3, 0])
    assert at(whole, index).series.equals(at(whole.series, index))
    assert row_words([whole.series], 4)[0].tolist() == row_words([pl.Series("n", values)], 4)[0].tolist()


def test_many_rows_of_the_last_text_are_hashed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a gather share their texts, so most of them may be the last one of the buffer."""
    one_by_one = words_module._one_by_one

    def few(buffer: Any, starts: Any, counts: Any, done: int, sums: Any) -> None:
        assert len(starts) < words_module.FEW
        one_by_one(buffer, starts, counts, done, sums)

    monkeypatch.setattr(words_module, "_one_by_one", few)
    texts = pl.Series(
        [
            "a text of some length",
            "é" * 9,
            "one more, of other length, that is longer than all",
            "United Kingdom",
        ]
    )
    for among in ([3], [2, 3], [0, 1, 2, 3]):
        rows = texts[[among[place % len(among)] for place in range(3000)]]
        alone = [key_words([texts[each : each + 1]], 1) for each in among]
        words = key_words([rows], len(rows))
        for place, each in enumerate(alone):
            assert (words.first[place :: len(among)] == each.first[0]).all()
            assert (words.seconds()[place :: len(among)] == each.seconds()[0]).all()
