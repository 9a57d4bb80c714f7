"""The oracle against itself: what it hands to polars, done again with loops over dictionaries."""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf, nan
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

from oracle import Bag, Row, rows_of, upserted
from strategies import Case, Program, cases, evaluate, never_below_zero, of_profile

LEFT = {"k": pl.Int64(), "x": pl.Int64()}
RIGHT = {"k": pl.Int64(), "y": pl.Int64()}
cells = st.sampled_from([0, 1, 2, None])
pairs = st.tuples(cells, cells)


def bags(columns: dict[str, Any], diffs: st.SearchStrategy[int]) -> st.SearchStrategy[Bag]:
    return st.dictionaries(pairs, diffs, max_size=6).map(lambda counts: Bag(columns, counts))


counted = st.integers(1, 3)
signed = st.integers(-2, 2)


@pytest.mark.parametrize("nulls_equal", [False, True])
@of_profile(quick=25)
@given(left=bags(LEFT, counted), right=bags(RIGHT, counted))
def test_every_join_is_the_loop_over_pairs(left: Bag, right: Bag, nulls_equal: bool) -> None:
    loops: dict[str, Counter[Row]] = defaultdict(Counter)
    for (k, x), n in left.counts.items():
        partners = {
            (j, y): m for (j, y), m in right.counts.items() if j == k and (nulls_equal or k is not None)
        }
        for (j, y), m in partners.items():
            for how in ("inner", "left", "full"):
                loops[how][(k, x, *([j] if how == "full" else []), y)] += n * m
        loops["semi" if partners else "anti"][k, x] += n
        if not partners:
            loops["left"][k, x, None] += n
            loops["full"][k, x, None, None] += n
    for (j, y), m in right.counts.items():
        if not any(j == k and (nulls_equal or k is not None) for k, _ in left.counts):
            loops["full"][None, None, j, y] += m
    for how in ("inner", "left", "full", "semi", "anti"):
        joined = left.join(right, on="k", how=how, nulls_equal=nulls_equal)
        assert joined.counts == loops[how], how
    mirrored = left.join(right, on="k", how="right", nulls_equal=nulls_equal).select("k", "y", "x")
    assert mirrored == right.join(left, on="k", how="left", nulls_equal=nulls_equal)


@given(left=bags(LEFT, signed), right=bags(RIGHT, signed))
def test_inner_and_cross_join_multiply_diffs_of_any_sign(left: Bag, right: Bag) -> None:
    crossed = {(*one, *two): n * m for one, n in left.counts.items() for two, m in right.counts.items()}
    assert left.join(right, how="cross").counts == crossed
    equal = {(k, x, y): n for (k, x, j, y), n in crossed.items() if k is not None and k == j}
    assert left.join(right, on="k").counts == equal


PLAIN: dict[str, Callable[[list[Any]], Any]] = {
    "pl.len()": len,
    "pl.col('x').count()": lambda xs: len([x for x in xs if x is not None]),
    "pl.col('x').null_count()": lambda xs: xs.count(None),
    "pl.col('x').sum()": lambda xs: sum(x for x in xs if x is not None),
    "pl.col('x').min()": lambda xs: min((x for x in xs if x is not None), default=None),
    "pl.col('x').max()": lambda xs: max((x for x in xs if x is not None), default=None),
    "pl.col('x').n_unique()": lambda xs: len(set(xs)),
    "pl.col('x').implode()": lambda xs: tuple(sorted(xs, key=lambda x: (x is not None, x))),
    "(pl.col('x') > 0).any()": lambda xs: any(x is not None and x > 0 for x in xs),
    "(pl.col('x') > 0).all()": lambda xs: all(x > 0 for x in xs if x is not None),
}


@pytest.mark.parametrize("text", PLAIN)
@of_profile(quick=25)
@given(bag=bags(LEFT, counted))
def test_a_group_is_a_list_of_values(text: str, bag: Bag) -> None:
    values: dict[int | None, list[int | None]] = defaultdict(list)
    for (k, x), n in bag.counts.items():
        values[k] += [x] * n
    expr = evaluate(text, {}).alias("u")
    assert bag.group_by("k").agg(expr).counts == {(k, PLAIN[text](xs)): 1 for k, xs in values.items()}
    everything = [x for xs in values.values() for x in xs]
    assert bag.group_by().agg(u=expr).counts == {(PLAIN[text](everything),): 1}


@given(bag=bags(LEFT, signed))
def test_what_adds_up_is_a_sum_over_diffs_of_any_sign(bag: Bag) -> None:
    totals: dict[int | None, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (k, x), n in bag.counts.items():
        totals[k] = [one + n * two for one, two in zip(totals[k], (1, x is not None, x or 0), strict=True)]
    grouped = bag.group_by("k").agg(pl.len(), n=pl.col("x").count(), s=pl.col("x").sum())
    assert grouped.counts == {(k, *total): 1 for k, total in totals.items() if total[0]}


@given(bag=bags(LEFT, counted), k=st.integers(0, 4), descending=st.booleans())
def test_top_k_takes_from_the_sorted_list(bag: Bag, k: int, descending: bool) -> None:
    def order(row: Row) -> Any:
        value = row[1]
        primary = (value is None, 0 if value is None else -value if descending else value)
        return primary, [(cell is not None, cell) for cell in row]

    listed = sorted((row for row, n in bag.counts.items() for _ in range(n)), key=order)
    taken = bag.top_k(k, by="x") if descending else bag.bottom_k(k, by="x")
    assert taken.counts == Counter(listed[:k])
    by_group = bag.group_by("k").bottom_k(k, by="x", reverse=descending)
    first = [row for at, row in enumerate(listed) if [other[0] for other in listed[:at]].count(row[0]) < k]
    assert by_group.counts == Counter(first)


def test_nan_is_one_value_and_zero_has_no_sign() -> None:
    bag = Bag.of(pl.DataFrame({"x": [nan, -nan, 0.0, -0.0], "_diff": [2, -1, 1, -1]}))
    assert list(bag.counts.values()) == [1]
    assert Bag.of(pl.DataFrame({"x": [nan]})) == bag


def test_an_upsert_replaces_and_a_delete_reads_only_the_key() -> None:
    history: list[list[tuple[dict[str, Any], int]]] = [
        [({"id": 1, "v": "a"}, 1), ({"id": 1, "v": "b"}, 1), ({"id": 2, "v": "c"}, 1)],
        [({"id": 1, "v": None}, -1), ({"id": 3, "v": "d"}, -1)],
    ]
    assert upserted(history, ["id"]) == [(2, "c")]


@given(case=cases(trusted=False))
def test_valid_histories_never_go_below_zero(case: Case) -> None:
    for until in range(1 + len(case.epochs)):
        for source in case.program.sources:
            assert all(n > 0 for n in case.total(source, until).diffs)
    assert never_below_zero(case.epochs) == case.epochs


@given(case=cases())
def test_a_case_prints_as_source(case: Case) -> None:
    pasted = evaluate(repr(case), {"Case": Case, "Program": Program, "inf": inf, "nan": nan})
    assert pasted.program == case.program
    assert repr(pasted) == repr(case)


def test_rows_of_nested_values_can_be_keys() -> None:
    frame = pl.DataFrame({"x": [[1.0, nan], None], "y": [{"a": [-0.0]}, {"a": None}]})
    bag = Bag.of(frame)
    assert set(bag.counts) == set(rows_of(frame))
    assert bag.frame().equals(pl.DataFrame({"x": [[1.0, nan], None], "y": [{"a": [0.0]}, {"a": None}]}))
