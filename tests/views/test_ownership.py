"""Frames that are handed out and frames that are taken in: what is done to them changes nothing for anybody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec

TYPES = {"k": pl.Int64, "s": pl.String}
LONG_TEXT = "a text that is longer than twelve bytes"


def declared(**options: Any) -> tuple[ec.Engine, ec.View, ec.View]:
    engine = ec.Engine(**options)
    rows = engine.source("rows", TYPES, kind="diffs")
    return engine, engine.view("same", rows), engine.view("counts", rows.group_by("k").agg(n=pl.len()))


def spoiled(frame: pl.DataFrame) -> None:
    """Do to a frame what can be done to it in place."""
    frame[0, "k"] = 99
    frame.get_column("k").scatter([0], [98])
    frame.insert_column(0, pl.Series("new", np.zeros(frame.height)))
    frame.extend(frame)
    frame.drop_in_place("k")


@pytest.mark.parametrize(
    "handed",
    [
        lambda view: view.read(),
        lambda view: view.snapshot().frame,
        lambda view: next(iter(view.deltas())),
        lambda view: view.deltas().frame(),
        lambda view: next(iter(view.changes(key="k"))),
    ],
    ids=["read", "snapshot", "deltas", "frame", "changes"],
)
def test_what_is_handed_out_is_the_callers_own(handed: Callable[[ec.View], pl.DataFrame]) -> None:
    engine, *views = declared()
    engine.push("rows", {"k": [1, 2], "s": ["a", LONG_TEXT]})
    for view in views:
        before = handed(view).rows()
        spoiled(handed(view))
        assert handed(view).rows() == before
    engine.push("rows", {"k": [1], "s": ["a"], "_diff": [-1]})
    assert views[0].read().rows() == [(2, LONG_TEXT)]


def test_subscribers_do_not_see_what_others_do_to_a_delta() -> None:
    engine, view, _ = declared()
    heard: list[list[Any]] = []
    view.subscribe(spoiled)
    view.subscribe(lambda delta: heard.append(delta.rows()))
    view.subscribe(spoiled, name="named")
    engine.push("rows", {"k": [1], "s": ["a"]})
    assert heard == [[(1, "a", 1, 1)]] == [delta.rows() for delta in view.deltas()]


def test_the_ledger_is_the_callers_own() -> None:
    engine, *_ = declared()
    engine.push("rows", {"k": [1], "s": ["a"], "_diff": [-1]})
    for source in (None, "rows"):
        before = engine.ledger(source).rows()
        engine.ledger(source)[0, "_diff"] = 99
        assert engine.ledger(source).rows() == before


def _in_numpy(values: np.ndarray[Any, Any]) -> Callable[[], None]:
    def write() -> None:
        values[:] = 99

    return write


def _in_arrow(table: pa.Table) -> Callable[[], None]:
    def write() -> None:
        for column in table.columns:
            for buffer in column.chunk(0).buffers():
                if buffer is not None and buffer.is_mutable:
                    np.frombuffer(buffer, np.uint8)[:] = 66

    return write


def _offered(kind: str, height: int) -> tuple[Any, Callable[[], None]]:
    """Rows to push, and what writes into the memory that they are in."""
    numbers, texts = np.arange(height), [LONG_TEXT + str(number) for number in range(height)]
    match kind:
        case "dict of numpy":
            return {"k": numbers, "s": texts}, _in_numpy(numbers)
        case "frame of numpy":
            return pl.DataFrame({"k": numbers, "s": texts}), _in_numpy(numbers)
        case "lazy frame of numpy":
            return pl.DataFrame({"k": numbers, "s": texts}).lazy(), _in_numpy(numbers)
        case "frame of arrow":
            table = pa.table({"k": pa.array(numbers), "s": pa.array(texts)})
            return pl.DataFrame(table), _in_numpy(numbers)
        case "arrow of numpy":
            return pa.table({"k": pa.array(numbers), "s": pa.array(texts)}), _in_numpy(numbers)
        case "arrow":
            table = pa.table({"k": pa.array(texts).cast(pa.string()), "s": pa.array(texts)})
            table = table.set_column(0, "k", pa.array(list(range(height))))
            return table, _in_arrow(table)
        case "arrow batch":
            table = pa.table({"k": pa.array(numbers), "s": pa.array(texts)})
            return table.to_batches()[0], _in_arrow(table)
    frame = pl.DataFrame({"k": range(height), "s": texts}, schema=TYPES)
    return frame, lambda: spoiled(frame)


@pytest.mark.parametrize("height", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "kind",
    [
        "dict of numpy",
        "frame of numpy",
        "lazy frame of numpy",
        "frame of arrow",
        "arrow of numpy",
        "arrow",
        "arrow batch",
        "frame",
    ],
)
def test_what_is_taken_in_can_be_written_over(kind: str, height: int) -> None:
    engine, same, counts = declared(record=True)
    data, write = _offered(kind, height)
    engine.push("rows", data)
    wanted = sorted((number, LONG_TEXT + str(number)) for number in range(height))
    write()
    assert sorted(same.read().rows()) == wanted
    assert sorted(same.deltas().frame().select("k", "s").rows()) == wanted
    assert sorted(counts.read().rows()) == [(number, 1) for number in range(height)]
    again = pl.DataFrame(wanted, schema=TYPES, orient="row").with_columns(_diff=-1)
    engine.push("rows", again)
    assert same.read().is_empty()
    assert engine.ledger().is_empty()


def test_what_a_function_has_made_of_rows_can_be_written_over() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64})
    scratch = np.zeros(4, np.int64)

    def doubled(frame: pl.DataFrame) -> pl.DataFrame:
        scratch[: frame.height] = frame["k"].to_numpy() * 2
        return pl.DataFrame({"k": scratch[: frame.height]})

    view = engine.view("doubled", rows.map_batches(doubled, schema={"k": pl.Int64}))
    engine.push("rows", {"k": [1, 2]})
    engine.push("rows", {"k": [3]})
    assert sorted(view.deltas().frame()["k"].to_list()) == [2, 4, 6]
