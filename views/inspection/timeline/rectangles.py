"""Panes as rectangles: as wide as the window, from the pane before (or the first row) up to the firing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME

from . import style
from .dots import shortened
from .panes import Pane
from .placing import Box, Placing
from .plot import Plot
from .svg import MINUS, TIMES, element, hint, text, width

CROWDED = 40
"""With more panes than this, a value without a free place in its rectangle is only in the hints."""

ROOM_OF_A_LABEL = 2500
"""Square pixels of a plot for each of its labels; with less, they are crowded however few there are."""

AT_EDGE = 12
"""A label that begins further below the edge of its pane is led to by a line."""

HIDDEN = 0.12
"""A value that would cover others with this share of its own place is led to by a line, or only in the hints, however few panes there are."""

_LABEL_LENGTH = 14
_LABEL_HEIGHT = 18
_RETRACTIONS = 3
"""The most retracted values that are written at a pane."""

_PADDING, _BETWEEN = 4, 5
_LEADS = (26, 40, 56, 76)
"""How far the value of a pane may stand from its upper edge, led to by a line."""


def draw_bodies(plot: Plot, panes: Sequence[Pane]) -> str:
    """Draw the rectangles, the newest lowest: a merged session lies behind the sessions that it was merged from."""
    labelled = [pane for pane in panes if pane.label is not None]
    bodies = [
        _body(plot, pane, nested=_is_nested(pane, labelled[place + 1 :]))
        for place, pane in enumerate(labelled)
    ]
    return element("g", *reversed(bodies)) if bodies else ""


def _is_nested(pane: Pane, later: Sequence[Pane]) -> bool:
    """Return whether a later rectangle surrounds this one, which would then shine through and mix the colours."""
    return any(
        other.start <= pane.start and pane.end <= other.end and other.since <= pane.since for other in later
    )


def draw_firings(plot: Plot, panes: Sequence[Pane]) -> str:
    """Draw the upper edges: the moments at which panes were emitted."""
    return element(
        "g", *(_firing(plot, pane) for pane in panes), stroke_width=3 if len(panes) <= CROWDED else 1.5
    )


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of panes, the plates that are drawn below lines and dots, and the number of values without a place."""

    plates: str
    drawn: str
    left_out: int


def draw_labels(plot: Plot, panes: Sequence[Pane], placing: Placing) -> Labels:
    """Draw the values near the upper edge of their rectangles, where they cover nothing else.

    The others that still stand are then led to by a line, as far as there is room for them. In a crowded plot these come
    before values that were retracted.
    """
    drawn: list[str] = []
    plates: list[str] = []
    left_out: list[Pane] = []
    is_crowded = len(panes) > min(CROWDED, _room(plot))
    for pane in sorted(panes, key=lambda pane: _rank(pane, is_crowded=is_crowded)):
        parts, box, covered = _placed(plot, pane, placing)
        too_wide = box.right - box.left > plot.x.at(pane.end) - plot.x.at(pane.start)
        if covered > HIDDEN * box.area or (is_crowded and (covered or too_wide)):
            left_out.append(pane)
            continue
        placing.take(box)
        plates.append(_tether(plot, pane, box) + _plate(box))
        drawn.append(_label(plot, pane, parts, box))
    standing = [pane for pane in left_out if pane.label is not None and pane.gone_at is None]
    led = [label for pane in standing if (label := _led(plot, pane, placing)) is not None]
    drawn += [label for _, label in led]
    plates += [plate for plate, _ in led]
    return Labels(
        element("g", *plates) if plates else "",
        element("g", *drawn) if drawn else "",
        len(left_out) - len(led),
    )


def _rank(pane: Pane, *, is_crowded: bool) -> tuple[bool, bool, int]:
    """Return what orders the panes for their labels: the narrow ones, which have fewer places, come first."""
    return is_crowded and pane.gone_at is not None, pane.end == END_OF_TIME, pane.end - pane.start


def _led(plot: Plot, pane: Pane, placing: Placing) -> tuple[str, str] | None:
    """Return the plate and the value of a pane in the nearest free place, with a line from its upper edge; None if all are taken."""
    parts = _parts(pane)[:1]
    x = (plot.x.at(pane.start) + plot.x.at(pane.end)) / 2
    y, size = plot.y.at(pane.fired), _size(parts)
    for distance in _LEADS:
        for across, down in ((-1, -0.8), (0.9, 0.9), (0, -1), (0, 1)):
            box = Box.around(x + across * distance, y + down * distance, size, _LABEL_HEIGHT)
            is_inside = plot.left < box.left and box.right < plot.right
            if is_inside and plot.top < box.top and box.bottom < plot.bottom and not placing.best([box])[1]:
                placing.take(box)
                line = {"x1": x, "y1": y, "x2": box.middle[0], "y2": box.middle[1]}
                lead = element("line", **line, stroke=style.TIMING_COLOURS[pane.timing], stroke_width=0.8)
                return lead + _plate(box), _label(plot, pane, parts, box)
    return None


