"""Joins, edge by edge: what is pushed and the exact delta that comes out."""

from math import nan
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}, "b": {"k": pl.Int64, "y": pl.Int64}}
FLOATS = {"a": {"k": pl.Float64, "x": pl.Int64}, "b": {"k": pl.Float64, "y": pl.Int64}}
TWO_KEYS = {
    "a": {"k": pl.Int64, "j": pl.String, "x": pl.Int64},
    "b": {"k": pl.Int64, "j": pl.String, "y": pl.Int64},
}
SAME = {"a": {"k": pl.Int64, "x": pl.Int64}, "b": {"k": pl.Int64, "x": pl.Int64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


def on_k(how: str, more: str = "") -> str:
    return f"a.join(b, on='k', how='{how}'{more})"


CASES = [
    case(
        "inner: a row meets partners of the same epoch and of all before",
        INTS,
        on_k("inner"),
        ({"a": plus((1, 10)), "b": plus((1, 20))}, plus((1, 10, 20))),
        ({"a": plus((1, 11)), "b": plus((1, 21))}, plus((1, 11, 20), (1, 10, 21), (1, 11, 21))),
        ({"a": minus((1, 10)), "b": minus((1, 20))}, minus((1, 10, 20), (1, 10, 21), (1, 11, 20))),
    ),
    case(
        "inner: diffs multiply",
        INTS,
        on_k("inner"),
        ({"a": [((1, 10), 2)], "b": [((1, 20), 3)]}, [((1, 10, 20), 6)]),
        ({"a": minus((1, 10))}, [((1, 10, 20), -3)]),
    ),
    case(
        "null keys match nothing",
        INTS,
        on_k("inner"),
        ({"a": plus((None, 1)), "b": plus((None, 2))}, []),
    ),
    case(
        "null keys match each other if asked to",
        INTS,
        on_k("inner", ", nulls_equal=True"),
        ({"a": plus((None, 1), (0, 1)), "b": plus((None, 2))}, plus((None, 1, 2))),
        ({"b": plus((0, 3)), "a": minus((None, 1))}, [*minus((None, 1, 2)), *plus((0, 1, 3))]),
    ),
    case(
        "left: a null key is kept and never matched",
        INTS,
        on_k("left"),
        ({"a": plus((None, 1)), "b": plus((None, 2))}, plus((None, 1, None))),
        ({"a": minus((None, 1))}, minus((None, 1, None))),
    ),
    case(
        "a key of which one part is null matches nothing",
        TWO_KEYS,
        "a.join(b, on=['k', 'j'], how='full')",
        (
            {"a": plus((1, None, 10)), "b": plus((1, None, 20))},
            plus((1, None, 10, None, None, None), (None, None, None, 1, None, 20)),
        ),
    ),
    case(
        "a key of which one part is null matches its like if asked to",
        TWO_KEYS,
        "a.join(b, on=['k', 'j'], nulls_equal=True)",
        ({"a": plus((1, None, 10), (None, "a", 11)), "b": plus((1, None, 20))}, plus((1, None, 10, 20))),
    ),
    case(
        "NaN matches NaN, and zero the other zero, as in polars",
        FLOATS,
        on_k("inner"),
        ({"a": plus((nan, 1), (0.0, 2)), "b": plus((-nan, 3), (-0.0, 4))}, plus((nan, 1, 3), (0.0, 2, 4))),
    ),
    case(
        "left: the first partner takes the place of null, the last gives it back",
        INTS,
        on_k("left"),
        ({"a": plus((1, 10))}, plus((1, 10, None))),
        ({"b": plus((1, 20))}, [*minus((1, 10, None)), *plus((1, 10, 20))]),
        ({"b": plus((1, 21))}, plus((1, 10, 21))),
        ({"b": minus((1, 20))}, minus((1, 10, 20))),
        ({"b": minus((1, 21))}, [*minus((1, 10, 21)), *plus((1, 10, None))]),
    ),
    case(
        "left: a partner exchanged for another never leaves a gap",
        INTS,
        on_k("left"),
        ({"a": plus((1, 10)), "b": plus((1, 20))}, plus((1, 10, 20))),
        ({"b": [*minus((1, 20)), *plus((1, 21))]}, [*minus((1, 10, 20)), *plus((1, 10, 21))]),
    ),
    case(
        "left: a row and its partner come together, and go together",
        INTS,
        on_k("left"),
        ({"a": plus((1, 10)), "b": plus((1, 20))}, plus((1, 10, 20))),
        ({"a": minus((1, 10)), "b": minus((1, 20))}, minus((1, 10, 20))),
    ),
    case(
        "left: a second row of the same key is unmatched twice",
        INTS,
        on_k("left"),
        ({"a": [((1, 10), 2)]}, [((1, 10, None), 2)]),
        ({"b": [((1, 20), 3)]}, [((1, 10, None), -2), ((1, 10, 20), 6)]),
        ({"a": minus((1, 10)), "b": [((1, 20), -3)]}, [((1, 10, 20), -6), ((1, 10, None), 1)]),
    ),
    case(
        "left: a partner whose values are null is a partner",
        INTS,
        on_k("left"),
        ({"a": plus((1, 10)), "b": plus((1, None))}, plus((1, 10, None))),
        ({"b": minus((1, None))}, []),
    ),
    case(
        "right: the columns of the key are those of the right",
        INTS,
        on_k("right"),
        ({"a": plus((2, 10)), "b": plus((1, 20))}, plus((None, 1, 20))),
        ({"a": plus((1, 11))}, [*minus((None, 1, 20)), *plus((11, 1, 20))]),
    ),
    case(
        "full: both sides wait alone until they meet",
        INTS,
        on_k("full"),
        ({"a": plus((1, 10)), "b": plus((2, 20))}, plus((1, 10, None, None), (None, None, 2, 20))),
        ({"a": plus((2, 11))}, [*minus((None, None, 2, 20)), *plus((2, 11, 2, 20))]),
        ({"b": minus((2, 20))}, [*minus((2, 11, 2, 20)), *plus((2, 11, None, None))]),
    ),
    case(
        "full and coalesced: one column of the key",
        INTS,
        on_k("full", ", coalesce=True"),
        ({"a": plus((1, 10)), "b": plus((2, 20))}, plus((1, 10, None), (2, None, 20))),
        (
            {"a": plus((2, 11)), "b": plus((1, 21))},
            [*minus((1, 10, None), (2, None, 20)), *plus((2, 11, 20), (1, 10, 21))],
        ),
    ),
    case(
        "semi: a second partner changes nothing, the last one does",
        INTS,
        on_k("semi"),
        ({"a": plus((1, 10), (1, 11)), "b": plus((1, 20), (1, 21))}, plus((1, 10), (1, 11))),
        ({"b": minus((1, 20))}, []),
        ({"b": minus((1, 21)), "a": plus((1, 12))}, minus((1, 10), (1, 11))),
        ({"b": plus((1, 5))}, plus((1, 10), (1, 11), (1, 12))),
    ),
    case(
        "anti: rows stand while there is no partner; null keys always",
        INTS,
        on_k("anti"),
        ({"a": plus((1, 10), (None, 11)), "b": plus((None, 20))}, plus((1, 10), (None, 11))),
        ({"b": plus((1, 20))}, minus((1, 10))),
        ({"b": minus((1, 20)), "a": minus((1, 10))}, []),
    ),
    case(
        "cross: every pair, of the same epoch too",
        INTS,
        "a.join(b, how='cross')",
        ({"a": plus((1, 10))}, []),
        ({"b": plus((2, 20)), "a": plus((None, 11))}, plus((1, 10, 2, 20), (None, 11, 2, 20))),
        ({"a": minus((1, 10))}, minus((1, 10, 2, 20))),
    ),
    case(
        "a column of both sides gets the suffix",
        SAME,
        "a.join(b, on='k', suffix='_other').select('x_other', 'x')",
        ({"a": plus((1, 10)), "b": plus((1, 20))}, plus((20, 10))),
    ),
    case(
        "self: pairs of one key, old with new and new with new",
        SAME,
        "a.join(a, on='k')",
        (plus((1, 10)), plus((1, 10, 10))),
        (plus((1, 11)), plus((1, 10, 11), (1, 11, 10), (1, 11, 11))),
        (minus((1, 10)), minus((1, 10, 10), (1, 10, 11), (1, 11, 10))),
    ),
    case(
        "self: a row with diff 2 stands in four pairs",
        SAME,
        "a.join(a, on='k')",
        ([((1, 10), 2)], [((1, 10, 10), 4)]),
        (minus((1, 10)), [((1, 10, 10), -3)]),
    ),
    case(
        "self: parents of rows by another column",
        SAME,
        "a.join(a, left_on='x', right_on='k', how='left')",
        (plus((2, 1)), plus((2, 1, None))),
        (plus((1, 7)), [*minus((2, 1, None)), *plus((2, 1, 7), (1, 7, None))]),
        (minus((1, 7)), [*plus((2, 1, None)), *minus((2, 1, 7), (1, 7, None))]),
    ),
    case(
        "a join with a grouping of itself moves with every change of the grouping",
        SAME,
        "a.join(a.group_by('k').agg(top=pl.col('x').max()), on='k').filter(pl.col('x') == pl.col('top'))",
        (plus((1, 10), (1, 9)), plus((1, 10, 10))),
        (plus((1, 11)), [*minus((1, 10, 10)), *plus((1, 11, 11))]),
        (minus((1, 11), (1, 10)), [*minus((1, 11, 11)), *plus((1, 9, 9))]),
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
