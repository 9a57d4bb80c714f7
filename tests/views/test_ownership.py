"""Frames that are handed out and frames that are taken in: what is done to them changes nothing for anybody else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
import evercurrent.views.dataframe.accepted_rows as accepted_rows_module

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
    received: list[list[Any]] = []
    view.subscribe(spoiled)
    view.subscribe(lambda delta: received.append(delta.rows()))
    view.subscribe(spoiled, name="named")
    engine.push("rows", {"k": [1], "s": ["a"]})
    assert received == [[(1, "a", 1, 1)]] == [delta.rows() for delta in view.deltas()]


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
    expected = sorted((number, LONG_TEXT + str(number)) for number in range(height))
    write()
    assert sorted(same.read().rows()) == expected
    assert sorted(same.deltas().frame().select("k", "s").rows()) == expected
    assert sorted(counts.read().rows()) == [(number, 1) for number in range(height)]
    again = pl.DataFrame(expected, schema=TYPES, orient="row").with_columns(_diff=-1)
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


READ: dict[str, Callable[[ec.Source, ec.Source], ec.Collection]] = {
    "rows": lambda rows, other: rows,
    "filtered": lambda rows, other: rows.filter(pl.col("k") % 2 == 0),
    "all pass": lambda rows, other: rows.filter(pl.col("k") >= 0).with_columns(y=pl.col("x") * 2),
    "counts": lambda rows, other: rows.group_by("k").agg(n=pl.len()),
    "sums": lambda rows, other: rows.group_by("k", "s").agg(total=pl.col("x").sum(), most=pl.col("y").max()),
    "medians": lambda rows, other: rows.group_by("k").agg(pl.col("x").median(), pl.col("y").n_unique()),
    "distinct": lambda rows, other: rows.select("k", "y").unique(),
    "joined": lambda rows, other: rows.join(other, on="k", how="left"),
    "top": lambda rows, other: rows.top_k(3, by=["y", "x", "k"]),
    "top of keys": lambda rows, other: rows.group_by("k").top_k(2, by=["x", "y"]),
    "users": lambda rows, other: rows.map_batches(lambda frame: frame, schema=rows.schema),
    "windows": lambda rows, other: rows.window(ec.fixed("10s")).group_by("k").agg(n=pl.len()),
}


def pushed_frames(epochs: int) -> list[tuple[pl.DataFrame, list[np.ndarray[Any, Any]]]]:
    """Frames over memory of numpy, and that memory."""
    generator, frames = np.random.default_rng(5), []
    for _ in range(epochs):
        height = int(generator.integers(2, 40))
        memory = {
            "k": generator.integers(0, 5, height),
            "x": np.where(generator.random(height) < 0.2, -0.0, generator.normal(0, 9, height).round(1)),
            "y": generator.integers(0, 9, height),
            "at": generator.integers(0, 10**8, height).view("datetime64[us]"),
        }
        texts = [LONG_TEXT + str(number % 3) for number in range(height)]
        frames.append((pl.DataFrame({**memory, "s": texts}), [*memory.values()]))
    return frames


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    "how",
    [
        "memory",
        "recorded",
        "checkpoint",
        "workers",
        "subscribed",
        "one epoch",
        "diffs",
        "retracting",
        "ledger",
    ],
)
def test_columns_that_are_copied_when_they_are_read_can_be_written_over(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine whose pushed frames are overwritten at once, or by a subscriber, has the results of one whose frames are left alone."""
    monkeypatch.setattr(accepted_rows_module, "FEW_ROWS", 0)
    options_of: dict[str, dict[str, Any]] = {
        "recorded": {"record": True},
        "checkpoint": {"checkpoint": tmp_path / "kept", "record": True},
        "workers": {"workers": 2},
        "ledger": {"on_bad_rows": "ledger"},
    }
    options = options_of.get(how, {})
    types = {"k": pl.Int64, "x": pl.Float64, "y": pl.Int64, "at": pl.Datetime("us"), "s": pl.String}

    def declared_in(engine: ec.Engine) -> ec.View:
        rows = engine.source(
            "rows",
            types,
            kind="diffs" if how in ("diffs", "retracting") else "append",
            event_time="at" if name == "windows" else None,
        )
        other = engine.source("other", {"k": pl.Int64, "label": pl.Int64})
        return engine.view("view", READ[name](rows, other))

    expected, engine = ec.Engine(), ec.Engine(**options)
    truth, view = declared_in(expected), declared_in(engine)
    memory: list[np.ndarray[Any, Any]] = []

    def write_over(*_: object) -> None:
        for values in memory:
            values[:] = values[::-1].copy()

    if how == "subscribed":
        view.subscribe(write_over)
    with engine.epoch() if how == "one epoch" else nullcontext():
        for each in (expected, engine):
            each.push("other", pl.DataFrame({"k": [1, 2, 3], "label": [7, 8, 9]}))
        for frame, memory in pushed_frames(4):
            if how == "retracting":
                signs = np.ones(frame.height, np.int64)
                frame, memory = frame.with_columns(_diff=pl.Series(signs)), [*memory, signs]
            expected.push("rows", frame.to_dicts())
            engine.push("rows", frame)
            write_over()
            if how == "retracting":
                gone = frame.head(1).with_columns(_diff=pl.lit(-1))
                expected.push("rows", gone.to_dicts())
                engine.push("rows", gone)
    for each in (expected, engine):
        each.push("other", pl.DataFrame({"k": [4, 0], "label": [1, 2]}))
    columns = truth.read().columns
    assert view.read().sort(columns).equals(truth.read().sort(columns))
    if "record" in options:
        assert [row for frame in engine.fork().views["view"].deltas() for row in frame.rows()]


