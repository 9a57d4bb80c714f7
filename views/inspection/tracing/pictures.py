"""Drawings as pictures: boxes and arrows in SVG."""

from __future__ import annotations

from collections.abc import Sequence

from ..tables import on_one_line
from ..timeline.svg import FONT, element, hint, text, width
from .drawing import Box, Drawing

LINE, PADDING, GAP, BETWEEN, DOWN, WIDEST = 17.0, 12.0, 64.0, 18.0, 34.0, 620.0
HEAD, SMALL, BOLD = 12.5, 11.0, 1.08

STYLE = (
    ".box{fill:#f4f6f8;stroke:#9aa3af}.end{fill:#e8f1fb;stroke:#3b82c4}.view{fill:#eaf6ec;stroke:#3f9a57}"
    ".head{font-weight:600;fill:#1f2933}.line{fill:#52606d}.arrow{stroke:#7b8794;fill:none}.tip{fill:#7b8794}"
    "@media (prefers-color-scheme:dark){.page{fill:#16191d}.box{fill:#232a31;stroke:#6b7682}"
    ".end{fill:#16324a;stroke:#5aa2e0}.view{fill:#173622;stroke:#5bb873}.head{fill:#e4e9ee}.line{fill:#b6bec9}}"
)


def from_top(drawing: Drawing) -> str:
    """Return the boxes in rows from top to bottom, above each box what goes into it."""
    rows = _rows(drawing)
    widths = [sum(map(_width, row)) + BETWEEN * (len(row) - 1) for row in rows]
    widest, y = max(widths), 40.0
    places = {}
    for row, wide in zip(rows, widths, strict=True):
        x, high = PADDING + (widest - wide) / 2, max(map(_height, row))
        for box in row:
            places[box.name] = (x, y + high - _height(box), _width(box), _height(box))
            x += _width(box) + BETWEEN
        y += high + DOWN
    last = {to for _, to in drawing.edges} - {source for source, _ in drawing.edges}
    arrows = [_arrow_below(places[source], places[to]) for source, to in drawing.edges]
    boxes = [_drawn(box, *places[box.name], is_last=box.name in last) for row in rows for box in row]
    wide = max(widest + 2 * PADDING, width(drawing.title, 14) + 2 * PADDING)
    return _page(drawing.title, wide, y - DOWN + PADDING, [*arrows, *boxes])


def row_by_row(drawing: Drawing) -> str:
    """Return the boxes in two columns, row by row: each box on the right, and on the left what goes into it alone."""
    left = [box for box in drawing.boxes if box.is_end]
    right = [box for box in drawing.boxes if not box.is_end]
    first = max(map(_width, left), default=0.0)
    second = max(map(_width, right), default=0.0)
    across = PADDING + (first + GAP if left else 0.0)
    places, y = {}, 40.0
    for box in right:
        causes = [each for each in left if (each.name, box.name) in drawing.edges]
        beside = sum(map(_height, causes)) + BETWEEN * max(len(causes) - 1, 0)
        high = max(_height(box), beside)
        places[box.name] = (across, y + (high - _height(box)) / 2, second, _height(box))
        down = y + (high - beside) / 2
        for each in causes:
            places[each.name] = (PADDING, down, first, _height(each))
            down += _height(each) + BETWEEN
        y += high + BETWEEN * 1.5
    wide = max(across + second + PADDING, width(drawing.title, 14) + 2 * PADDING)
    ends = {box.name for box in left}
    arrows = [
        _arrow(places[source], places[to]) if source in ends else _arrow_down(places[source], places[to])
        for source, to in drawing.edges
    ]
    boxes = [_drawn(box, *places[box.name], is_last=box is right[-1]) for box in drawing.boxes]
    return _page(drawing.title, wide, y, [*arrows, *boxes])


