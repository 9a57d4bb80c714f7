"""A function that counts by its version: repaired, it goes on with what the one before has computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, PlanError

Function = Callable[[pl.DataFrame], pl.DataFrame]


def doubled(factor: int) -> Function:
    def clean(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(x=pl.col("x") * factor)

    return clean


def summed(factor: int, version: str | int | None) -> Any:
    return ec.aggregate(
        create=lambda: 0,
        add=lambda state, values: state + factor * values.sum(),
        merge=lambda one, two: one + two,
        remove=lambda state, values: state - factor * values.sum(),
        extract=lambda state: state,
        dtype=pl.Int64,
        version=version,
    )


def mapped_engine(path: Path, factor: int, version: str | int | None, **columns: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=path)
    rows = engine.source("a", {"k": pl.String, "x": pl.Int64, **columns})
    clean = rows.select("k", "x").map_batches(doubled(factor), version=version)
    engine.view("v", clean.group_by("k").agg(n=pl.col("x").sum()))
    engine.view("w", clean.map_batches(doubled(1)))
    return engine


def summed_engine(path: Path, factor: int, version: str | int | None, **columns: Any) -> ec.Engine:
    engine = ec.Engine(checkpoint=path)
    rows = engine.source("a", {"k": pl.String, "x": pl.Int64, **columns})
    engine.view("v", rows.group_by("k").agg(n=summed(factor, version)(pl.col("x"))))
    return engine


@pytest.mark.parametrize("engine_of", [mapped_engine, summed_engine])
def test_with_a_version_a_repaired_function_goes_on(engine_of: Any, tmp_path: Path) -> None:
    def pushed(
        factor: int, version: str | int | None, rows: list[tuple[Any, ...]], **columns: Any
    ) -> list[Any]:
        with engine_of(tmp_path, factor, version, **columns) as engine:
            engine.push("a", rows)
            return sorted(engine.views["v"].read().rows())

    assert pushed(2, None, [("a", 1)]) == [("a", 2)]
    assert pushed(2, 1, [("a", 1)]) == [("a", 4)], "a version is given to a function that is as it was"
    assert pushed(3, 1, [("a", 1)]) == [("a", 7)], "and the function is another one from then on"
    assert pushed(5, 1, [("a", 1, "n")], note=pl.String) == [("a", 12)], (
        "with another column at the same time"
    )


def test_a_version_and_a_column_come_together(tmp_path: Path) -> None:
    with mapped_engine(tmp_path, 2, None) as engine:
        engine.push("a", [("a", 1)])
    with mapped_engine(tmp_path, 2, "first", note=pl.String) as engine:
        assert engine.views["v"].read().rows() == [("a", 2)]


@pytest.mark.parametrize("engine_of", [mapped_engine, summed_engine])
def test_without_a_version_it_is_refused_with_both_ways_out(engine_of: Any, tmp_path: Path) -> None:
    with engine_of(tmp_path, 2, None) as engine:
        engine.push("a", [("a", 1)])
    message = r"(?s)view 'v'.*drop=\('v',\), after which the new one is filled.*changed of (map_batches clean|aggregate of .*n\)).*version="
    for factor, version in [(3, None), (3, 1)]:
        with pytest.raises(CheckpointError, match=message):
            engine_of(tmp_path, factor, version).views["v"].read()
    with engine_of(tmp_path, 2, 1) as engine:
        assert engine.views["v"].read().rows() == [("a", 2)]
    with pytest.raises(CheckpointError, match="view 'v'"):
        engine_of(tmp_path, 2, 2).views["v"].read()


def test_two_functions_of_one_version_are_not_taken_for_each_other(tmp_path: Path) -> None:
    engine = ec.Engine(checkpoint=tmp_path)
    rows = engine.source("a", {"x": pl.Int64})
    for factor in (2, 3):
        engine.view(f"v{factor}", rows.map_batches(doubled(factor), version=1))
    with pytest.raises(PlanError, match="map_batches clean: two functions have the same version"):
        engine.push("a", [(1,)])


@pytest.mark.parametrize("version", ["", True, 1.5])
def test_a_version_is_a_text_or_a_number(version: Any) -> None:
    rows = ec.Engine().source("a", {"x": pl.Int64})
    with pytest.raises(PlanError, match="version="):
        rows.map_batches(doubled(1), version=version)
    with pytest.raises(PlanError, match="version="):
        summed(1, version)
