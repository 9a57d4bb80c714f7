"""With thousands of columns each costs what it costs among few."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.data.columns import exact
from evercurrent.views.expressions import known_schemas

EXTREMES = np.array(
    [sys.float_info.max, -sys.float_info.max, 5e-324, 2.2e-308, 1.0, -0.1, 2.0**53 + 2, np.nan]
)


def limb_columns() -> dict[str, np.ndarray]:
    diffs = np.ones(len(EXTREMES), np.int64)
    whole = np.array([2**63 - 1, -(2**63), 2**31, 0, 1, -1, 7, 2**40])
    words = np.stack([whole.view(np.uint64), whole.view(np.uint64)], axis=1)
    parts = [np.full(len(diffs), 2**32 - 1, np.uint64)] * 4
    return (
        exact.float_limbs_and_squares("sum:x", "squares:x", EXTREMES, diffs)
        | exact.integer_limbs("sum:n", whole, diffs)
        | exact.wide_limbs("sum:w", words, diffs)
        | exact.square_limbs("squares:w", parts, diffs)
    )


@pytest.mark.parametrize("prefix", ["sum:x", "squares:x", "sum:n", "sum:w", "squares:w", "sum", "squares:n"])
def test_limbs_are_found_among_many_sums_as_among_few(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = limb_columns()
    of_few = exact.limbs_of(prefix, sums)
    monkeypatch.setattr(exact, "MANY_SUMS", 0)
    of_many = exact.limbs_of(prefix, sums)
    assert of_many.keys() == of_few.keys()
    assert all(of_many[limb] is of_few[limb] for limb in of_few)


COLUMNS = 300


def test_a_declaration_looks_at_the_columns_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    empty_frame, looked_at = known_schemas.empty_frame, 0

    def counting(schema: pl.Schema) -> pl.DataFrame:
        nonlocal looked_at
        looked_at += len(schema)
        return empty_frame(schema)

    monkeypatch.setattr(known_schemas, "empty_frame", counting)
    names = [f"of_this_test_{number}" for number in range(COLUMNS)]
    rows = ec.Engine().source("rows", dict.fromkeys(names, pl.Float64))
    sums = rows.group_by(names[0]).agg([pl.col(name).sum() for name in names[1:]])
    rows.select([pl.col(name) * 2 for name in names])
    assert sums.columns == names
    assert COLUMNS < looked_at < 10 * COLUMNS


def test_what_is_read_of_a_schema_is_what_an_expression_needs() -> None:
    schema = pl.Schema({"a": pl.Int8, "b": pl.Int16, "c": pl.Int32})
    assert known_schemas.read_by(pl.col("b") + 1, schema, ["c", "z"]) == pl.Schema(
        {"b": pl.Int16, "c": pl.Int32}
    )
    for all_of_it in (pl.all(), pl.col("a", "b"), pl.len(), pl.col("^b|c$"), pl.col("z") + pl.col("a")):
        assert known_schemas.read_by(all_of_it, schema) == schema


def test_views_of_many_columns_are_what_polars_computes() -> None:
    random = np.random.default_rng(5)
    rows = pl.DataFrame(
        {f"c{number}": random.normal(0, 10.0 ** (number % 30), 40) for number in range(COLUMNS)}
    )
    rows = rows.with_columns(k=pl.Series(random.integers(0, 3, 40)))
    outputs = [
        each
        for number in range(COLUMNS)
        for each in (
            pl.col(f"c{number}").sum().alias(f"s{number}"),
            pl.col(f"c{number}").std().alias(f"d{number}"),
        )
    ]
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", rows.schema).group_by("k").agg(outputs))
    for part in rows.iter_slices(13):
        engine.push("rows", part)
    assert exact.MANY_SUMS < 2 * COLUMNS
    assert_frame_equal(
        view.read(), rows.group_by("k").agg(outputs), check_row_order=False, check_exact=False, rel_tol=1e-9
    )
