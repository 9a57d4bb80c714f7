"""Joins, edge by edge; most of them are in test_join.transcript.yaml."""

from collections import Counter
from math import nan
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
import evercurrent.core.data.columns.dense as dense
import evercurrent.core.data.columns.directory as directory
import evercurrent.core.state.run as run
from harness import Step, check, check_steps, minus, plus
from strategies import Case, Program, of_profile

INTS = {"a": {"k": pl.Int64, "x": pl.Int64}, "b": {"k": pl.Int64, "y": pl.Int64}}
FLOATS = {"a": {"k": pl.Float64, "x": pl.Int64}, "b": {"k": pl.Float64, "y": pl.Int64}}


def case(edge: str, sources: dict[str, dict[str, Any]], plan: str, *steps: Step) -> object:
    return pytest.param(sources, plan, steps, id=edge)


def on_k(how: str, more: str = "") -> str:
    return f"a.join(b, on='k', how='{how}'{more})"


CASES = [
    case(
        "NaN matches NaN, and zero the other zero, as in polars",
        FLOATS,
        on_k("inner"),
        ({"a": plus((nan, 1), (0.0, 2)), "b": plus((-nan, 3), (-0.0, 4))}, plus((nan, 1, 3), (0.0, 2, 4))),
    ),
]


@pytest.mark.parametrize(("sources", "plan", "steps"), CASES)
def test_join(sources: dict[str, dict[str, Any]], plan: str, steps: tuple[Step, ...]) -> None:
    check_steps(sources, plan, steps)


@pytest.mark.parametrize("how", ["inner", "cross"])
def test_diffs_of_any_sign_multiply(how: str) -> None:
    plan = "a.join(b, how='cross').select('k', 'x', 'y')" if how == "cross" else on_k("inner")
    check_steps(
        INTS,
        plan,
        [
            ({"a": minus((1, 10)), "b": [((1, 20), -2)]}, [((1, 10, 20), 2)]),
            ({"a": [((1, 10), 2)]}, [((1, 10, 20), -4)]),
            ({"b": [((1, 20), 2)]}, [((1, 10, 20), 2)]),
        ],
        trusted=True,
    )


TURNS = st.lists(
    st.tuples(
        st.sampled_from("aab"),
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([1, 1, 2, -1])), max_size=6),
    ),
    max_size=8,
)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@of_profile(0.3, quick=30)
@given(turns=TURNS, key=st.sampled_from([pl.Int64, pl.String]), many=st.booleans())
def test_sides_that_change_in_turn_are_looked_up_in_tables(
    how: str, turns: list[tuple[str, list[tuple[int, int, int]]]], key: Any, many: bool
) -> None:
    """Each epoch changes one side, whose rows are found in the other: by a table, where its keys have one row each."""
    sources = {"a": {"k": key, "x": pl.Int64}, "b": {"k": key, "y": pl.Int64}}
    epochs: list[dict[str, list[tuple[tuple[Any, ...], int]]]] = []
    counts: Counter[tuple[Any, ...]] = Counter()
    for side, rows in turns:
        change = []
        for number, value, diff in rows:
            row = (str(number) if key is pl.String else number, value if many or side == "a" else 0)
            change.append((row, diff if counts[side, row] + diff >= 0 else 1))
            counts[side, row] += change[-1][1]
        epochs.append({side: change})
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(run, "FROM", 1)
        patches.setattr(directory, "FROM", 1)
        patches.setattr(dense, "SPARSE", 100)
        check(Case(Program(sources, (f"v = {on_k(how)}",)), epochs))


def test_a_row_that_would_be_there_too_often_is_refused() -> None:
    engine = ec.Engine()
    left = engine.source("a", INTS["a"], kind="diffs")
    view = engine.view("v", left.join(engine.source("b", INTS["b"], kind="diffs"), on="k"))
    engine.push("b", {"k": [1], "y": [2], "_diff": [2**30]})
    with pytest.raises(ec.ArithmeticRefusedError, match="2\\^31 times or more"):
        engine.push("a", {"k": [1], "x": [1], "_diff": [2]})
    assert not view.read().height
