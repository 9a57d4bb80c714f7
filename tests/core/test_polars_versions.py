"""What differs between versions of polars: the same rows in the same order, of the same types, with each of them."""

import ast
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_series_equal

import evercurrent
from evercurrent.core.data.columns import polars_versions
from evercurrent.core.data.columns.sorting import sorted_by
from source_modules import tree_of

NESTED: dict[str, tuple[pl.DataType, list[Any]]] = {
    "lists": (pl.List(pl.Int64), [[2], None, [], [1, None], [1], [None], [2], [1, 0]]),
    "lists of floats": (pl.List(pl.Float64), [[0.0], [float("nan")], None, [-1.5], [], [None], [9.0], [0.0, 1.0]]),
    "arrays": (pl.Array(pl.Int64, 2), [[2, 1], None, [1, None], [1, 1], [None, 0], [0, 0], [2, 0], [1, 1]]),
    "structs": (pl.Struct({"p": pl.List(pl.String)}), [{"p": p} for p in (["b"], None, [], ["a"], ["ß"], [""], ["ab"], ["b"])]),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_nested_columns_are_sorted_behind_others(name: str) -> None:
    """As rows are sorted, which all versions do alike; the order of runs in checkpoints is made of it."""
    dtype, values = NESTED[name]
    column = pl.Series("x", values, dtype)
    words = np.zeros(len(column), np.uint64)
    for descending, nulls_last in product((False, True), repeat=2):
        order = sorted_by([words, column], [False, descending], [False, nulls_last])
        rows = column.to_frame().with_row_index("row")
        expected = rows.sort("x", descending=descending, nulls_last=nulls_last, maintain_order=True)
        assert_series_equal(column.gather(order), expected["x"])
        assert sorted(order.tolist()) == list(range(len(column)))


def test_a_sum_of_decimals_has_38_digits_in_rows_as_in_the_plan() -> None:
    engine = evercurrent.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Decimal(5, 2)})
    totals = engine.view("totals", source.group_by("k").agg(s=pl.col("x").sum(), t=pl.col("x").sum() + 1))
    alone = engine.view("alone", source.group_by("k").agg(pl.col("x").sort_by("x").head(2).sum()))
    engine.push("a", pl.DataFrame({"k": [1, 1], "x": ["1.25", "998.75"]}).cast({"x": pl.Decimal(5, 2)}))
    for view in (totals, alone):
        assert view.read().schema == view.schema
        assert all(dtype == pl.Decimal(38, 2) for name, dtype in view.schema.items() if name != "k")
    assert totals.read().select("s").cast(pl.Float64).item() == 1000.0


def test_maps_are_types_where_polars_has_them() -> None:
    assert (polars_versions.MAP is not None) == hasattr(pl, "Map")
    assert not polars_versions.is_map(pl.List(pl.Int64))
    if polars_versions.MAP is not None:
        assert polars_versions.is_map(polars_versions.MAP(pl.String, pl.Int64))


def arrays_in_arrow(height: int) -> pa.Array:
    return pl.Series(
        [[place, None] if place % 3 else None for place in range(height)], dtype=pl.Array(pl.Int8, 2)
    ).to_arrow()


PARTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "arrays": lambda arrays: arrays,
    "a struct": lambda arrays: pa.StructArray.from_arrays([arrays], names=["a"]),
    "a part of structs": lambda arrays: pa.StructArray.from_arrays([arrays], names=["a"]).slice(1),
    "lists": lambda arrays: pa.LargeListArray.from_arrays([0, 1, 1, len(arrays)], arrays),
    "arrays of arrays": lambda arrays: pa.FixedSizeListArray.from_arrays(arrays, 2),
    "a part of arrays of arrays": lambda arrays: pa.FixedSizeListArray.from_arrays(arrays, 2).slice(1),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(("first", "count"), [(0, 8), (0, 4), (1, 4), (2, 6)])
def test_a_part_of_nullable_arrays_is_imported(name: str, first: int, count: int) -> None:
    """Versions up to 2.1 do not import it by themselves."""
    values = PARTS[name](arrays_in_arrow(8).slice(first, count))
    assert polars_versions.of_arrow(values).to_list() == values.to_pylist()
    for rows in (pa.table({"v": values}), pa.RecordBatch.from_arrays([values], names=["v"])):
        frame = pl.DataFrame(pl.from_arrow(polars_versions.importable_rows(rows)))
        assert frame["v"].to_list() == values.to_pylist()


