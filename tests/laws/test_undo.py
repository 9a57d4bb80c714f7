"""What comes and goes leaves nothing: not in the views, and not in the state."""

import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from evercurrent.core.state.spine import Spine
from harness import Running, circuit_of
from oracle import TooLargeError
from strategies import Case, Epoch, Program, cases, of_profile


def undone(epochs: list[Epoch]) -> list[Epoch]:
    """The opposite of these epochs, the last one first."""
    return [
        {name: [(row, -diff) for row, diff in entries] for name, entries in epoch.items()}
        for epoch in reversed(epochs)
    ]


def assert_states_as(fresh: Running, running: Running) -> None:
    """A state that was empty is empty; one that held the row of a group of nothing adds up to as much."""
    pairs = zip(circuit_of(fresh.engine).states, circuit_of(running.engine).states, strict=True)
    for before, after in pairs:
        if before.entries:
            assert isinstance(before, Spine)
            assert isinstance(after, Spine)
            assert len(after.merged()) == len(before.merged())
        else:
            assert after.entries == 0


def assert_nothing_is_left(case: Case, *, together: bool) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    fresh, running = Running(case), Running(case).push_all()
    back = undone(case.epochs)
    if together:
        back = [
            {
                name: [entry for epoch in back for entry in epoch.get(name, [])]
                for name in case.program.sources
            }
        ]
    for epoch in back:
        running.push(epoch)
    assert running.contents() == fresh.contents()
    for name, view in running.views.items():
        assert view.read().equals(fresh.views[name].read())
    assert_states_as(fresh, running)


@of_profile(quick=40)
@given(case=cases())
def test_input_and_its_opposite_leave_nothing(case: Case) -> None:
    assert_nothing_is_left(case, together=False)


@of_profile(quick=40)
@given(case=cases())
def test_one_epoch_undoes_many(case: Case) -> None:
    assert_nothing_is_left(case, together=True)


def test_rows_that_cancel_after_others_did_not_leave_nothing() -> None:
    """A row and the lack of another add up to zero, and do not cancel; later all do, some of it in smaller merges."""
    sources = {
        "a": {"k": pl.Int64, "x": pl.Int64},
        "b": {"k": pl.String, "x": pl.String, "y": pl.Int64, "z": pl.Int64},
    }
    views = ("v1 = b.unique()", "v2 = v1.join(a, left_on='y', right_on='k', how='inner')")
    epochs: list[Epoch] = [
        {"a": [((0, 0), -1)], "b": []},
        {"a": [((0, 0), 1), ((0, 1), -1)], "b": [(("a", "a", 0, 0), 1)]},
        {"a": [((0, 0), -1)], "b": []},
        {"a": [((0, 0), 2)], "b": []},
    ]
    assert_nothing_is_left(Case(Program(sources, views), epochs, trusted=True), together=False)


@pytest.mark.parametrize(
    "size", [1, 3000, 20_000], ids=["one row", "more than one run holds unmerged", "many runs"]
)
def test_large_states_shrink_to_nothing_too(size: int) -> None:
    engine = ec.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Int64}, kind="diffs")
    view = engine.view("v", source.group_by("k").agg(pl.col("x").min(), s=pl.col("x").sum()))
    engine.view("j", source.join(source, on="k", how="left"))
    rows = pl.DataFrame({"k": range(size), "x": range(size)}).with_columns(pl.col("k") // 3)
    for sign in (1, -1):
        for batch in rows.sample(fraction=1, shuffle=True, seed=sign + 1).iter_slices(1777):
            engine.push("a", batch.with_columns(_diff=pl.lit(sign, pl.Int64)))
    assert view.read().is_empty()
    assert engine.views["j"].read().is_empty()
    # What cancels across unmerged runs is gone when they merge: a bounded rest, not the history.
    states = circuit_of(engine).states
    joined = 3 * size
    assert max(state.entries for state in states) <= 2 * joined
    for state in states:
        assert not isinstance(state, Spine) or len(state.merged()) == 0
