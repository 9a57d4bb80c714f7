"""Rows that are among others are the same ones, whether one other is compared or several are grouped."""

from __future__ import annotations

import polars as pl
import pytest

from evercurrent.views.inspection.proving.row_frames import is_among
from every_type import LEAVES


@pytest.mark.parametrize(("dtype", "kept", "values"), LEAVES, ids=[str(leaf[0]) for leaf in LEAVES])
def test_one_other_row_is_found_as_several_are(dtype, kept, values):
    several = pl.Series("x", values, dtype=kept).cast(dtype)
    rows = pl.DataFrame([several, several.reverse().alias("y")])
    for place in range(rows.height):
        other = rows[place : place + 1]
        for columns in (["x"], ["y", "x"]):
            alone = is_among(rows, other.select(columns))
            assert alone.to_list() == is_among(rows, pl.concat([other, other]).select(columns)).to_list()
            assert alone[place]
    assert is_among(rows.clear(), rows[:1]).len() == 0


def test_one_row_is_compared_by_the_named_columns_alone():
    rows = pl.DataFrame({"x": [1, None, 1], "y": ["a", "a", None]})
    assert is_among(rows, pl.DataFrame({"x": [1]})).to_list() == [True, False, True]
    assert is_among(rows, pl.DataFrame({"x": [None], "y": ["a"]}, schema=rows.schema)).to_list() == [
        False,
        True,
        False,
    ]
    assert is_among(rows, pl.DataFrame({"x": [1, None]})).to_list() == [True, True, True]
