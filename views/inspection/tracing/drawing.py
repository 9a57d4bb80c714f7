"""Stages and their rows as boxes with arrows: as an indented text, a Mermaid flowchart and an SVG."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.columns.json_texts import shown_values
from evercurrent.core.data.schema import DIFF

from ..tables import escaped, on_one_line

MOST_ROWS = 3
"""The most rows that are written in a box; the others are counted."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box: its name, a heading, and lines below it. ``is_end``: it is where the rows come from."""

    name: str
    head: str
    lines: tuple[str, ...] = ()
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes from which arrows go to others, the last ones first, and a title."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...]
    direction: str = "TD"

    def text(self) -> str:
        """Return the boxes as lines: what a box is made of is indented below it, and written once."""
        made_of = {box.name: [source for source, to in self.edges if to == box.name] for box in self.boxes}
        boxes = {box.name: box for box in self.boxes}
        pending = [
            (box.name, 0)
            for box in reversed(self.boxes)
            if all(source != box.name for source, _ in self.edges)
        ]
        lines, written = [], set[str]()
        while pending:
            name, depth = pending.pop()
            box, indent = boxes[name], "  " * depth
            if name in written:
                lines.append(f"{indent}{on_one_line(box.head)} (above)")
                continue
            written.add(name)
            lines.append(f"{indent}{on_one_line(box.head)}")
            lines += [f"{indent}    {on_one_line(line)}" for line in box.lines]
            pending += [(source, depth + 1) for source in reversed(made_of[name])]
        return "\n".join(lines)

    def mermaid(self) -> str:
        """Return a Mermaid flowchart: where rows come from as cylinders."""
        lines = [f"flowchart {self.direction}"]
        for box in reversed(self.boxes):
            content = "<br/>".join([f"<b>{escaped(box.head)}</b>", *map(escaped, box.lines)])
            lines.append(f'  {box.name}[("{content}")]' if box.is_end else f'  {box.name}["{content}"]')
        lines += [f"  {source} --> {to}" for source, to in self.edges]
        return "\n".join(lines)


def shown_rows(rows: pl.DataFrame, most: int = MOST_ROWS) -> tuple[str, ...]:
    """Return the first rows as lines, and how many more there are.

    >>> shown_rows(pl.DataFrame({"shop": ["north", "south"], "_diff": [2, -1]}))
    ('+2 shop north', '-1 shop south')
    >>> shown_rows(pl.DataFrame({"shop": ["north", "south"], "_diff": [1, 1]}))
    ('shop north', 'shop south')
    """
    lines = []
    is_signed = DIFF in rows.columns and bool((rows.get_column(DIFF) != 1).any())
    for number in range(min(rows.height, most)):
        values = shown_values(rows.drop(DIFF, strict=False), number)
        diff = f"{rows.item(number, DIFF):+d} " if is_signed else ""
        lines.append(diff + ", ".join(f"{name} {value}" for name, value in values.items()))
    return (*lines, *([f"and {rows.height - most:,} more"] if rows.height > most else []))
