"""Each row once, edge by edge."""

from math import nan
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"x": pl.Int64}}
WIDE = {"a": {"x": pl.String, "y": pl.Float64}}
LISTS = {"a": {"x": pl.List(pl.Int64)}}


@pytest.mark.parametrize(
    ("sources", "steps"),
    [
        pytest.param(
            INTS,
            [([((1,), 3)], plus((1,))), ([((1,), -2)], []), (minus((1,)), minus((1,)))],
            id="only the first and the last copy are mentioned",
        ),
        pytest.param(
            INTS,
            [(plus((1,)), plus((1,))), ([*minus((1,)), *plus((1,))], [])],
            id="gone and back in one epoch",
        ),
        pytest.param(
            INTS,
            [(plus((None,), (0,)), plus((None,), (0,))), (minus((None,)), minus((None,)))],
            id="null is not zero",
        ),
        pytest.param(
            WIDE,
            [
                (plus(("a", nan), ("a", -nan), (None, 0.0), (None, -0.0)), plus(("a", nan), (None, 0.0))),
                (minus(("a", nan), (None, 0.0)), []),
                (minus(("a", nan), (None, -0.0)), minus(("a", nan), (None, 0.0))),
            ],
            id="all NaN are one value, and both zeros",
        ),
        pytest.param(
            LISTS,
            [
                (plus(([],), (None,), ([None],), ([1],)), plus(([],), (None,), ([None],), ([1],))),
                (minus(([],), ([1],)), minus(([],), ([1],))),
            ],
            id="an empty list is not null nor a list of null",
        ),
    ],
)
def test_unique(sources: dict[str, dict[str, Any]], steps: list[Step]) -> None:
    check_steps(sources, "a.unique()", steps)


def test_a_row_counts_only_above_zero() -> None:
    check_steps(
        INTS,
        "a.unique()",
        [
            ([((1,), -1)], []),
            ([((1,), 1)], []),
            ([((1,), 2)], plus((1,))),
            ([((1,), -3)], minus((1,))),
            ([((1,), 1)], []),
        ],
        trusted=True,
    )
