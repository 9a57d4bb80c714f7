"""One pair of axes, on which marks are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from . import style
from .axes import ClockFace, Scale, Tick
from .svg import element, text, width


@dataclass(frozen=True, slots=True)
class Plot:
    """Event time across, processing time upwards."""

    x: Scale
    y: Scale
    clock: ClockFace

    @property
    def left(self) -> float:
        """The left edge."""
        return self.x.low

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x.high

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y.high

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y.low


def draw_grid(plot: Plot) -> str:
    """Draw the lines at the ticks."""
    across, up = _ticks(plot)
    lines = [
        _line(plot.x.at(tick.instant), plot.top, plot.x.at(tick.instant), plot.bottom) for tick in across
    ]
    lines += [_line(plot.left, plot.y.at(tick.instant), plot.right, plot.y.at(tick.instant)) for tick in up]
    return element("g", *lines, stroke=style.GRID)


def draw_axes(plot: Plot) -> str:
    """Draw the frame, the labels of the ticks, and the names of the axes."""
    across, up = _ticks(plot)
    frame = element(
        "rect",
        x=plot.left,
        y=plot.top,
        width=plot.right - plot.left,
        height=plot.bottom - plot.top,
        fill="none",
        stroke=style.FRAME,
    )
    below = [text(tick.text, _middle(tick, plot), plot.bottom + 16, text_anchor="middle") for tick in across]
    beside = [text(tick.text, plot.left - 7, plot.y.at(tick.instant) + 4, text_anchor="end") for tick in up]
    zone = plot.clock.zone
    names = [
        text(_named("event time", plot.x, plot.clock, zone), plot.right, plot.bottom + 34, text_anchor="end"),
        text(
            _named("processing time", plot.y, plot.clock, zone or "UTC"),
            0,
            0,
            text_anchor="end",
            transform=f"translate(20 {plot.top:.1f}) rotate(-90)",
        ),
    ]
    return frame + element("g", *below, *beside, *names, fill=style.SOFT_INK, font_size=style.TEXT_SIZE)


def _ticks(plot: Plot) -> tuple[list[Tick], list[Tick]]:
    """Return the ticks of event time and of processing time."""
    across, up = plot.right - plot.left, plot.bottom - plot.top
    return (
        plot.clock.ticks(plot.x.first, plot.x.last, int(across / 64)),
        plot.clock.ticks(plot.y.first, plot.y.last, int(up / 44)),
    )


def _middle(tick: Tick, plot: Plot) -> float:
    """Return the middle of a label below: under its tick, unless the edge of the drawing would cut it off."""
    farthest = plot.right + style.MARGIN - width(tick.text, style.TEXT_SIZE) / 2
    return min(plot.x.at(tick.instant), farthest)


def _named(what: str, scale: Scale, clock: ClockFace, zone: str | None) -> str:
    """Return the name of an axis, with the day if it covers only one, and the time zone if there is one."""
    first, last = clock.wall(scale.first).date(), clock.wall(scale.last).date()
    day = f"{first}" if first == last else f"{first} to {last}"
    return ", ".join(part for part in (what, day, zone) if part)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2)