def _room(plot: Plot) -> float:
    """Return the number of labels for which a plot has room."""
    return (plot.right - plot.left) * (plot.bottom - plot.top) / ROOM_OF_A_LABEL


def _placed(plot: Plot, pane: Pane, placing: Placing) -> tuple[list[_LabelPart], Box, float]:
    """Return the label, its place and how much it covers; the label is shorter where there is no room for all of it.

    Where it covers something at each place, it has the one where it covers least.
    """
    *labels, value = _lengths(plot, pane)
    tried = []
    for places, parts in [*product((_inside, _above), labels), (_inside, value), (_above, value)]:
        box, covered = placing.best(places(plot, pane, _size(parts)))
        if not covered:
            return parts, box, 0.0
        tried.append((parts, box, covered))
    return min(tried, key=lambda attempt: attempt[2])


def _lengths(plot: Plot, pane: Pane) -> list[list[_LabelPart]]:
    """Return the whole label, unless it is wider than its rectangle, the one without the timing, and its first part."""
    parts = _parts(pane)
    shorter = [part for part in parts if part.size > style.WORD_SIZE] or parts
    has_room = _size(parts) <= plot.x.at(pane.end) - plot.x.at(pane.start)
    return [*([parts] if has_room else []), shorter, shorter[:1]]


def _size(parts: Sequence[_LabelPart]) -> float:
    """Estimate the width of a label."""
    return sum(part.width for part in parts) + _BETWEEN * (len(parts) - 1) + 2 * _PADDING


@dataclass(frozen=True, slots=True)
class _LabelPart:
    """A piece of a label."""

    content: str
    size: float
    colour: str
    weight: str = "400"
    struck: bool = False

    @property
    def width(self) -> float:
        """The estimated width."""
        return width(self.content, self.size) * (1.0 if self.weight == "400" else 1.08)


def _parts(pane: Pane) -> list[_LabelPart]:
    """Return the value, the values that it retracts, and the timing as a word."""
    colour, parts = style.TIMING_COLOURS[pane.timing], []
    if pane.label is not None:
        value, is_gone = _value(shortened(pane.label, _LABEL_LENGTH), pane.diff), pane.gone_at is not None
        parts.append(_LabelPart(value, style.VALUE_SIZE, colour, "700", struck=is_gone))
    for retracted in pane.takes_back[:_RETRACTIONS]:
        label = MINUS + shortened(retracted.label, _LABEL_LENGTH)
        parts.append(_LabelPart(label, style.VALUE_SIZE, style.TAKEN_BACK, "600"))
    if len(pane.takes_back) > _RETRACTIONS:
        more = f"and {len(pane.takes_back) - _RETRACTIONS} more"
        parts.append(_LabelPart(more, style.WORD_SIZE, style.TAKEN_BACK))
    if style.TIMING_WORDS[pane.timing]:
        parts.append(_LabelPart(style.TIMING_WORDS[pane.timing], style.WORD_SIZE, colour))
    return parts


def _value(label: str, diff: int) -> str:
    return f"{label} {TIMES}{diff}" if diff > 1 else label


def _plate(box: Box) -> str:
    """Return the ground of a label, on which lines below it are faint; the watermark and dots are drawn over it."""
    return element(
        "rect",
        x=box.left,
        y=box.top,
        width=box.right - box.left,
        height=box.bottom - box.top,
        rx=4,
        fill=style.PAPER,
        fill_opacity="0.82",
    )


def _tether(plot: Plot, pane: Pane, box: Box) -> str:
    """Return a line from the upper edge of a pane to its label, if that stands further below; nothing at the edge."""
    edge, x = plot.y.at(pane.fired), box.middle[0]
    if box.top - edge <= AT_EDGE:
        return ""
    colour = style.TIMING_COLOURS[pane.timing]
    return element("line", x1=x, y1=edge, x2=x, y2=box.top, stroke=colour, stroke_opacity="0.7")