def test_diffs_are_copied_although_all_of_them_are_one() -> None:
    height = 10_000
    engine, same, _ = declared()
    numbers, diffs = np.arange(height), np.ones(height, np.int64)
    engine.push("rows", pl.DataFrame({"k": numbers, "s": ["a"] * height, "_diff": diffs}))
    diffs[:] = 7
    assert same.read().height == height
    assert same.deltas().frame()["_diff"].unique().to_list() == [1]


def test_what_an_epoch_that_fails_was_given_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of a frame that was refused can be overwritten and pushed again."""
    monkeypatch.setattr(accepted_rows_module, "FEW_ROWS", 0)
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64})
    view = engine.view("view", rows.group_by("k").agg(pl.col("x").cast(pl.Int8).sum()))
    numbers, values = np.array([1, 2]), np.array([1, 1000])
    with pytest.raises(ec.InputError):
        engine.push("rows", pl.DataFrame({"k": numbers, "x": values}))
    values[:] = 5
    engine.push("rows", pl.DataFrame({"k": numbers, "x": values}))
    assert sorted(view.read().rows()) == [(1, 5), (2, 5)]


@pytest.mark.parametrize("kind", ["append", "diffs"])
@pytest.mark.parametrize(
    "chosen",
    [
        slice(None),
        slice(7, 7),
        slice(9, 10),
        slice(3_000, 7_000),
        slice(5_000, None),
        slice(1, None),
        slice(None, None, 3),
    ],
    ids=["all", "none", "one", "a stretch", "the end", "all but one", "a third"],
)
def test_rows_that_pass_a_filter_are_copied_whichever_they_are(chosen: slice, kind: str) -> None:
    height = 10_000
    numbers, passes = np.arange(height), np.zeros(height, np.int8)
    passes[chosen] = 1
    values = np.where(numbers % 7 == 0, -0.0, np.where(numbers % 11 == 0, np.nan, numbers / 3))
    memory = [numbers, passes, values, (small := values.astype(np.float32))]
    engine = ec.Engine()
    types = {"k": pl.Int64, "passes": pl.Int8, "x": pl.Float64, "y": pl.Float32}
    rows = engine.source("rows", types, kind=kind).filter(pl.col("passes") == 1)  # type: ignore[arg-type]
    views = engine.view("same", rows), engine.view("more", rows.with_columns(twice=pl.col("x") * 2))
    frame = pl.DataFrame({"k": numbers, "passes": passes, "x": values, "y": small})
    expected = [
        pl.Series(column.name, [value + 0 for value in column.to_list()], column.dtype)
        for column in frame.filter(pl.col("passes") == 1)
    ]
    engine.push("rows", frame)
    for array in memory:
        array[:] = array[::-1].copy()
    for view in views:
        read = view.read().sort("k").select(*types)
        assert read.equals(pl.DataFrame(expected))
        assert not np.signbit(read["x"].to_numpy()[read["x"].to_numpy() == 0]).any()
        assert view.deltas().frame().sort("k").select(*types).equals(read)
