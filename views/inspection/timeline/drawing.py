"""The whole drawing: title, legend, one pair of axes per key, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import PlanError

from . import style
from .axes import ClockFace, Scale
from .dots import Dots, dots_of, draw_dots
from .legend import LINE_HEIGHT, draw_legend, entries_for
from .panes import Panes, panes_of
from .placing import Placing
from .plot import Plot, draw_axes, draw_grid
from .recording import Recording, instants
from .rectangles import draw_bodies, draw_firings, draw_labels
from .span import WHOLE, Span
from .svg import FONT, element, text, width, wrapped
from .watermarks import Watermark, draw_ideal, draw_watermark, has_ideal, take_watermark, watermarks_of

_SECOND = 1_000_000
_NOTE_HEIGHT = 16
_AXIS_ROOM = 46
"""The label below a plot."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a timeline is drawn: its size in pixels, and how much of a large run.

    ``height`` is that of one pair of axes; by default it follows from the width. ``rows``, ``panes`` and ``keys`` are
    the most that are drawn of each; a note below the drawing counts the others. ``legend`` adds an explanation of marks.
    ``span`` is the event time that is drawn.

    Raises:
        PlanError: a size or number is too small.
    """

    width: int = 900
    height: int | None = None
    rows: int = 2000
    panes: int = 300
    keys: int = 6
    legend: bool = True
    span: Span = WHOLE

    def __post_init__(self) -> None:
        least = {"width": 200, "height": 100, "rows": 0, "panes": 0, "keys": 1}
        for name, limit in least.items():
            value = getattr(self, name)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not (is_number and value >= limit) and not (name == "height" and value is None):
                raise PlanError(f"timeline: {name}={value!r}; give a whole number from {limit}")


@dataclass(frozen=True, slots=True)
class _Scene:
    """The content of a drawing, before it is placed."""

    dots: Dots
    panes: Panes
    watermarks: tuple[Watermark, ...]
    keys: tuple[str, ...]
    keys_in_all: int
    across: tuple[int, int]
    up: tuple[int, int]
    clock: ClockFace


def draw(recording: Recording, title: str, subtitle: str, look: Look) -> str:
    """Draw a recording as SVG. Equal recordings give equal text."""
    scene = _scene(recording, look)
    head, top = _head(scene, title, subtitle, look)
    left = _left_margin(scene)
    height = look.height or round(look.width * (0.56 if len(scene.keys) == 1 else 0.34))
    plots, unplaced = [], 0
    for key in scene.keys:
        top += 10 if len(scene.keys) == 1 else 28
        scales = Scale(*scene.across, left, look.width - style.MARGIN), Scale(*scene.up, top + height, top)
        drawn, left_out = _panel(Plot(*scales, scene.clock), scene, key)
        plots.append(drawn)
        unplaced += left_out
        top += height + _AXIS_ROOM
    notes = [
        line
        for note in _notes(scene, unplaced, recording.remarks)
        for line in wrapped(note, style.TEXT_SIZE, look.width - left - style.MARGIN)
    ]
    foot = [text(note, left, top + _NOTE_HEIGHT * (place + 0.7)) for place, note in enumerate(notes)]
    if foot:
        foot = [element("g", *foot, fill=style.SOFT_INK, font_size=style.TEXT_SIZE)]
    whole = round(top + _NOTE_HEIGHT * len(notes) + 6)
    return element(
        "svg",
        element("rect", width=look.width, height=whole, fill=style.PAPER),
        head,
        *plots,
        *foot,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {look.width} {whole}",
        width=look.width,
        height=whole,
        font_family=FONT,
        role="img",
        aria_label=". ".join(line for line in (title, subtitle) if line),
    )


def _scene(recording: Recording, look: Look) -> _Scene:
    part = look.span.part_of(recording)
    keys, keys_in_all = _keys(part, look.keys)
    if keys_in_all > len(keys):
        recording, part = _of_keys(recording, keys), _of_keys(part, keys)
    return _Scene(
        dots_of(part, look.rows),
        panes_of(recording, look.panes, look.span),
        watermarks_of(recording),
        keys,
        keys_in_all,
        look.span.held(*_span_across(part)),
        _span_up(part, look.span),
        ClockFace(recording.zone),
    )


def _keys(recording: Recording, limit: int) -> tuple[tuple[str, ...], int]:
    """Return the keys with most panes, in order, and the number of keys; a single empty key where panes have none."""
    if "key" not in recording.panes.columns or not recording.panes.height:
        return ("",), 1
    counted = (
        recording.panes["key"].fill_null("").value_counts().sort(["count", "key"], descending=[True, False])
    )
    return tuple(sorted(counted["key"].head(limit))), counted.height


def _of_keys(recording: Recording, keys: Sequence[str]) -> Recording:
    """Return the part of a recording with these keys."""
    mine = pl.col("key").fill_null("").is_in(list(keys))
    rows = recording.rows.filter(mine) if "key" in recording.rows.columns else recording.rows
    return replace(recording, rows=rows, panes=recording.panes.filter(mine))


def _span_across(recording: Recording) -> tuple[int, int]:
    """Return event time from the first to the last row or bound, extended to watermarks a little beyond."""
    times = [recording.rows["event_time"], recording.panes["window_start"], recording.panes["window_end"]]
    marks = _bounded(recording.watermarks["watermark"])
    bounds = pl.concat([_bounded(column) for column in times])
    if bounds.is_empty():
        return _padded(marks, 0.03)
    low, high = _ends(bounds)
    near = marks.filter(marks.is_between(low - (high - low) // 4, high + (high - low) // 4))
    return _padded(pl.concat([bounds, near]), 0.02)


def _span_up(recording: Recording, span: Span) -> tuple[int, int]:
    """Return processing time from the first to the last event; of a part of the run, to its last row or pane."""
    frames = [recording.rows, recording.panes]
    if not span.is_bounded or not any(frame.height for frame in frames):
        frames.append(recording.watermarks)
    return _padded(pl.concat([_bounded(frame["processing_time"]) for frame in frames]), 0.06)


def _bounded(times: pl.Series) -> pl.Series:
    """Return the instants that are neither null nor the end of time."""
    times_as_instants = instants(times).alias("instant")
    return times_as_instants.filter((times_as_instants > START_OF_TIME) & (times_as_instants < END_OF_TIME))


def _ends(instants_shown: pl.Series) -> tuple[int, int]:
    low, high = instants_shown.min(), instants_shown.max()
    return (low, high) if isinstance(low, int) and isinstance(high, int) else (0, _SECOND)


def _padded(instants_shown: pl.Series, share: float) -> tuple[int, int]:
    """Return the range of instants with a margin at both ends; a second around a single instant."""
    low, high = _ends(instants_shown)
    margin = max(round((high - low) * share), 1) if high > low else _SECOND // 2
    return low - margin, high + margin


def _left_margin(scene: _Scene) -> float:
    ticks = scene.clock.ticks(*scene.up, 12)
    return 40 + max((width(tick.text, style.TEXT_SIZE) for tick in ticks), default=0)


def _head(scene: _Scene, title: str, subtitle: str, look: Look) -> tuple[str, float]:
    """Return title and legend, and the position of their lower end."""
    left, top = style.MARGIN, 12.0
    parts = []
    for caption, size, colour, weight in (
        (title, style.TITLE_SIZE, style.INK, "600"),
        (subtitle, style.TEXT_SIZE + 1, style.SOFT_INK, "400"),
    ):
        for line in wrapped(caption, size, look.width - 2 * style.MARGIN):
            top += size + 5
            parts.append(text(line, left, top - 3, font_size=size, fill=colour, font_weight=weight))
    ideal = has_ideal(scene.across, scene.up)
    entries = entries_for(scene.dots.drawn, scene.watermarks, scene.panes.drawn, has_ideal=ideal)
    legend, lines = draw_legend(entries if look.legend else [], left, top + 4, look.width - style.MARGIN)
    return "".join([*parts, legend]), top + 4 + lines * LINE_HEIGHT


def _panel(plot: Plot, scene: _Scene, key: str) -> tuple[str, int]:
    """Return one pair of axes with the marks of a key, and the number of values without a place."""
    panes = [pane for pane in scene.panes.drawn if len(scene.keys) == 1 or pane.key == key]
    dots = [dot for dot in scene.dots.drawn if len(scene.keys) == 1 or dot.key in (None, key)]
    lines = [
        draw_watermark(plot, watermark, style.WATERMARKS[place % len(style.WATERMARKS)])
        for place, watermark in enumerate(scene.watermarks)
    ]
    placing = Placing()
    circles = draw_dots(plot, dots, placing)
    for watermark in scene.watermarks:
        take_watermark(plot, watermark, placing)
    labels = draw_labels(plot, panes, placing)
    named = text(
        key, plot.left, plot.top - 7, fill=style.INK, font_size=style.TEXT_SIZE + 1, font_weight="600"
    )
    parts = (
        draw_grid(plot),
        draw_bodies(plot, panes),
        draw_ideal(plot),
        draw_firings(plot, panes),
        labels.plates,
        *lines,
        draw_axes(plot),
        circles,
        labels.drawn,
        named if len(scene.keys) > 1 else "",
    )
    return element("g", *parts), labels.left_out


def _notes(scene: _Scene, unplaced: int, remarks: Sequence[str]) -> list[str]:
    """Return notes on what is not drawn."""
    left_out = []
    for kind, drawn, total in (
        ("rows", len(scene.dots.drawn), scene.dots.total),
        ("panes", len(scene.panes.drawn), scene.panes.total),
    ):
        if drawn < total:
            left_out.append(f"{total - drawn:,} of {total:,} {kind}")
    notes = [*remarks, *([f"Left out: {' and '.join(left_out)}."] if left_out else [])]
    if scene.keys_in_all > len(scene.keys):
        notes.append(f"Of {scene.keys_in_all:,} keys, the {len(scene.keys)} with most panes are drawn.")
    if unplaced:
        notes.append(
            f"There is no room for the values of {unplaced:,} panes; point at a pane to see its value."
        )
    return notes
