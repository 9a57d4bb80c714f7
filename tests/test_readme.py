"""What the front pages say is true: their Python runs and prints what they show, their commands and files exist."""

import contextlib
import io
import re
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md")}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_python_of_the_readme_prints_what_it_shows(monkeypatch, tmp_path):
    """The blocks run in order in one namespace; a ``text`` block after one is what that one prints."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    compared = 0
    with pl.Config(restore_defaults=True):
        for language, text in BLOCK.findall(PAGES["README.md"]):
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(text, "README.md", "exec"), names)
                printed = out.getvalue()
            elif language == "text" and printed:
                assert printed == text
                printed = ""
                compared += 1
    assert compared


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert not set(re.findall(r"\bmake ([a-z-]+)", PAGES[page])) - targets


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGES[page]))
    named = set(re.findall(r"`((?:core|views|spark_bridge|docs|tests|bench|\.ci)/[\w./-]*)`", PAGES[page]))
    assert not sorted(name for name in linked | named if not (ROOT / name).exists())
