"""The chosen examples of the quick profile are run as they were chosen; where they no longer apply, others are generated."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis.database import choices_to_bytes

import choose_examples
import evercurrent as ec
from choose_examples import Branches, Choosing, Tried, choose
from chosen_examples import (
    Chosen,
    Outcome,
    chosen_first,
    each_run,
    kept,
    read,
    with_seed,
    with_settings,
    written,
)
from oracle import Bag
from planted import Plant
from source_modules import tree_of

ROOT = Path(__file__).resolve().parent.parent
OWN = 40
RANKS_OF_BEFORE = "test_medians_are_those_of_all_rows[Int8-3]"


def law_of(strategy: st.SearchStrategy[Any], check: Callable[[Any], object]) -> Any:
    @settings(
        max_examples=OWN,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
    )
    @given(value=strategy, data=st.data())
    def law(value: Any, data: st.DataObject) -> None:
        check((value, data.draw(st.booleans())))

    return law


def chosen_of(law: Any, few: int = 6) -> Chosen:
    tried = Choosing(seconds=120, times=3, share=0.4, seed=1).try_many(law, {}, 3 * OWN)
    assert len(tried) > few
    return Chosen(tuple(each.choices for each in tried[-few:]), generates=4)


def run(law: Any, chosen: Chosen) -> Outcome:
    """As the hook of ``conftest`` does."""
    outcome = Outcome(chosen)
    with chosen_first(law, {}, outcome):
        law()
    return outcome


def test_each_chosen_example_is_run_once_and_few_are_generated() -> None:
    seen: list[Any] = []
    law = law_of(st.lists(st.integers(0, 9), max_size=5), seen.append)
    chosen = chosen_of(law)
    law_alone = len(seen)
    seen.clear()
    with each_run(lambda data: seen.append(choices_to_bytes(data.choices))):
        outcome = run(law, chosen)
    made = [each for each in seen if isinstance(each, bytes)]
    assert law_alone > len(made)
    assert outcome.applied == set(chosen.examples) == set(made[: len(chosen.examples)])
    assert outcome.lapsed == 0
    assert len(made) == len(chosen.examples) + chosen.generates
    assert law._hypothesis_internal_use_settings.max_examples == OWN


def test_a_run_is_the_same_as_the_one_before() -> None:
    seen: list[Any] = []
    law = law_of(st.lists(st.integers(0, 99), max_size=9), seen.append)
    chosen = chosen_of(law)
    runs = []
    for _ in range(2):
        seen.clear()
        run(law, Chosen((*chosen.examples, chosen.examples[0][:3]), chosen.generates))
        runs.append(list(seen))
    assert repr(runs[0]) == repr(runs[1])


@pytest.mark.parametrize(
    "changed",
    [
        st.tuples(st.text(max_size=3), st.lists(st.floats(), min_size=3, max_size=9)),
        st.integers(100, 200).map(lambda n: [n]),
    ],
    ids=["longer, of other types", "shorter"],
)
def test_a_law_whose_examples_no_longer_apply_generates_as_many_as_without_them(
    changed: st.SearchStrategy[Any],
) -> None:
    chosen = chosen_of(law_of(st.lists(st.integers(0, 9), min_size=1, max_size=5), len))
    seen: list[Any] = []
    law = law_of(changed, seen.append)
    outcome = Outcome(chosen)
    with chosen_first(law, {}, outcome):
        assert not outcome.applied
        assert outcome.lapsed == len(chosen.examples)
        seen.clear()
        law()
    with_none = list(seen)
    seen.clear()
    law()
    assert repr(with_none) == repr(seen)  # A NaN is not equal to itself.
    assert len(seen) >= OWN


def test_what_is_no_example_any_more_is_no_failure() -> None:
    """Nothing of it satisfies what is assumed now, or nothing can be read."""
    chosen = chosen_of(law_of(st.integers(0, 9), repr))
    law = law_of(st.integers(10, 30), lambda each: assume(each[0] != 10))
    assert run(law, chosen).applied == set()
    assert run(law, Chosen((b"", b"\xff\xff\xff", b"junk"), 4)).applied == set()


def test_of_the_share_that_lapsed_the_law_generates_the_share() -> None:
    law = law_of(st.integers(0, 10_000), repr)
    chosen = chosen_of(law, few=4)
    narrow = law_of(st.integers(0, 10_000).filter(lambda n: True), repr)
    half = Chosen((*chosen.examples[:2], b"junk", b"more"), chosen.generates)
    outcome = run(narrow, half)
    assert (len(outcome.applied), outcome.lapsed) == (2, 2)
    count = 0

    def counted(data: object) -> None:
        nonlocal count
        count += 1

    with chosen_first(law, {}, Outcome(half)), each_run(counted):
        law()
    assert count == half.generates + (OWN - half.generates) / 2


def test_a_chosen_example_that_fails_is_made_small_and_shown() -> None:
    strategy = st.lists(st.integers(0, 1000), max_size=30)

    def check(each: Any) -> None:
        assert sum(each[0]) < 700

    law = law_of(strategy, check)
    tried = Choosing(seconds=120, times=3, share=0.4, seed=2).try_many(law_of(strategy, len), {}, 3 * OWN)
    chosen = Chosen((max((each.choices for each in tried), key=len),), 0)
    with pytest.raises(AssertionError) as failed, chosen_first(law, {}, Outcome(chosen)):
        pytest.fail("the chosen example fails first")
    assert "value=[700]" in "".join(getattr(failed.value, "__notes__", []))


def test_a_file_of_examples_is_read_as_it_was_written() -> None:
    laws = {
        "tests/test_a.py::test_one[x-1]": Chosen((b"", bytes(range(256))), 3),
        "tests/test_a.py::test_b": Chosen((), 0),
    }
    assert read(written(laws)) == laws
    assert list(read(written(laws))) == sorted(laws)


def test_each_law_that_has_examples_is_there() -> None:
    """One that was given another name would generate all: choose for it, and take its old name out of the file."""
    for nodeid in kept():
        file, _, name = nodeid.partition("::")
        tree = tree_of((ROOT / file).read_text("utf-8"))
        assert name.partition("[")[0] in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }, nodeid


def test_without_laws_all_that_have_examples_are_run_and_those_that_are_gone_are_named(
    tmp_path: Path,
) -> None:
    """A law whose parameters are others now kept all others from being looked at."""
    there, gone = (
        f"tests/core/test_medians.py::{name}" for name in ("test_ranks_are_those_of_polars", RANKS_OF_BEFORE)
    )
    for laws, code in (({there}, 0), ({there, gone}, 1), (set(), 2)):
        into = tmp_path / "chosen.json"
        into.write_text(written({law: replace(kept()[there], generates=0) for law in laws}), "utf-8")
        program = [sys.executable, "tests/choose_examples.py", "--into", str(into), "--applies"]
        ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert (f"{there}: " in ended.stdout) == bool(laws)
        assert (f"does not have: {gone}\n" in ended.stdout) == (gone in laws)
        assert ("name files or laws" in ended.stderr) == (not laws)


def test_few_are_chosen_that_together_took_all_branches() -> None:
    def tried(seconds: float, branches: str, features: str = "") -> Tried:
        return Tried(
            branches.encode(),
            frozenset((each,) for each in branches),
            frozenset((each,) for each in features),
            seconds,
        )

    dear, cheap, rare, rest, alike = (
        tried(9, "abc"), tried(1, "ab"), tried(1, "cd"), tried(1, "a", "xy"), tried(1, "a", "x"),
    )  # fmt: skip
    assert choose([dear, cheap, rare, rest, alike], 0, 9) == [cheap, rare]
    assert choose([dear, cheap, rare, rest, alike], 3, 9) == [cheap, rare, rest]
    assert choose([dear, cheap, rare, rest, alike], 4, 9) == [cheap, rare, rest, alike]


def test_a_plant_that_only_random_examples_find_gets_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = Plant("core/operators/distinct.py", "(before + added > 0)", "(before + added >= 0)")
    monkeypatch.setattr(choose_examples, "PLANTS", (plant,))

    def check(each: Any) -> None:
        engine = ec.Engine()
        view = engine.view("v", engine.source("a", {"k": pl.Int64}, kind="diffs").unique())
        engine.push("a", {"k": [each[0]], "_diff": [1]})
        if each[0] > 10:
            engine.push("a", {"k": [each[0]], "_diff": [-1]})
            assert not view.read().height

    law, chosen = law_of(st.integers(0, 20), check), chosen_of(law_of(st.integers(0, 10), repr))
    small = Chosen(chosen.examples, generates=1)
    choosing = Choosing(seconds=120, times=3, share=0.4, seed=1)
    found = choosing.finding_more("law", law, {}, small)
    assert len(found) == 1
    assert choosing.finding_more("law", law, {}, replace(small, examples=small.examples + found)) == ()
    assert run(law, small).applied <= set(small.examples)
    with plant.planted(), pytest.raises(AssertionError), chosen_first(law, {}, Outcome(Chosen(found, 1))):
        pytest.fail("the example that was found fails first")


def test_branches_of_the_layers_and_of_what_draws_are_counted() -> None:
    branches = Branches()
    with branches.counted():
        Path("x").exists()
    assert not branches.taken()
    with branches.counted():
        for _ in range(3):
            Bag({}, {})
    assert branches.taken()
    assert branches.how_often() == {(*branch, 2) for branch in branches.taken()}
    with branches.counted():
        ec.fixed("1m")
    assert branches.taken()


def test_settings_and_seed_are_what_they_were_after_a_failure() -> None:
    law = law_of(st.integers(), repr)
    before = law._hypothesis_internal_use_settings, law._hypothesis_internal_use_seed
    with pytest.raises(ZeroDivisionError), with_settings(law, max_examples=3), with_seed(law, 5):
        raise ZeroDivisionError
    assert (law._hypothesis_internal_use_settings, law._hypothesis_internal_use_seed) == before
