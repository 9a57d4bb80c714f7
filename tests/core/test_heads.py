"""First rows of groups in additive columns: the same as sorting all rows, for every type, order and split into epochs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

import evercurrent as ec
from edge_values import VALUES
from evercurrent.core.data.columns.kernels import series_of
from evercurrent.core.data.columns.order_words import order_word_count, several_order_words, values_of_several
from evercurrent.core.data.schema import Order
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.operators.group.aggregates import FirstBy
from evercurrent.core.operators.group.heads import HeadOrder, earlier_of
from evercurrent.views.compiler.state_forms import is_read, state_forms
from evercurrent.views.durability.plan_match import state_ids
from strategies import of_profile
from thinned import pairs_of

each_type = pytest.mark.parametrize("dtype", VALUES, ids=str)


@each_type
def test_words_sort_as_values_do_and_are_turned_back(dtype: pl.DataType) -> None:
    values = pl.Series("x", VALUES[dtype], dtype)
    words = several_order_words(values)
    assert len(words) == order_word_count(values.dtype)
    rows = list(zip(*(each.tolist() for each in words), strict=True))
    assert rows == sorted(set(rows))
    assert_series_equal(series_of(values_of_several("x", words, values.dtype)), values)


@pytest.mark.parametrize(
    ("nulls_last", "descending", "dtype"), pairs_of([False, True], [False, True], [*VALUES]), ids=str
)
@of_profile(quick=25)
@given(data=st.data())
def test_the_first_row_is_that_of_sorting(
    dtype: pl.DataType, descending: bool, nulls_last: bool, data: st.DataObject
) -> None:
    value = st.sampled_from([*VALUES[dtype], None])
    row = st.tuples(
        st.integers(0, 2), value, st.sampled_from([1, 2, None]), st.sampled_from([True, False, None])
    )
    epochs = data.draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=3))
    schema = {"k": pl.Int64, "by": dtype, "x": pl.Int64, "where": pl.Boolean}
    where = data.draw(st.sampled_from([None, "where"]))
    by = Order("by", descending, nulls_last)
    order = HeadOrder.of(FirstBy("out", pl.Int64(), "x", (by,), where), pl.Schema(schema))
    assert order is not None
    heads = order.kept({}, 3)
    for rows in epochs:
        frame = pl.DataFrame(rows, schema, orient="row")
        new = order.first(frame, frame["k"].to_numpy().astype(np.intp), 3)
        heads = order.kept(order.sums(earlier_of(new, heads)), 3)
    every = pl.DataFrame([row for rows in epochs for row in rows], schema, orient="row")
    if where:
        every = every.filter("where")
    first = (
        every.sort(
            "by", "x", descending=[descending, False], nulls_last=[nulls_last, False], maintain_order=True
        )
        .group_by("k")
        .first()
    )
    expected = [dict(first.select("k", "x").rows()).get(k) for k in range(3)]
    assert series_of(order.shown(heads)).to_list() == expected


def arrangements(engine: ec.Engine) -> list[int]:
    """How many entries the arrangements of an engine hold."""
    nodes = engine._running.current().circuit.nodes
    return [node.operator.spine.entries for node in nodes if isinstance(node.operator, Arrange)]


def declared(engine: ec.Engine, kind: Any, dtype: Any = pl.Int64) -> ec.View:
    rows = engine.source("rows", {"k": pl.Int64, "x": dtype}, kind=kind)
    return engine.view("v", rows.group_by("k").agg(most=pl.col("x").max(), least=pl.col("x").min()))


def test_rows_are_kept_only_where_they_may_be_retracted() -> None:
    held = {}
    for kind in ("append", "diffs"):
        engine = ec.Engine()
        view = declared(engine, kind)
        engine.push("rows", {"k": [1, 1, 2], "x": [3, 5, None]})
        engine.push("rows", {"k": [1, 3], "x": [4, 1]})
        assert view.read().sort("k").rows() == [(1, 5, 3), (2, None, None), (3, 1, 1)]
        held[kind] = arrangements(engine)
    assert held == {"append": [0, 0], "diffs": [5, 5]}


def test_what_refines_its_rows_is_taken_for_one_that_retracts() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64})
    counts = rows.group_by("k").agg(n=pl.len())
    view = engine.view("v", counts.group_by(pl.lit(1).alias("all")).agg(least=pl.col("n").min()))
    engine.push("rows", {"k": [1], "x": [0]})
    engine.push("rows", {"k": [1], "x": [0]})
    assert view.read().rows() == [(1, 2)]


WIDENED = [
    (pl.Date, pl.Datetime("us"), dt.date(2026, 1, 2), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)),
    (pl.Datetime("ms"), pl.Datetime("us"), dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)),
    (pl.Int32, pl.Int64, 5, 3, 5),
    (pl.UInt32, pl.UInt64, 5, 3, 5),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "came", "comes", "most"), WIDENED, ids=str)
def test_a_wider_column_takes_its_first_rows_along(
    before: Any, after: Any, came: Any, comes: Any, most: Any, tmp_path: Path
) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        declared(engine, "append", before)
        engine.push("rows", {"k": [1, 2], "x": [came, None]})
    with ec.Engine(checkpoint=tmp_path) as engine:
        view = declared(engine, "append", after)
        engine.push("rows", {"k": [1], "x": [comes]})
        assert view.read().sort("k").rows() == [(1, most, comes), (2, None, None)]


def test_an_arrangement_without_rows_is_not_read_as_one_that_has_none() -> None:
    engine = ec.Engine()
    declared(engine, "append")
    compiled = engine._running.current()
    states = state_ids(compiled)
    names = [
        name for name, state in states.items()
        for node in compiled.circuit.nodes if isinstance(node.operator, Arrange) and state in node.states
    ]  # fmt: skip
    written = state_forms(compiled, states)
    for node in compiled.circuit.nodes:
        if isinstance(node.operator, Arrange):
            node.operator.holds_rows = True
    with_rows = state_forms(compiled, states)
    assert len(names) == 2
    for name in names:
        assert not is_read(written[name], with_rows[name])
        assert is_read(with_rows[name], written[name])


def test_a_view_that_needs_the_rows_after_all_has_them(tmp_path: Path) -> None:
    def add(state: int, values: pl.Series) -> int:
        return state + int(values.sum())

    least = pl.col("x").sort_by("x").first()
    summed = ec.aggregate(create=int, add=add, merge=int.__add__, extract=int, dtype=pl.Int64)
    for kept in (True, False):
        with ec.Engine(checkpoint=tmp_path / str(kept)) as engine:
            rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, retained=kept)
            engine.view("least", rows.group_by("k").agg(least=least))
            engine.push("rows", {"k": [1, 1, 2], "x": [3, 5, 4]})
        with ec.Engine(checkpoint=tmp_path / str(kept)) as engine:
            rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, retained=kept)
            view = engine.view("least", rows.group_by("k").agg(least=least))
            more = engine.view("more", rows.group_by("k").agg(total=summed(pl.col("x"))))
            if not kept:
                with pytest.raises(ec.CheckpointError, match="retained=True"):
                    more.read()
                continue
            engine.push("rows", {"k": [1], "x": [1]})
            assert view.read().sort("k").rows() == [(1, 1), (2, 4)]
            assert more.read().sort("k").rows() == [(1, 9), (2, 4)]
