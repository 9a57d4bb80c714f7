"""Of an input that never retracts only the first rows of each group are kept: the same deltas as with all rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
from edge_values import VALUES
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.state import first_rows
from evercurrent.core.state.lookup import first_rows as first_rows_of
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, run_of_rows
from evercurrent.core.state.spine import Spine
from evercurrent.views.plan.plan import Plan
from strategies import of_profile

OTHERS: dict[Any, list[Any]] = {
    pl.String: ["", "a", "b", "ä"],
    pl.Decimal(38, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999999999999999.99")],
    pl.Enum(["z", "a"]): ["z", "a"],
    pl.Categorical: ["z", "a"],
}
"""Values that have no order word."""

TYPES = VALUES | OTHERS

each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def declared(
    engine: ec.Engine, kind: Any, dtype: Any, *, count: int, keys: tuple[str, ...], **order: Any
) -> ec.View:
    rows = engine.source("rows", {"k": pl.Int64, "t": pl.String, "x": dtype}, kind=kind, **options(kind))
    return engine.view("v", (rows.group_by(*keys) if keys else rows).limit(count, by="x", **order))


def options(kind: str) -> dict[str, Any]:
    return {"trusted": True} if kind == "diffs" else {}


def deltas(view: ec.View) -> list[pl.DataFrame]:
    return list(view.deltas())


@each_type
@of_profile(0.25, quick=10)
@given(data=st.data())
def test_deltas_are_those_of_all_rows(dtype: Any, data: st.DataObject) -> None:
    value = st.sampled_from([*TYPES[dtype], None])
    row = st.tuples(st.sampled_from([0, 1]), st.sampled_from(["a", None]), value)
    epochs = data.draw(st.lists(st.lists(row, max_size=24), min_size=1, max_size=3))
    keys = data.draw(st.sampled_from([(), ("k",), ("t",), ("k", "t")]))
    order = {"descending": data.draw(st.booleans()), "nulls_last": data.draw(st.booleans())}
    engines = [ec.Engine(), ec.Engine()]
    views = [
        declared(
            engine,
            kind,
            dtype,
            count=data.draw(st.shared(st.integers(1, 3), key="count")),
            keys=keys,
            **order,
        )
        for engine, kind in zip(engines, ("append", "diffs"), strict=True)
    ]
    for rows in epochs:
        frame = pl.DataFrame(rows, {"k": pl.Int64, "t": pl.String, "x": dtype}, orient="row")
        for engine in engines:
            engine.push("rows", frame)
    ours, theirs = map(deltas, views)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert_frame_equal(one, other)


@settings(max_examples=settings().max_examples // 2)
@given(
    epochs=st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1), min_size=1, max_size=4
    )
)
def test_rows_that_differ_only_in_lists_have_one_order(epochs: list[list[tuple[int, int]]]) -> None:
    views = []
    for kind in ("append", "diffs"):
        engine = ec.Engine()
        rows = engine.source("rows", {"k": pl.Int64, "l": pl.List(pl.Int64)}, kind=kind, **options(kind))
        view = engine.view("v", rows.with_columns(t=pl.lit("a")).group_by("k").limit(1, by="t"))
        for epoch in epochs:
            engine.push("rows", {"k": [key for key, _ in epoch], "l": [[number] for _, number in epoch]})
        views.append(view)
    for one, other in zip(*map(deltas, views), strict=True):
        assert_frame_equal(one, other)


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data(), dtype=st.sampled_from([pl.String, pl.Decimal(38, 2)]), count=st.integers(1, 3), order=st.fixed_dictionaries({"descending": st.booleans(), "nulls_last": st.booleans()}))  # fmt: skip
def test_the_first_of_all_rows_by_values_without_words_are_those_of_all(
    data: st.DataObject, dtype: Any, count: int, order: dict[str, bool]
) -> None:
    row = st.tuples(st.integers(0, 2), st.just("a"), st.sampled_from(TYPES[dtype]))
    last = st.tuples(st.integers(0, 2), st.just("a"), st.sampled_from([*TYPES[dtype], None]))
    batch = st.lists(row, min_size=2, max_size=8) | st.lists(last, min_size=1)
    views = []
    epochs = data.draw(st.lists(batch, max_size=4))
    for kind in ("append", "diffs"):
        engine = ec.Engine()
        views.append(declared(engine, kind, dtype, count=count, keys=(), **order))
        for rows in epochs:
            schema = {"k": pl.Int64, "t": pl.String, "x": dtype}
            engine.push("rows", pl.DataFrame(rows, schema, orient="row"))
    for one, other in zip(*map(deltas, views), strict=True):
        assert_frame_equal(one, other)


@pytest.mark.parametrize("nulls_last", [False, True])
def test_a_null_is_no_bound_for_texts(nulls_last: bool) -> None:
    engine = ec.Engine()
    view = declared(engine, "append", pl.String, count=1, keys=(), nulls_last=nulls_last)
    for texts in ([None], ["b", "a", "c"], ["d", "a", "0"]):
        engine.push("rows", {"k": [1] * len(texts), "t": ["t"] * len(texts), "x": texts})
    assert view.read()["x"].to_list() == ["0" if nulls_last else None]


def entries(engine: ec.Engine) -> list[int]:
    nodes = engine._running.current().circuit.nodes
    return [node.operator.spine.entries for node in nodes if isinstance(node.operator, Arrange)]


@pytest.mark.parametrize("keys", [(), ("k",)], ids=str)
def test_only_first_rows_are_kept(keys: tuple[str, ...]) -> None:
    engine = ec.Engine()
    view = declared(engine, "append", pl.Int64, count=3, keys=keys, descending=True)
    for epoch in range(20):
        numbers = range(epoch * 100, epoch * 100 + 100)
        engine.push("rows", {"k": [n % 2 for n in numbers], "t": [None] * 100, "x": list(numbers)})
    groups = 2 if keys else 1
    most = sorted(range(2000), reverse=True)[: 3 * groups]
    assert sorted(view.read()["x"].to_list(), reverse=True) == most
    (kept,) = entries(engine)
    assert kept <= 3 * groups * 3, "what has left and what came after it are in a few runs at most"


def test_equal_rows_count_as_often_as_they_came() -> None:
    engine = ec.Engine()
    view = declared(engine, "append", pl.Int64, count=3, keys=())
    rows = {"k": [1] * 8, "t": ["a"] * 8, "x": [5] * 8}
    engine.push("rows", rows)
    assert view.read()["x"].to_list() == [5, 5, 5]
    engine.push("rows", rows | {"x": [5, 5, 5, 5, 5, 5, 5, 4]})
    assert sorted(view.read()["x"].to_list()) == [4, 5, 5]
    assert entries(engine) == [3], "two rows, one of them with a change of its count"


def two(engine: ec.Engine) -> list[ec.View]:
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Float64})
    grouped = rows.group_by("k")
    return [
        engine.view("three", grouped.top_k(3, by="x")),
        engine.view("one", grouped.top_k(1, by="x")),
        engine.view("chain", grouped.top_k(2, by="x").group_by("k").agg(least=pl.col("x").min())),
    ]


BATCHES = [
    {"k": [n % 3 for n in range(30)], "x": [float((n * 37) % 101) for n in range(30)]},
    {"k": [0, 1, 2, 0], "x": [float("nan"), 1000.0, None, 100.5]},
    {"k": [n % 3 for n in range(40)], "x": [float((n * 53) % 211) for n in range(40)]},
    {"k": [1, 4], "x": [float("inf"), -0.0]},
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("goes_on_from", range(1, len(BATCHES)))
def test_a_checkpoint_with_all_rows_goes_on(
    workers: int, goes_on_from: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = ec.Engine()
    two(undisturbed)
    with monkeypatch.context() as patched:
        patched.setattr(Plan, "may_retract", lambda plan, place: True)
        with ec.Engine(checkpoint=tmp_path, workers=workers) as engine:
            two(engine)
            for batch in BATCHES[:goes_on_from]:
                engine.push("rows", batch)
    for batch in BATCHES:
        undisturbed.push("rows", batch)
    for batch in BATCHES[goes_on_from:]:
        with ec.Engine(checkpoint=tmp_path, workers=workers) as engine:
            views = two(engine)
            engine.push("rows", batch)
            shown = {view.name: deltas(view) for view in views}
    for view in undisturbed.views.values():
        for one, other in zip(shown[view.name], deltas(view), strict=True):
            assert_frame_equal(one, other, check_row_order=workers == 1)


def test_first_rows_are_not_taken_for_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        two(engine)
        engine.push("rows", BATCHES[0])
    monkeypatch.setattr(Plan, "may_retract", lambda plan, place: True)
    with ec.Engine(checkpoint=tmp_path) as engine:
        two(engine)
        with pytest.raises(ec.CheckpointError, match="is missing and cannot be computed"):
            engine.push("rows", BATCHES[1])


@pytest.mark.parametrize("retained", [True, False])
def test_another_count_beside_it_leaves_it_as_it_is(retained: bool, tmp_path: Path) -> None:
    def opened(engine: ec.Engine, *counts: int) -> dict[int, ec.View]:
        rows = engine.source("rows", {"k": pl.Int64, "x": pl.Float64}, retained=retained)
        return {
            count: engine.view(f"top {count}", rows.group_by("k").top_k(count, by="x")) for count in counts
        }

    with ec.Engine(checkpoint=tmp_path) as engine:
        opened(engine, 2)
        engine.push("rows", BATCHES[0])
    with ec.Engine(checkpoint=tmp_path) as engine:
        views = opened(engine, 3, 2, 1)
        if not retained:
            with pytest.raises(ec.CheckpointError, match="retained=True"):
                views[3].read()
            return
        engine.push("rows", BATCHES[2])
        every = pl.concat([pl.DataFrame(BATCHES[0]), pl.DataFrame(BATCHES[2])])
        for count, view in views.items():
            first = every.sort("x", descending=True).group_by("k").head(count)
            assert_frame_equal(view.read(), first, check_row_order=False, check_column_order=False)


AGGREGATES = {
    "low": pl.col("t").min(),
    "high": pl.col("t").max(),
    "some": pl.col("t").filter(pl.col("x") > 3).max(),
    "first": pl.col("x").sort_by("t").first(),
    "last": pl.col("x").sort_by("t", descending=True).first(),
    "bytes": pl.col("b").max(),
    "list": pl.col("l").sort_by("t").first(),
    "null": pl.col("t").sort(nulls_last=False).first(),
}
"""Each needs the first row by a text or bytes, which have no order words; lists have no order at all."""


def aggregated(engine: ec.Engine, kind: Any) -> ec.View:
    rows = engine.source("rows", {"k": pl.Int64, "t": pl.String, "x": pl.Int64}, kind=kind, **options(kind))
    more = rows.with_columns(b=pl.col("t").cast(pl.Binary), l=pl.concat_list(pl.col("x") % 2))
    return engine.view("v", more.group_by("k").agg(**AGGREGATES))


texts = st.lists(
    st.tuples(st.sampled_from([0, 1, None]), st.sampled_from(["", "a", "b", "ä", None]), st.integers(0, 6)),
    min_size=1,
    max_size=24,
)


@settings(max_examples=settings().max_examples // 2)
@given(epochs=st.lists(texts, min_size=1, max_size=4), few=st.sampled_from([0, 256]))
def test_aggregates_of_the_first_rows_are_those_of_all_rows(epochs: list[list[Any]], few: int) -> None:
    engines = [ec.Engine(), ec.Engine()]
    views = [aggregated(engine, kind) for engine, kind in zip(engines, ("append", "diffs"), strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_rows, "FEW", few)
        for rows in epochs:
            frame = pl.DataFrame(rows, {"k": pl.Int64, "t": pl.String, "x": pl.Int64}, orient="row")
            for engine in engines:
                engine.push("rows", frame)
    ours, theirs = map(deltas, views)
    for one, other in zip(ours, theirs, strict=True):
        assert_frame_equal(one, other)


def test_the_greatest_text_keeps_one_row_of_each_group() -> None:
    engine = ec.Engine()
    view = aggregated(engine, "append")
    for epoch in range(20):
        numbers = range(epoch * 500, epoch * 500 + 500)
        engine.push(
            "rows", {"k": [n % 2 for n in numbers], "t": [f"{n:06}" for n in numbers], "x": [*numbers]}
        )
    assert view.read().sort("k")["high"].to_list() == ["009998", "009999"]
    assert max(entries(engine)) <= 2 * 3


def test_a_checkpoint_with_all_texts_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [{"k": [n % 3 for n in range(9)], "t": [str(n * at % 7) for n in range(9)], "x": [*range(9)]} for at in range(3)]  # fmt: skip
    undisturbed = ec.Engine()
    aggregated(undisturbed, "append")
    with monkeypatch.context() as patched:
        patched.setattr(Plan, "may_retract", lambda plan, place: True)
        with ec.Engine(checkpoint=tmp_path) as engine:
            aggregated(engine, "append")
            engine.push("rows", batches[0])
    for batch in batches:
        undisturbed.push("rows", batch)
    for batch in batches[1:]:
        with ec.Engine(checkpoint=tmp_path) as engine:
            view = aggregated(engine, "append")
            engine.push("rows", batch)
            shown = deltas(view)
    for one, other in zip(shown, deltas(undisturbed.views["v"]), strict=True):
        assert_frame_equal(one, other)


def test_explain_names_the_arrangement() -> None:
    engine = ec.Engine()
    two(engine)
    assert "first 3 rows by k, order x" in engine.explain(circuit=True)
    engine = ec.Engine()
    declared(engine, "diffs", pl.Int64, count=3, keys=("k",))
    assert "arrange by k, order x" in engine.explain(circuit=True)


SINGLE = pl.Schema({"k": pl.Int64(), "x": pl.Int64(), DIFF: pl.Int64()})


def filled(rows: list[tuple[int, int, int]]) -> Spine:
    """A state of rows by key, in the order of x."""
    keys = KeyColumns.of(("k",))
    spine = Spine(Layout(pl.Schema({"x": pl.Int64()}), by_row=True, order=(Order("x"),)), keys=keys)
    staged(spine, rows)
    spine.commit()
    return spine


def staged(spine: Spine, rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, SINGLE, orient="row")
    spine.stage(run_of_rows(spine.layout, KeyColumns.of(("k",)), frame))


def looked_up(spine: Spine, *keys: int, count: int = 1) -> list[int]:
    words = spine.words_of(pl.DataFrame({"k": keys}))
    return first_rows_of(spine, words.take(np.argsort(words.first)), count).payload["x"].to_list()


def test_what_was_looked_up_is_that_of_the_same_keys_count_and_state() -> None:
    spine = filled([(1, 5, 1), (1, 6, 1), (2, 7, 1)])
    assert looked_up(spine, 1) == looked_up(spine, 1) == [5]
    assert looked_up(spine, 2) == [7]
    assert looked_up(spine, 1, count=2) == [5, 6]
    assert looked_up(spine, 1) == [5]
    staged(spine, [(1, 4, 1)])
    assert looked_up(spine, 1) == [5]  # As of the last commit.
    spine.discard()
    assert looked_up(spine, 1) == [5]
    staged(spine, [(1, 4, 1)])
    version = spine.version
    spine.commit()
    assert looked_up(spine, 1) == [4]
    assert looked_up(spine.at(version), 1) == [5]
    assert looked_up(spine, 1) == [4]
    other = filled([(1, 9, 1)])
    spine.share(other.version)
    assert looked_up(spine, 1) == [9]
    spine.restore(filled([(1, 3, 1)]).saved())
    assert looked_up(spine, 1) == [3]
