"""mypy and pyright in strict mode accept each block of Python in the pages, and each example of a public name."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from snippets import SNIPPETS
from source_modules import tree_of
from type_checkers import strict_mypy, strict_pyright

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
    """Each example as a file."""
    folder = tmp_path_factory.mktemp("typed")
    pages = ((snippet.name, snippet.set_up + "\n" + snippet.code) for snippet in SNIPPETS)
    docstrings = ((name, with_names(code)) for name, code in examples())
    made = []
    for name, code in (*pages, *docstrings):
        made.append(folder / (re.sub(r"\W", "_", name) + ".py"))
        made[-1].write_text(code, "utf-8")
    return made


def test_examples_are_found() -> None:
    names = [name for name, _ in examples()]
    assert len(names) == len(set(names)) > 70
    assert {"evercurrent.views.engine.view.View", "evercurrent.core.data.errors.PlanError"} <= set(names)


def test_strict_mypy_accepts_each_example(programs: list[Path]) -> None:
    assert strict_mypy(programs, "examples", "--allow-untyped-decorators") == ""


def test_strict_pyright_accepts_each_example(programs: list[Path]) -> None:
    assert strict_pyright(programs[0].parent) == ""
