"""Many rows that wait are read as they came: the same rows as sorted ones, in an order that no reader changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
import evercurrent.core.state.spine as spine_module
from evercurrent.core.data.clock import Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.arrange import Materialize
from evercurrent.core.state.spine import Version

SCHEMA = pl.Schema({"k": pl.Int64(), "x": pl.String(), "v": pl.Float64()})
ROWS = [(1, "a", 0.5), (1, "b", 0.5), (2, "a", float("nan")), (None, None, None)]
NOW = Now(1, datetime(2026, 1, 1, tzinfo=UTC))
EPOCHS = st.lists(
    st.lists(st.tuples(st.sampled_from(range(len(ROWS))), st.sampled_from([1, 1, 1, 2, -1])), max_size=6),
    max_size=8,
)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spine_module, "UNHASHED_FROM", 1)
    monkeypatch.setattr(spine_module, "FEW_WAITING", 0)


def delta_of(epoch: list[tuple[int, int]]) -> Delta:
    rows = [(*ROWS[place], diff) for place, diff in epoch]
    return Delta(pl.DataFrame(rows, {**SCHEMA, DIFF: pl.Int64()}, orient="row"))


def push(view: Materialize, epoch: list[tuple[int, int]]) -> Version:
    view.step(NOW, delta_of(epoch))
    view.spine.commit()
    return view.spine.version


def counted(epochs: list[list[tuple[int, int]]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for place, diff in [entry for epoch in epochs for entry in epoch]:
        sums[repr(ROWS[place])] += diff
    return sums


def those(frame: pl.DataFrame, diffs: list[int] | None = None) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row, diff in zip(frame.rows(), diffs or [1] * frame.height, strict=True):
        sums[repr(row)] += diff
    return sums


@given(EPOCHS, st.sets(st.integers(0, 7)))
def test_rows_are_those_that_were_added_and_not_retracted(
    epochs: list[list[tuple[int, int]]], read_after: set[int]
) -> None:
    view = Materialize(SCHEMA)
    versions = []
    for number, epoch in enumerate(epochs):
        versions.append(push(view, epoch))
        if number in read_after:
            view.contents()
    for number, version in enumerate(versions):
        expected = counted(epochs[: number + 1])
        assert those(view.contents([version])) == +expected
        emitted = view.emitted([version])
        sums = those(emitted.rows, emitted.diffs.tolist())
        assert {row: diff for row, diff in sums.items() if diff} == {
            row: diff for row, diff in expected.items() if diff
        }


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_the_order_of_rows_does_not_depend_on_who_has_read_before(
    sizes: list[int], data: st.DataObject
) -> None:
    """Each epoch adds many rows and retracts a few that are there."""
    read, unread = Materialize(SCHEMA), Materialize(SCHEMA)
    there: Counter[tuple[int, str, float]] = Counter()
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    for size in sizes:
        new = [(int(k), "x", 0.25) for k in generator.integers(0, 40, 8 * size)]
        there.update(new)
        gone = [
            row for row in data.draw(st.sets(st.sampled_from(sorted(there)), max_size=size)) if there[row]
        ]
        there.subtract(gone)
        rows = [(*row, 1) for row in new] + [(*row, -1) for row in gone]
        change = Delta(pl.DataFrame(rows, {**SCHEMA, DIFF: pl.Int64()}, orient="row"))
        for view in (read, unread):
            view.step(NOW, change)
            view.spine.commit()
        if data.draw(st.booleans()):
            assert Counter(read.contents().rows()) == +there
    left, right = read.contents(), unread.contents()
    assert Counter(left.rows()) == Counter(right.rows()) == +there
    is_unsorted = [bool(view.spine.version.parts[1]) for view in (read, unread)]
    if all(is_unsorted):
        assert left.rows() == right.rows()


def test_a_read_of_rows_that_were_only_added_sorts_nothing_and_keeps_them_once() -> None:
    engine = ec.Engine()
    source = engine.source("rows", {"k": pl.Int64, "x": pl.String})
    view = engine.view("even", source.filter(pl.col("k") % 2 == 0))
    for start in (0, 10, 20):
        engine.push("rows", {"k": [start, start + 1, start + 2], "x": ["c", "b", "a"]})
    assert view.read().rows() == [(0, "c"), (2, "a"), (10, "c"), (12, "a"), (20, "c"), (22, "a")]
    engine.push("rows", {"k": [4], "x": ["d"]})
    assert view.read().rows()[-1] == (4, "d")
    assert view.read().height == 7
