"""Every bug that was found leaves one shrunk case behind, as Hypothesis printed it."""

import polars as pl
import pytest

from harness import check
from strategies import Case, Program

KX = {"k": pl.Int64(), "x": pl.Int64()}

BUGS = {
    "semi join: a change of the right side alone was not seen": Case(
        Program({"a": KX, "b": KX}, ("v1 = a.join(b, on='k', how='semi')",)),
        [{"a": [((0, 0), 1)], "b": [((0, 0), 1)]}, {"b": [((0, 0), -1)]}],
    ),
    "group of nothing over a group of nothing: epoch 0 retracted a row that never was": Case(
        Program({"a": KX}, ("v1 = a.group_by().agg(u=pl.len())", "v2 = v1.group_by().agg(u=pl.len())")),
        [{"a": []}, {"a": [((0, 0), 1)]}],
    ),
    "group by a computed key named as a column: aggregates saw the key": Case(
        Program({"a": KX}, ("v1 = a.group_by(x=pl.col('k').is_null()).agg(u=pl.col('x').min())",)),
        [{"a": [((0, 7), 1), ((None, 3), 1)]}],
    ),
    "implode of no rows was null, and is the empty list": Case(
        Program({"a": KX}, ("v1 = a.group_by().agg(u=pl.col('k').implode())",)),
        [{"a": []}, {"a": [((0, 0), 1)]}, {"a": [((0, 0), -1)]}],
    ),
    "min of no groups could not be read": Case(
        Program({"a": KX}, ("v1 = a.group_by('k').agg(u=pl.col('x').min())",)),
        [{"a": []}, {"a": [((0, 0), 1)]}, {"a": [((0, 0), -1)]}],
    ),
    "a negative count did not fit the type of counts": Case(
        Program({"a": KX}, ("v1 = a.group_by().agg(u=pl.len())",)),
        [{"a": [((0, 0), -1)]}],
        trusted=True,
    ),
    "inputs of aggregates that print alike were taken for one": Case(
        Program(
            {"a": {"k": pl.Int64(), "x": pl.Float64()}},
            (
                "v1 = a.group_by('k').agg(u=pl.col('x').round(1).max())",
                "v2 = a.group_by('k').agg(u=pl.col('x').round(0).max())",
            ),
        ),
        [{"a": [((0, 1.5), 1)]}],
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_stays_mended(bug: str) -> None:
    check(BUGS[bug])
