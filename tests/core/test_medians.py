"""Medians and quantiles are found by their ranks in each group: the same bits as polars computes from all of its rows."""

from __future__ import annotations

from functools import cache
from itertools import cycle, product
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
from edge_values import VALUES
from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.operators.group.ranks import METHODS, RANKED, Ranks
from evercurrent.core.state import ranked_runs, row_merge, run, run_merge, spine
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, run_of_rows
from evercurrent.core.state.run_columns import columns_of_run
from evercurrent.views.compiler import aggregate_states
from thinned import some_of

QUANTILES: list[tuple[Any, float]] = some_of(
    product(METHODS, (0.0, 0.1, 0.5, 0.9, 1.0)),
    [*((method, 0.5) for method in METHODS), *zip(METHODS, cycle((0.0, 0.1, 0.9, 1.0)), strict=False)],
)
"""Methods with quantiles: each of both; that ranks are those of polars is a law of its own, for all of them."""

TYPES = [dtype for dtype in VALUES if isinstance(pl.Series([], dtype=dtype).dtype, RANKED)]


@cache
def declared(dtype: Any) -> ec.Engine:
    """The views without any row: an example has forks of them."""
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": dtype}, kind="diffs")
    x = pl.col("x")
    quantiles = {f"{method} {quantile}": x.quantile(quantile, method) for method, quantile in QUANTILES}
    is_number = pl.Series([], dtype=dtype).dtype.is_numeric()
    some = x.filter(x > 0 if is_number else pl.col("k") > 0).median()
    more = x.median() + 1 if is_number else x.median().is_null()
    engine.view("by key", rows.group_by("k").agg(x.median(), more=more, some=some))
    engine.view("of all", rows.group_by().agg(x.median(), high=x.quantile(0.9)))
    engine.view("quantiles", rows.group_by("k").agg(**quantiles))
    engine.views["by key"].read()
    return engine


def forked(dtype: Any, *, by_ranks: bool) -> ec.Engine:
    """A fork of the views, which has a circuit of its own: with medians by ranks, or each of all rows of its group."""
    ranked = Mock(side_effect=aggregate_states.ranked if by_ranks else lambda expr: None)
    with patch.object(aggregate_states, "ranked", ranked):
        engine = declared(dtype).fork()
        engine.views["by key"].read()
    assert ranked.called, "compiled here"
    return engine


AT_ONCE = (0, 2, 8, 1000)


@pytest.mark.parametrize(
    ("dtype", "at_once"),
    some_of(product(TYPES, AT_ONCE), zip(TYPES, cycle(AT_ONCE), strict=False)),
    ids=str,
)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_medians_are_those_of_all_rows(dtype: Any, at_once: int, data: st.DataObject) -> None:
    value = st.sampled_from([*VALUES[dtype], None])
    row = st.tuples(st.integers(0, 2), value, st.sampled_from([1, 1, 2, 3, -1]))
    epochs = data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=3))
    engine, whole = (forked(dtype, by_ranks=by_ranks) for by_ranks in (True, False))
    frames = [
        pl.DataFrame(rows, {"k": pl.Int64, "x": dtype, "_diff": pl.Int64}, orient="row") for rows in epochs
    ]
    with (
        patch.object(spine, "AT_ONCE", at_once),
        patch.object(row_merge, "FEW_ENTRIES", 1),
        patch.multiple(run, FROM=1),
        patch.multiple(run_merge, FEW_ENTRIES=1, MOST_OF_A_KEY=at_once),
        patch.multiple(ranked_runs, NEAR=at_once, READ_AT_ONCE=at_once, FEW_RANGES=at_once),
    ):
        for frame in frames:
            engine.push("rows", frame)
            whole.push("rows", frame)
            for name, key in product(("by key", "quantiles"), (0, 2)):
                rows = whole.views[name].read().filter(pl.col("k") == key)
                assert_frame_equal(engine.views[name].lookup(key), rows, check_exact=True)
    for name, view in engine.views.items():
        ours, theirs = list(view.deltas()), list(whole.views[name].deltas())
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_frame_equal(one, other, check_exact=True)
        assert_frame_equal(view.read(), whole.views[name].read(), check_exact=True)


