"""Many rows are added up a block at a time, with the same sums, bit by bit, as all at once."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal

import evercurrent as ec
import evercurrent.core.data.columns.grouping as grouping
import evercurrent.core.operators.group.accumulators as accumulators
from evercurrent.core.data.columns.grouping import DenseGroups, Groups, group_column
from evercurrent.core.data.columns.whole_columns import AnyColumn, IntColumn, ones
from evercurrent.core.operators.group.accumulators import additions, contributions
from strategies import of_profile

ROWS = 40
FLOATS = [
    None,
    0.0,
    -0.0,
    1.5,
    -3.0e-300,
    1.0e300,
    2.0**-1074,
    float("nan"),
    float("inf"),
    float("-inf"),
    0.1,
]
INTEGERS = [None, 0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 12345]
COLUMNS: dict[str, tuple[Any, list[Any], tuple[str, ...]]] = {
    "float": (pl.Float64, FLOATS, ("sum", "squares", "nulls")),
    "small float": (pl.Float32, [None, 0.5, 1e30, -1e-30], ("sum", "squares", "nulls")),
    "integer": (pl.Int64, INTEGERS, ("sum", "squares", "nulls")),
    "short": (pl.Int8, [None, 127, -128, 3], ("sum", "squares", "nulls")),
    "unsigned": (pl.UInt64, [None, 0, 2**64 - 1, 2**32], ("sum", "squares", "nulls")),
    "wide": (pl.Int128, [None, 0, 2**100, -(2**100), 1], ("sum", "squares", "nulls")),
    "decimal": (pl.Decimal(38, 2), [None, "1.25", "-99999999999999999999.99"], ("sum", "squares", "nulls")),
    "boolean": (pl.Boolean, [None, True, False], ("true", "false", "nulls")),
}
PARTS = {
    "nulls": accumulators._nulls,
    "sum": accumulators._sum,
    "squares": accumulators._sums_and_squares,
    "true": accumulators._trues,
    "false": accumulators._falses,
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Any], list[AnyColumn]]:
    """Return parts of aggregates and the column of each."""
    parts, chosen = [], list[AnyColumn]()
    for name in draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=3)):
        dtype, values, kinds = COLUMNS[name]
        drawn = draw(st.lists(st.sampled_from(values), min_size=ROWS, max_size=ROWS))
        column: AnyColumn = pl.Series(name, drawn, pl.String if name == "decimal" else dtype).cast(dtype)
        if name == "integer" and draw(st.booleans()):
            column = IntColumn(name, column.fill_null(7).to_numpy())
        for kind in kinds:
            parts.append((name, PARTS[kind]))
            chosen.append(column)
    return parts, chosen


def groups_of(keys: list[int], *, dense: bool) -> Groups:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(grouping, "SMALL", 0)
        patches.setattr(grouping, "DENSE_BELOW", 1 << 20 if dense else 0)
        groups = group_column(pl.Series(keys))
    assert isinstance(groups, DenseGroups) == dense
    return groups


@of_profile(0.5, quick=60)
@given(
    columns=columns(),
    keys=st.lists(st.integers(0, 9), min_size=ROWS, max_size=ROWS),
    diffs=st.one_of(st.none(), st.lists(st.sampled_from([1, 1, -1, 3]), min_size=ROWS, max_size=ROWS)),
    dense=st.booleans(),
    block=st.sampled_from([1, 3, 7, ROWS]),
)
def test_blocks_add_up_to_the_whole(
    columns: tuple[list[Any], list[AnyColumn]],
    keys: list[int],
    diffs: list[int] | None,
    dense: bool,
    block: int,
) -> None:
    parts, chosen = columns
    groups = groups_of(keys, dense=dense)
    counts = ones(ROWS) if diffs is None else np.array(diffs, np.int64)
    whole = groups.sums_of(contributions(parts, chosen, counts))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(grouping, "BLOCK", block)
        patches.setattr(accumulators, "BLOCK", 1)
        by_block = additions(groups, parts, chosen, counts)
    nothing = np.zeros(len(groups), np.int64)
    for name in {*whole, *by_block}:
        assert by_block.get(name, nothing).tolist() == whole.get(name, nothing).tolist(), name


def test_sums_of_words_are_exact_modulo_two_to_the_64() -> None:
    words = np.array([2**63 - 1, 2**63 - 1, -(2**63), 5, -7], np.int64)
    groups = groups_of([0, 0, 1, 1, 1], dense=True)
    by_key = dict(zip([0, 1] if groups.numbers[0] == 0 else [1, 0], groups.sums(words).tolist(), strict=True))
    assert by_key == {0: -2, 1: -(2**63) - 2 + 2**64}
    assert groups.sums_by_block(lambda rows: {"x": words[rows]})["x"].tolist() == groups.sums(words).tolist()


@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
def test_no_more_rows_than_a_block_are_cut_at_a_time(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what a large epoch takes on the way follows the block, and not its rows."""
    rows, keys, heights = 600, 20, list[int]()

    def counted(parts: Any, columns: Any, diffs: Any) -> dict[str, Any]:
        heights.append(len(diffs))
        return contributions(parts, columns, diffs)

    monkeypatch.setattr(accumulators, "contributions", counted)
    for module in (grouping, accumulators):
        monkeypatch.setattr(module, "BLOCK", 2 * keys)
    engine = ec.Engine()
    source = engine.source("rows", {"k": kind, "x": pl.Float64})
    totals = {"n": pl.len(), "total": pl.col("x").sum(), "spread": pl.col("x").std()}
    view = engine.view("view", source.group_by("k").agg(**totals))
    frame = pl.DataFrame({"k": pl.Series(np.arange(rows) % keys).cast(kind), "x": np.arange(rows) / 7})
    engine.push("rows", frame)
    assert max(heights) <= 4 * keys
    assert sum(heights) == rows
    assert_frame_equal(
        view.read(), frame.group_by("k").agg(**totals), check_row_order=False, check_dtypes=False
    )


def test_many_rows_of_one_key_among_a_long_range_are_added_up_exactly() -> None:
    """Their sums leave the integers that floats hold, and the 64 bits of a word."""
    hot, others, reach = 2**21 + 5, 400_000, 1_300_000
    keys = np.concatenate([np.zeros(hot, np.int64), np.linspace(1, reach, others).astype(np.int64)])
    groups = group_column(IntColumn("k", keys))
    assert isinstance(groups, DenseGroups)
    values = np.full(len(keys), 2**32 - 1)
    values[:hot:2] += 2**62
    sums = groups.sums_by_block(lambda rows: {"x": values[rows]})["x"]
    expected = (hot * (2**32 - 1) + (hot + 1) // 2 * 2**62) % 2**64
    place = groups.numbers[0]
    assert int(sums.view(np.uint64)[place]) == expected
    assert (np.delete(sums, place) == 2**32 - 1).all()
