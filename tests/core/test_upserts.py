"""A row that replaces an equal one changes nothing, whatever its values are."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import evercurrent as ec

NAN = float("nan")
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "integer": (pl.Int64, [1, None]),
    "float": (pl.Float64, [NAN, None, 0.0]),
    "text": (pl.String, ["", None, "a" * 40]),
    "list": (pl.List(pl.Float64), [[NAN], [], None, [None, 1.0]]),
    "struct": (pl.Struct({"a": pl.Float64, "b": pl.String}), [{"a": NAN, "b": None}, None]),
    "array": (pl.Array(pl.Int64, 2), [[1, None], None]),
    "decimal": (pl.Decimal(20, 2), [None, 1]),
    "category": (pl.Categorical, ["a", None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_equal_rows_are_in_no_delta(kind: str) -> None:
    dtype, values = VALUES[kind]
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"k": pl.Int64, "x": dtype, "n": pl.Int64}, kind="upsert", key="k"))  # fmt: skip
    frame = pl.DataFrame(
        {"k": range(len(values)), "x": values, "n": [0] * len(values)},
        {"k": pl.Int64, "x": dtype, "n": pl.Int64},
    )
    epoch = engine.push("s", frame)
    engine.push("s", frame[::-1])
    assert not list(view.deltas(since=epoch))
    engine.push("s", frame.with_columns(n=pl.when(pl.col("k") == 1).then(1).otherwise(0)))
    (delta,) = view.deltas(since=epoch)
    assert sorted(delta.select("k", "n", "_diff").rows()) == [(1, 0, -1), (1, 1, 1)]


def test_a_value_of_another_row_of_the_key_is_no_equal_one() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"k": pl.Int64, "x": pl.List(pl.Int64)}, kind="upsert", key="k"))  # fmt: skip
    engine.push("s", {"k": [1, 2], "x": [[1], [2]]})
    engine.push("s", {"k": [2, 1], "x": [[1], [2]]})
    assert sorted(view.read().rows()) == [(1, [2]), (2, [1])]
