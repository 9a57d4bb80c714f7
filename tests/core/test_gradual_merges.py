"""Large runs are merged over many epochs: look-ups, readers, discarded epochs and checkpoints see the same rows meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent.core.data.columns.directory as directory_module
import evercurrent.core.state.gradual as gradual_module
import evercurrent.core.state.merge_policy as policy_module
import evercurrent.core.state.merger as merger_module
from evercurrent.core.data.columns.directory import Deferred, Directory
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.gradual import GradualMerge
from evercurrent.core.state.lookup import all_rows
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, Run, empty_run, make_run, run_of_rows
from evercurrent.core.state.run_columns import SUM, run_of_columns
from evercurrent.core.state.run_merge import FEW_ENTRIES, merge
from evercurrent.core.state.snapshot import KEY, Saved
from evercurrent.core.state.spine import Spine, Version
from strategies import of_profile

KEYS = 40
SPREAD = 2**64 // KEYS
ROWS = pl.Schema({"k": pl.Int64(), "x": pl.String()})

Held = dict[tuple[Any, ...], int]


class Numbers:
    """States of one entry per key, with words of one part or of two."""

    layout = Layout()

    def run(self, entries: list[tuple[int, str, int]]) -> Run:
        first = np.array([key * SPREAD for key, _, _ in entries], np.uint64)
        second = np.array([ord(x) for _, x, _ in entries], np.uint64)
        diffs = np.array([diff for _, _, diff in entries], np.int64)
        both = None if {x for _, x, _ in entries} == {"a"} else second - np.uint64(ord("a"))
        return make_run(self.layout, Keys(first, both), pl.DataFrame(), {DIFF: diffs})

    def held(self, run: Run) -> Held:
        words = zip((run.keys.first // np.uint64(SPREAD)).tolist(), run.keys.seconds().tolist(), strict=True)
        diffs = run.sums.get(DIFF, np.zeros(len(run), np.int64)).tolist()
        return {(key, "ab"[second]): diff for (key, second), diff in zip(words, diffs, strict=True)}

    def found(self, spine: Spine, keys_of_rows: list[tuple[int, str]]) -> list[int]:
        keys = make_run(
            self.layout,
            self.run([(*each, 1) for each in keys_of_rows]).keys,
            pl.DataFrame(),
            {DIFF: np.ones(len(keys_of_rows), np.int64)},
        )
        totals = spine.totals(keys.keys).get(DIFF, np.zeros(len(keys), np.int64))
        by_key = dict(zip(self.held(keys), totals.tolist(), strict=True))
        return [by_key[each] for each in keys_of_rows]


class Rows:
    """States of many rows per key."""

    layout = Layout(ROWS, by_row=True)

    def run(self, entries: list[tuple[int, str, int]]) -> Run:
        frame = pl.DataFrame(entries, {**ROWS, DIFF: pl.Int64()}, orient="row")
        return run_of_rows(self.layout, KeyColumns.of(["k"]), frame)

    def held(self, run: Run) -> Held:
        diffs = run.sums.get(DIFF, np.zeros(len(run), np.int64)).tolist()
        return dict(zip(run.payload.rows(), diffs, strict=True))

    def found(self, spine: Spine, keys_of_rows: list[tuple[int, str]]) -> list[int]:
        keys = make_run(
            Layout(),
            self.run([(*each, 1) for each in keys_of_rows]).keys,
            pl.DataFrame(),
            {DIFF: np.ones(len(keys_of_rows), np.int64)},
        ).keys
        found = all_rows(spine, keys)
        rows = dict(zip(found.payload.rows(), found.diffs.tolist(), strict=True))
        return [rows.get(each, 0) for each in keys_of_rows]


ENTRIES = st.lists(
    st.tuples(st.integers(0, KEYS - 1), st.sampled_from("aaab"), st.sampled_from([1, 1, 1, 2, -1])),
    min_size=1,
    max_size=12,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), ENTRIES),
        st.tuples(st.just("commit"), ENTRIES),
        st.tuples(st.just("discard"), ENTRIES),
        st.tuples(st.just("read"), st.integers(0, 6)),
        st.tuples(st.just("move"), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("kind", [Numbers(), Rows()], ids=["numbers", "rows"])
@of_profile(1.0, quick=40)
@given(
    steps=STEPS,
    ahead=st.sampled_from([1, 2, 4]),
    step=st.sampled_from([1, 5]),
    limit=st.sampled_from([0, 6]),
    part=st.sampled_from([1, 3, merger_module.PART]),
)
def test_the_same_rows_are_there_at_any_time(
    kind: Numbers | Rows, steps: list[tuple[str, Any]], ahead: int, step: int, limit: int, part: int
) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(policy_module, "FLOOR", 1)
        patches.setattr(merger_module, "GRADUAL_FROM", limit)
        patches.setattr(merger_module, "AT_ONCE", 0)
        patches.setattr(gradual_module, "AHEAD", ahead)
        patches.setattr(gradual_module, "STEP", step)
        patches.setattr(gradual_module, "PART", part)
        patches.setattr(merger_module, "PART", part)
        patches.setattr(directory_module, "FROM", 1)
        patches.setattr(gradual_module, "FROM", 1)
        spine, now = Spine(kind.layout), Counter[tuple[int, str]]()
        commits: list[tuple[Version, Held]] = [(spine.version, {})]
        for action, given_to_it in steps:
            if action == "read":
                version, rows = commits[-1 - given_to_it % len(commits)]
                assert kind.held(spine.at(version).merged()) == rows
                continue
            if action == "move":
                saved, spine = spine.saved(), Spine(kind.layout)
                spine.restore(Saved(saved.pieces, saved.facts))
                continue
            spine.stage(kind.run(given_to_it))
            if action == "discard":
                before = spine.version
                spine.discard()
                assert spine.version is before
                continue
            spine.commit()
            for key, x, diff in given_to_it:
                now[key, x] += diff
            rows = {row: diff for row, diff in now.items() if diff}
            commits.append((spine.version, rows))
            pairs = list(dict.fromkeys((key, x) for key, x, _ in given_to_it))
            expected = [max(now[each], 0) if isinstance(kind, Rows) else now[each] for each in pairs]
            assert kind.found(spine, pairs) == expected
            assert spine.total(DIFF) == sum(rows.values())
        for version, rows in commits:
            assert kind.held(spine.at(version).merged()) == rows


def test_no_epoch_merges_much_and_few_runs_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "FLOOR", 16)
    monkeypatch.setattr(merger_module, "GRADUAL_FROM", 1000)
    monkeypatch.setattr(gradual_module, "STEP", 64)
    draw = np.random.default_rng(5)
    spine, work, counts = Spine(Layout()), [], []
    for _ in range(3000):
        keys = Keys(draw.integers(0, 2**63, 10).astype(np.uint64) * np.uint64(2))
        before = spine.touched
        spine.stage(make_run(Layout(), keys, pl.DataFrame(), {DIFF: np.ones(10, np.int64)}))
        spine.commit()
        work.append(spine.touched - before)
        counts.append(len(spine.runs))
    assert spine.entries == len(spine.merged()) == 30_000
    assert max(work) <= 2000, "30,000 entries are merged, and no epoch merges a tenth of them"
    assert sum(work) <= 8 * 30_000
    assert max(counts) <= 2 * 4 * 6


def test_the_directory_of_a_merged_run_is_there_if_others_were_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So no epoch pays for it; and a state that nobody looks up has none."""
    monkeypatch.setattr(gradual_module, "STEP", 16)
    draw = np.random.default_rng(8)
    keys = [Keys(np.sort(draw.integers(0, 2**63, 20_000)).astype(np.uint64) * np.uint64(2)) for _ in range(2)]
    for is_looked_up in (True, False):
        columns = [pl.DataFrame({KEY: each.first, SUM + DIFF: np.ones(20_000, np.int64)}) for each in keys]
        runs = tuple(run_of_columns(Layout(), each) for each in columns)
        for run in runs if is_looked_up else ():
            run.match(run.keys)
        merge = GradualMerge.of(runs)
        while not merge.is_complete:
            merge, _ = merge.advanced(Layout(), 10)
        (merged,) = merge.result()
        directory, expected = merged.directory, Directory.of(merged.keys.first)
        assert expected is not None
        assert expected.filter is not None
        if not is_looked_up:
            assert isinstance(directory, Deferred)
            assert not directory.is_made
            continue
        assert isinstance(directory, Directory)
        assert directory.filter is not None
        assert directory.starts.tolist() == expected.starts.tolist()
        assert directory.filter.tolist() == expected.filter.tolist()


