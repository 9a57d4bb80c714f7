"""Lists without elements in files: what polars gives as a part of nothing is written as it is."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow
from evercurrent.views.checkpoint.piece_files import Content, as_bytes, as_plain_bytes, from_bytes

VALUES: list[tuple[pl.DataType, Any, Any]] = [
    (pl.List(pl.Int64), [3], []),
    (pl.List(pl.String), ["more than twelve bytes"], []),
    (pl.List(pl.List(pl.Int64)), [[3]], [[]]),
    (pl.Struct({"a": pl.List(pl.Int64), "b": pl.String}), {"a": [3], "b": "x"}, {"a": [], "b": None}),
    (pl.List(pl.Enum(["x"])), ["x"], []),
    (pl.Array(pl.List(pl.Int64), 1), [[3]], [[]]),
]


def part_of_nothing(dtype: pl.DataType, full: Any, empty: Any) -> pl.DataFrame:
    """Two chunks, of which only what is empty is taken: it stands behind an element that is not there any more."""
    column = (
        pl.Series("l", [None, None, full, empty], dtype)
        .to_frame()
        .vstack(pl.Series("l", [None], dtype).to_frame())
    )
    taken = column["l"][pl.Series([0, 3, 1, 3, 4], dtype=pl.UInt32)]
    return pl.DataFrame([taken, pl.Series("n", [1, -1, 1, -1, 1])])


@pytest.mark.parametrize("written", [as_bytes, as_plain_bytes])
@pytest.mark.parametrize(("dtype", "full", "empty"), VALUES, ids=str)
def test_in_a_file(dtype: pl.DataType, full: Any, empty: Any, written: Callable[..., Content]) -> None:
    frame = part_of_nothing(dtype, full, empty)
    data = b"".join(map(bytes, written(frame).parts))
    assert from_bytes("a file", pa.py_buffer(data)).equals(frame)


@pytest.mark.parametrize(("dtype", "full", "empty"), VALUES[:4], ids=str)
def test_on_the_way_to_spark(dtype: pl.DataType, full: Any, empty: Any) -> None:
    frame = part_of_nothing(dtype, full, empty)
    assert pickle.loads(pickle.dumps(frame)).equals(frame)
    table, sink = frame_to_spark_arrow(frame), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(table)
    assert pl.DataFrame(pl.from_arrow(table)).equals(frame)


def test_in_a_checkpoint(tmp_path: Path) -> None:
    def opened() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path)
        rows = engine.source("rows", {"k": pl.Int64, "l": pl.List(pl.Int64)}, kind="diffs")
        engine.view("rows", rows)
        return engine

    frame = part_of_nothing(pl.List(pl.Int64), [3], []).select("l", k=pl.int_range(pl.len()))
    with opened() as engine:
        engine.push("rows", frame)
    with opened() as engine:
        assert engine.views["rows"].read().sort("k").equals(frame.select("k", "l"))
        assert next(iter(engine.views["rows"].deltas(since=0))).sort("k")["l"].equals(frame["l"])
