"""-0.0 and 0.0 are one value, alone and within lists, arrays and structs, wherever rows enter and columns are computed."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

import evercurrent as ec
from evercurrent.core.data.columns.kernels import with_plain_zeros

FLOATS = st.sampled_from([-0.0, 0.0, 1.5, float("nan"), float("-inf"), None])


def nested(dtype: pl.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, nulls at every depth."""
    match dtype:
        case pl.List(inner=inner):
            return st.none() | st.lists(nested(inner), max_size=3)  # type: ignore[arg-type]
        case pl.Array(inner=inner, size=size):
            return st.none() | st.lists(nested(inner), min_size=size, max_size=size)  # type: ignore[arg-type]
        case pl.Struct():
            return st.none() | st.fixed_dictionaries(
                {name: nested(inner) for name, inner in dtype.to_schema().items()}
            )
        case pl.Float64() | pl.Float32():
            return FLOATS
    return st.sampled_from([None, "-0.0", ""])


LEAF = pl.Struct({"a": pl.Float32(), "t": pl.String()})
TYPES: list[pl.DataType] = [
    pl.List(pl.Float64()), pl.Array(pl.Float64(), 2), LEAF, pl.List(LEAF), pl.Array(LEAF, 1), pl.List(pl.List(pl.Float32())),
    pl.Struct({"b": pl.Struct({"c": pl.List(pl.Float64())}), "d": pl.Array(pl.List(pl.Float64()), 2)}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 10)
def test_zeros_are_plain_at_any_depth(dtype: pl.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(nested(dtype), max_size=5))
    given_values = pl.Series("x", values, dtype)
    plain = with_plain_zeros(given_values)
    expected = (
        repr(given_values.to_list())
        .replace("'-0.0'", "text")
        .replace("-0.0", "0.0")
        .replace("text", "'-0.0'")
    )
    assert plain.dtype == dtype
    assert repr(plain.to_list()) == expected


@pytest.mark.parametrize("kind", ["append", "diffs", "upsert"])
def test_a_nested_zero_is_one_row_and_one_key(kind: Any) -> None:
    engine = ec.Engine()
    key = "x" if kind == "upsert" else None
    rows = engine.source("a", {"x": pl.List(pl.Float64)}, kind=kind, key=key)
    signs = engine.view("signs", rows.with_columns(sign=1 / pl.col("x").list.first()))
    unique = engine.view("unique", rows.unique())
    groups = engine.view("groups", rows.group_by("x").agg(n=pl.len()))
    joined = engine.view("joined", rows.join(rows, on="x"))
    engine.push("a", [([-0.0],)])
    engine.push("a", [([0.0],)])
    assert set(signs.read()["sign"]) == {float("inf")}
    assert unique.read().height == groups.read().height == 1
    assert joined.read()["x"].to_list()[0] == [0.0]
    if kind != "append":
        engine.push("a", [([-0.0], -1)])
        if kind == "diffs":
            engine.push("a", [([0.0], -1)])
        assert not any(view.read().height for view in (signs, unique, groups, joined))


def test_computed_columns_have_one_zero_within() -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"x": pl.Float64})
    made = rows.with_columns(s=pl.struct(z=pl.col("x") * -1), q=pl.concat_list(-pl.col("x"), 0.0))
    called = rows.map_batches(lambda some: some.select(q=pl.concat_list(-pl.col("x"))))
    views = (
        engine.view("v", made),
        engine.view("w", called),
        engine.view("g", rows.group_by("x").agg(q=(-pl.col("x")).implode())),
    )
    engine.push("a", [(0.0,)])
    assert "-0.0" not in repr([view.read().rows() for view in views])