def test_what_is_merged_does_not_depend_on_discarded_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "FLOOR", 16)
    monkeypatch.setattr(merger_module, "GRADUAL_FROM", 100)
    monkeypatch.setattr(gradual_module, "STEP", 32)
    spines = [Spine(Layout()), Spine(Layout())]
    draw = np.random.default_rng(6)
    for number in range(400):
        runs = [
            make_run(
                Layout(),
                Keys(draw.integers(0, 2**63, size).astype(np.uint64)),
                pl.DataFrame(),
                {DIFF: np.ones(size, np.int64)},
            )
            for size in (5, 17)
        ]
        if number % 3 == 0:
            spines[0].stage(runs[1])
            spines[0].discard()
        for spine in spines:
            spine.stage(runs[0])
            spine.commit()
        sizes = [[*map(len, spine.runs)] for spine in spines]
        assert sizes[0] == sizes[1]
        for ours, theirs in zip(*(spine.runs for spine in spines), strict=True):
            assert ours.keys.first.tolist() == theirs.keys.first.tolist()


def test_a_large_merge_is_made_part_by_part_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(9)
    sizes = [3_000, 2_900, 2_800, 500]
    words = [np.sort(draw.integers(0, 2**63, size)).astype(np.uint64) * np.uint64(2) for size in sizes]
    words[1][::2] = words[0][: len(words[1]) : 2]
    runs = [
        make_run(Layout(), Keys(each), pl.DataFrame(), {DIFF: np.ones(len(each), np.int64)}) for each in words
    ]
    gone = make_run(Layout(), Keys(words[2]), pl.DataFrame(), {DIFF: np.full(len(words[2]), -1)})
    merges: list[list[int]] = []

    def counted(layout: Layout, ranges: Any) -> Run:
        merges.append([len(run) for run in ranges])
        return merge(layout, ranges)

    whole = merge(Layout(), [*runs, gone])
    monkeypatch.setattr(gradual_module, "merge", counted)
    monkeypatch.setattr(gradual_module, "PART", 1_000)
    monkeypatch.setattr(merger_module, "PART", 1_000)
    moved: list[int] = []
    parts = merger_module.Merger(Layout(), None, moved.append).merged([*runs, gone])
    assert len(merges) == sum(map(sum, merges)) // 1_000 == sum([*sizes, len(gone)]) // 1_000
    assert max(map(sum, merges)) < 1_500
    assert parts.keys.first.tolist() == whole.keys.first.tolist()
    assert parts.sums[DIFF].tolist() == whole.sums[DIFF].tolist()
    assert moved == [sum([*sizes, len(gone)])]
    assert not len(merger_module.Merger(Layout(), None, moved.append).merged([gone, runs[2]]))