@settings(max_examples=settings().max_examples // 2)
@given(
    factor=st.floats(-1e30, 1e30).map(lambda factor: factor or 1.0),
    counts=st.lists(st.integers(1, 3000), min_size=1, max_size=5),
    nulls=st.integers(0, 3),
    quantile=st.floats(0, 1),
    method=st.sampled_from(METHODS),
)
def test_ranks_are_those_of_polars(
    factor: float, counts: list[int], nulls: int, quantile: float, method: str
) -> None:
    groups = [[None] * nulls + sorted(factor * rank for rank in range(count)) for count in counts]
    frame = pl.DataFrame({"k": range(len(groups)), "x": groups}).explode("x", empty_as_null=False)
    theirs = frame.group_by("k", maintain_order=True).agg(pl.col("x").quantile(quantile, method))  # type: ignore[arg-type]
    ranks, of = Ranks(method, quantile), (np.array(counts), np.full(len(counts), nulls))
    low, high = (
        pl.Series([values[nulls + rank] for values, rank in zip(groups, each, strict=True)])
        for each in ranks.of(*of)
    )
    assert ranks.values(low, high, *of).to_list() == theirs["x"].to_list()


@pytest.mark.parametrize(
    "dtype",
    [pl.Float32, pl.Float64, pl.Int64, pl.UInt64, pl.Int8, pl.Datetime("ns"), pl.Duration("us"), pl.Time],
)
def test_two_middle_values_have_the_mean_that_polars_computes(dtype: Any) -> None:
    """Its roundings show in values of all magnitudes, which small numbers and halves of them do not have."""
    random = np.random.default_rng(8)
    floats = random.normal(size=8000) * 10.0 ** random.uniform(-30, 30, 8000)
    whole = random.integers(-(2**7), 2**7, 8000) if dtype == pl.Int8 else random.integers(0, 2**63, 8000)
    whole = whole % (86_400 * 10**9) if dtype == pl.Time else whole
    values = pl.Series(floats if pl.Series([], dtype=dtype).dtype.is_float() else whole).cast(dtype)
    frame = pl.DataFrame({"k": np.arange(8000) // 2, "x": values})
    engine = ec.Engine()
    rows = engine.source("rows", dict(frame.schema))
    x = pl.col("x")
    methods = {method: x.quantile(0.3, method) for method in METHODS}  # type: ignore[arg-type]
    each = {"half": x.median(), **methods}
    view = engine.view("v", rows.group_by("k").agg(**each))
    rows.push(frame)
    expected = frame.group_by("k").agg(**each)
    assert_frame_equal(view.read(), expected, check_exact=True, check_row_order=False)


FLOATS = st.sampled_from([-2.0, -1.0, 0.0, 5e-324, 2.5, float("inf"), float("-inf"), float("nan")])

ROWS = st.lists(st.tuples(st.integers(0, 3), FLOATS, st.sampled_from([1, 1, 2, -1])), max_size=12)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("keys", [["k"], ["k", "l"]])
@settings(max_examples=settings().max_examples // 2)
@given(parts=st.lists(ROWS, min_size=2, max_size=3), sought=st.sets(st.integers(-1, 4)))
def test_entries_are_inserted_and_found_as_if_all_were_sorted(
    parts: list[list[tuple[int, float, int]]], sought: set[int], keys: list[str], descending: bool
) -> None:
    layout = Layout(pl.Schema({"x": pl.Float64()}), by_row=True, order=(Order("x", descending=descending),))
    columns = KeyColumns.of(keys)

    def frame_of(rows: list[tuple[int, float, int]]) -> pl.DataFrame:
        frame = pl.DataFrame(rows, {"k": pl.Int64, "x": pl.Float64, DIFF: pl.Int64}, orient="row")
        return frame.with_columns(l=pl.col("k") % 2).select("k", "l", "x", DIFF)

    runs = [each for rows in parts if len(each := run_of_rows(layout, columns, frame_of(rows)))]
    runs.sort(key=len, reverse=True)
    if len(runs) < 2:
        return
    whole = run_merge.merge(layout, runs)
    with patch.multiple(row_merge, FEW_ENTRIES=1, SEARCHED=2), patch.multiple(run, FROM=1):
        inserted = row_merge.merged_rows(layout, runs)
        assert inserted is not None
        sought_keys = group(columns.words(frame_of([(key, 0, 1) for key in sorted(sought)]))).keys
        found = [each.tolist() for each in inserted.find(sought_keys)]
    assert found == [each.tolist() for each in whole.find(sought_keys)]
    assert columns_of_run(inserted).equals(columns_of_run(whole))
