"""A spine whose merges are bounded holds the same, in runs that are never larger, and not much more than there is."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent.core.state.merge_policy as policy_module
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.arrange import Materialize
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, Run, make_run, run_of_rows
from evercurrent.core.state.spine import Spine
from strategies import of_profile

MOST = 8


def run_of(entries: list[tuple[int, int]]) -> Run:
    words = np.array([word for word, _ in entries], np.uint64)
    diffs = np.array([diff for _, diff in entries], np.int64)
    return make_run(Layout(), Keys(words), pl.DataFrame(), {DIFF: diffs})


WORDS = st.sampled_from(
    [0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, *range(5 << 58, 6 << 58, 1 << 54)]
)


@of_profile(1.0)
@given(
    epochs=st.lists(
        st.lists(st.tuples(WORDS, st.sampled_from([1, 1, -1, 2])), min_size=1, max_size=6), max_size=40
    )
)
def test_a_bounded_spine_holds_what_one_without_bounds_holds(epochs: list[list[tuple[int, int]]]) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(policy_module, "FLOOR", 1)
        patches.setattr(policy_module, "FAN", 3)
        spine, held = Spine(Layout()), Counter[int]()
        spine.most_merged, spine.keeps_runs = MOST, True
        for entries in epochs:
            for word, diff in entries:
                held[word] += diff
            spine.stage(run_of(entries))
            spine.commit()
            assert all(len(run) <= MOST for run in spine.runs)
            keys = Keys(np.unique(np.array([word for word, _ in entries], np.uint64)))
            totals = spine.totals(keys).get(DIFF, np.zeros(len(keys), np.int64))
            assert totals.tolist() == [held[word] for word in keys.first.tolist()]
            live = sum(1 for diff in held.values() if diff)
            assert spine.entries <= 2 * max(MOST, live + 6 * 40) + 6
        runs = spine.runs
        merged = spine.merged()
        assert spine.runs is runs
        assert dict(zip(merged.keys.first.tolist(), merged.sums.get(DIFF, []), strict=False)) == {
            word: diff for word, diff in held.items() if diff
        }


def test_what_comes_and_goes_does_not_pile_up() -> None:
    """A thousand rows are there at a time, and ten thousand came and went: the old runs are too large to be merged."""
    spine, peak = Spine(Layout()), 0
    spine.most_merged = 700
    draw = np.random.default_rng(4)
    words = draw.integers(0, 2**64, 200 * 100, dtype=np.uint64).reshape(200, 100)
    for number in range(200):
        entries = [(int(word), 1) for word in words[number]]
        if number >= 10:
            entries += [(int(word), -1) for word in words[number - 10]]
        spine.stage(run_of(entries))
        spine.commit()
        peak = max(peak, spine.entries)
        assert all(len(run) <= 700 for run in spine.runs)
    assert peak < 5_000
    for number in range(190, 200):
        spine.stage(run_of([(int(word), -1) for word in words[number]]))
        spine.commit()
    assert spine.entries == 0


def test_rows_of_one_key_stay_together_also_where_they_are_too_many() -> None:
    layout = Layout(pl.Schema({"x": pl.Int64()}), by_row=True)
    spine = Spine(layout)
    spine.most_merged = 50
    for number in range(8):
        rows = pl.DataFrame({"k": [1] * 40, "x": range(number * 40, number * 40 + 40), DIFF: [1] * 40})
        spine.stage(run_of_rows(layout, KeyColumns.of(["k"]), rows))
        spine.commit()
    assert spine.entries == 320
    assert sorted(spine.merged().payload["x"]) == list(range(320))


def test_reading_a_view_keeps_the_runs_that_are_on_disk() -> None:
    keep = Materialize(pl.Schema({"x": pl.Int64()}))
    keep.spine.keeps_runs = True
    for number in range(2):
        layout, frame = (
            keep.spine.layout,
            pl.DataFrame({"x": range(600 * number, 600 * number + 600 - 599 * number)}),
        )
        keep.spine.stage(
            make_run(
                layout, KeyColumns.of(["x"]).words(frame), frame, {DIFF: np.ones(frame.height, np.int64)}
            )
        )
        keep.spine.commit()
    pieces = keep.spine.saved().pieces
    assert len(pieces) == 2
    assert keep.contents().height == 601
    assert keep.spine.saved().pieces == pieces
    assert keep.contents() is keep.contents()
