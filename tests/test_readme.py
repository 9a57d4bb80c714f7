"""What the front pages say is true: their Python runs and prints what they show, their commands and files exist."""

import contextlib
import io
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evercurrent.views.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md", "docs/concurrency.md")
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/concurrency.md"])
def test_python_of_a_page_prints_what_it_shows(page, monkeypatch, tmp_path):
    """The blocks run in order in one namespace; a ``text`` block after one is what that one prints.

    Those that use Spark are run by ``spark/test_readme_in_spark.py``.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    compared = 0
    with pl.Config(restore_defaults=True):
        for language, text in BLOCK.findall(PAGES[page]):
            if "spark_bridge" in text:
                printed = ""
            elif language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(text, page, "exec"), names)
                printed = out.getvalue()
            elif language == "text" and printed:
                assert printed == text
                printed = ""
                compared += 1
    assert compared


def test_own_application_of_the_readme_runs(monkeypatch, tmp_path):
    """The block that names its file, on the CSV after it, by the command after that."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGES["README.md"])
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
    assert not sorted(name for name in linked | named if not (ROOT / name).exists())
