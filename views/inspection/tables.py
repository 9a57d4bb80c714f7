"""Tables in plain text, and texts in drawings."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return a line per row with columns of equal width; the columns of ``right`` are aligned at the right."""
    rows = [[on_one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


_ENTITIES = {"#": "#35;", "&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "`": "#96;"}
_JOINER = "\N{WORD JOINER}"
"""A letter without width. Entities are replaced before what follows is looked for, so they do not hide it."""

_MEANT_OTHERWISE = {
    "$$": f"${_JOINER}$",
    "\\n": f"\\{_JOINER}n",
    ":fa-": f":{_JOINER}fa-",
    "%%": f"%{_JOINER}%",
}
"""Formulas, ends of lines, icons, comments or directives."""


def on_one_line(text: str) -> str:
    """Return the text with escapes for all that is not printable: names may have ends of lines in them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escaped(text: str) -> str:
    """Escape text between quotes of Mermaid, where ``#`` and ``&`` begin entities and a backtick begins Markdown."""
    text = on_one_line(text)
    for meant_otherwise, plain in _MEANT_OTHERWISE.items():
        text = text.replace(meant_otherwise, plain)
    return "".join(_ENTITIES.get(letter, letter) for letter in text)
