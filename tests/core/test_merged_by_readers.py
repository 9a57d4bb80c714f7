"""Epochs go on from the merge that a reader has made, of the last commit or of one before, and hold the same rows."""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import fields

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent.core.state.merge_policy as policy_module
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.spine import Spine, Version
from strategies import of_profile

WORDS = 12


def run_of(entries: list[tuple[int, int]]) -> Run:
    words = np.array([word for word, _ in entries], np.uint64)
    diffs = np.array([diff for _, diff in entries], np.int64)
    return make_run(Layout(), Keys(words), pl.DataFrame(), {DIFF: diffs})


def held_in(spine: Spine) -> dict[int, int]:
    run = spine.merged()
    return dict(zip(run.keys.first.tolist(), run.sums.get(DIFF, np.zeros(0, np.int64)).tolist(), strict=True))


ENTRIES = st.lists(
    st.tuples(st.integers(0, WORDS - 1), st.sampled_from([1, 1, -1, 2])), min_size=1, max_size=5
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), ENTRIES),
        st.tuples(st.just("discard"), ENTRIES),
        st.tuples(st.just("read"), st.integers(0, 4)),
    ),
    max_size=30,
)


@of_profile(1.0, quick=40)
@given(steps=STEPS)
def test_readers_of_any_commits_change_no_contents(steps: list[tuple[str, object]]) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(policy_module, "FLOOR", 1)
        spine, now = Spine(Layout()), Counter[int]()
        commits: list[tuple[Version, dict[int, int]]] = [(spine.version, {})]
        for step, given_to_it in steps:
            if step == "read":
                assert isinstance(given_to_it, int)
                version, rows = commits[-1 - given_to_it % len(commits)]
                assert held_in(spine.at(version)) == rows
                continue
            assert isinstance(given_to_it, list)
            spine.stage(run_of(given_to_it))
            if step == "discard":
                spine.discard()
                continue
            spine.commit()
            for word, diff in given_to_it:
                now[word] += diff
            commits.append((spine.version, {word: diff for word, diff in now.items() if diff}))
            keys = Keys(np.arange(WORDS, dtype=np.uint64))
            found = spine.totals(keys).get(DIFF, np.zeros(WORDS, np.int64))
            assert found.tolist() == [now[word] for word in range(WORDS)]
        for version, rows in commits:
            assert held_in(spine.at(version)) == rows


def test_an_epoch_goes_on_from_what_a_reader_of_an_earlier_one_has_merged() -> None:
    spine = Spine(Layout())
    for size in (4000, 900, 400):
        spine.stage(run_of([(word, 1) for word in range(size)]))
        spine.commit()
    reader = spine.at(spine.version)
    spine.stage(run_of([(5000, 1)]))
    spine.commit()
    assert len(spine.runs) > 2
    merged = reader.merged()
    spine.stage(run_of([(5001, 1)]))
    spine.commit()
    assert spine.runs[0] is merged
    assert sum(held_in(spine).values()) == 4000 + 900 + 400 + 2


def test_what_was_merged_of_other_runs_is_not_taken() -> None:
    spine = Spine(Layout())
    for _ in range(3):
        spine.stage(run_of([(word, 1) for word in range(400)]))
        spine.commit()
    reader = spine.at(spine.version)
    spine.stage(run_of([(word, 1) for word in range(400)]))
    spine.commit()
    assert len(spine.runs) == 1, "epochs have merged them on their own"
    reader.merged()
    spine.stage(run_of([(1, 1)]))
    spine.commit()
    assert held_in(spine) == {word: 4 + (word == 1) for word in range(400)}


def test_a_state_that_is_shared_takes_the_merge_of_its_origins_readers_and_gives_none() -> None:
    origin, shared = Spine(Layout()), Spine(Layout())
    for word in range(3):
        origin.stage(run_of([(word, 1), (word + 10, 1)]))
        origin.commit()
    shared.share(origin.version)
    later = Spine(Layout())
    later.share(shared.version)
    held = held_in(shared)
    assert origin.version.whole is None
    assert later.merged() is shared.merged()
    assert held_in(origin) == held
    assert shared.version.whole is origin.version.whole
    later.stage(run_of([(7, 1)]))
    later.commit()
    assert later.version.whole is None
    assert held_in(later) == {**held, 7: 1}


def test_a_state_that_is_shared_again_and_again_keeps_no_version_of_before() -> None:
    spine = Spine(Layout())
    spine.stage(run_of([(1, 1), (2, 1)]))
    spine.commit()
    versions = []
    for _ in range(2_000):
        following = Spine(Layout())
        following.share(spine.version)
        versions.append(weakref.ref(spine))
        spine = following
    assert held_in(spine) == {1: 1, 2: 1}
    assert spine.version.whole is spine.merged()
    assert [each for each in versions if each() is not None] == []
    assert not any(isinstance(getattr(spine.version, each.name), Version) for each in fields(Version))
