"""Retractions are checked against rows that wait: by their words, or by their marks where these are not made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
import evercurrent.core.state.spine as spine_module
import evercurrent.core.state.waiting as waiting_module
from evercurrent.core.data.columns.directory import entries_among
from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.columns.key_hash import in_force
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.marked_rows import Candidates, MarkedRows
from evercurrent.core.state.run import Layout, make_run
from evercurrent.core.state.spine import Spine
from harness import circuit_of, contents
from oracle import freeze
from strategies import of_profile
from thinned import pairs_of

SOME = {
    pl.Int64: st.integers(0, 3) | st.none(),
    pl.String: st.sampled_from(["a", "b", "a text of some length", None]),
    pl.Float64: st.sampled_from([0.0, -0.0, float("nan"), 1.5, None]),
}
"""A few values of a type, some of which are equal and look different."""


SCHEMAS = (
    {"k": pl.Int64}, {"k": pl.Int64, "x": pl.String}, {"x": pl.Float64, "k": pl.String}, {"x": pl.String},
)  # fmt: skip


@pytest.mark.parametrize(("schema", "unhashed", "looks"), pairs_of(SCHEMAS, (0, 3, 2**16), (0, 1, 10**9)))
@of_profile(0.5, quick=20)
@given(data=st.data())
def test_a_retraction_is_accepted_as_often_as_the_row_is_there(
    looks: int, unhashed: int, schema: dict[str, Any], data: st.DataObject
) -> None:
    row = st.tuples(*[SOME[dtype] for dtype in schema.values()])
    entry = st.tuples(row, st.sampled_from([1, 1, 2, -1, -2]))
    epochs = data.draw(st.lists(st.lists(entry, min_size=1, max_size=6), max_size=6))
    few_marked = data.draw(st.sampled_from([0, waiting_module.FEW_MARKED]))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(spine_module, "LOOKS", looks)
        patches.setattr(waiting_module, "FEW_MARKED", few_marked)
        patches.setattr(spine_module, "MOST_ENTRIES", 8 if looks else 2**22)
        patches.setattr(spine_module, "UNHASHED_FROM", unhashed)
        patches.setattr(waiting_module, "APART_FROM", max(unhashed, 4))
        engine = ec.Engine()
        view = engine.view("kept", engine.source("a", schema, kind="diffs", strict=False).select(*schema))
        held, refused = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
        for entries in epochs:
            engine.push(
                "a",
                pl.DataFrame(
                    [(*each, diff) for each, diff in entries], {**schema, DIFF: pl.Int64}, orient="row"
                ),
            )
            added = Counter[tuple[Any, ...]]()
            for each, diff in entries:
                added[tuple(map(freeze, each))] += diff
            for each, diff in added.items():
                accepted = max(diff, -held[each])
                held[each] += accepted
                refused[each] += accepted - diff
            assert contents(view).counts == {row: count for row, count in held.items() if count}
        ledger = engine.ledger()
        assert ledger.height == sum(map(bool, refused.values())) or len(epochs) > 1


@of_profile(0.3, quick=20)
@given(
    epochs=st.lists(
        st.lists(st.tuples(SOME[pl.Float64], SOME[pl.String], st.sampled_from([1, 1, 2, -1])), max_size=6),
        max_size=6,
    ),
    reads=st.sets(st.integers(0, 5)),
)
def test_nobody_sees_whether_rows_were_hashed_when_they_came(
    epochs: list[list[tuple[Any, ...]]], reads: set[int]
) -> None:
    schema = {"x": pl.Float64, "k": pl.String}
    kept: list[list[Any]] = []
    for unhashed in (0, 2**16):
        engine = ec.Engine()
        view = engine.view("kept", engine.source("a", schema, kind="diffs", strict=False).select("x", "k"))
        (state,) = [each for each in circuit_of(engine).states if isinstance(each, Spine)][:1]
        kept.append([])
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(spine_module, "UNHASHED_FROM", unhashed)
            patches.setattr(waiting_module, "APART_FROM", 4)
            for number, entries in enumerate(epochs):
                frame = pl.DataFrame(entries, {**schema, DIFF: pl.Int64}, orient="row")
                engine.push("a", frame)
                waits = state.version.parts[1]
                assert not waits or unhashed or waits[-1].marks is not None or frame.height < len(waits[-1])
                if number in reads:
                    kept[-1].append([state.columns_of(piece) for piece in state.saved().pieces])
        kept[-1] += [[view.deltas().frame(), state.columns_of(state.merged())]]
    for ours, theirs in zip(*kept, strict=True):
        assert [str(frame.rows()) for frame in ours] == [str(frame.rows()) for frame in theirs]


WORD: dict[Any, list[Any]] = {
    pl.Int64: [0, 1, -(2**63), None],
    pl.Float64: [0.0, float("nan"), float("inf"), 1.5, None],
    pl.Float32: [0.0, float("nan"), 1.5],
    pl.Date: [0, 1, None],
    pl.Datetime("us"): [0, 1, -(2**63)],
    pl.String: ["", "a", "a text of some length", None],
    pl.Binary: [b"", b"\xff", None],
}
"""Values of each kind of type that is compared; those of instants as their numbers."""


@of_profile(0.3, quick=30)
@given(
    rows=st.lists(st.tuples(*map(st.sampled_from, WORD.values())), min_size=1, max_size=12),
    own=st.sets(st.integers(0, 11)),
    marks=st.lists(st.integers(0, 5), min_size=12, max_size=12),
)
def test_marked_rows_are_found_where_all_values_are_equal(
    rows: list[tuple[Any, ...]], own: set[int], marks: list[int]
) -> None:
    columns = [
        pl.Series(str(number), values, pl.Int64).cast(dtype)
        if dtype.is_temporal()
        else pl.Series(str(number), values, dtype)
        for number, (dtype, values) in enumerate(zip(WORD, zip(*rows, strict=True), strict=True))
    ]
    frame = pl.DataFrame(columns)
    words = key_words(frame.get_columns(), len(rows))
    pairs = [*zip(words.first.tolist(), words.seconds().tolist(), strict=True)]
    marks = [marks[pairs.index(pair)] for pair in pairs]  # Equal rows have equal marks, and others may.
    of_marks = {marks[place]: place for place in own if place < len(rows)}
    places = [of_marks[mark] for mark in sorted(of_marks)]
    if not places:
        return
    marked_rows = MarkedRows(np.array(sorted(of_marks), np.uint32), frame[places], in_force())
    cut = len(rows) // 2
    parts = [
        Candidates(part, np.array(marks[begin:], np.uint32), np.arange(part.height))
        for begin, part in ((0, frame[:cut]), (cut, frame[cut:]))
    ]
    (entries, owners), (further, theirs) = marked_rows.among(parts)
    entries, owners = np.concatenate((entries, further + cut)), np.concatenate((owners, theirs))
    expected = [
        (entry, number)
        for entry in range(len(rows))
        for number, place in enumerate(places)
        if marks[entry] == marks[place] and pairs[entry] == pairs[place]
    ]
    assert [*zip(entries.tolist(), owners.tolist(), strict=True)] == expected
    order, keys = marked_rows.keys()
    assert [*zip(keys.first.tolist(), keys.seconds().tolist(), strict=True)] == [
        pairs[places[number]] for number in order
    ]


@of_profile(0.5, quick=60)
@given(
    entries=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=30),
    keys=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=12),
    spread=st.sampled_from([1, 2**60, 3 * 2**61]),
)
def test_entries_are_found_among_keys_whose_first_words_collide(
    entries: list[tuple[int, int]], keys: set[tuple[int, int]], spread: int
) -> None:
    def words(pairs: list[tuple[int, int]]) -> Keys:
        first = np.array([pair[0] * spread % 2**64 for pair in pairs], np.uint64)
        return Keys(first, np.array([pair[1] for pair in pairs], np.uint64))

    run = make_run(Layout(), words(sorted(keys)), pl.DataFrame(), {DIFF: np.ones(len(keys), np.int64)})
    ordered = list(zip(run.keys.first.tolist(), run.keys.seconds().tolist(), strict=True))
    given_words = words(entries)
    pairs = list(zip(given_words.first.tolist(), given_words.seconds().tolist(), strict=True))
    places, owners = entries_among(given_words, run.keys)
    expected = [(place, ordered.index(pair)) for place, pair in enumerate(pairs) if pair in ordered]
    assert list(zip(places.tolist(), owners.tolist(), strict=True)) == expected
