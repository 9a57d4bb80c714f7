"""Tables in plain text, and texts in drawings."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return a line per row with columns of equal width; the columns of ``right`` are aligned at the right."""
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

_MEANT_OTHERWISE = {"$$": f"${_JOINER}$", "\\n": f"\\{_JOINER}n", ":fa-": f":{_JOINER}fa-"}
"""Formulas, ends of lines, icons."""


def escaped(text: str) -> str:
    """Escape text between quotes of Mermaid, where ``#`` and ``&`` begin entities and a backtick begins Markdown."""
    for meant_otherwise, plain in _MEANT_OTHERWISE.items():
        text = text.replace(meant_otherwise, plain)
    return "".join(_ENTITIES.get(letter, letter) for letter in text)
