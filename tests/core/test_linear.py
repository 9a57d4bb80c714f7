"""Row by row operators, edge by edge."""

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

from harness import Step, check_steps, minus, plus

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}}
TWO = {"a": {"k": pl.Int64, "x": pl.Int64}, "b": {"k": pl.Int64, "x": pl.Int64}}
LISTS = {"a": {"k": pl.Int64, "x": pl.List(pl.Int64)}}
PAIRS = {"a": {"k": pl.Int64, "x": pl.List(pl.Int64), "y": pl.List(pl.String)}}
STRUCTS = {"a": {"k": pl.Struct({"p": pl.Int64, "q": pl.String}), "x": pl.Int64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


CASES = [
    case(
        "filter: null is not true",
        INTS,
        "a.filter(pl.col('x') > 1)",
        (plus((1, None), (1, 1), (1, 2)), plus((1, 2))),
        (minus((1, None), (1, 2)), minus((1, 2))),
    ),
    case(
        "filter: several conditions and a constraint, all must hold",
        INTS,
        "a.filter(pl.col('x') > 1, pl.col('x') < 9, k=1)",
        (plus((1, 5), (2, 5), (1, 9), (None, 5)), plus((1, 5))),
    ),
    case(
        "select: rows that become equal are added up",
        INTS,
        "a.select('k')",
        (plus((1, 1), (1, 2)), [((1,), 2)]),
        ([*minus((1, 1)), *plus((1, 3))], []),
    ),
    case(
        "select: a literal beside columns, and only literals",
        INTS,
        "a.select(pl.lit('z').alias('c'))",
        (plus((1, 1), (1, 2)), [(("z",), 2)]),
        (minus((1, 1)), minus(("z",))),
    ),
    case(
        "select: columns in another order, one of them twice",
        INTS,
        "a.select('x', 'k', y=pl.col('x') + 1)",
        (plus((1, 2)), plus((2, 1, 3))),
    ),
    case(
        "with_columns: replaced and added, the old values seen by both",
        INTS,
        "a.with_columns(x=pl.col('x') * 2, y=pl.col('x') + 1)",
        (plus((1, 2), (1, None)), plus((1, 4, 3), (1, None, None))),
        ([((1, 2), -1)], [((1, 4, 3), -1)]),
    ),
    case(
        "rename, drop and cast",
        INTS,
        "a.rename({'k': 'x', 'x': 'k'}).cast({'k': pl.String}).drop('x')",
        (plus((1, 2)), plus(("2",))),
    ),
    case(
        "rename: two columns trade names",
        INTS,
        "a.rename({'k': 'x', 'x': 'k'})",
        (plus((1, 2)), plus((1, 2))),
    ),
    case(
        "cast: a date to an instant",
        {"a": {"k": pl.Date}},
        "a.cast(pl.Datetime('us'))",
        (plus((None,)), plus((None,))),
        (plus((date(1970, 1, 2),)), plus((datetime(1970, 1, 2),))),
    ),
    case(
        "explode: a null list gives a row with null, an empty one none, as in polars",
        LISTS,
        "a.explode('x')",
        (
            plus((1, [5, 6]), (2, []), (3, None), (4, [None])),
            plus((1, 5), (1, 6), (3, None), (4, None)),
        ),
        (minus((1, [5, 6])), minus((1, 5), (1, 6))),
    ),
    case(
        "explode: a value twice in a list is two rows",
        LISTS,
        "a.explode('x')",
        ([((1, [5, 5]), 2)], [((1, 5), 4)]),
        (minus((1, [5, 5])), [((1, 5), -2)]),
    ),
    case(
        "explode: two columns side by side",
        PAIRS,
        "a.explode('x', 'y')",
        (plus((1, [5, 6], ["p", None])), plus((1, 5, "p"), (1, 6, None))),
    ),
    case(
        "unnest: fields take the place of the struct",
        STRUCTS,
        "a.unnest('k')",
        (plus(({"p": 1, "q": "z"}, 5), (None, 6)), plus((1, "z", 5), (None, None, 6))),
        (minus((None, 6)), minus((None, None, 6))),
    ),
    case(
        "map_batches: a function of frames, row by row",
        INTS,
        "a.map_batches(lambda rows: rows.select(y=pl.col('k') * pl.col('x')))",
        ([((2, 3), 2), ((3, 2), 1)], [((6,), 3)]),
        (minus((2, 3)), minus((6,))),
    ),
    case(
        "map_batches: rows dropped and multiplied, other columns declared",
        LISTS,
        "a.map_batches(lambda rows: rows.explode('x').drop_nulls('x').select('x'), schema={'x': pl.Int64})",
        ([((2, [3, 4]), 2), ((3, []), 1)], [((3,), 2), ((4,), 2)]),
    ),
    case(
        "concat: what leaves one side and enters the other stays",
        TWO,
        "a.concat(b)",
        ({"a": plus((1, 1))}, plus((1, 1))),
        ({"a": minus((1, 1)), "b": plus((1, 1))}, []),
        ({"a": plus((1, 1))}, plus((1, 1))),
    ),
    case(
        "concat: a collection with itself",
        INTS,
        "a.concat(a)",
        (plus((1, 1)), [((1, 1), 2)]),
        (minus((1, 1)), [((1, 1), -2)]),
    ),
    case(
        "minus: what stands on both sides cancels",
        TWO,
        "a.minus(b)",
        ({"a": [((1, 1), 2)], "b": plus((1, 1))}, plus((1, 1))),
        ({"b": plus((1, 1))}, minus((1, 1))),
        ({"b": minus((1, 1)), "a": minus((1, 1))}, []),
    ),
    case(
        "minus: a collection less itself is nothing",
        INTS,
        "a.minus(a)",
        (plus((1, 1)), []),
    ),
    case(
        "negate: the contents are negative, so nothing is read",
        INTS,
        "a.negate()",
        ([((1, 1), 2)], [((1, 1), -2)]),
        (minus((1, 1)), plus((1, 1))),
    ),
    case(
        "negate twice",
        INTS,
        "a.negate().negate()",
        ([((1, 1), 2)], [((1, 1), 2)]),
    ),
]


@pytest.mark.parametrize(("sources", "plan", "steps"), CASES)
def test_row_by_row(sources: dict[str, dict[str, Any]], plan: str, steps: tuple[Step, ...]) -> None:
    check_steps(sources, plan, steps)
