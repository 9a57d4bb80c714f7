"""Hooks of mkdocs: the README and the changelog become pages of the site, and links to other files of the checkout become names."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
PAGES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site, by the files of the checkout that they are."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are files of the checkout."""
    from mkdocs.structure.files import File

    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with links that the site can follow."""
    return linked(markdown, page.file.src_uri, {file.src_uri for file in files})


def title(page: Path) -> str:
    """Return the title of a page, without what follows a colon.

    >>> title(ROOT / "docs/figures.md")
    'Figures'
    """
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ").partition(":")[0]


def linked(markdown: str, page: str, known: set[str]) -> str:
    """Return a page with its links as those of the site; a link to a file that the site does not have becomes its text.

    Where the text of a link is the path of a file in the checkout, the site has the title of the page instead.

    >>> linked("[a](docs/a.md#x), [b](../bench/b.md)", "index.md", {"a.md"})
    '[a](a.md#x), b'
    >>> linked("[docs/speed.md](docs/speed.md) has more", "index.md", {"speed.md"})
    '[How fast](speed.md) has more'
    """
    folder = posixpath.dirname(PAGES.get(page, f"docs/{page}"))

    def change(match: re.Match[str]) -> str:
        image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        here = next((site for site, source in PAGES.items() if source == path), path.removeprefix("docs/"))
        if here not in known:
            return text
        if text == f"docs/{here}":
            text = title(ROOT / text)
        return f"{image}[{text}]({posixpath.relpath(here, posixpath.dirname(page) or '.')}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if number % 2 else LINK.sub(change, part) for number, part in enumerate(parts))
