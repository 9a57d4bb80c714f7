"""mypy in strict mode accepts each block of Python in the pages, and each example of a public name; pyright where it is installed."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from snippets import ROOT, SNIPPETS

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
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    bound = {
        node.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(code))
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
    command = (
        "--strict --config-file= --explicit-package-bases --follow-imports=silent --allow-untyped-decorators"
    )
    cache = ROOT / ".mypy_cache" / "examples"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command.split(), "--cache-dir", str(cache), *map(str, programs)],
        cwd=programs[0].parent,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright comes with make test-versions")
def test_strict_pyright_accepts_each_example(programs: list[Path]) -> None:
    for program in programs:
        # pyarrow has no types, so what is made of it is unknown.
        if re.search(r"pyarrow|views\.store", program.read_text("utf-8")):
            program.unlink()
    (settings := programs[0].parent / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportMissingTypeStubs": false, '
        f'"reportUnusedExpression": false, "reportUnusedVariable": false, "extraPaths": ["{ROOT / "src"}"]}}'
    )
    done = subprocess.run(
        ["pyright", "--pythonpath", sys.executable, "--project", str(settings)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
