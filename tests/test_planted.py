"""Plants change the functions that run, and nothing once they are taken out."""

from __future__ import annotations

import polars as pl
import pytest

import evercurrent as ec
from planted import PLANTS, Plant, called_by

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
