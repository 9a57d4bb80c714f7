"""Shrunk cases: a row that comes alone and goes in company, or the other way round, leaves nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.linear import MapBatches

X, B = pl.col("x"), pl.col("b")

PROGRAMS: dict[str, Any] = {
    "quotient": lambda rows: rows.with_columns(q=X / 49),
    "whole quotient": lambda rows: rows.with_columns(q=X // 0.1),
    "remainder": lambda rows: rows.with_columns(q=X % 0.7),
    "power": lambda rows: rows.with_columns(q=0.1**X),
    "key": lambda rows: rows.group_by(q=X / 49).agg(n=pl.len()),
    "aggregated": lambda rows: rows.group_by("b").agg(q=(X / 49).sum()),
    "finished": lambda rows: rows.group_by("x").agg(q=X.sum() / 49),
    "finished twice": lambda rows: rows.group_by("x").agg(q=X.sum() / 49).group_by("q").agg(n=pl.len()),
    "from the whole group": lambda rows: rows.group_by("x").agg(q=(X.sort() / 49).implode()),
    "condition": lambda rows: rows.filter(X / 49 > 5 * (1 / 49)),
    "elements": lambda rows: rows.select(q=pl.concat_list(X).list.eval(pl.element() / 49)),
    "some elements": lambda rows: rows.select(q=pl.concat_list(X).list.eval((pl.element() / 49).filter(pl.element() < 6))),
    "one branch for all": lambda rows: rows.with_columns(q=X / pl.when(B).then(49.0).otherwise(7.0)),
    "one branch above": lambda rows: rows.with_columns(q=pl.when(B).then(5.0).otherwise(X) / 49),
    "a constant instead of null": lambda rows: rows.with_columns(q=X / pl.coalesce(pl.when(B.not_()).then(X), 49.0)),
    "function": lambda rows: rows.map_batches(lambda some: some.with_columns(q=X / 49)),
    "function that chooses": lambda rows: rows.map_batches(lambda some: some.filter(X < 6).with_columns(q=X / 49)),
}  # fmt: skip

ROWS = [(5.0, True), (7.0, False), (11.0, None), (11.0, True)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("first", range(len(ROWS)))
def test_nothing_is_left(name: str, first: int) -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"x": pl.Float64, "b": pl.Boolean}, kind="diffs", trusted=True)
    view = engine.view("v", PROGRAMS[name](rows))
    again = engine.view("again", view.group_by(view.columns).agg(times=pl.len()))
    others = [row for place, row in enumerate(ROWS) if place != first]
    for epoch in ([ROWS[first]], others):
        engine.push("a", [(*row, 1) for row in epoch])
    engine.push("a", [(*row, -1) for row in ROWS])
    assert view.read().is_empty()
    assert again.read().is_empty()


def test_a_function_is_given_rows_in_one_piece() -> None:
    """Threads share out a frame by its pieces, and polars divides in a piece of one row as in a frame of one row."""
    whole = pl.DataFrame({"x": [5.0, 7.0, 11.0], DIFF: [1, 1, 1]})
    schema = pl.Schema({"x": pl.Float64, "q": pl.Float64})
    quotients = MapBatches("view 'v'", schema, lambda some: some.with_columns(q=X / 49))
    in_pieces = pl.concat([whole[:1], whole[1:]], rechunk=False)
    assert in_pieces.n_chunks() == 2
    frames = [
        quotients.step(Now(Epoch(1), datetime.fromtimestamp(0, UTC)), Delta(frame)).frame
        for frame in (whole, in_pieces)
    ]
    assert frames[0].rows() == frames[1].rows()


def test_constant_columns_are_divided_as_others_are() -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"x": pl.Float64, "c": pl.Float64}, kind="diffs", trusted=True)
    view = engine.view("v", rows.with_columns(q=X / pl.col("c"), p=pl.col("c") / 49))
    constant = pl.DataFrame({"x": [5.0, 7.0]}).with_columns(c=pl.lit(49.0), _diff=pl.lit(1, pl.Int64))
    engine.push("a", constant)
    engine.push("a", pl.DataFrame({"x": [5.0, 7.0, 1.0], "c": [49.0, 49.0, 1.0], "_diff": [-1, -1, 1]}))
    assert view.read()["x"].to_list() == [1.0]


def test_a_function_that_does_not_treat_each_row_by_itself_is_found_out() -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"x": pl.Float64})
    engine.view("v", rows.map_batches(lambda some: some.unique()))
    with pytest.raises(ec.InputError, match="does not treat each row by itself"):
        engine.push("a", [(5.0,)])


def test_types_that_depend_on_the_branch_are_refused() -> None:
    rows = ec.Engine().source("a", {"d": pl.Date, "b": pl.Boolean})
    with pytest.raises(ec.PlanError, match="cast them to one"):
        rows.with_columns(q=pl.when(B).then(pl.col("d")).otherwise(0.1))
