"""Input rows as dots, with their values while they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from evercurrent.core.data.clock import START_OF_TIME

from . import style
from .axes import lasting
from .placing import Box, Placing
from .plot import Plot
from .recording import Recording, instants
from .svg import MINUS, element, hint, text, width

LABELLED = 80
"""The most dots with values beside them; with more, values are only in the hints."""

_STANDING_WORDS = {"late": "late, behind the watermark", "refused": "refused: its windows were closed"}
_LABEL_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Dot:
    """An input row."""

    event_time: int
    seen: int
    label: str
    diff: int
    source: str
    key: str | None
    standing: str | None


@dataclass(frozen=True, slots=True)
class Dots:
    """The rows to draw, in order of arrival, and how many there were in all."""

    drawn: tuple[Dot, ...]
    total: int


def dots_of(recording: Recording, limit: int) -> Dots:
    """Return the rows of a recording, thinned out evenly to ``limit``, up to half of it late and refused rows."""
    rows = recording.rows
    columns = [
        instants(rows["event_time"]).alias("event_time"),
        instants(rows["processing_time"]).alias("seen"),
        rows["label"].fill_null("null"),
        rows["diff"].cast(pl.Int64),
        rows["source"].fill_null(""),
        rows["key"].fill_null("")
        if "key" in rows.columns
        else pl.Series("key", [None], pl.String).new_from_index(0, rows.height),
        _standings(recording),
    ]
    places = _drawn_positions(columns[-1], limit)
    drawn = pl.DataFrame(columns)[places].sort("seen", maintain_order=True)
    return Dots(tuple(Dot(*row) for row in drawn.iter_rows()), rows.height + recording.unrecorded_rows)


def _drawn_positions(standings: pl.Series, limit: int) -> npt.NDArray[np.int64]:
    """Return the positions of the rows that are drawn."""
    if len(standings) <= limit:
        return np.arange(len(standings))
    special = standings.is_not_null().to_numpy()
    others = np.flatnonzero(~special)
    first = _spread(np.flatnonzero(special), max(limit // 2, limit - len(others)))
    return np.sort(np.concatenate([first, _spread(others, limit - len(first))]))


def _spread(positions: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.int64]:
    """Return at most ``limit`` positions, evenly spread, with the first and the last."""
    if len(positions) <= limit:
        return positions
    return positions[np.linspace(0, len(positions) - 1, limit).round().astype(np.int64)]


def _standings(recording: Recording) -> pl.Series:
    """Return the column ``standing``; without one, rows behind the watermark of their time are late."""
    rows = recording.rows
    if "standing" in rows.columns:
        return rows["standing"]
    times, seen = instants(rows["event_time"]).to_numpy(), instants(rows["processing_time"]).to_numpy()
    late = np.zeros(rows.height, np.bool_)
    for source in rows["source"].unique(maintain_order=True):
        mine = (rows["source"] == source).to_numpy()
        moves = recording.watermarks.filter(pl.col("source") == source)
        marks = np.append(instants(moves["watermark"]).to_numpy(), START_OF_TIME)  # -1: before the first move
        moves_before = np.searchsorted(instants(moves["processing_time"]).to_numpy(), seen[mine], "left") - 1
        late[mine] = times[mine] < marks[moves_before]
    return pl.Series("standing", late).replace_strict({True: "late", False: None}, return_dtype=pl.String)


def draw_dots(plot: Plot, dots: Sequence[Dot], placing: Placing) -> str:
    """Draw the rows as circles around their values, or as specks when they are many, and reserve their places."""
    if len(dots) > LABELLED:
        return element("g", *(_speck(plot, dot) for dot in dots))
    return element("g", *(_circle(plot, dot, placing) for dot in dots), font_size=style.DOT_SIZE)


def row_hint(plot: Plot, dot: Dot) -> str:
    """Return the hint of a row: all that is recorded of it, in lines."""
    lines = [dot.label + (f" ({dot.diff:+d})" if dot.diff != 1 else "")]
    lines += [f"event time {plot.clock.text(dot.event_time)}", f"seen {plot.clock.text(dot.seen)}"]
    lines += [f"{lasting(dot.seen - dot.event_time)} after it happened"] if dot.seen >= dot.event_time else []
    lines += [f"key {dot.key}"] if dot.key else []
    lines += [f"source {dot.source}"] if dot.source else []
    lines += [_STANDING_WORDS[dot.standing]] if dot.standing else []
    return "\n".join(lines)


def colour_of(dot: Dot) -> str:
    """Return the colour of a row; late ones stand out."""
    return style.LATE_ROW if dot.standing else style.ROW


def _speck(plot: Plot, dot: Dot) -> str:
    colour = colour_of(dot)
    hollow = dot.diff < 0 or dot.standing == "refused"
    return element(
        "circle",
        hint(row_hint(plot, dot)),
        cx=plot.x.at(dot.event_time),
        cy=plot.y.at(dot.seen),
        r=style.SPECK_RADIUS,
        fill=style.PAPER if hollow else colour,
        fill_opacity=None if hollow else "0.55",
        stroke=colour if hollow else None,
    )


def _circle(plot: Plot, dot: Dot, placing: Placing) -> str:
    label = shortened(f"{MINUS}{dot.label}" if dot.diff < 0 else dot.label, _LABEL_LENGTH)
    x, y = plot.x.at(dot.event_time), plot.y.at(dot.seen)
    radius = style.DOT_RADIUS if label else style.DOT_RADIUS / 2
    half = max(radius, width(label, style.DOT_SIZE) / 2 + 4)
    placing.take(Box.around(x, y, 2 * half, 2 * radius))
    hollow, colour = dot.diff < 0 or dot.standing == "refused", colour_of(dot)
    shape = element(
        "rect",
        x=x - half,
        y=y - radius,
        width=2 * half,
        height=2 * radius,
        rx=radius,
        fill=style.PAPER if hollow else colour,
        stroke=colour if hollow else style.PAPER,
        stroke_width=1.2,
    )
    value = text(
        label, x, y + 4, text_anchor="middle", fill=colour if hollow else style.PAPER, font_weight="600"
    )
    cross = _cross(x, y, half, radius) if dot.standing == "refused" else ""
    return element("g", hint(row_hint(plot, dot)), shape, cross, value)


def _cross(x: float, y: float, half: float, radius: float) -> str:
    """Draw a line through a dot and beyond, faint enough to leave the value readable."""
    return element(
        "line",
        x1=x - half - 3,
        y1=y + radius + 3,
        x2=x + half + 3,
        y2=y - radius - 3,
        stroke=style.LATE_ROW,
        stroke_width=1.6,
        stroke_opacity="0.5",
    )


def shortened(value: str, length: int) -> str:
    """Return a text cut to this length, with an ellipsis as its last letter.

    >>> shortened("12345", 4)
    '123…'
    """
    return value if len(value) <= length else value[: length - 1] + "…"
