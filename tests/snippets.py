"""The blocks of Python in the pages, each with its set-up and with what the page shows that it prints.

A block is a program of its own, unless a comment before it, which readers of the page do not see, states its set-up: that of
``<!-- goes on -->`` are the blocks above it with theirs, that of ``<!-- set-up: ... -->`` is the code in the comment. What a block
prints is in a ``text`` block after it. ``<!-- other output again -->`` states that a second run in a row prints other things,
as it is about what a first one has left. ``<!-- output is compared by PATH -->`` names the test of what it prints.
``<!-- not run: ... -->`` states what a block needs that no test has: mypy and pyright check it all the same.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_SNIPPETS = ("contributing", "figures")
"""Folders of docs whose pages have changes and drawings, which are tested elsewhere."""
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in WITHOUT_SNIPPETS),
)
PARTS = re.compile(
    r"<!-- (?P<comment>.*?) ?-->|^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Snippet:
    """A block of Python: its page and place there, the code that is run before it, and what it prints."""

    page: str
    number: int
    set_up: str
    code: str
    shown: str
    prints_otherwise_again: bool
    compared_by: str | None = None
    """The file of another test that compares what it prints."""
    not_run: str | None = None
    """Why it is not run, if it is not."""

    @property
    def name(self) -> str:
        """The page, and the number of the block in it."""
        return f"{self.page}:{self.number}"

    @property
    def is_of_spark(self) -> bool:
        """Whether it needs a Spark session."""
        return "spark_bridge" in self.set_up + self.code


def snippets_of(page: Path) -> list[Snippet]:
    """Return the blocks of Python of a page."""
    found: list[Snippet] = []
    comments: list[str] = []
    for part in PARTS.finditer(page.read_text("utf-8")):
        language, code = part["language"], part["code"]
        if language is None:
            comments.append(part["comment"])
        elif language == "text" and found and not found[-1].shown:
            found[-1] = _with_shown(found[-1], code)
        elif language == "python":
            above = [one for before in found[-1:] for one in (before.set_up, before.code)]
            set_up = above if "goes on" in comments else []
            set_up += [each.removeprefix("set-up:") for each in comments if each.startswith("set-up:")]
            again = "other output again" in comments
            name = page.relative_to(ROOT).as_posix()
            compared = _after("output is compared by", comments)
            not_run = _after("not run:", comments)
            found.append(Snippet(name, len(found) + 1, "\n".join(set_up), code, "", again, compared, not_run))
            comments = []
    return found


def _after(words: str, comments: list[str]) -> str | None:
    return next((each.removeprefix(words).strip() for each in comments if each.startswith(words)), None)


def _with_shown(snippet: Snippet, shown: str) -> Snippet:
    return replace(snippet, shown=shown)


SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page)]
NOT_RUN = [snippet for snippet in SNIPPETS if snippet.not_run is not None]
IN_SPARK = [snippet for snippet in SNIPPETS if snippet.is_of_spark and snippet.not_run is None]
WITHOUT_SPARK = [snippet for snippet in SNIPPETS if not snippet.is_of_spark and snippet.not_run is None]


def assert_runs_twice(snippet: Snippet) -> None:
    """Run a block after its set-up, and once more: it prints what the page shows. It may fill the working directory."""
    names: dict[str, object] = {}
    with pl.Config(restore_defaults=True):
        _printed(snippet.set_up, f"set-up of {snippet.name}", names)
        first = _printed(snippet.code, snippet.name, names)
        again = _printed(snippet.code, f"{snippet.name}, again", names)
    if snippet.compared_by is not None:
        assert (ROOT / snippet.compared_by).exists()
        return
    assert first == snippet.shown
    assert (again != first) == snippet.prints_otherwise_again


def _printed(code: str, name: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, name, "exec"), names)
    return out.getvalue()
