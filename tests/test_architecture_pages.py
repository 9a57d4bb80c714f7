"""The pages about the architecture name only what there is, have a section for each room, and show what runs."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from source_modules import LAYERS
from test_layers import FLOORS, PARTS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "architecture.md", *sorted((DOCS / "architecture").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w{2,}")
FILE = re.compile(r"[\w./-]+\.(?:py|md|json|toml)")

NOT_OURS = {"argsort", "reduceat", "withWatermark", "south"}
"""Words in quotes that are of other libraries, or of the rows of an example."""

OF_A_CHECKPOINT = "checkpoint.json"
"""A file that an engine writes."""


def ids(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text("utf-8"))


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """The sections of a page: the folder that the heading names, empty where it names none, and the text."""
    parts = re.split(r"^#{1,4} (.*)$", prose(page), flags=re.MULTILINE)
    yield "", parts[0]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        folder = re.search(r"`([\w/]+/)`", heading)
        yield (folder[1] if folder else ""), text


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings of a page, as code hosts make them."""
    headings = re.findall(r"^#{1,4} (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def words_of_the_code() -> frozenset[str]:
    """All words in the modules of the package, and in what runs its tests and benches."""
    folders = ("core", "views", "spark_bridge", "src")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    texts = [
        path.read_text("utf-8")
        for path in (*paths, Path(__file__).parent / "test_layers.py", ROOT / "Makefile")
    ]
    return frozenset(word for text in texts for word in NAME.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_files_that_are_named_exist(page: Path) -> None:
    missing = []
    for folder, text in sections(page):
        for quoted in QUOTED.findall(text):
            is_path = FILE.fullmatch(quoted) or (re.fullmatch(r"[\w.-]+(/[\w.-]+)*/", quoted) is not None)
            if not is_path or quoted == OF_A_CHECKPOINT:
                continue
            place = quoted if "/" in quoted else f"{folder}{quoted}"
            if not (ROOT / place).exists():
                missing.append(place)
    assert missing == []


def test_each_file_is_named() -> None:
    """In the section of its room by its name, or anywhere by its path."""
    named = {
        quoted if "/" in quoted else f"{folder}{quoted}"
        for page in PAGES
        for folder, text in sections(page)
        for quoted in QUOTED.findall(text)
    }
    files = [
        path.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    assert [file for file in files if file not in named] == [], (
        "describe in the section of its room what is in it"
    )


WHERE = re.compile(r"`(?P<name>[A-Za-z_][\w.]*)` (?:\(|in )`(?P<file>[\w./-]+\.py)`")
"""A name with the file that is meant to define it: ``name`` (``file``), or ``name`` in ``file``."""


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_names_are_defined_in_the_files_that_are_given_for_them(page: Path) -> None:
    elsewhere = []
    for folder, text in sections(page):
        for match in WHERE.finditer(re.sub(r"\s+", " ", text)):
            file = match["file"] if "/" in match["file"] else f"{folder}{match['file']}"
            name = match["name"].rpartition(".")[2]
            defined = rf"(?m)^\s*(?:async )?(?:def|class) {name}\b|^\s*{name} ?[:=]"
            if not re.search(defined, (ROOT / file).read_text("utf-8")):
                elsewhere.append(f"{match['name']} is not in {file}")
    assert elsewhere == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_names_that_are_quoted_are_in_the_code(page: Path) -> None:
    quoted = [text for text in QUOTED.findall(prose(page)) if not FILE.fullmatch(text) and "/" not in text]
    named = {name for text in quoted for name in NAME.findall(text)}
    assert sorted(named - words_of_the_code() - NOT_OURS) == []


def test_each_room_has_its_section() -> None:
    headings = {folder for page in PAGES for folder, _ in sections(page)}
    parts = {part for rows in PARTS.values() for row in rows for part in row}
    rooms = {room for floor in FLOORS for room in floor}
    names = {f"{each.replace('.', '/')}/" for each in rooms | parts}
    folders = {name for name in names if (ROOT / name).is_dir()}
    assert folders - headings == set()


def test_the_batch_of_the_first_page_passes_the_operators_that_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The print is shown without some columns: every word of a line that is shown is in the line that is printed."""
    monkeypatch.chdir(tmp_path)
    blocks = FENCED.findall((DOCS / "architecture.md").read_text("utf-8"))
    at = next(place for place, (language, _) in enumerate(blocks) if language == "python")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(blocks[at][1], names)
    names["engine"].close()  # type: ignore[attr-defined]
    printed, shown = out.getvalue().splitlines(), blocks[at + 1][1].splitlines()
    assert len(printed) == len(shown)
    for line, other in zip(shown, printed, strict=True):
        words = iter(other.split())
        assert all(word in words for word in line.split()), (line, other)
