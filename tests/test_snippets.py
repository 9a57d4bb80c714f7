"""Each block of Python in the README and in docs runs on its own and twice in a row, and prints what its page shows."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import polars as pl
import pytest

from snippets import PAGES, ROOT, SNIPPETS, Snippet, snippets_of


def printed(code: str, name: str, names: dict[str, object]) -> str:
    """Return what code prints in a namespace."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, name, "exec"), names)
    return out.getvalue()


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_a_snippet_runs_on_its_own_and_twice_in_a_row(
    snippet: Snippet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that use Spark are run by ``spark/test_readme_in_spark.py``."""
    if snippet.is_of_spark:
        assert (ROOT / "tests" / "spark" / "test_readme_in_spark.py").exists()
        return
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with pl.Config(restore_defaults=True):
        printed(snippet.set_up, f"set-up of {snippet.name}", names)
        first = printed(snippet.code, snippet.name, names)
        again = printed(snippet.code, f"{snippet.name}, again", names)
    if snippet.compared_by is not None:
        assert (ROOT / snippet.compared_by).exists()
        return
    assert first == snippet.shown
    assert (again != first) == snippet.prints_otherwise_again


def test_there_are_snippets_on_the_pages_that_teach() -> None:
    pages = {snippet.page for snippet in SNIPPETS}
    assert {"README.md", "docs/tutorial.md", "docs/testing.md", "docs/bank.md", "docs/figures.md"} <= pages
    assert len(PAGES) > 20


def test_set_ups_are_those_that_the_comments_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snippets.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n<!-- goes on -->\n```python\nprint(x)\n```\n```text\n1\n```\n"
        "<!-- set-up:\ny = 2\n-->\n<!-- other output again -->\n```python\nprint(y)\n```\n"
    )
    first, second, third = snippets_of(page)
    assert (first.set_up, second.set_up.strip(), third.set_up.strip()) == ("", "x = 1", "y = 2")
    assert (first.shown, second.shown, third.shown) == ("", "1\n", "")
    assert third.prints_otherwise_again
