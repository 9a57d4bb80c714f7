"""Rows that are combined before they are sent to a state leave the same state as the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.circuit.stages import Exchange
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.operators.distinct import Distinct
from evercurrent.core.state import combined_rows, first_rows
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.run import Layout
from evercurrent.views.compiler.compiler import compile_plan
from strategies import of_profile

SCHEMA = pl.Schema({"k": pl.Int64, "t": pl.String, "x": pl.Int64, "is": pl.Boolean})


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    """A few rows are combined, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combined_rows, "FEW", 0)
        patch.setattr(first_rows, "FEW", 0)
        yield


@st.composite
def parts(draw: st.DrawFn, *, retract: bool) -> list[pl.DataFrame]:
    """The rows of three tasks."""
    row = st.tuples(
        st.sampled_from([0, 1, None]),
        st.sampled_from(["a", "b", "ä", "", None]),
        st.sampled_from([0, 1, 7, None]),
        st.booleans(),
        st.sampled_from([1, 2, -1] if retract else [1, 2]),
    )
    some = st.lists(row, max_size=20)
    return [pl.DataFrame(draw(some), {**SCHEMA, DIFF: pl.Int64}, orient="row") for _ in range(3)]


def arrangement(column: str, *, first: int | None, where: str | None, descending: bool) -> Arrange:
    order = (Order(column, descending=descending),)
    layout = Layout(pl.Schema({column: SCHEMA[column]}), by_row=True, order=order)
    return Arrange(SCHEMA, ("k",), layout, where=where, first=first, skip_null_keys=where is not None)


@of_profile(1.0, quick=60)
@given(data=st.data(), column=st.sampled_from(["t", "x"]), first=st.sampled_from([None, 1, 2]), where=st.sampled_from([None, "is"]), descending=st.booleans())  # fmt: skip
def test_an_arrangement_is_the_same(
    data: st.DataObject, column: str, first: int | None, where: str | None, descending: bool
) -> None:
    whole, combined = (arrangement(column, first=first, where=where, descending=descending) for _ in range(2))
    for number in (1, 2):
        tasks = data.draw(parts(retract=first is None))
        fewer = []
        for part in tasks:
            sent = combined.combine(Delta(part))
            assert sent is not None
            assert sent.frame.schema == part.schema
            assert sent.height <= part.height
            fewer.append(sent.frame)
        now = Now.at(Epoch(number), 0)
        whole.step(now, Delta(pl.concat(tasks)))
        combined.step(now, Delta(pl.concat(fewer)))
        for operator in (whole, combined):
            operator.spine.commit()
        one, other = (operator.spine.merged() for operator in (whole, combined))
        assert one.keys.first.tolist() == other.keys.first.tolist()
        assert_frame_equal(one.payload, other.payload)
        assert {name: column.tolist() for name, column in one.sums.items()} == {
            name: column.tolist() for name, column in other.sums.items()
        }


def repeated(times: int) -> Delta:
    """Rows of 1,000 keys, each so many times."""
    numbers = np.arange(1_000 * times) % 1_000
    columns = {"k": numbers, "t": ["a"] * len(numbers), "x": numbers, "is": [True] * len(numbers)}
    return Delta(pl.DataFrame({**columns, DIFF: np.ones(len(numbers), np.int64)}, {**SCHEMA, DIFF: pl.Int64}))


def test_rows_are_consolidated_where_many_are_equal() -> None:
    combined = Distinct(SCHEMA).combine(repeated(10))
    assert combined is not None
    assert combined.height == 1_000
    few = Distinct(SCHEMA).combine(Delta(pl.concat([repeated(1).frame.head(300)] * 2)))
    assert few is not None
    assert few.height == 300
    one, other = (Distinct(SCHEMA).step(Now.at(Epoch(1), 0), given) for given in (combined, repeated(10)))
    assert_frame_equal(one.frame, other.frame)
    assert Distinct(SCHEMA).combine(repeated(1)) is None


def test_columns_that_are_not_kept_do_not_keep_rows_apart() -> None:
    rows = repeated(10).frame.with_columns(x=pl.int_range(10_000))
    arrange = arrangement("t", first=None, where=None, descending=False)
    combined = arrange.combine(Delta(rows))
    assert combined is not None
    assert combined.height == 1_000
    assert combined.frame.get_column("x").null_count() == 1_000


def gives(*, joined: bool) -> list[Exchange]:
    """The exchanges by which rows are sent to arrangements."""
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64})
    if joined:
        engine.view("v", rows.join(engine.source("more", {"k": pl.Int64, "y": pl.Int64}), on="k"))
    else:
        engine.view("v", rows.group_by("k").agg(middle=pl.col("x").median()))
    compiled = compile_plan(engine.declared, Ledger(1))
    arranged = {place for place, node in enumerate(compiled.circuit.nodes) if node.operator.role == "rows"}
    stage = compiled.cut.stages[1]
    return [
        each for node in stage.nodes if node in arranged for each in stage.inputs[node] if each is not None
    ]


def test_rows_that_an_arrangement_passes_on_are_sent_as_they_are() -> None:
    (to_state,) = gives(joined=False)
    assert to_state.combined_for is not None
    assert [each.combined_for for each in gives(joined=True)] == [None, None]
