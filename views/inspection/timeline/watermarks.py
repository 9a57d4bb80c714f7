"""The watermark as a stepped line, and the ideal one, at which every row is seen when it happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME

from . import style
from .placing import Box, Placing
from .plot import Plot
from .recording import Recording, instants
from .svg import element, hint, number

MOVES = 600
"""The most moves that are drawn; of more, only as many as rows of pixels can show."""


@dataclass(frozen=True, slots=True)
class Move:
    """The watermark from ``seen`` on; START_OF_TIME if unknown, END_OF_TIME after the last row."""

    seen: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """The moves of the watermark of one source."""

    source: str
    moves: tuple[Move, ...]


def watermarks_of(recording: Recording) -> tuple[Watermark, ...]:
    """Return the watermarks of a recording that moved, by source; of too many moves, the last one of each of ``MOVES`` spans."""
    watermarks = []
    for source in recording.watermarks["source"].unique(maintain_order=True):
        moves = recording.watermarks.filter(pl.col("source") == source)
        seen = instants(moves["processing_time"]).to_numpy()
        marks = instants(moves["watermark"]).to_numpy()
        moved = np.flatnonzero(np.diff(marks, prepend=START_OF_TIME))
        shown = moved[_last_of_moments(seen[moved])] if len(moved) > MOVES else moved
        if len(shown):
            watermarks.append(Watermark(source, tuple(Move(int(seen[at]), int(marks[at])) for at in shown)))
    return tuple(watermarks)


def _last_of_moments(seen: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the position of the last move in each of ``MOVES`` equal spans of time."""
    share = (seen - seen[0]) / max(int(seen[-1] - seen[0]), 1)
    moment = (share * (MOVES - 1)).astype(np.int64)
    return np.flatnonzero(np.diff(moment, append=MOVES))


def draw_watermark(plot: Plot, watermark: Watermark, colour: str) -> str:
    """Draw a line that goes up while time passes, and to the right where the watermark moves."""
    points = _points(plot, watermark.moves)
    if not points:
        return ""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    moves = "\n".join(
        f"{plot.clock.time(move.seen)}: {_move_text(plot, move)}" for move in watermark.moves[:40]
    )
    more = f"\nand {len(watermark.moves) - 40} more" if len(watermark.moves) > 40 else ""
    content = f"watermark of {watermark.source}\n{moves}{more}"
    return element(
        "path",
        hint(content),
        d=path,
        fill="none",
        stroke=colour,
        stroke_width=1.8,
        stroke_linejoin="round",
    )


def take_watermark(plot: Plot, watermark: Watermark, placing: Placing) -> None:
    """Mark the place of a line as occupied, so that labels cut it only where there is no other place for them."""
    points = _points(plot, watermark.moves)
    for (x, y), (to_x, to_y) in pairwise(points):
        placing.take(Box(min(x, to_x) - 1.5, min(y, to_y) - 1.5, max(x, to_x) + 1.5, max(y, to_y) + 1.5))


def _points(plot: Plot, moves: Sequence[Move]) -> list[tuple[float, float]]:
    """Return the corners of the line: from the left edge, where it begins, to the top, or to the right edge at its end."""
    if not moves:
        return []
    x, points = plot.left, [(plot.left, plot.y.at(moves[0].seen))]
    for move in moves:
        y = plot.y.at(move.seen)
        points += [(x, y), (plot.x.at(move.watermark), y)]
        x = plot.x.at(move.watermark)
    if moves[-1].watermark != END_OF_TIME:
        points.append((x, plot.top))
    return [point for place, point in enumerate(points) if place == 0 or point != points[place - 1]]


def _move_text(plot: Plot, move: Move) -> str:
    if move.watermark == END_OF_TIME:
        return "no more rows"
    return "nothing is known" if move.watermark == START_OF_TIME else plot.clock.text(move.watermark)


def draw_ideal(plot: Plot) -> str:
    """Draw the line where event time equals processing time; empty if the axes have no time in common."""
    if not has_ideal((plot.x.first, plot.x.last), (plot.y.first, plot.y.last)):
        return ""
    first, last = max(plot.x.first, plot.y.first), min(plot.x.last, plot.y.last)
    return element(
        "line",
        hint("ideal watermark: every row is seen when it happens"),
        x1=plot.x.at(first),
        y1=plot.y.at(first),
        x2=plot.x.at(last),
        y2=plot.y.at(last),
        stroke=style.IDEAL,
        stroke_width=1.2,
    )


def has_ideal(across: tuple[int, int], up: tuple[int, int]) -> bool:
    """Return whether the ranges of event time and processing time overlap."""
    return max(across[0], up[0]) < min(across[1], up[1])
