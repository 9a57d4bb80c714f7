"""mypy and pyright in strict mode accept a user's program, each block of Python in the pages, and each example of a public name.

Each of them runs once over all programs: to read the packages that they import takes longer than the programs.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from snippets import SNIPPETS
from source_modules import tree_of
from type_checkers import ROOT, Objections, strict_mypy, strict_pyright

USERS = ROOT / "tests" / "typed" / "users_program.py"
WRONG = "wrong.py"
LENIENT = "# mypy: allow-untyped-decorators"
"""The first line of an example; a user's program is held to all that is strict."""

IMPORTS = {"pl": "import polars as pl", "ec": "import evercurrent as ec"}


def documented(module: ModuleType) -> Iterator[object]:
    """Yield the public names of a module that have a docstring of ours."""
    for name in module.__all__:
        each = getattr(module, name)
        if (inspect.isclass(each) or inspect.isfunction(each)) and each.__module__.startswith("evercurrent."):
            yield each


def examples() -> Iterator[tuple[str, str]]:
    """Yield the examples of each docstring of a public name or of its methods: the name, and the code without prompts."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    taken: set[str] = set()
    for module in (evercurrent, testing, telemetry, spark_bridge):
        for each in documented(module):
            owners = each.__mro__ if inspect.isclass(each) else (each,)
            for owner in owners:
                if not owner.__module__.startswith("evercurrent.") or owner in taken:
                    continue
                taken.add(owner)  # type: ignore[arg-type]
                for found in finder.find(owner, module=sys.modules[owner.__module__]):
                    if found.examples:
                        code = "".join(each.source for each in found.examples)
                        yield f"{owner.__module__}.{found.name}", f"{imports(owner.__module__, code)}\n{code}"


def imports(module: str, code: str) -> str:
    """Return the imports of what an example uses and does not import: it is run among the names of its module."""
    used = {node.id for node in ast.walk(tree_of(code)) if isinstance(node, ast.Name)}
    bound = {
        node.id
        for node in ast.walk(tree_of(code))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree_of(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    missing = sorted((used - bound) & vars(sys.modules[module]).keys())
    return "\n".join(IMPORTS.get(name, f"from {module} import {name}") for name in missing)


def with_names(code: str) -> str:
    """Return code in which each value that is thrown away has a name of its own, as their types differ."""
    numbers = iter(range(10_000))
    return re.sub(r"^( *)_ = ", lambda match: f"{match[1]}_{next(numbers)} = ", code, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A user's program, a wrong one, and each example as a file."""
    folder = tmp_path_factory.mktemp("typed")
    pages = ((snippet.name, snippet.set_up + "\n" + snippet.code) for snippet in SNIPPETS)
    docstrings = ((name, with_names(code)) for name, code in examples())
    made = [Path(shutil.copy(USERS, folder)), folder / WRONG]
    made[-1].write_text("import evercurrent as ec\n\nec.Engine().view(1)\n", "utf-8")
    for name, code in (*pages, *docstrings):
        made.append(folder / (re.sub(r"\W", "_", name) + ".py"))
        made[-1].write_text(f"{LENIENT}\n{code}", "utf-8")
    return made


@pytest.fixture(scope="module")
def by_mypy(programs: list[Path]) -> Objections:
    """What mypy objects to in all of them."""
    return strict_mypy(programs)


@pytest.fixture(scope="module")
def by_pyright(programs: list[Path]) -> Objections:
    """What pyright objects to in all of them."""
    return strict_pyright(programs[0].parent)


def test_examples_are_found() -> None:
    names = [name for name, _ in examples()]
    assert len(names) == len(set(names)) > 70
    assert {"evercurrent.views.engine.view.View", "evercurrent.core.data.errors.PlanError"} <= set(names)


def test_strict_mypy_finds_nothing_in_a_users_program(by_mypy: Objections) -> None:
    assert by_mypy.get(USERS.name) is None


def test_strict_pyright_finds_nothing_in_a_users_program(by_pyright: Objections) -> None:
    assert by_pyright.get(USERS.name) is None


def test_strict_mypy_accepts_each_example(by_mypy: Objections) -> None:
    assert {name: found for name, found in by_mypy.items() if name not in (USERS.name, WRONG)} == {}


def test_strict_pyright_accepts_each_example(by_pyright: Objections) -> None:
    assert {name: found for name, found in by_pyright.items() if name not in (USERS.name, WRONG)} == {}


def test_a_wrong_program_is_found_by_both(by_mypy: Objections, by_pyright: Objections) -> None:
    for objections in (by_mypy, by_pyright):
        assert objections[WRONG][0].startswith("3:")
        assert "error" in objections[WRONG][0]