def _page(title: str, wide: float, high: float, inside: Sequence[str]) -> str:
    ground = [
        element("style", STYLE),
        element("rect", width=wide, height=high, fill="#ffffff", class_="page"),
        text(title, PADDING, 24, class_="head", font_size=14),
    ]
    return element(
        "svg", *ground, *inside, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {wide:.0f} {high:.0f}",
        width=wide, height=high, font_family=FONT, role="img",
    )  # fmt: skip


def _rows(drawing: Drawing) -> list[list[Box]]:
    """Return the boxes in rows: each below all that go into it, and what goes into it as near to it as possible."""
    level = {box.name: 0 for box in drawing.boxes}
    for box in reversed(drawing.boxes):  # A box comes after those that it goes into.
        level[box.name] = max(
            (level[source] + 1 for source, to in drawing.edges if to == box.name), default=0
        )
    for box in drawing.boxes:
        below = [level[to] for source, to in drawing.edges if source == box.name]
        level[box.name] = min(below) - 1 if below else level[box.name]
    rows: list[list[Box]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for box in reversed(drawing.boxes):
        rows[level[box.name]].append(box)
    return [row for row in rows if row]


def _cut(line: str) -> str:
    line = on_one_line(line)
    if width(line, SMALL) <= WIDEST:
        return line
    while line and width(line + "…", SMALL) > WIDEST:
        line = line[:-1]
    return line + "…"


def _width(box: Box) -> float:
    lines = [BOLD * width(_cut(box.head), HEAD), *(width(_cut(line), SMALL) for line in box.lines)]
    return max(lines) + 2 * PADDING


def _height(box: Box) -> float:
    return LINE * (1 + len(box.lines)) + PADDING


def _drawn(box: Box, x: float, y: float, wide: float, high: float, *, is_last: bool) -> str:
    kind = "box end" if box.is_end else "box view" if is_last else "box"
    inside = [
        hint("\n".join([box.head, *box.lines])),
        element("rect", x=x, y=y, width=wide, height=high, rx=6, class_=kind),
        text(_cut(box.head), x + PADDING, y + LINE, class_="head", font_size=HEAD),
    ]
    for number, line in enumerate(box.lines, 2):
        inside.append(text(_cut(line), x + PADDING, y + number * LINE, class_="line", font_size=SMALL))
    return element("g", *inside)


Place = tuple[float, float, float, float]


def _arrow(source: Place, to: Place) -> str:
    x, y = source[0] + source[2], source[1] + source[3] / 2
    end_x, end_y = to[0] - 7, to[1] + to[3] / 2
    middle = (x + end_x) / 2
    line = element(
        "path",
        d=f"M{x:.1f} {y:.1f} C{middle:.1f} {y:.1f} {middle:.1f} {end_y:.1f} {end_x:.1f} {end_y:.1f}",
        class_="arrow",
    )
    tip = f"{end_x:.1f},{end_y - 4:.1f} {to[0]:.1f},{end_y:.1f} {end_x:.1f},{end_y + 4:.1f}"
    return line + element("polygon", points=tip, class_="tip")


def _arrow_below(source: Place, to: Place) -> str:
    x, y = source[0] + source[2] / 2, source[1] + source[3]
    end_x, end_y = to[0] + to[2] / 2, to[1] - 7
    middle = (y + end_y) / 2
    d = f"M{x:.1f} {y:.1f} C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"
    tip = f"{end_x - 4:.1f},{end_y:.1f} {end_x:.1f},{to[1]:.1f} {end_x + 4:.1f},{end_y:.1f}"
    return element("path", d=d, class_="arrow") + element("polygon", points=tip, class_="tip")


def _arrow_down(source: Place, to: Place) -> str:
    x, y, end = source[0] + 24, source[1] + source[3], to[1] - 7
    line = element("path", d=f"M{x:.1f} {y:.1f} L{x:.1f} {end:.1f}", class_="arrow")
    tip = f"{x - 4:.1f},{end:.1f} {x:.1f},{to[1]:.1f} {x + 4:.1f},{end:.1f}"
    return line + element("polygon", points=tip, class_="tip")
