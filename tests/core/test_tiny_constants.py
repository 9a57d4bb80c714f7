"""Every path with little data: sizes at which the core changes its ways are turned down to almost nothing.

Floors, fans, directories, filters, packed sorts and frame-wise handling start at thousands of rows, so that random
cases of a few rows would never reach them. And as no two 64-bit hashes collide in a lifetime, first words are
cut down to a few values, which sends every look-up, merge and grouping through its second words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent.core.data.columns.dense as dense
import evercurrent.core.data.columns.directory as directory_module
import evercurrent.core.data.columns.grouping as grouping
import evercurrent.core.data.columns.kernels as kernels
import evercurrent.core.data.columns.sorting as sorting
import evercurrent.core.data.delta as delta_module
import evercurrent.core.eventtime.windows.assign_windows as windows_module
import evercurrent.core.operators.group.accumulators as accumulators
import evercurrent.core.operators.group.aggregate_states as parts_module
import evercurrent.core.operators.group.group_by as group_module
import evercurrent.core.state.first_rows as first_rows_module
import evercurrent.core.state.gradual as gradual_module
import evercurrent.core.state.merge_policy as policy_module
import evercurrent.core.state.merger as merger_module
import evercurrent.core.state.near as near_module
import evercurrent.core.state.operator_contract as contract_module
import evercurrent.core.state.partitioning as routes_module
import evercurrent.core.state.row_merge as row_merge_module
import evercurrent.core.state.run as run_module
import evercurrent.core.state.run_merge as run_merge_module
import evercurrent.core.state.waiting as waiting_module
import evercurrent.views.dataframe.accepted_rows as accepted_rows_module
from colliding import colliding
from evercurrent.core.data.columns.directory import Directory, GrowingDirectory, _starts
from evercurrent.core.data.columns.kernels import Index, Keys, Words
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.state.lookup import KeyRows, all_rows, first_rows, rows_change
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, Run, make_run, run_of_rows
from evercurrent.core.state.spine import Spine
from harness import check
from oracle import TooLargeError
from strategies import Case, Program, cases, histories, of_profile

HASHING = (
    kernels,
    grouping,
    routes_module,
    run_module,
    first_rows_module,
    delta_module,
    contract_module,
    group_module,
    parts_module,
    waiting_module,
)
"""The modules that import ``key_words``."""

HOUSES: Mapping[object, tuple[str, ...]] = {
    grouping: ("SMALL", "PACKED_BELOW", "SWAPS", "BLOCK"),
    accumulators: ("BLOCK",),
    gradual_module: ("PART",),
    merger_module: ("PART",),
    kernels: ("MANY_ROWS",),
    sorting: ("MANY_ROWS", "PACKED_FROM"),
    dense: ("BLOCK",),
    directory_module: ("FROM", "FILTERED_BELOW", "STEPS", "FEW_AHEAD", "CHUNK", "BLOCK"),
    run_module: ("FEW", "FROM", "FURTHER_ENTRIES", "DISTINCT_KEYS"),
    run_merge_module: ("FEW_ENTRIES",),
    row_merge_module: ("FEW_ENTRIES", "SEARCHED"),
    windows_module: ("MANY_ROWS",),
    policy_module: ("FLOOR", "FAN"),
    accepted_rows_module: ("FEW_ROWS",),
    near_module: ("SORTED_AT_ONCE", "LOOKS"),
}

MANY = 2**40

TINY: Mapping[str, Mapping[str, int]] = {
    "levels of one row": {"FLOOR": 1, "FAN": 2, "SORTED_AT_ONCE": 1, "LOOKS": 0},
    "entries inserted": {"FLOOR": 1, "FAN": 2, "FROM": 1, "FEW_ENTRIES": 1, "SEARCHED": 2, "MANY_ROWS": 0},
    "levels, directories, filters": {
        "FLOOR": 2,
        "FAN": 3,
        "FROM": 1,
        "FEW": 0,
        "CHUNK": 2,
        "FEW_AHEAD": 0,
        "FURTHER_ENTRIES": MANY,
        "DISTINCT_KEYS": MANY,
    },
    "directories without filters": {
        "FLOOR": 1,
        "FAN": 3,
        "FROM": 1,
        "FEW": 0,
        "FILTERED_BELOW": 0,
        "STEPS": 1,
        "FEW_AHEAD": 0,
        "FURTHER_ENTRIES": 0,
    },
    "rows in blocks": {"FLOOR": 1, "FAN": 2, "SMALL": 0, "FROM": 1, "FEW": 0, "BLOCK": 2, "PART": 1},
    "packed sorts": {"FLOOR": 1, "FAN": 2, "SMALL": 0, "SWAPS": 2, "PACKED_FROM": 0, "SORTED_AT_ONCE": 2},
    "frames as a whole": {"FLOOR": 1, "FAN": 2, "MANY_ROWS": 0, "FEW_ROWS": 0},
    "frames as a whole from two rows on": {"FLOOR": 1, "FAN": 2, "MANY_ROWS": 1, "SMALL": 1, "SWAPS": 1},
}


@contextmanager
def tiny(name: str, *, collide: bool) -> Iterator[None]:
    """The constants of that name; first words collide with ``collide``."""
    values = TINY[name]
    assert set(values) <= {constant for names in HOUSES.values() for constant in names}
    with pytest.MonkeyPatch.context() as patches:
        for module, names in HOUSES.items():
            for constant in names:
                if constant in values:
                    patches.setattr(module, constant, values[constant])
        for module in HASHING if collide else ():
            patches.setattr(module, "key_words", colliding)
        yield


SETTINGS = st.sampled_from(list(TINY))


def checked(case: Case, settings: str, *, collide: bool) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    with tiny(settings, collide=collide):
        check(case)


@of_profile(quick=50)
@given(settings=SETTINGS, collide=st.booleans(), case=cases())
def test_views(settings: str, collide: bool, case: Case) -> None:
    checked(case, settings, collide=collide)


KX = {"k": pl.Int64(), "x": pl.Int64()}
SX = {"k": pl.String(), "x": pl.Int64()}
PLANS = (
    "a.group_by('k').agg(pl.len(), u=pl.col('x').sum(), v=pl.col('x').min(), w=pl.col('x').max())",
    "a.group_by('k').agg(u=pl.col('x').n_unique(), v=pl.col('x').median())",
    "a.unique()",
    "a.group_by('k').top_k(2, by='x')",
    "a.limit(3, by=['x', 'k'], descending=True)",
    "a.join(b, on='k', how='full', coalesce=True, nulls_equal=True)",
    "a.join(b, on='k', how='anti')",
    "a.join(a, left_on='x', right_on='x', how='left', nulls_equal=True)",
    "a.join(b, how='cross')",
)


@pytest.mark.parametrize("text", PLANS)
@of_profile(0.1, quick=8)
@given(data=st.data(), settings=SETTINGS, collide=st.booleans(), columns=st.sampled_from([KX, SX]))
def test_long_histories(
    text: str, data: st.DataObject, settings: str, collide: bool, columns: dict[str, pl.DataType]
) -> None:
    """Many epochs, so that there are many levels of runs."""
    sources = {"a": columns, "b": columns}
    epochs = data.draw(histories(sources, max_epochs=25))
    checked(Case(Program(sources, (f"v1 = {text}",)), epochs), settings, collide=collide)


# Kernels and states, against the plainest code that could be written


WORDS = st.one_of(
    st.integers(0, 3),
    st.integers(2**64 - 4, 2**64 - 1),
    st.integers(2**63 - 2, 2**63 + 2),
    st.integers(0, 2**64 - 1),
)


@given(words=st.lists(WORDS, max_size=60), swaps=st.integers(0, 20))
def test_sort_words_is_the_stable_sort(words: list[int], swaps: int) -> None:
    given_words = np.array(words, np.uint64)
    with patch.multiple(grouping, SMALL=0, SWAPS=swaps):
        order, ordered = grouping.sort_words(given_words)
    assert order.tolist() == sorted(range(len(words)), key=words.__getitem__)
    assert ordered.tolist() == sorted(words)


@given(
    pairs=st.lists(st.tuples(WORDS, st.integers(0, 2)), max_size=40),
    values=st.lists(st.integers(-(2**62), 2**62), min_size=40, max_size=40),
    small=st.sampled_from([0, 1000]),
)
def test_group_brings_equal_keys_together(
    pairs: list[tuple[int, int]], values: list[int], small: int
) -> None:
    with patch.multiple(grouping, SMALL=small):
        groups = grouping.group(keys_of(pairs))
    found = list(zip(groups.keys.first.tolist(), groups.keys.seconds().tolist(), strict=True))
    assert found == sorted(set(pairs))
    expected = [sum(v for pair, v in zip(pairs, values, strict=False) if pair == key) for key in found]
    sums = groups.sums(np.array(values[: len(pairs)], np.int64))
    assert [(total - by_hand) % 2**64 for total, by_hand in zip(sums.tolist(), expected, strict=True)] == [
        0
    ] * len(found)
    assert groups.first_entries.tolist() == [pairs.index(key) for key in found]
    assert groups.numbers.tolist() == [found.index(key) for key in pairs]


INT64 = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, None]))
FLOATS = st.sampled_from(
    [None, 0.0, -0.0, 1.5, -1.5, 5e-324, -5e-324, float("inf"), float("-inf"), float("nan")]
)
DECIMALS = st.sampled_from(
    [
        None,
        *map(
            Decimal,
            (
                "0",
                "1",
                "-1",
                "92233720368547758.08",
                "184467440737095516.15",
                2**63,
                -(2**63),
                2**64,
                -(2**64),
                "9" * 36,
                "-" + "9" * 36,
            ),
        ),
    ]
)
COLUMNS = st.one_of(
    st.tuples(st.just(pl.Decimal(38, 2)), st.lists(DECIMALS, min_size=12, max_size=12)),
    st.tuples(st.just(pl.Int64()), st.lists(INT64, min_size=12, max_size=12)),
    st.tuples(st.just(pl.Float64()), st.lists(FLOATS, min_size=12, max_size=12)),
    st.tuples(st.just(pl.UInt64()), st.lists(WORDS | st.none(), min_size=12, max_size=12)),
    st.tuples(st.just(pl.Boolean()), st.lists(st.booleans() | st.none(), min_size=12, max_size=12)),
    st.tuples(
        st.just(pl.String()), st.lists(st.sampled_from(["", "a", "b", None]), min_size=12, max_size=12)
    ),
)


@given(
    columns=st.lists(st.tuples(COLUMNS, st.booleans(), st.booleans()), min_size=1, max_size=4),
    keys=st.none() | st.lists(WORDS, min_size=12, max_size=12),
)
def test_a_few_rows_are_sorted_as_many_are(
    columns: list[tuple[tuple[pl.DataType, list[object]], bool, bool]], keys: list[int] | None
) -> None:
    given_columns: list[Any] = [pl.Series("", values, dtype) for (dtype, values), _, _ in columns]
    descending, nulls_last = [each[1] for each in columns], [each[2] for each in columns]
    if keys is not None:
        given_columns.insert(0, np.array(keys, np.uint64))
        descending, nulls_last = [False, *descending], [False, *nulls_last]
    # A last column makes the order total: that of equal rows is not promised.
    given_columns.append(np.arange(12, dtype=np.uint64))
    flags = [*descending, False], [*nulls_last, False]
    found = [sorting.sorted_by(given_columns, *flags).tolist()]
    for passes in (0, 1, sorting.PASSES):
        with patch.multiple(sorting, MANY_ROWS=0, PASSES=passes):
            found.append(sorting.sorted_by(given_columns, *flags).tolist())
        with patch.multiple(sorting, PACKED_FROM=0, PASSES=passes):
            found.append(sorting.sorted_by(given_columns, *flags).tolist())
    sort_columns = [sorting.SortColumn(*each) for each in zip(given_columns, *flags, strict=True)]
    found.append(sorting._by_query(sort_columns).tolist())
    assert found == found[:1] * len(found)


@given(
    smallest=st.sampled_from([0, -3, 2**63 - 40, -(2**63)]),
    codes=st.lists(st.integers(0, 30), max_size=40),
    scale=st.sampled_from([1, 2**20, 2**52]),
)
def test_integers_that_lie_close_together_are_grouped_as_any(
    smallest: int, codes: list[int], scale: int
) -> None:
    integers = pl.Series([smallest + code for code in codes], dtype=pl.Int64)
    values = np.array([(code % 7 - 3) * scale for code in range(len(codes))], np.int64)
    keys = kernels.key_words([integers], len(codes))
    with patch.multiple(grouping, SMALL=0):
        groups = grouping.group(keys)
    distinct = sorted(set(keys.first.tolist()))
    assert groups.keys.first.tolist() == distinct
    assert groups.first_entries.tolist() == [keys.first.tolist().index(word) for word in distinct]
    assert groups.numbers.tolist() == [distinct.index(word) for word in keys.first.tolist()]
    for added in (values, np.ones(len(codes), np.int64)):
        expected = [int(added[keys.first == np.uint64(word)].sum()) for word in distinct]
        assert groups.sums(added).tolist() == expected
    ends = np.append(groups.starts[1:], len(codes)) if len(groups) else np.zeros(0, np.intp)
    segments = [groups.order[start:end].tolist() for start, end in zip(groups.starts, ends, strict=False)]
    assert segments[: len(groups)] == [
        np.flatnonzero(keys.first == np.uint64(word)).tolist() for word in distinct
    ]


@given(
    words=st.lists(WORDS, min_size=1, max_size=50),
    absent=st.lists(WORDS, max_size=20),
    steps=st.integers(0, 3),
    chunk=st.integers(1, 9),
)
def test_a_directory_finds_what_bisection_finds(
    words: list[int], absent: list[int], steps: int, chunk: int
) -> None:
    held, targets = np.array(sorted(words), np.uint64), np.array([*absent, *words], np.uint64)
    for few in (0, 2, directory_module.FEW_AHEAD):
        with patch.multiple(directory_module, FROM=1, STEPS=steps, FEW_AHEAD=few, CHUNK=chunk):
            directory = Directory.of(held)
            assert directory is not None
            assert directory.search(held, targets).tolist() == np.searchsorted(held, targets).tolist()
    maybe = directory.maybe(targets)
    assert maybe is not None
    assert set(np.flatnonzero(np.isin(targets, held)).tolist()) <= set(maybe.tolist())


@given(
    words=st.lists(WORDS, min_size=1, max_size=50),
    absent=st.lists(WORDS, max_size=20),
    cuts=st.lists(st.integers(1, 50), max_size=4),
    spare=st.integers(0, 40),
)
def test_a_directory_that_grows_finds_what_bisection_finds(
    words: list[int], absent: list[int], cuts: list[int], spare: int
) -> None:
    """Each part is written twice, at first with more words behind it, as where the epoch of a merge is discarded."""
    held, targets = np.array(sorted(words), np.uint64), np.array([*absent, *words], np.uint64)
    growing = GrowingDirectory.of(len(held) + spare)
    bounds = sorted({0, len(held), *(cut for cut in cuts if cut < len(held))})
    for start, end in itertools.pairwise(bounds):
        growing.with_part(start, held[start : end + 3])
        growing = growing.with_part(start, held[start:end])
    directory = growing.finished(len(held))
    assert directory.search(held, targets).tolist() == np.searchsorted(held, targets).tolist()
    maybe = directory.maybe(targets)
    assert maybe is not None
    assert set(np.flatnonzero(np.isin(targets, held)).tolist()) <= set(maybe.tolist())
    if not spare:
        assert directory.starts.tolist() == _starts(held).tolist()


def keys_of(pairs: Sequence[tuple[int, int]]) -> Keys:
    """Word pairs as keys; no second words if all are zero, as ``key_words`` would have it."""
    first: Words = np.array([first for first, _ in pairs], np.uint64)
    if not any(second for _, second in pairs):
        return Keys(first)
    return Keys(first, np.array([second for _, second in pairs], np.uint64))


PAIRS = st.lists(st.tuples(WORDS, st.integers(0, 2)), max_size=25)


@given(
    held=PAIRS.filter(bool),
    targets=PAIRS,
    from_size=st.sampled_from([1, 1000]),
    few=st.sampled_from([0, 1000]),
    further=st.sampled_from([0, run_module.FURTHER_ENTRIES, MANY]),
    most=st.sampled_from([0, run_module.DISTINCT_KEYS]),
)
def test_runs_find_exactly_the_keys_that_they_hold(
    held: list[tuple[int, int]],
    targets: list[tuple[int, int]],
    from_size: int,
    few: int,
    further: int,
    most: int,
) -> None:
    held, targets = sorted(held), sorted({*targets, *held[::2]})
    bounds = {"FROM": from_size, "FEW": few, "FURTHER_ENTRIES": further, "DISTINCT_KEYS": most}
    with patch.multiple(directory_module, FROM=from_size, FEW_AHEAD=0), patch.multiple(run_module, **bounds):
        distinct = sorted(set(held))
        ones = {DIFF: np.ones(len(distinct), np.int64)}
        run = make_run(Layout(), keys_of(distinct), pl.DataFrame(), ones)
        hit, position = run.match(keys_of(targets))
        assert [(targets[h], p) for h, p in zip(hit, position, strict=True)] == [
            (pair, distinct.index(pair)) for pair in targets if pair in distinct
        ]
        rows = Keys(np.arange(len(held), dtype=np.uint64))
        many = make_run(
            Layout(by_row=True), keys_of(held), pl.DataFrame(), {DIFF: np.ones(len(held), np.int64)}, rows
        )
        lower, upper = many.find(keys_of(targets))
        assert [end - start for start, end in zip(lower, upper, strict=True)] == [
            held.count(pair) for pair in targets
        ]
        assert all(held[at] == pair for pair, at in zip(targets, lower, strict=True) if pair in held)


ORDERS: tuple[tuple[Order, ...], ...] = (
    (),
    (Order("x"),),
    (Order("x", descending=True),),
    (Order("x", nulls_last=True), Order("y", descending=True)),
)
SCHEMA = pl.Schema({"x": pl.Float64(), "y": pl.Int64(), "s": pl.String()})
ROWS = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf"), None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from(["", "a"]),
)


def frame(entries: Sequence[tuple[tuple[object, ...], int]]) -> pl.DataFrame:
    columns = list(zip(*(row for row, _ in entries), strict=True)) or [()] * 4
    types = {"k": pl.Int64(), **SCHEMA}
    data = [pl.Series(n, list(c), t) for (n, t), c in zip(types.items(), columns, strict=True)]
    return pl.DataFrame([*data, pl.Series(DIFF, [diff for _, diff in entries], pl.Int64)])


def ordered(rows: pl.DataFrame, order: tuple[Order, ...]) -> pl.DataFrame:
    """Consolidated rows with a positive count, in this order and then by the whole row."""
    total = rows.group_by(pl.exclude(DIFF)).agg(pl.col(DIFF).sum()).filter(pl.col(DIFF) > 0)
    rest = [name for name in SCHEMA if name not in [each.column for each in order]]
    return total.sort(
        [*(each.column for each in order), *rest],
        descending=[*(each.descending for each in order), *[False] * len(rest)],
        nulls_last=[*(each.nulls_last for each in order), *[False] * len(rest)],
    )


def expected_rows(
    rows: pl.DataFrame, order: tuple[Order, ...], count: int | None
) -> list[list[tuple[object, ...]]]:
    result = []
    for key in (None, 1, 2, 3):
        of_key = ordered(rows.filter(pl.col("k").eq_missing(key)), order)
        found, left = [], count
        for *row, diff in of_key.drop("k").iter_rows():
            taken = diff if left is None else min(diff, left)
            left = None if left is None else left - taken
            found += [(*map(repr, map(positive_zero, row)), taken)] if taken else []
        result.append(found if order else sorted(found))
    return result


def positive_zero(cell: object) -> object:
    return cell + 0.0 if isinstance(cell, float) else cell


@of_profile(0.6, quick=30)
@given(
    settings=SETTINGS,
    collide=st.booleans(),
    epochs=st.lists(
        st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 2, 3, -1, -2])), max_size=8), max_size=12
    ),
    order=st.sampled_from(ORDERS),
    count=st.integers(1, 4),
)
def test_reading_before_and_after(
    settings: str,
    collide: bool,
    epochs: list[list[tuple[tuple[object, ...], int]]],
    order: tuple[Order, ...],
    count: int,
) -> None:
    """The first rows and all rows of every key, before and after every epoch, diffs of any sign."""
    with tiny(settings, collide=collide):
        layout = Layout(SCHEMA, by_row=True, order=order)
        spine = Spine(layout)
        so_far = frame([])
        keys = grouping.group(kernels.key_words([pl.Series("k", [None, 1, 2, 3], pl.Int64)], 4)).keys
        owners = kernels.column_of_words(keys, "k", pl.Int64()).to_list()
        for entries in epochs:
            before, so_far = so_far, pl.concat([so_far, frame(entries)])
            spine.stage(run_of_rows(layout, KeyColumns.of(["k"]), frame(entries)))
            read = [
                # Rows with equal sort keys but no order of ours may be cut anywhere: only all are read then.
                *([(rows_change(spine, keys, count), count)] if order else []),
                (rows_change(spine, keys, None), None),
            ]
            for (was, now), many in read:
                assert seen(was, owners, order) == expected_rows(before, order, many)
                assert seen(now, owners, order) == expected_rows(so_far, order, many)
            spine.commit()
            if order:
                assert seen(first_rows(spine, keys, count), owners, order) == expected_rows(
                    so_far, order, count
                )
            assert seen(all_rows(spine, keys), owners, order) == expected_rows(so_far, order, None)


def seen(
    found: KeyRows, owners: list[int | None], order: tuple[Order, ...]
) -> list[list[tuple[object, ...]]]:
    payload, diffs, places = found.payload, found.diffs, found.owners
    assert (np.diff(places) >= 0).all()
    result = {key: [] for key in (None, 1, 2, 3)}
    for place, row, diff in zip(places.tolist(), payload.iter_rows(), diffs.tolist(), strict=True):
        result[owners[place]].append((*map(repr, map(positive_zero, row)), diff))
    return [rows if order else sorted(rows) for rows in result.values()]


@given(
    settings=SETTINGS,
    collide=st.booleans(),
    epochs=st.lists(
        st.lists(st.tuples(st.sampled_from([0, 1, -1, 2**63 - 1, None]), st.integers(-2, 2)), max_size=5),
        max_size=14,
    ),
)
def test_totals_of_a_spine(settings: str, collide: bool, epochs: list[list[tuple[int | None, int]]]) -> None:
    """Sums by key, null beside zero, with additive columns that come and go; discarded epochs leave nothing."""
    domain = [0, 1, -1, 2**63 - 1, None]
    with tiny(settings, collide=collide):
        spine = Spine(Layout())
        keys = grouping.group(kernels.key_words([pl.Series("k", domain, pl.Int64)], len(domain))).keys
        shown = kernels.column_of_words(keys, "k", pl.Int64()).to_list()
        sums: dict[str, dict[int | None, int]] = {}
        for number, entries in enumerate(epochs):
            column = f"c{number % 3}"
            words = kernels.key_words([pl.Series("k", [k for k, _ in entries], pl.Int64)], len(entries))
            run = make_run(
                Layout(), words, pl.DataFrame(), {column: np.array([d for _, d in entries], np.int64)}
            )
            spine.stage(run)
            if number % 4 == 3:
                spine.discard()
            else:
                for key, diff in entries:
                    sums.setdefault(column, {}).setdefault(key, 0)
                    sums[column][key] += diff
                for name, values in totals_of(spine, keys, with_delta=True).items():
                    assert values == [sums.get(name, {}).get(key, 0) for key in shown], name
                spine.commit()
            found = totals_of(spine, keys)
            for name in ("c0", "c1", "c2"):
                assert found.get(name, [0] * len(shown)) == [sums.get(name, {}).get(key, 0) for key in shown]
            merged = spine.merged()
            assert len(merged) == len({k for column in sums.values() for k, total in column.items() if total})
            assert_sorted(merged)


def totals_of(spine: Spine, keys: Keys, *, with_delta: bool = False) -> dict[str, list[int]]:
    return {name: column.tolist() for name, column in spine.totals(keys, with_delta=with_delta).items()}


def assert_sorted(run: Run) -> None:
    order: Index = np.lexsort((run.keys.seconds(), run.keys.first))
    assert order.tolist() == list(range(len(run)))
