"""Integers that lie close together are found and brought together by tables of their range: with the results of searches and sorts."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent.core.data.columns.dense as dense
import evercurrent.core.data.columns.directory as directory
import evercurrent.core.data.columns.grouping as grouping
from evercurrent.core.data.columns.dense import Places, integers_of, range_order, words_of
from evercurrent.core.data.columns.directory import directory_of
from evercurrent.core.data.columns.grouping import DenseGroups, group, group_stretches
from evercurrent.core.data.columns.kernels import Keys, Words
from evercurrent.core.state import run
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.run_merge import merge

LEAST = st.sampled_from([-(2**63), -(2**31), -7, 0, 12, 2**40, 2**63 - 400])
CODES = st.lists(st.integers(0, 300), min_size=1, max_size=60)


def words(codes: list[int], least: int) -> Words:
    """The words of integers from ``least`` on; beyond the greatest they wrap."""
    return words_of(np.array(codes, np.int64), least)


@given(
    least=LEAST,
    held=CODES,
    sought=CODES,
    elsewhere=st.lists(st.integers(0, 2**64 - 1), max_size=5),
    chunk=st.integers(1, 9),
)
def test_places_are_those_of_a_search(
    least: int, held: list[int], sought: list[int], elsewhere: list[int], chunk: int
) -> None:
    there = np.sort(words(sorted(set(held)), least))
    targets = np.unique(np.concatenate([words(sought, least), np.array(elsewhere, np.uint64)]))
    with patch.multiple(dense, CHUNK=chunk, SPARSE=10_000):
        places = Places.of(there)
    wraps = int(integers_of(there).max()) - int(integers_of(there).min()) > 2**62
    assert (places is None) == wraps
    if places is not None:
        with patch.object(dense, "BLOCK", chunk):
            hit, position = places.match(there, targets)
        assert hit.tolist() == np.flatnonzero(np.isin(targets, there)).tolist()
        assert there[position].tolist() == targets[hit].tolist()
        assert places.search(there, targets).tolist() == np.searchsorted(there, targets).tolist()
        assert places.nbytes >= 4 * len(there)


@given(
    least=LEAST,
    held=CODES,
    sought=CODES,
    elsewhere=st.lists(st.integers(0, 2**64 - 1), max_size=9),
    close=st.booleans(),
)
def test_words_of_a_table_are_placed_as_by_a_search(
    least: int, held: list[int], sought: list[int], elsewhere: list[int], close: bool
) -> None:
    there = np.sort(words(held, least))
    targets = np.concatenate([words(sought, least), np.array(elsewhere, np.uint64)])
    with patch.multiple(dense, SPARSE=10_000 if close else 0), patch.multiple(directory, FROM=1):
        places = directory.search_distinct(there, targets)
    assert places.tolist() == np.searchsorted(there, targets).tolist()


@pytest.mark.parametrize("codes", [[1, 2, 2, 3], [0, 1, 2, 1000], [5, 2**50]])
def test_words_that_are_repeated_or_far_apart_have_no_places(codes: list[int]) -> None:
    assert Places.of(np.sort(words(codes, 0))) is None


@given(least=LEAST, batches=st.lists(CODES, min_size=1, max_size=4))
def test_a_range_in_order_groups_as_a_sort_does(least: int, batches: list[list[int]]) -> None:
    dense._range_order.cache_clear()
    with patch.multiple(grouping, SMALL=0, SPARSE=10_000):
        for codes in batches:
            keys = Keys(words(codes, least))
            groups, sorted_groups = group(keys), grouping._sorted_groups(keys)
            values = np.arange(len(codes)) ** 2 - 50
            assert groups.keys.first.tolist() == sorted_groups.keys.first.tolist()
            assert groups.order.tolist() == sorted_groups.order.tolist()
            assert groups.starts.tolist() == sorted_groups.starts.tolist()
            assert groups.numbers.tolist() == sorted_groups.numbers.tolist()
            assert groups.first_entries.tolist() == sorted_groups.first_entries.tolist()
            assert groups.sums(values).tolist() == sorted_groups.sums(values).tolist()
            assert groups.sums(values << 58).tolist() == sorted_groups.sums(values << 58).tolist()
            assert groups.greatest(values).tolist() == sorted_groups.greatest(values).tolist()


FEW_WORDS = st.lists(
    st.sampled_from([1, 2, 2**16 + 1, 2**48, 2**63 + 2**48, 2**64 - 1]) | st.integers(0, 2**64 - 1),
    min_size=1,
    max_size=5,
    unique=True,
)


@given(few=FEW_WORDS, chosen=st.lists(st.integers(0, 99), min_size=1, max_size=60), has_second=st.booleans(), collide=st.booleans())  # fmt: skip
def test_few_keys_are_grouped_as_by_a_sort(
    few: list[int], chosen: list[int], has_second: bool, collide: bool
) -> None:
    first = np.array([few[number % len(few)] for number in chosen], np.uint64)
    second = (first + np.uint64(7)) * np.uint64(3) + (np.arange(len(first)) % 2).astype(np.uint64) * collide
    keys = Keys(first, second.astype(np.uint64) if has_second else None)
    with patch.multiple(grouping, FROM_KEYS=1, SAMPLED=len(first), FEW_KEYS=len(few)):
        counted = grouping._few_groups(keys)
    by_sort = grouping._sorted_groups(keys)
    if counted is None:
        return
    values = np.arange(len(first)) ** 2 - 50
    for one, other in ((counted.keys.first, by_sort.keys.first), (counted.keys.seconds(), by_sort.keys.seconds())):  # fmt: skip
        assert one.tolist() == other.tolist()
    assert counted.order.tolist() == by_sort.order.tolist()
    assert counted.starts.tolist() == by_sort.starts.tolist()
    assert counted.first_entries.tolist() == by_sort.first_entries.tolist()
    assert counted.sums(values << 58).tolist() == by_sort.sums(values << 58).tolist()


@pytest.mark.parametrize("count", [300, 70_000])
def test_entries_are_in_the_order_of_many_groups(count: int) -> None:
    keys = Keys(words([number % count for number in range(2 * count)], 0))
    groups = group(keys)
    assert isinstance(groups, DenseGroups)
    assert np.array_equal(groups.order, grouping._sorted_groups(keys).order)


@pytest.mark.parametrize("rare", [0, 5])
@pytest.mark.parametrize("has_second", [False, True])
def test_many_rows_of_few_keys_are_counted(rare: int, has_second: bool) -> None:
    random = np.random.default_rng(1)
    words_of_keys = random.integers(0, 2**64, 40 + rare, np.uint64)
    first = words_of_keys[random.integers(0, 40, 30_000)]
    first[random.choice(30_000, rare, replace=False)] = words_of_keys[40:]
    keys = Keys(first, first * np.uint64(9) if has_second else None)
    groups = group(keys)
    assert isinstance(groups, DenseGroups)
    assert groups.keys.first.tolist() == grouping._sorted_groups(keys).keys.first.tolist()
    many = Keys(random.integers(0, 2**64, 30_000, np.uint64), first)
    assert not isinstance(group(many), DenseGroups)
    if has_second:
        second = first.copy()
        second[17] += np.uint64(1)
        assert not isinstance(group(Keys(first, second)), DenseGroups)


def test_a_range_is_sorted_when_it_is_needed_again() -> None:
    dense._range_order.cache_clear()
    order = range_order(100, 40_000)
    assert order is not None
    assert order.codes() is None
    codes = order.codes()
    assert codes is not None
    assert np.array_equal(np.sort(codes), np.arange(order.size))
    assert np.all(np.diff(words_of(codes, order.least).astype(object)) > 0)
    assert range_order(0, dense.MOST_REMEMBERED * 2) is None


def runs_of(parts: list[list[int]], retracted: int) -> list[Run]:
    """Runs of these integers, of which some entries are retracted."""
    runs = []
    for codes in parts:
        diffs = np.where(np.arange(len(codes)) % 4 < retracted, -1, 1)
        runs.append(make_run(Layout(), Keys(words(codes, 0)), pl.DataFrame(), {"n": diffs}))
    return runs


@given(parts=st.lists(CODES, min_size=2, max_size=4), retracted=st.integers(0, 3))
def test_runs_of_close_integers_are_merged_and_matched_as_others_are(
    parts: list[list[int]], retracted: int
) -> None:
    expected = merge(Layout(), runs_of(parts, retracted))
    keys = group(Keys(words([code for codes in parts for code in codes], 0))).keys
    with (
        patch.multiple(grouping, SMALL=0, SPARSE=10_000),
        patch.multiple(dense, SPARSE=10_000),
        patch.multiple(directory, FROM=1),
        patch.multiple(run, FEW=0),
    ):
        merged = merge(Layout(), runs_of(parts, retracted))
        assert merged.keys.first.tolist() == expected.keys.first.tolist()
        assert {name: column.tolist() for name, column in merged.sums.items()} == {
            name: column.tolist() for name, column in expected.sums.items()
        }
        matches, expected_matches = merged.match(keys), expected.match(keys)
        assert [each.tolist() for each in matches] == [each.tolist() for each in expected_matches]
        assert isinstance(group_stretches(keys), DenseGroups)
        assert not len(merged) or isinstance(directory_of(merged.keys.first), Places)
