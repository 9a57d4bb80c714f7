"""Keys that come in any order and repeatedly are paired with the entries of a run, by a table where each key has one entry."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent.core.data.columns.dense as dense
import evercurrent.core.data.columns.directory as directory
import evercurrent.core.state.run as run_module
from colliding import colliding
from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, run_of_rows
from strategies import of_profile

KINDS: dict[str, Any] = {
    "integers": pl.Int64,
    "texts": pl.String,
    "two columns": pl.Struct({"a": pl.Int64, "b": pl.String}),
}


def column(kind: str, values: list[int | None]) -> pl.Series:
    numbers = pl.Series("k", values, pl.Int64)
    if kind == "integers":
        return numbers
    texts = numbers.cast(pl.String)
    return texts if kind == "texts" else pl.DataFrame({"a": numbers, "b": texts}).to_struct("k")


@pytest.mark.parametrize("kind", sorted(KINDS))
@of_profile(0.4, quick=40)
@given(
    stored=st.lists(st.one_of(st.integers(0, 12), st.none()), max_size=14),
    distinct=st.booleans(),
    sought=st.lists(st.one_of(st.integers(0, 14), st.none()), max_size=20),
    collide=st.booleans(),
)
def test_pairs_are_those_of_equal_keys(
    kind: str, stored: list[int | None], distinct: bool, sought: list[int | None], collide: bool
) -> None:
    stored = list(dict.fromkeys(stored)) if distinct else stored
    layout = Layout(pl.Schema({"k": KINDS[kind], "x": pl.Int64()}), by_row=True)
    frame = pl.DataFrame({"k": column(kind, stored), "x": range(len(stored)), DIFF: [1] * len(stored)})
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(run_module, "FROM", 1)
        patches.setattr(directory, "FROM", 1)
        patches.setattr(dense, "BLOCK", 3)
        patches.setattr(directory, "BLOCK", 3)
        words_of = colliding if collide else key_words
        if collide:
            patches.setattr("evercurrent.core.state.partitioning.key_words", colliding)
        run = run_of_rows(layout, KeyColumns.of(["k"]), frame.with_columns(pl.col(DIFF).cast(pl.Int64)))
        keys = words_of([column(kind, sought)], len(sought))
        numbers, places = run.pairs(keys if len(sought) else Keys(np.zeros(0, np.uint64)))
    owners = list(range(len(sought))) if numbers is None else numbers.tolist()
    rows = run.payload.get_column("x")[places.tolist()].to_list()
    pairs = [
        (number, row) for number, key in enumerate(sought) for row, own in enumerate(stored) if own == key
    ]
    assert sorted(zip(owners, rows, strict=True)) == pairs


def test_a_table_of_distinct_keys_is_made_once_and_counted() -> None:
    size = run_module.FROM
    frame = pl.DataFrame({"k": np.arange(size), "x": np.arange(size), DIFF: np.ones(size, np.int64)})
    layout = Layout(pl.Schema({"k": pl.Int64(), "x": pl.Int64()}), by_row=True)
    run = run_of_rows(layout, KeyColumns.of(["k"]), frame)
    keys = key_words([pl.Series(np.arange(size)[::-1])], size)
    before = run.bytes_of_lookups
    numbers, places = run.pairs(keys)
    assert numbers is None
    assert run.payload.get_column("x")[places.tolist()].to_list() == [*range(size)][::-1]
    held = run.bytes_of_lookups
    assert held > before
    run.pairs(keys)
    assert run.bytes_of_lookups == held
