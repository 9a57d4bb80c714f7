"""First rows are kept beside the rows where rows may be retracted: the same deltas as when they are read anew each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
import evercurrent.core.operators.group.head_states as head_states
from edge_values import VALUES
from evercurrent.core.operators.group.aggregate_states import FirstByState
from evercurrent.views.plan.plan import Plan
from thinned import IS_LONG

X = pl.col("x")
AGGREGATES = {
    "most": X.max(),
    "least": X.min(),
    "first": X.sort_by("n", "x").first(),
    "where": X.filter(pl.col("n") > 1).max(),
    "n": pl.col("n").sort_by("x", descending=True, nulls_last=True).first(),
    "rows": pl.len(),
}


def declared(engine: ec.Engine, dtype: Any, **options: Any) -> ec.View:
    schema = {"k": pl.Int64, "t": pl.String, "x": dtype, "n": pl.Int64}
    rows = engine.source("rows", schema, kind="diffs", **options)
    engine.view("all", rows.group_by().agg(**AGGREGATES))
    engine.view("chain", rows.group_by("k", "t").agg(**AGGREGATES).group_by("k").agg(X=pl.col("most").max()))
    return engine.view("v", rows.group_by("k").agg(**AGGREGATES))


def read_each_time() -> Any:
    """Compile plans as if counts might go below zero, so that first rows are read from arrangements."""
    return patch.object(Plan, "below_zero_by", lambda plan, place: [place])


def frame_of(rows: list[tuple[Any, ...]], dtype: Any) -> pl.DataFrame:
    schema = {"k": pl.Int64, "t": pl.String, "x": dtype, "n": pl.Int64, "_diff": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


@pytest.mark.parametrize(
    ("dtype", "workers"), [*((dtype, 1) for dtype in VALUES), (pl.Float64, 2), (pl.UInt64, 2)], ids=str
)
@settings(max_examples=settings().max_examples // 10 if IS_LONG else 5)
@given(data=st.data())
def test_deltas_are_those_of_rows_that_are_read(dtype: Any, workers: int, data: st.DataObject) -> None:
    """Rows that stand often, that come and go in one batch, and that are refused since they are not there."""
    value = st.sampled_from([*VALUES[dtype], None])
    row = st.tuples(
        st.integers(0, 1),
        st.sampled_from(["a", None]),
        value,
        st.integers(1, 2),
        st.sampled_from([1, 1, -1, 2, -2]),
    )
    epochs = data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=5))
    with read_each_time():
        plain = ec.Engine()
        declared(plain, dtype)
        plain.push("rows", frame_of([], dtype))
    engine = ec.Engine(workers=workers)
    declared(engine, dtype)
    engine.push("rows", frame_of([], dtype))
    for rows in epochs:
        for each in (plain, engine):
            each.push("rows", frame_of(rows, dtype))
    for name, view in plain.views.items():
        ours = list(engine.views[name].deltas())
        theirs = list(view.deltas())
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_frame_equal(one, other, check_row_order=workers == 1)


BATCHES = [
    [(0, "a", 5, 1, 1), (0, "a", 3, 1, 2), (1, None, 9, 2, 1), (2, "b", None, 1, 1)],
    [(0, "a", 5, 1, -1), (1, None, 9, 2, -1), (1, "a", 1, 2, 1)],
    [(0, "a", 3, 1, -1), (0, "a", 4, 2, 1), (2, "b", None, 1, -1)],
    [(0, "a", 4, 2, -1), (2, "b", 8, 1, 1), (1, "a", 1, 2, -1)],
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("goes_on_from", range(1, len(BATCHES)))
def test_a_checkpoint_without_first_rows_goes_on(workers: int, goes_on_from: int, tmp_path: Path) -> None:
    undisturbed = ec.Engine()
    declared(undisturbed, pl.Int64)
    for rows in BATCHES:
        undisturbed.push("rows", frame_of(rows, pl.Int64))
    with read_each_time(), ec.Engine(checkpoint=tmp_path, workers=workers) as engine:
        declared(engine, pl.Int64)
        for rows in BATCHES[:goes_on_from]:
            engine.push("rows", frame_of(rows, pl.Int64))
    for rows in BATCHES[goes_on_from:]:
        with ec.Engine(checkpoint=tmp_path, workers=workers) as engine:
            declared(engine, pl.Int64)
            engine.push("rows", frame_of(rows, pl.Int64))
            shown = {name: list(view.deltas()) for name, view in engine.views.items()}
    for name, view in undisturbed.views.items():
        for one, other in zip(shown[name], view.deltas(), strict=True):
            assert_frame_equal(one, other, check_row_order=workers == 1)


def test_rows_are_read_only_where_the_first_one_may_be_gone() -> None:
    read: list[int] = []
    original = head_states.first_rows_after

    def counting(spine: Any, keys: Any, count: Any) -> Any:
        read.append(len(keys))
        return original(spine, keys, count)

    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, kind="diffs")
    view = engine.view("v", rows.group_by("k").agg(most=X.max()))
    with patch.object(head_states, "first_rows_after", counting):
        engine.push("rows", {"k": [1, 1, 2, 2], "x": [1, 2, 3, 4]})
        engine.push("rows", {"k": [1, 2], "x": [1, 9], "_diff": [-1, 1]})
        assert read == []
        engine.push("rows", {"k": [1, 2], "x": [2, 3], "_diff": [-1, -1]})
        assert read == [1]
    assert view.read().rows() == [(2, 9)]


@pytest.mark.parametrize("trusted", [True, False])
def test_they_are_kept_only_where_no_count_is_negative(trusted: bool) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, kind="diffs", trusted=trusted)
    view = engine.view("v", rows.group_by("k").agg(most=X.max()))
    engine.push("rows", {"k": [1, 1], "x": [5, 5], "_diff": [-1, 1]})
    engine.push("rows", {"k": [1], "x": [7], "_diff": [-1]})
    engine.push("rows", {"k": [1, 1], "x": [7, 3], "_diff": [1, 1]})
    assert view.read().rows() == [(1, 3 if trusted else 7)]
    (part,) = (
        part
        for node in engine._running.current().circuit.nodes
        for part in getattr(node.operator, "_parts", ())
    )
    assert isinstance(part, FirstByState) == trusted
