"""Run the notebook of the documentation and write its outputs into it; ``make docs`` does it.

Cells are run as Python runs them, without Jupyter: what a cell prints and the value of its last expression are its
outputs, as text, and timelines as drawings too.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import polars as pl

NOTEBOOK = Path(__file__).resolve().parent / "first-steps.ipynb"


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that are run, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(cell: dict[str, Any], names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell in a namespace, as the cell of this number, and return its outputs as a notebook holds them."""
    body = ast.parse("".join(cell["source"]))
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed, pl.Config(restore_defaults=True):
        exec(compile(body, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        shown = repr(value)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        is_drawn = type(value).__name__ == "Timeline"
        data = {"text/html": lines(value.svg())} if is_drawn else {}
        data["text/plain"] = lines(shown)
        outputs.append(
            {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def lines(text: str) -> list[str]:
    """Return a text as a notebook holds it: in lines that keep their ends."""
    return text.splitlines(keepends=True)


def main() -> None:
    """Run all cells in one namespace, and write the notebook."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(code_cells(notebook), 1):
        cell["outputs"] = outputs_of(cell, names, number)
        cell["execution_count"] = number
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
