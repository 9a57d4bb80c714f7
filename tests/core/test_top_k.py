"""The first rows by an order, edge by edge; more of them are in test_top_k.transcript.yaml."""

from math import inf, nan
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}}
FLOATS = {"a": {"k": pl.Int64, "x": pl.Float64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


CASES = [
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
