"""Each block of Python in the README and in docs runs on its own and twice in a row, and prints what its page shows.

Those that use Spark are run by ``spark/test_snippets_in_spark.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from snippets import (
    IN_SPARK,
    NOT_RUN,
    PAGES,
    ROOT,
    SNIPPETS,
    WITHOUT_SPARK,
    Snippet,
    assert_runs_twice,
    snippets_of,
)

NEED = {
    "docs/how-to/spark-clusters.md:1": "it needs a cluster and its storage",
    "docs/how-to/change-capture.md:2": "it needs a broker, and its package of Java",
}
"""What the blocks that are not run need, by name."""


@pytest.mark.parametrize("snippet", WITHOUT_SPARK, ids=lambda snippet: snippet.name)
def test_a_snippet_runs_on_its_own_and_twice_in_a_row(
    snippet: Snippet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_runs_twice(snippet)


def test_all_are_run_except_few_that_state_why_not() -> None:
    assert {snippet.name: snippet.not_run for snippet in NOT_RUN} == NEED
    assert sorted(snippet.name for snippet in (*WITHOUT_SPARK, *IN_SPARK, *NOT_RUN)) == sorted(
        snippet.name for snippet in SNIPPETS
    )
    assert IN_SPARK


def test_make_check_runs_all_of_them() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    assert {"tests/test_snippets.py", "tests/spark/test_snippets_in_spark.py"} <= set(recipe.split())


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
        "<!-- not run: it needs the moon -->\n```python\nland()\n```\n"
    )
    first, second, third, fourth = snippets_of(page)
    assert (first.set_up, second.set_up.strip(), third.set_up.strip()) == ("", "x = 1", "y = 2")
    assert (first.shown, second.shown, third.shown) == ("", "1\n", "")
    assert third.prints_otherwise_again
    assert (third.not_run, fourth.not_run) == (None, "it needs the moon")