def test_a_merge_is_not_there_without_its_last_run() -> None:
    runs = tuple(empty_run(Layout()) for _ in range(2))
    assert GradualMerge.of(runs).place_in(runs) == 0
    assert GradualMerge.of(runs).place_in(runs[:1]) is None


def test_epochs_over_the_same_keys_are_added_to_one_run() -> None:
    """The state is one run and is moved once for each epoch; a few epochs of other keys, or of few of them, pile up."""
    spine, size = Spine(Layout()), FEW_ENTRIES * merger_module.REPEATED
    words = np.sort(np.random.default_rng(3).integers(0, 2**63, size, np.int64).astype(np.uint64))
    totals = np.zeros(size, np.int64)

    def push(chosen: Any, words: Any = words) -> Run:
        diffs = np.arange(1, len(chosen) + 1)
        spine.stage(make_run(Layout(), Keys(words[chosen]), pl.DataFrame(), {DIFF: diffs}))
        before = spine.version.parts[0]
        spine.commit()
        np.add.at(totals, chosen, diffs)
        return before[0] if before else empty_run(Layout())

    push(np.arange(size))
    for epoch in range(1, 8):
        before, moved = push(np.arange(epoch % 4, size, 1 + epoch % 3)), spine.touched
        assert len(spine.runs) == 1
        assert moved <= epoch * (merger_module.REPEATED + 1) * size
        assert spine.runs[0] is not before, "a reader of the last commit keeps its run"
    assert spine.totals(Keys(words))[DIFF].tolist() == totals.tolist()
    push(np.arange(FEW_ENTRIES - 1))
    assert len(spine.runs) == 2, "so few entries wait for others"
    assert spine.totals(Keys(words))[DIFF].tolist() == totals.tolist()
    push(np.arange(size // 2), words[: size // 2] + np.uint64(1))
    assert len(spine.runs) > 1, "other keys are merged as they pile up"


@pytest.mark.parametrize("left", [0, 1])
def test_a_step_of_a_merge_in_which_all_entries_cancel_leaves_none(
    monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    monkeypatch.setattr(gradual_module, "STEP", 16)
    words = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(2**64 // 20_001)
    runs = tuple(
        make_run(Layout(), Keys(words[:count]), pl.DataFrame(), {DIFF: np.full(count, diff)})
        for count, diff in ((20_000, 1), (20_000 - left, -1))
    )
    for run in runs:
        run.match(run.keys)
    merge = GradualMerge.of(runs)
    while not merge.is_complete:
        merge, _ = merge.advanced(Layout(), 10)
    assert [run.keys.first.tolist() for run in merge.result()] == [[words[-1]]][:left]


def test_a_run_of_which_few_entries_are_left_has_no_room_for_all_that_were_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gradual_module, "PART", 1 << 14)
    words = np.arange(1, 200_001, dtype=np.uint64) * np.uint64(2**64 // 200_001)
    gone = np.delete(words, np.arange(0, 200_000, 40))
    runs = tuple(
        make_run(Layout(), Keys(each), pl.DataFrame(), {DIFF: np.full(len(each), diff)})
        for each, diff in ((words, 1), (gone, -1))
    )
    for run in runs:
        run.match(run.keys)
    merge = GradualMerge.of(runs)
    moved = 0
    while not merge.is_complete:
        merge, entries = merge.advanced(Layout(), 10_000)
        moved += entries
    (merged,) = merge.result()
    assert moved == merge.entries
    assert merged.keys.first.base is None
    assert merged.sums[DIFF].base is None
    assert [each.tolist() for each in merged.match(Keys(words))] == [[*range(0, 200_000, 40)], [*range(5000)]]
    assert merged.bytes_of_lookups < 8 * len(merged)
