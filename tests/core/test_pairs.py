"""Sums and spreads in pairs of floats have the bits of those in exact integers, or are known to be uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evercurrent.core.data.columns.exact import (
    float_limbs,
    float_limbs_and_squares,
    limbs_of,
    nearest,
    spreads,
)
from evercurrent.core.data.columns.pairs import BLOCK, nearest_of_limbs, spreads_of_limbs

NEAR = st.floats(-1e6, 1e6, allow_subnormal=False)
CLOSE = st.integers(-3, 3).map(lambda steps: 1e8 + steps * 2.0**-26)
FAR = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.one_of(
    *(
        st.lists(st.tuples(st.integers(0, 3), each, st.integers(-2, 4)), min_size=1, max_size=30)
        for each in (NEAR, CLOSE, FAR)
    )
)


def exact_spread(rows: list[tuple[int, float, int]], group: int) -> Fraction:
    """The count times the sum of squares, less the square of the sum, of a group."""
    mine = [(Fraction(value), diff) for key, value, diff in rows if key == group]
    total = sum((value * diff for value, diff in mine), Fraction(0))
    return (
        sum(diff for _, diff in mine) * sum((value * value * diff for value, diff in mine), Fraction(0))
        - total**2
    )


@given(rows=ROWS)
def test_what_is_certain_is_the_nearest_float(rows: list[tuple[int, float, int]]) -> None:
    keys, values, diffs = (np.array(column) for column in zip(*rows, strict=True))
    columns = float_limbs_and_squares("s", "q", values, diffs)
    sums = {
        name: np.array([column[keys == key].sum() for key in range(4)]) for name, column in columns.items()
    }
    counts = np.array([diffs[keys == key].sum() for key in range(4)])
    totals = [
        sum((Fraction(value) * diff for key, value, diff in rows if key == group), Fraction(0))
        for group in range(4)
    ]
    if all(abs(total) < 2**1000 for total in totals):
        assert nearest("s", sums, 4).tolist() == [float(total) for total in totals]
    quick = nearest_of_limbs(limbs_of("s", sums))
    if quick is not None:
        assert [
            value for value, is_certain in zip(*map(np.ndarray.tolist, quick), strict=True) if is_certain
        ] == [float(total) for total, is_certain in zip(totals, quick[1].tolist(), strict=True) if is_certain]
    expected = [exact_spread(rows, group) for group in range(4)]
    quick = spreads_of_limbs(limbs_of("s", sums), limbs_of("q", sums), counts)
    if quick is not None:
        for spread, value, is_certain in zip(expected, *map(np.ndarray.tolist, quick), strict=True):
            assert not is_certain or value == float(spread)
    rounded, exponents = spreads("s", "q", sums, counts, np.ones(4, np.bool_))
    for spread, value, exponent in zip(expected, rounded.tolist(), exponents.tolist(), strict=True):
        scaled = spread / Fraction(2) ** exponent
        assert value == float(scaled)


def test_ties_are_left_to_integers() -> None:
    """A spread that lies between two floats, exactly or by less than a pair of floats shows, is uncertain."""
    values, diffs = np.array([1.0, 2.0**53 + 2, 2.0**53 + 4]), np.ones(3, np.int64)
    limbs = float_limbs_and_squares("s", "q", values, diffs)
    sums = {name: np.array([column.sum(), column[1:].sum(), column[1]]) for name, column in limbs.items()}
    quick = spreads_of_limbs(limbs_of("s", sums), limbs_of("q", sums), np.array([3, 2, 1]))
    assert quick is not None
    assert not quick[1][2], "the spread of one value is nothing but rounding"
    assert spreads("s", "q", sums, np.array([3, 2, 1]), np.ones(3, np.bool_))[0][2] == 0


def test_many_rows_are_rounded_as_few_are() -> None:
    """Rows are computed some at a time: the same bits as when each part is given alone."""
    random, rows = np.random.default_rng(5), 2 * BLOCK + 3
    totals = {number: random.integers(-(2**40), 2**40, rows) for number in (-2, -1, 0)}
    squares = {number: random.integers(0, 2**44, rows) for number in (-3, -2, -1, 0)}
    counts = random.integers(1, 50, rows)
    together = spreads_of_limbs(totals, squares, counts)
    assert together is not None
    for start in range(0, rows, 5_000):
        part = slice(start, start + 5_000)
        alone = spreads_of_limbs(
            {number: limb[part] for number, limb in totals.items()},
            {number: limb[part] for number, limb in squares.items()},
            counts[part],
        )
        assert alone is not None
        both = together[1][part] & alone[1]
        assert both.mean() > 0.9
        np.testing.assert_array_equal(together[0][part][both], alone[0][both])
    totals[0][-1] = 2**53 + 1
    assert spreads_of_limbs(totals, squares, counts) is None, "one far sum is in the last part"


@pytest.mark.parametrize(("least", "exponents"), [(2.0**-100, [0, 20]), (2.0**-900, range(-800, 997, 97))])
def test_a_tie_is_broken_by_a_limb_far_below(least: float, exponents: Sequence[int]) -> None:
    """Halfway between two floats a sum is rounded to the even one, unless there is anything more, be it ever so little."""
    halves = [2.0**exponent for exponent in exponents]
    rows = [[each, each * 2.0**-53, more] for each in halves for more in (0.0, least)]
    keys = np.repeat(np.arange(len(rows)), 3)
    columns = float_limbs("s", np.array(rows).ravel(), np.ones(3 * len(rows), np.int64))
    sums = {
        name: np.array([column[keys == key].sum() for key in range(len(rows))])
        for name, column in columns.items()
    }
    assert nearest("s", sums, len(rows)).tolist() == [float(sum(map(Fraction, row))) for row in rows]


def test_many_spreads_of_far_limbs_are_those_of_each_part() -> None:
    random, rows = np.random.default_rng(6), 2 * BLOCK + 3
    values = random.choice([1e300, 5e-324, -1.5, 0.0, 1e9], 2 * rows)
    columns = float_limbs_and_squares("s", "q", values, np.ones(2 * rows, np.int64))
    sums = {name: column[::2] + column[1::2] for name, column in columns.items()}
    counts, needed = np.full(rows, 2), np.ones(rows, np.bool_)
    together = spreads("s", "q", sums, counts, needed)
    for start in range(0, rows, 5_000):
        part = slice(start, start + 5_000)
        alone = spreads(
            "s", "q", {name: column[part] for name, column in sums.items()}, counts[part], needed[part]
        )
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(one[part], other)
