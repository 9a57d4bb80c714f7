"""``docs/features.md`` lists every capability with its tests, and is what its script generates from the tests."""

from __future__ import annotations

import gc
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
RANGES = ((1, 23), (30, 42), (50, 63), (70, 92), (100, 105), (110, 135), (140, 154), (160, 168))


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    """The script. No garbage is collected while it parses the tests, for the reason that ``source_modules.tree_of`` has."""
    was_enabled = gc.isenabled()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        gc.disable()
        try:
            yield importlib.import_module("make_features")
        finally:
            if was_enabled:
                gc.enable()


@pytest.fixture(scope="module")
def listed(made: Any) -> list[str]:
    """The ids in the order of the page."""
    return [name for rows in made.SECTIONS.values() for name in rows]


@pytest.fixture(scope="module")
def names_of_tests(made: Any) -> dict[str, list[tuple[str, str]]]:
    """The tests of each id."""
    return dict(made.tests_by_id())


def test_the_page_is_the_one_that_the_script_makes(made: Any) -> None:
    assert made.PAGE.read_text("utf-8") == made.page(), "run: python docs/make_features.py"


def test_every_capability_is_there_once_and_in_order(listed: list[str]) -> None:
    errors = [f"E{number}" for number in range(1, 9)]
    capabilities = [f"A{number:03}" for first, last in RANGES for number in range(first, last + 1)]
    assert listed == errors + capabilities


def test_every_capability_has_a_test_or_a_reason_and_not_both(
    made: Any, listed: list[str], names_of_tests: dict[str, list[tuple[str, str]]]
) -> None:
    assert [name for name in listed if (name in names_of_tests) == (name in made.NOT_YET)] == []
    assert set(made.NOT_YET) <= set(listed)


def test_no_test_names_a_capability_that_is_not_there(
    listed: list[str], names_of_tests: dict[str, list[tuple[str, str]]]
) -> None:
    unknown = {name: tests for name, tests in names_of_tests.items() if name not in listed}
    assert unknown == {}


def test_capabilities_are_described_in_a_line_each(made: Any) -> None:
    descriptions = [what for rows in made.SECTIONS.values() for what in rows.values()]
    assert all(re.fullmatch(r"[A-Z][^|\n]*[^.|\n]", what) for what in descriptions)


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ("def test_a071_two_minutes(): pass", {"A071"}),
        ("def test_A071_a072_e8_both(): pass", {"A071", "A072", "E8"}),
        ("def test_all():\n    '''A117: AND.'''", {"A117"}),
        ("def test_modes():\n    '''A140, A141 and A142: modes, not A143.'''", {"A140", "A141", "A142"}),
        ("def test_other():\n    '''As A117, which is elsewhere.'''", set()),
        ("def test_a07_1_a0712(): pass", set()),
    ],
)
def test_ids_stand_in_the_name_or_begin_the_docstring(made: Any, source: str, ids: set[str]) -> None:
    (test,) = made.ast.parse(source).body
    assert made.ids_of(test) == ids
