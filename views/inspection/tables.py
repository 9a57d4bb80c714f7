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


def escaped(text: str) -> str:
    """Escape text between quotes of Mermaid, where ``#`` and ``&`` begin entities."""
    entities = {"#": "#35;", "&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"}
    return "".join(entities.get(letter, letter) for letter in text)
