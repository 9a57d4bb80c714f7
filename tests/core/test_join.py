"""Joins, edge by edge; most of them are in test_join.transcript.yaml."""

from math import nan
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}, "b": {"k": pl.Int64, "y": pl.Int64}}
FLOATS = {"a": {"k": pl.Float64, "x": pl.Int64}, "b": {"k": pl.Float64, "y": pl.Int64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


def on_k(how: str, more: str = "") -> str:
    return f"a.join(b, on='k', how='{how}'{more})"


CASES = [
    case(
        "NaN matches NaN, and zero the other zero, as in polars",
        FLOATS,
        on_k("inner"),
        ({"a": plus((nan, 1), (0.0, 2)), "b": plus((-nan, 3), (-0.0, 4))}, plus((nan, 1, 3), (0.0, 2, 4))),
    ),
]


@pytest.mark.parametrize(("sources", "plan", "steps"), CASES)
def test_join(sources: dict[str, dict[str, Any]], plan: str, steps: tuple[Step, ...]) -> None:
    check_steps(sources, plan, steps)


@pytest.mark.parametrize("how", ["inner", "cross"])
def test_diffs_of_any_sign_multiply(how: str) -> None:
    plan = "a.join(b, how='cross').select('k', 'x', 'y')" if how == "cross" else on_k("inner")
    check_steps(
        INTS,
        plan,
        [
            ({"a": minus((1, 10)), "b": [((1, 20), -2)]}, [((1, 10, 20), 2)]),
            ({"a": [((1, 10), 2)]}, [((1, 10, 20), -4)]),
            ({"b": [((1, 20), 2)]}, [((1, 10, 20), 2)]),
        ],
        trusted=True,
    )
