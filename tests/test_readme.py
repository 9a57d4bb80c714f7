"""What the front pages state is true: their Python runs and prints what they show, their commands and files exist."""

import contextlib
import io
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evercurrent.views.cli import app

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("architecture", "contributing", "figures", "reference")
"""Pages of docs, and folders of them, that have tests of their own."""
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted(
            path for path in (ROOT / "docs").rglob("*.md") if not {path.parent.name, path.stem} & set(OTHERS)
        ),
    )
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRAGMENTS = ("docs/bank.md", "docs/testing.md")
"""Pages with blocks that are parts of a program, or whose tests are elsewhere."""
RUN = [
    name
    for name, text in PAGES.items()
    if any(language == "python" for language, _ in BLOCK.findall(text)) and name not in FRAGMENTS
]
"""The pages whose blocks of Python are a program."""


def test_the_first_page_is_read_in_minutes():
    assert len(PAGES["README.md"].split()) <= 900


@pytest.mark.parametrize("page", RUN)
def test_python_of_a_page_prints_what_it_shows(page, monkeypatch, tmp_path):
    """The blocks run in order in one namespace, twice; a ``text`` block after one is what that one prints.

    Those that use Spark are run by ``spark/test_snippets_in_spark.py``.
    """
    for time in ("once", "again"):
        (tmp_path / time).mkdir()
        monkeypatch.chdir(tmp_path / time)
        names: dict[str, object] = {}
        printed = ""
        with pl.Config(restore_defaults=True):
            for language, text in BLOCK.findall(PAGES[page]):
                if "spark_bridge" in text:
                    printed = ""
                elif language == "python":
                    assert not printed, f"{page} does not show what this prints: {printed}"
                    with contextlib.redirect_stdout(io.StringIO()) as out:
                        exec(compile(text, page, "exec"), names)
                    printed = out.getvalue()
                elif language == "text" and printed:
                    assert printed == text
                    printed = ""
        assert not printed, f"{page} does not show what the last block prints: {printed}"


def test_own_application_of_a_page_runs(monkeypatch, tmp_path):
    """The block that names its file, on the CSV after it, by the command after that."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGES["docs/command-line.md"])
    at = next(i for i, (_, text) in enumerate(blocks) if text.startswith("# shop.py\n"))
    (_, module), (_, rows), (_, command) = blocks[at : at + 3]
    Path("shop.py").write_text(module, "utf-8")
    Path("sales.csv").write_text(rows, "utf-8")
    words = command.split()
    assert words[0] == ".venv/bin/evercurrent"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output
    assert re.search(r"^north +1 +3\.0", done.output, re.MULTILINE), done.output
    assert Path("changes.jsonl").read_text("utf-8").count("\n") == 2


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert not set(re.findall(r"\bmake ([a-z-]+)", PAGES[page])) - targets


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGES[page]))
    named = set(re.findall(r"`((?:core|views|spark_bridge|docs|tests|bench|\.ci)/[\w./-]*)`", PAGES[page]))
    here = (ROOT / page).parent
    assert not sorted(name for name in named if not (ROOT / name).exists())
    assert not sorted(name for name in linked if not (here / name).exists())
