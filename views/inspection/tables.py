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


def on_one_line(text: str) -> str:
    """Return the text with escapes for all that is not printable: names may have ends of lines in them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escaped(text: str) -> str:
    """Escape text between quotes of Mermaid.

    ``#`` and ``&`` begin entities there, a backtick at the beginning another kind of text, and ``%%`` a comment or directive.
    """
    entities = {"#": "#35;", "&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "`": "#96;"}
    text = "".join(entities.get(letter, letter) for letter in on_one_line(text))
    return text.replace("%%", "%#37;")