def _label(plot: Plot, pane: Pane, parts: Sequence[_LabelPart], box: Box) -> str:
    x, y, drawn = box.left + _PADDING, box.middle[1] + 5, []
    for part in parts:
        drawn.append(text(part.content, x, y, font_size=part.size, fill=part.colour, font_weight=part.weight))
        if part.struck:
            drawn.append(
                element(
                    "line",
                    x1=x - 2,
                    y1=y - 5,
                    x2=x + part.width + 1,
                    y2=y - 5,
                    stroke=part.colour,
                    stroke_width=1.4,
                )
            )
        x += part.width + _BETWEEN
    return element("g", hint(pane_hint(plot, pane)), *drawn)


def _inside(plot: Plot, pane: Pane, size: float) -> Iterator[Box]:
    """Yield places in the rectangle: below its upper edge, from the middle outwards, then lower."""
    top, bottom = plot.y.at(pane.fired), plot.y.at(pane.since)
    half = _LABEL_HEIGHT / 2
    y = min(top + 3 + half, plot.bottom - half - 2)
    for step in range(12):
        if step and y + 8 * step + half > bottom:
            return
        for x in _across(plot, pane, size):
            yield Box.around(x, y + 8 * step, size, _LABEL_HEIGHT)


def _above(plot: Plot, pane: Pane, size: float) -> Iterator[Box]:
    """Yield places above the upper edge of the rectangle, or the nearest one below it if they are not within the drawing."""
    y = plot.y.at(pane.fired) - 3 - _LABEL_HEIGHT / 2
    if y - _LABEL_HEIGHT / 2 < plot.top:
        yield next(_inside(plot, pane, size))
        return
    for x in _across(plot, pane, size):
        yield Box.around(x, y, size, _LABEL_HEIGHT)


def _across(plot: Plot, pane: Pane, size: float) -> Iterator[float]:
    """Yield middles for a label between the sides of a rectangle and of the plot."""
    left, right = plot.x.at(pane.start), plot.x.at(pane.end)
    room, border = max(right - left - size - 6, 0) / 2, size / 2 + 2
    for share in (0, -0.5, 0.5, -1, 1):
        yield min(max((left + right) / 2 + share * room, plot.left + border), plot.right - border)


def _body(plot: Plot, pane: Pane, *, nested: bool) -> str:
    left, right = plot.x.at(pane.start), plot.x.at(pane.end)
    top, bottom = plot.y.at(pane.fired), plot.y.at(pane.since)
    colour = style.TIMING_COLOURS[pane.timing]
    place = {"x": left, "y": top, "width": max(right - left, 1), "height": max(bottom - top, 1)}
    tint = element(
        "rect",
        hint(pane_hint(plot, pane)),
        **place,
        fill=colour,
        fill_opacity="0.13",
        stroke=colour,
        stroke_opacity="0.45",
        stroke_dasharray="3 3" if pane.gone_at is not None else None,
    )
    return (element("rect", **place, fill=style.PAPER) if nested else "") + tint


def _firing(plot: Plot, pane: Pane) -> str:
    y = plot.y.at(pane.fired)
    colour = style.TAKEN_BACK if pane.label is None else style.TIMING_COLOURS[pane.timing]
    return element("line", x1=plot.x.at(pane.start), y1=y, x2=plot.x.at(pane.end), y2=y, stroke=colour)


def pane_hint(plot: Plot, pane: Pane) -> str:
    """Return the hint of a pane: all that is recorded of it, in lines."""
    clock = plot.clock
    lines = [] if pane.label is None else [_value(pane.label, pane.diff)]
    lines.append(_window(plot, pane.start, pane.end))
    word = style.TIMING_WORDS[pane.timing]
    lines.append(f"{word} pane of epoch {pane.epoch}, {clock.text(pane.fired)}".strip())
    lines += [
        f"retracts {retracted.label} of {_window(plot, retracted.start, retracted.end)}"
        for retracted in pane.takes_back[:20]
    ]
    lines += [f"and {len(pane.takes_back) - 20} more"] if len(pane.takes_back) > 20 else []
    lines += [f"retracted {clock.text(pane.gone_at)}"] if pane.gone_at is not None else []
    lines += [f"key {pane.key}"] if pane.key else []
    return "\n".join(lines)


def _window(plot: Plot, start: int, end: int) -> str:
    if start == START_OF_TIME and end == END_OF_TIME:
        return "window: all of time"
    return f"window [{plot.clock.text(start)}, {plot.clock.text(end)})"
