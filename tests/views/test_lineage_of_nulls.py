"""A joined row that is null in all columns of a side has a row of that side without values behind it, or none."""

from __future__ import annotations

import polars as pl
import pytest

import evercurrent as ec

ROWS = ((None, None), (1, None), (None, 7), (2, 5))
SIDES = (
    (ROWS, ROWS[:3]),
    (ROWS[:2], ROWS),
    (ROWS[:1], ROWS[:1]),
    (ROWS[1:], ROWS[:1]),
    (ROWS[:1], ROWS[1:]),
)
JOINS = [
    *((how, nulls_equal) for how in ("inner", "left", "right", "full") for nulls_equal in (True, False)),
    ("cross", None),
]


def engine_of(how: str, nulls_equal: bool | None, rows: dict[str, pl.DataFrame]) -> ec.Engine:
    engine = ec.Engine()
    a, b = (
        engine.source(name, {"k": pl.Int64, value: pl.Int64}, kind="diffs", retained=True)
        for name, value in (("a", "x"), ("b", "y"))
    )
    by = {} if nulls_equal is None else {"on": "k", "nulls_equal": nulls_equal}
    engine.view("joined", a.join(b, how=how, **by))
    with engine.epoch():
        for name, frame in rows.items():
            engine.push(name, frame)
    return engine


def side(value: str, rows: tuple[tuple[int | None, int | None], ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"k": pl.Int64, value: pl.Int64}, orient="row").with_columns(_diff=pl.lit(1))


@pytest.mark.parametrize(("how", "nulls_equal"), JOINS)
def test_rows_without_values_are_named(how, nulls_equal):
    for left, right in SIDES:
        engine = engine_of(how, nulls_equal, {"a": side("x", left), "b": side("y", right)})
        view = engine.views["joined"]
        for row in view.read().rows():
            found = view.lineage(row)
            assert row in engine_of(how, nulls_equal, dict(found)).views["joined"].read().rows(), (row, found)
            if how in ("inner", "cross"):
                without = engine.fork()
                with without.epoch():
                    for name, rows in found.items():
                        without.push(name, rows.with_columns(-pl.col("_diff")))
                assert row not in without.views["joined"].read().rows(), (row, found)


@pytest.mark.parametrize("nulls_equal", [True, False])
def test_the_partner_of_a_left_row_is_named_where_there_is_one(nulls_equal):
    for left, right in SIDES:
        engine = engine_of("left", nulls_equal, {"a": side("x", left), "b": side("y", right)})
        view = engine.views["joined"]
        for key, x, y in view.read().rows():
            partners = [row for row in right if row == (key, y) and (nulls_equal or key is not None)]
            named = view.lineage((key, x, y)).get("b")
            assert ([] if named is None else named.drop("_diff").rows()) == partners