def test_arrays_that_are_imported_as_they_are_are_not_copied() -> None:
    for values in (arrays_in_arrow(8), pa.array(range(8)).slice(2), arrays_in_arrow(2).slice(1)):
        assert polars_versions.importable(values) is values


def calls_of_explode() -> Iterator[tuple[Path, ast.Call]]:
    assert evercurrent.__file__ is not None
    for layer in ("core", "views", "spark_bridge"):
        for path in (Path(evercurrent.__file__).parent / layer).resolve().rglob("*.py"):
            for node in ast.walk(tree_of(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "explode":
                    yield path, node


def test_every_explode_states_what_becomes_of_empty_lists() -> None:
    """Its default was another one before polars 2.0."""
    calls = list(calls_of_explode())
    assert len(calls) > 5
    for path, call in calls:
        assert "empty_as_null" in {each.arg for each in call.keywords}, f"{path.name}:{call.lineno}"


def test_rows_without_any_column_are_still_rows() -> None:
    rows = pl.DataFrame({"k": [1, 2], "x": [3, 4]})
    assert polars_versions.without(rows, ["k"]).columns == ["x"]
    assert polars_versions.without(rows, ["k", "x", "z"]).shape == (2, 0)


def test_what_gives_a_row_another_value_in_company_is_refused_with_the_polars_that_does_not() -> None:
    """The maximum of 1.5 and NaN was NaN for a row alone, and either beside other rows."""
    rows = evercurrent.Engine().source("a", {"x": pl.Float64, "y": pl.Float64, "n": pl.Int64})
    rows.select(pl.max_horizontal("n", pl.col("n") + 1))
    expr = pl.max_horizontal("x", "y").alias("most")
    if polars_versions.VERSION < (1, 44):
        repaired = r"(?s)max_horizontal.*depends on other rows.*repaired in polars 1\.44; use polars 1\.44"
        with pytest.raises(evercurrent.PlanError, match=repaired):
            rows.select(expr)
    else:
        assert rows.select(expr).schema == {"most": pl.Float64()}


def test_a_search_of_lists_is_refused_with_the_polars_that_loses_its_nulls() -> None:
    """Whether a null list is among others was null, and false once rows were gathered."""
    rows = evercurrent.Engine().source("a", {"x": pl.List(pl.Int64), "n": pl.Int64})
    assert rows.select(pl.col("n").is_in([1, 2])).schema == {"n": pl.Boolean()}
    expr = pl.col("x").is_in([[1], [2]])
    if polars_versions.VERSION < (2, 0):
        with pytest.raises(evercurrent.PlanError, match=r"is_in.*repaired in polars 2\.0; use polars 2\.0"):
            rows.select(expr)
    else:
        assert rows.select(expr).schema == {"x": pl.Boolean()}


def test_distinct_items_of_lists_are_in_the_order_of_the_lists() -> None:
    """Before polars 1.41 ``list.unique`` gives texts in another order with each call."""
    engine = evercurrent.Engine()
    source = engine.source("a", {"x": pl.List(pl.String), "y": pl.Array(pl.String, 3)}, kind="diffs")
    distinct = engine.view("v", source.select(pl.col("x").list.unique(), pl.col("y").arr.unique()))
    row = {"x": [["b", "a", "d", "c", "a", "b"]], "y": [["b", "a", "b"]]}
    for _ in range(20):
        engine.push("a", {**row, "_diff": [1]})
        assert distinct.read().rows() == [(["b", "a", "d", "c"], ["b", "a"])]
        engine.push("a", {**row, "_diff": [-1]})
        assert distinct.read().is_empty()


def test_lists_of_categories_come_out_of_arrow_as_they_went_in() -> None:
    """Before polars 1.44 a Series of such an array ends the process, where a value in a list is null."""
    for dtype in (pl.Enum(["a", "b"]), pl.Categorical()):
        lists = pl.Series("x", [["b", None], ["a"], None]).cast(pl.List(dtype))
        assert_series_equal(polars_versions.of_arrow(lists.to_arrow()).alias("x"), lists)


def test_lists_of_no_rows_have_the_elements_of_the_plan() -> None:
    engine = evercurrent.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.List(pl.Float64)})
    view = engine.view("cut", source.select("k", pl.col("x").list.gather([0], null_on_oob=True)))
    assert view.schema["x"] == pl.List(pl.Float64)
    for row in ({"k": [1], "x": [None]}, {"k": [2], "x": [[1.5, 2.5]]}):
        engine.push("a", pl.DataFrame(row, schema=source.schema))
    assert view.read().sort("k")["x"].to_list() == [None, [1.5]]
