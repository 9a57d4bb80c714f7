"""The notebook of the documentation: its cells run and show what it holds, also when they are run again."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_notebook", DOCS / "make_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def notebook() -> dict[str, Any]:
    held: dict[str, Any] = json.loads((DOCS / "first-steps.ipynb").read_text("utf-8"))
    return held


def test_cells_show_what_the_notebook_holds_when_all_are_run_again_too(notebook: dict[str, Any]) -> None:
    module, names = runner(), {}
    for _ in ("once", "again"):
        for number, cell in enumerate(module.code_cells(notebook), 1):
            assert cell["execution_count"] == number
            assert module.outputs_of(cell, names, number) == cell["outputs"]


def test_each_cell_can_be_run_twice_in_a_row(notebook: dict[str, Any]) -> None:
    """What declares or reads shows the same the second time; what pushes may have nothing new to show."""
    module, names = runner(), {}
    for number, cell in enumerate(module.code_cells(notebook), 1):
        once, again = (module.outputs_of(cell, names, number) for _ in range(2))
        if ".push(" not in "".join(cell["source"]) and "score(" not in "".join(cell["source"]):
            assert again == once
    assert set(names["engine"].views) == {"cities", "customers", "big", "rounds"}
    assert names["cities"].lookup("Oslo").rows() == [("Oslo", 2, 50)]


def test_it_is_a_notebook_of_jupyter(notebook: dict[str, Any]) -> None:
    """With what its format requires of each cell, the ids of which differ."""
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code


def test_its_links_lead_somewhere(notebook: dict[str, Any]) -> None:
    texts = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", texts)
    assert links
    assert all((DOCS / link).exists() for link in links)
