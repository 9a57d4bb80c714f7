"""Values at ranks among several runs are those of all their entries, sorted; of many entries only some near the ranks are read."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evercurrent.core.state import ranked_runs
from evercurrent.core.state.ranked_runs import Moment, ValueRun, at_ranks, running
from thinned import IS_LONG

Numbers = Any
Group = tuple[Numbers, Numbers]
"""The values of a group in a run, ascending and each once, and their diffs."""

KINDS = ("alike", "apart", "few values", "one run", "edges")


def values_of(random: np.random.Generator, kind: str, run: int, count: int, dtype: str) -> Numbers:
    if kind == "edges":
        edges = {"f": [0.0, 5e-324, -np.inf, np.inf, np.nan, 1.5], "i": [-(2**63), -1, 0, 2**63 - 1]}
        return random.choice(np.array(edges[dtype], dtype + "8"), count)
    spread = 4 if kind == "few values" else 10_000
    values = random.integers(0, spread, count) + (spread * run if kind == "apart" else 0)
    return values if dtype == "i" else values / 7


def groups_of(random: np.random.Generator, kind: str, dtype: str, most: int, *, runs: int) -> list[Group]:
    """One group in each run: what a run retracts is there by the runs before it."""
    parts, there = list[Group](), np.zeros(0, dtype + "8")
    for run in range(runs):
        count = 0 if kind == "one run" and run != runs - 2 else int(random.integers(0, most + 1) / (1 + run))
        come = values_of(random, kind, run, count, dtype)
        gone = random.permutation(there)[: int(random.integers(0, len(there) // 2 + 1))]
        values, place = np.unique(np.concatenate((come, gone)), return_inverse=True, equal_nan=True)
        diffs = np.bincount(place, np.repeat([1, -1], [len(come), len(gone)]), len(values)).astype(np.int64)
        parts.append((values[diffs != 0], diffs[diffs != 0]))
        added = np.repeat(values, np.maximum(diffs, 0))
        left = np.ones(len(there), np.bool_)
        for value in np.repeat(values, np.maximum(-diffs, 0)):
            same = (there == value) | ((there != there) & (value != value))
            left[np.flatnonzero(same & left)[0]] = False
        there = np.concatenate((there[left], added))
    return parts


def run_of(groups: list[Group]) -> tuple[ValueRun, tuple[Any, Any]]:
    values = np.concatenate([values for values, _ in groups])
    diffs = np.concatenate([diffs for _, diffs in groups])
    ends = running(np.array([len(values) for values, _ in groups]))
    return ValueRun(values, None if (diffs == 1).all() else running(diffs), None), (ends[:-1], ends[1:])


def whole(groups: list[Group]) -> Numbers:
    """All values of a group, ascending, by adding up its diffs."""
    if not groups:
        return np.zeros(0)
    values = np.concatenate([values for values, _ in groups])
    diffs = np.concatenate([diffs for _, diffs in groups])
    different, place = np.unique(values, return_inverse=True, equal_nan=True)
    return np.repeat(different, np.bincount(place, diffs, len(different)).astype(int))


@pytest.mark.parametrize("dtype", ["i", "f"])
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from([0, 1, 3, 40, 400]), min_size=1, max_size=4),
    runs=st.integers(1, 5),
    limits=st.sampled_from([(0, 0, 0), (4, 0, 100), (64, 2048, 32)]),
)
def test_they_are_those_of_all_entries(
    kind: str, dtype: str, seed: int, sizes: list[int], runs: int, limits: tuple[int, int, int]
) -> None:
    random = np.random.default_rng(seed)
    groups = [groups_of(random, kind, dtype, size, runs=runs) for size in sizes]
    value_runs, ranges = zip(*(run_of([group[run] for group in groups]) for run in range(runs)), strict=True)
    moments, expected = [], []
    for count in (runs - 1, runs):
        every = [whole(group[:count]) for group in groups]
        high = np.array([int(random.integers(0, len(values))) if len(values) else -1 for values in every])
        low = np.maximum(high - random.integers(0, 2, len(high)), 0)
        moments.append(Moment(count, low, high))
        expected += [
            [values[rank] for values, rank in zip(every, ranks, strict=True) if len(values)]
            for ranks in (low, high)
        ]
    near, at_once, few = limits
    with patch.multiple(ranked_runs, NEAR=near, READ_AT_ONCE=at_once, FEW_RANGES=few):
        pairs, _ = at_ranks(value_runs, ranges, moments)
    for values, theirs in zip([each for pair in pairs for each in pair], expected, strict=True):
        np.testing.assert_array_equal(values, np.array(theirs, values.dtype))


def test_groups_whose_entries_cancel_have_no_values() -> None:
    come, none = np.arange(4), np.zeros(1, np.int64)
    parts = [[(come, np.full(4, diff))] for diff in (1, -1)]
    value_runs, ranges = zip(*map(run_of, parts), strict=True)
    with patch.multiple(ranked_runs, NEAR=0, READ_AT_ONCE=0):
        ((low, high),), read = at_ranks(value_runs, ranges, [Moment(2, none, none - 1)])
    assert (len(low), len(high), read) == (0, 0, 0)


@pytest.mark.parametrize("groups", [1, 50])
@pytest.mark.parametrize("kind", ["alike", "apart"])
def test_few_of_many_entries_are_read(kind: str, groups: int) -> None:
    random, size = np.random.default_rng(3), 400_000 if IS_LONG else 100_000
    parts = [
        [
            (np.unique(random.normal(size=size // (groups * 4**run)) + run * (kind == "apart")), None)
            for _ in range(groups)
        ]
        for run in range(4)
    ]
    ones = [[(values, np.ones(len(values), np.int64)) for values, _ in part] for part in parts]
    value_runs, ranges = zip(*map(run_of, ones), strict=True)
    counts = np.sum([end - start for start, end in ranges], axis=0)
    for quantile in (0.0, 0.01, 0.5, 0.95, 1.0):
        ranks = np.round((counts - 1) * quantile).astype(np.int64)
        ((low, _),), read = at_ranks(value_runs, ranges, [Moment(4, ranks, ranks)])
        every = [np.sort(np.concatenate([part[group][0] for part in ones])) for group in range(groups)]
        assert low.tolist() == [values[rank] for values, rank in zip(every, ranks, strict=True)]
        assert read <= ranked_runs.READ_AT_ONCE + groups * ranked_runs.NEAR
