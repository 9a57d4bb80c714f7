"""The first rows by an order, edge by edge."""

from math import inf, nan
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}}
FLOATS = {"a": {"k": pl.Int64, "x": pl.Float64}}
TEXTS = {"a": {"k": pl.String, "x": pl.Int64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


CASES = [
    case(
        "exactly the rows that pass the boundary move",
        INTS,
        "a.top_k(2, by='x')",
        (plus((1, 10), (2, 20), (3, 30)), plus((2, 20), (3, 30))),
        (plus((4, 25)), [*minus((2, 20)), *plus((4, 25))]),
        (plus((5, 5)), []),
        (minus((3, 30)), [*minus((3, 30)), *plus((2, 20))]),
        (minus((1, 10)), []),
        (minus((4, 25), (2, 20)), [*minus((4, 25), (2, 20)), *plus((5, 5))]),
    ),
    case(
        "fewer rows than asked for",
        INTS,
        "a.bottom_k(3, by='x')",
        (plus((1, 10)), plus((1, 10))),
        (minus((1, 10)), minus((1, 10))),
    ),
    case(
        "a row with diff 3 is three rows, and the boundary cuts through it",
        INTS,
        "a.top_k(2, by='x')",
        ([((1, 10), 3)], [((1, 10), 2)]),
        (plus((2, 20)), [((1, 10), -1), ((2, 20), 1)]),
        ([((1, 10), -2)], []),
        ([((1, 10), -1)], [((1, 10), -1)]),
    ),
    case(
        "ties are settled by the whole row, ascending by columns in order, whichever way the order goes",
        INTS,
        "a.top_k(1, by='x')",
        (plus((5, 1)), plus((5, 1))),
        (plus((3, 1)), [*minus((5, 1)), *plus((3, 1))]),
        (plus((None, 1)), [*minus((3, 1)), *plus((None, 1))]),
        (minus((None, 1), (3, 1)), [*minus((None, 1)), *plus((5, 1))]),
    ),
    case(
        "nulls come last in top_k",
        INTS,
        "a.top_k(2, by='x')",
        (plus((1, None), (2, 5)), plus((1, None), (2, 5))),
        (plus((3, 1)), [*minus((1, None)), *plus((3, 1))]),
    ),
    case(
        "nulls come last in bottom_k",
        INTS,
        "a.bottom_k(1, by='x')",
        (plus((1, None)), plus((1, None))),
        (plus((3, 9)), [*minus((1, None)), *plus((3, 9))]),
    ),
    case(
        "nulls come last in top_k reversed",
        INTS,
        "a.top_k(1, by='x', reverse=True)",
        (plus((1, None), (2, 5), (3, 1)), plus((3, 1))),
    ),
    case(
        "limit takes nulls first",
        INTS,
        "a.limit(1, by='x')",
        (plus((1, 0)), plus((1, 0))),
        (plus((2, None)), [*minus((1, 0)), *plus((2, None))]),
    ),
    case(
        "limit, nulls last",
        INTS,
        "a.limit(1, by='x', nulls_last=True)",
        (plus((2, None)), plus((2, None))),
        (plus((1, 0)), [*minus((2, None)), *plus((1, 0))]),
    ),
    case(
        "limit descending",
        INTS,
        "a.limit(1, by='x', descending=True, nulls_last=True)",
        (plus((1, 1), (2, 2), (3, None)), plus((2, 2))),
    ),
    case(
        "NaN is above all numbers",
        FLOATS,
        "a.top_k(1, by='x')",
        (plus((1, inf)), plus((1, inf))),
        (plus((2, nan)), [*minus((1, inf)), *plus((2, nan))]),
        (minus((2, nan)), [*plus((1, inf)), *minus((2, nan))]),
    ),
    case(
        "zero and minus zero tie",
        FLOATS,
        "a.bottom_k(1, by='x')",
        (plus((2, -0.0)), plus((2, 0.0))),
        (plus((1, 0.0)), [*minus((2, 0.0)), *plus((1, 0.0))]),
    ),
    case(
        "by group, null being a group",
        TEXTS,
        "a.group_by('k').top_k(1, by='x')",
        (plus(("a", 1), (None, 2), ("b", 3), (None, 1)), plus(("a", 1), (None, 2), ("b", 3))),
        (plus(("a", 4), (None, 3)), [*minus(("a", 1), (None, 2)), *plus(("a", 4), (None, 3))]),
        (minus(("a", 4), ("b", 3)), [*minus(("a", 4), ("b", 3)), *plus(("a", 1))]),
    ),
    case(
        "by two columns, the second decides",
        TEXTS,
        "a.bottom_k(2, by=['k', 'x'])",
        (plus(("b", 1), ("a", 9), ("a", 8)), plus(("a", 8), ("a", 9))),
        (minus(("a", 8)), [*minus(("a", 8)), *plus(("b", 1))]),
    ),
    case(
        "by two columns in two directions",
        TEXTS,
        "a.top_k(2, by=['k', 'x'], reverse=[False, True])",
        (plus(("a", 1), ("b", 9), ("b", 8), ("b", 7)), plus(("b", 7), ("b", 8))),
    ),
    case(
        "the whole head is retracted at once and the rows behind move up",
        INTS,
        "a.bottom_k(2, by='x')",
        (plus(*((0, x) for x in range(50))), plus((0, 0), (0, 1))),
        (minus(*((0, x) for x in range(45))), [*minus((0, 0), (0, 1)), *plus((0, 45), (0, 46))]),
    ),
]


@pytest.mark.parametrize(("sources", "plan", "steps"), CASES)
def test_top_k(sources: dict[str, dict[str, Any]], plan: str, steps: tuple[Step, ...]) -> None:
    check_steps(sources, plan, steps)


def test_a_head_that_is_retracted_row_by_row_through_many_runs() -> None:
    steps: list[Step] = [(plus(*((0, x) for x in range(n, 3000, 10))), []) for n in range(10)]
    expected: list[Step] = []
    for n, (pushed, _) in enumerate(steps):
        before = [] if n == 0 else [(0, 2990 + n - 1)]
        expected.append((pushed, [*minus(*before), *plus((0, 2990 + n))]))
    expected += [(minus((0, x)), [*minus((0, x)), *plus((0, x - 1))]) for x in range(2999, 2900, -1)]
    check_steps(INTS, "a.top_k(1, by='x')", expected)
