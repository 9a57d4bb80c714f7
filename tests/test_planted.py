"""Plants change the functions that run, and nothing once they are taken out."""

from __future__ import annotations

import ast

import polars as pl
import pytest

import evercurrent as ec
from planted import PLANTS, Plant, called_by, mutants, other_way_round, places_of

KEEPS_ZEROS = Plant("core/operators/distinct.py", "(before + added > 0)", "(before + added >= 0)")


def distinct_rows() -> list[tuple[int]]:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"k": pl.Int64}, kind="diffs").unique())
    engine.push("a", {"k": [1, 2], "_diff": [1, 1]})
    engine.push("a", {"k": [1], "_diff": [-1]})
    return view.read().rows()


def test_a_plant_is_there_as_long_as_it_is_planted() -> None:
    assert KEEPS_ZEROS.fits
    assert distinct_rows() == [(2,)]
    with KEEPS_ZEROS.planted():
        assert sorted(distinct_rows()) == [(1,), (2,)]
    assert distinct_rows() == [(2,)]


def test_a_plant_is_taken_out_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), KEEPS_ZEROS.planted():
        raise ZeroDivisionError
    assert distinct_rows() == [(2,)]


def test_what_a_plant_changes_is_known_to_be_called_or_not() -> None:
    ((function, _),) = KEEPS_ZEROS.functions()
    assert function.__code__ in called_by(distinct_rows)
    assert function.__code__ not in called_by(lambda: None)


def test_each_plant_fits_its_file() -> None:
    """Where the code has changed, plant the same fault in what stands there now."""
    assert [plant for plant in PLANTS if not plant.fits] == []


def test_each_plant_changes_a_function() -> None:
    assert [plant for plant in PLANTS if not plant.functions()] == []


PLACES = """
AT = 1
def of(self, size: Literal[0], *, at: int = 1) -> int:
    count: Literal[1] = size + 1
    if size < 2 and not count & 3:
        raise ValueError(f"{size - 1} == 0")
    return all(each in (0, True) for each in size)
"""


def test_a_place_that_could_read_otherwise_is_no_type_no_message_and_in_a_function() -> None:
    tree = ast.parse(PLACES)
    places = [(names, ast.unparse(place)) for names, place in places_of(tree)]
    assert places == [
        ("of", "size + 1"),
        ("of", "1"),
        ("of", "size < 2 and (not count & 3)"),
        ("of", "size < 2"),
        ("of", "count & 3"),
        ("of", "each in (0, True)"),
        ("of", "0"),
        ("of", "True"),
    ]
    for _, place in places_of(tree):
        other_way_round(place)
    count, condition, result = tree.body[1].body  # type: ignore[attr-defined]
    assert ast.unparse(count) == "count: Literal[1] = size - 0"
    assert ast.unparse(condition.test) == "size <= 2 or not count | 3"
    assert ast.unparse(result) == "return all((each not in (1, False) for each in size))"


def test_mutants_are_drawn_from_the_functions_that_are_called() -> None:
    called = called_by(distinct_rows)
    several = mutants(called, 40, seed=3)
    assert len(set(several)) == 40
    assert several == mutants(called, 40, seed=3) != mutants(called, 40, seed=4)
    of_distinct = [
        each for each in mutants(called, 10**6, seed=0) if each.file == "core/operators/distinct.py"
    ]
    assert any(str(each).endswith("before + added >= 0 for before + added > 0") for each in of_distinct)
    for each in several:
        assert str(each).startswith(f"{each.file}:")
        assert called.issuperset(function.__code__ for function, _ in each.functions())


def test_a_mutant_is_there_as_long_as_it_is_planted() -> None:
    (keeps_zeros,) = [
        each
        for each in mutants(called_by(distinct_rows), 10**6, seed=0)
        if str(each).endswith("before + added >= 0 for before + added > 0")
    ]
    with keeps_zeros.planted():
        assert sorted(distinct_rows()) == [(1,), (2,)]
    assert distinct_rows() == [(2,)]
