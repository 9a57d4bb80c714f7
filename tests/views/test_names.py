"""What things may be called: text that files and JSON can hold. Anything else is refused where it is declared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import PlanError
from evercurrent.views.connectors.delta_files import write_contents

HALF, NUL = "a\ud800", "b\0"


def numbers() -> ec.Source:
    return ec.Engine().source("s", {"x": pl.Int64})


def view_of(name: str) -> ec.View:
    engine = ec.Engine()
    return engine.view(name, engine.source("s", {"x": pl.Int64}))


total = ec.aggregate(
    create=int,
    add=lambda state, values: state + values.sum(),
    merge=lambda one, other: one + other,
    extract=int,
    dtype=pl.Int64,
)


@pytest.mark.parametrize("name", [HALF, NUL], ids=ascii)
@pytest.mark.parametrize(
    ("named", "message"),
    [
        (lambda name: ec.Engine().source(name, {"x": pl.Int64}), "source '"),
        (lambda name: ec.Engine().source("s", {name: pl.Int64}), "source 's': column '"),
        (lambda name: ec.Engine().source("s", {"x": pl.List(pl.Struct({name: pl.Int64}))}), "column 'x': field '"),
        (view_of, "view '"),
        (lambda name: view_of("v").subscribe(print, name=name), "subscription to view 'v': name '"),
        (lambda name: numbers().with_columns(**{name: pl.col("x")}), "with_columns on source 's': column '"),
        (lambda name: numbers().rename({"x": name}), "rename on source 's': column '"),
        (lambda name: numbers().group_by(**{name: pl.col("x")}), "group_by on source 's': column '"),
        (lambda name: numbers().group_by("x").agg(**{name: pl.len()}), "agg on"),
        (lambda name: numbers().group_by("x").agg(**{name: total("x")}), "agg on"),
    ],
    ids=[
        "source", "column", "field", "view", "subscription", "with_columns", "rename", "key", "aggregate", "own aggregate",
    ],
)  # fmt: skip
def test_what_is_no_character_is_refused_where_it_is_declared(
    named: Callable[[str], Any], message: str, name: str
) -> None:
    with pytest.raises(PlanError) as refused:
        named(name)
    assert message in str(refused.value)
    assert f"character 2 of the name, U+{ord(name[1]):04X}" in str(refused.value)
    str(refused.value).encode()


@pytest.mark.parametrize("name", ["ü", "a b", "😀", "a/b", "..", "x" * 200, '"', "con", "%2F", "\n"])
def test_any_other_text_is_a_name(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = engine.view(name, engine.source(name, {name: pl.Int64}))
            received: list[pl.DataFrame] = []
            view.subscribe(received.append, name=name)
            engine.push(name, {name: [1]})
            assert len(received) == 1
            assert len(list(view.deltas())) == view.epoch
    written = write_contents(tmp_path / "output", name[:100], view.read())
    assert written.parent == tmp_path / "output"
    assert pl.read_parquet(written).height == 2
