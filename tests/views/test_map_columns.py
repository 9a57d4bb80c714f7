"""Columns of maps, which polars has since 2.0 and Spark always had, are rows and keys like those of any other type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.columns.polars_versions import MAP

pytestmark = pytest.mark.skipif(MAP is None, reason="a polars without maps")


def columns_of_maps() -> list[pl.Series]:
    of_text = pl.Map(pl.String, pl.Int32)
    of_lists = pl.Map(pl.Int64, pl.List(pl.Struct({"x": pl.Float64})))
    first, second, none = {"a": 1, "b": None}, {"a": 1, "b": 2}, None
    return [
        pl.Series("m", [first, second, {}, none, first], dtype=of_text),
        pl.Series(
            "m",
            [{1: [{"x": 0.0}]}, {1: [{"x": None}, None]}, {1: None}, none, {1: [{"x": -0.0}]}],
            dtype=of_lists,
        ),
        pl.Series("m", [[first], [second, none], [], none, [first]], dtype=pl.List(of_text)),
        pl.Series(
            "m", [{"f": first}, {"f": none}, {"f": {}}, none, {"f": first}], dtype=pl.Struct({"f": of_text})
        ),
    ]


@pytest.mark.parametrize("case", range(4))
def test_rows_and_groups_of_maps(case: int, tmp_path: Path) -> None:
    """Two rows are equal, one of which is taken back after the checkpoint was opened again."""
    column = columns_of_maps()[case]

    def opened() -> tuple[ec.Engine, Any]:
        engine = ec.Engine(checkpoint=tmp_path)
        source = engine.source("s", {"k": pl.Int64, "m": column.dtype}, kind="diffs")
        engine.view("all", source)
        engine.view("counts", source.group_by("m").len("n"))
        return engine, source

    rows = pl.DataFrame({"k": [1] * 5, "m": column})
    engine, source = opened()
    with engine:
        source.push(rows)
        assert sorted(engine.views["counts"].read()["n"]) == [1, 1, 1, 2]
    engine, source = opened()
    with engine:
        source.push(rows.tail(1).with_columns(_diff=pl.lit(-1)))
        assert sorted(map(repr, engine.views["all"].read().rows())) == sorted(map(repr, rows.head(4).rows()))
        assert sorted(map(repr, engine.views["counts"].read()["m"])) == sorted(map(repr, column.head(4)))
