"""The legend, which explains the marks that occur in a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import style
from .dots import Dot
from .panes import Pane
from .svg import MINUS, element, text, width
from .watermarks import Watermark

LINE_HEIGHT = 20
_SYMBOL = 26
_GAP = 20
_PANE_MEANINGS = {"EARLY": "early pane", "ON_TIME": "on-time pane", "LATE": "late pane", None: "pane"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A symbol, drawn around (0, 0) in a field of 20 x 14, and its meaning."""

    symbol: str
    meaning: str


def entries_for(
    dots: Sequence[Dot], watermarks: Sequence[Watermark], panes: Sequence[Pane], *, has_ideal: bool
) -> list[Entry]:
    """Return the entries for the marks that are drawn."""
    entries = _of_rows(dots)
    several = len(watermarks) > 1
    for place, watermark in enumerate(watermarks):
        colour = style.WATERMARKS[place % len(style.WATERMARKS)]
        entries.append(
            Entry(_line(colour, 2), f"watermark of {watermark.source}" if several else "watermark")
        )
    if has_ideal:
        entries.append(Entry(_line(style.IDEAL, 1.2), "ideal watermark"))
    return entries + _of_panes(panes)


def _of_rows(dots: Sequence[Dot]) -> list[Entry]:
    standings = {dot.standing for dot in dots}
    entries = [Entry(_disc(style.ROW, hollow=False), "input row")] if standings - {"late", "refused"} else []
    entries += [Entry(_disc(style.LATE_ROW, hollow=False), "late row")] if "late" in standings else []
    if "refused" in standings:
        cross = element("line", x1=-7, y1=7, x2=7, y2=-7, stroke=style.LATE_ROW, stroke_width=1.6)
        entries.append(Entry(_disc(style.LATE_ROW, hollow=True) + cross, "row refused as too late"))
    if any(dot.diff < 0 for dot in dots):
        entries.append(Entry(_disc(style.ROW, hollow=True), "row retracted"))
    return entries


def _of_panes(panes: Sequence[Pane]) -> list[Entry]:
    timings = {pane.timing for pane in panes if pane.label is not None}
    entries = [
        Entry(_pane(style.TIMING_COLOURS[timing]), _PANE_MEANINGS[timing])
        for timing in style.TIMING_COLOURS
        if timing in timings
    ]
    if any(pane.takes_back for pane in panes):
        entries.append(Entry(_sample(f"{MINUS}7", style.TAKEN_BACK), "retraction"))
    if any(pane.gone_at is not None for pane in panes):
        strike = _line(style.SOFT_INK, 1.2)
        entries.append(Entry(_sample("7", style.SOFT_INK) + strike, "later retracted"))
    return entries


def draw_legend(entries: Sequence[Entry], left: float, top: float, right: float) -> tuple[str, int]:
    """Return the entries in lines, and the number of lines."""
    if not entries:
        return "", 0
    x, lines, drawn = left, 1, []
    for entry in entries:
        size = _SYMBOL + width(entry.meaning, style.TEXT_SIZE)
        if x > left and x + size > right:
            x, lines = left, lines + 1
        y = top + (lines - 0.5) * LINE_HEIGHT
        symbol = element("g", entry.symbol, transform=f"translate({x + 10:.1f} {y:.1f})")
        drawn.append(symbol + text(entry.meaning, x + _SYMBOL, y + 4))
        x += size + _GAP
    return element("g", *drawn, fill=style.SOFT_INK, font_size=style.TEXT_SIZE), lines


def _line(colour: str, thickness: float) -> str:
    return element("line", x1=-10, y1=0, x2=10, y2=0, stroke=colour, stroke_width=thickness)


def _disc(colour: str, *, hollow: bool) -> str:
    return element(
        "circle",
        cx=0,
        cy=0,
        r=6,
        fill=style.PAPER if hollow else colour,
        stroke=colour if hollow else None,
        stroke_width=1.2,
    )


def _pane(colour: str) -> str:
    body = element(
        "rect",
        x=-10,
        y=-6,
        width=20,
        height=12,
        fill=colour,
        fill_opacity="0.13",
        stroke=colour,
        stroke_opacity="0.45",
    )
    return body + element("line", x1=-10, y1=-6, x2=10, y2=-6, stroke=colour, stroke_width=2.5)


def _sample(content: str, colour: str) -> str:
    return text(
        content, 0, 4, text_anchor="middle", font_size=style.TEXT_SIZE + 1, font_weight="600", fill=colour
    )
