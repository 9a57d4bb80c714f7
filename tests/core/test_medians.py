"""Medians are computed from the middle rows of each group: the same bits as from all of its rows."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
from edge_values import VALUES
from evercurrent.views.compiler import aggregate_states

NUMBERS = [dtype for dtype in VALUES if pl.Series([], dtype=dtype).dtype.is_numeric()]


def declared(engine: ec.Engine, dtype: Any) -> None:
    rows = engine.source("rows", {"k": pl.Int64, "x": dtype}, kind="diffs")
    x = pl.col("x")
    engine.view(
        "by key", rows.group_by("k").agg(x.median(), more=x.median() + 1, some=x.filter(x > 0).median())
    )
    engine.view("of all", rows.group_by().agg(x.median()))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_medians_are_those_of_all_rows(dtype: Any, data: st.DataObject) -> None:
    value = st.sampled_from([*VALUES[dtype], None])
    row = st.tuples(st.integers(0, 2), value, st.sampled_from([1, 1, 2, 3, -1]))
    epochs = data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=3))
    engine, whole = ec.Engine(), ec.Engine()
    declared(engine, dtype)
    declared(whole, dtype)
    frames = [
        pl.DataFrame(rows, {"k": pl.Int64, "x": dtype, "_diff": pl.Int64}, orient="row") for rows in epochs
    ]
    with patch.object(aggregate_states, "is_median", lambda expr: False):
        for frame in frames:
            whole.push("rows", frame)
    for frame in frames:
        engine.push("rows", frame)
    for name, view in engine.views.items():
        ours, theirs = list(view.deltas()), list(whole.views[name].deltas())
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_frame_equal(one, other, check_exact=True)
