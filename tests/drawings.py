"""Recordings made by hand, of the ten rows of the Dataflow Model paper, and drawings read back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from evercurrent.views.inspection.timeline import Look, Recording, Timeline

US = pl.Datetime("us")
UTC_US = pl.Datetime("us", "UTC")
ROWS = {
    "event_time": US,
    "processing_time": UTC_US,
    "label": pl.String,
    "diff": pl.Int64,
    "source": pl.String,
}
MARKS = {"processing_time": UTC_US, "watermark": US, "source": pl.String}
PANES = {
    "window_start": US,
    "window_end": US,
    "label": pl.String,
    "diff": pl.Int64,
    "epoch": pl.UInt64,
    "processing_time": UTC_US,
    "timing": pl.String,
}


def on(clock: str) -> datetime:
    return datetime.fromisoformat(f"2015-08-31T{clock}")


def at(clock: str) -> datetime:
    return on(clock).replace(tzinfo=UTC)


def micros(clock: str) -> int:
    return round(at(clock).timestamp() * 1_000_000)


TEN = [
    ("5", "12:00:26", "12:05:19"),
    ("7", "12:02:24", "12:05:39"),
    ("3", "12:03:39", "12:06:13"),
    ("4", "12:03:53", "12:06:26"),
    ("3", "12:04:19", "12:06:39"),
    ("8", "12:03:06", "12:07:06"),
    ("3", "12:06:39", "12:07:19"),
    ("9", "12:01:25", "12:08:19"),
    ("8", "12:07:26", "12:08:39"),
    ("1", "12:07:46", "12:08:59"),
]
CURVE = [
    ("12:06:00", "12:02:00"),
    ("12:07:30", "12:04:00"),
    ("12:07:40", "12:06:00"),
    ("12:09:30", "12:08:30"),
]

PaneCells = tuple[str | None, str | None, str, int, str, str | None]
RETRACTING: list[PaneCells] = [
    ("12:00:00", "12:02:00", "5", 1, "12:06:00", "ON_TIME"),
    ("12:02:00", "12:04:00", "7", 1, "12:06:00", "EARLY"),
    ("12:02:00", "12:04:00", "7", -1, "12:07:00", "EARLY"),
    ("12:02:00", "12:04:00", "14", 1, "12:07:00", "EARLY"),
    ("12:02:00", "12:04:00", "14", -1, "12:07:30", "EARLY"),
    ("12:02:00", "12:04:00", "22", 1, "12:07:30", "ON_TIME"),
    ("12:00:00", "12:02:00", "5", -1, "12:08:19", "ON_TIME"),
    ("12:00:00", "12:02:00", "14", 1, "12:08:19", "LATE"),
]
SESSIONS: list[PaneCells] = [
    ("12:00:26", "12:01:26", "5", 1, "12:06:00", "ON_TIME"),
    ("12:02:24", "12:03:24", "7", 1, "12:06:00", "EARLY"),
    ("12:03:39", "12:05:19", "10", 1, "12:07:00", "EARLY"),
    ("12:02:24", "12:03:24", "7", -1, "12:07:40", "EARLY"),
    ("12:03:39", "12:05:19", "10", -1, "12:07:40", "EARLY"),
    ("12:02:24", "12:05:19", "25", 1, "12:07:40", "ON_TIME"),
    ("12:00:26", "12:01:26", "5", -1, "12:08:19", "ON_TIME"),
    ("12:02:24", "12:05:19", "25", -1, "12:08:19", "ON_TIME"),
    ("12:00:26", "12:05:19", "39", 1, "12:08:19", "LATE"),
]


def rows_of(rows: Sequence[tuple[str, str, str]], diff: int = 1) -> pl.DataFrame:
    cells = [(on(event), at(seen), label, diff, "scores") for label, event, seen in rows]
    return pl.DataFrame(cells, schema=ROWS, orient="row")


def marks_of(moves: Sequence[tuple[str, str]], source: str = "scores") -> pl.DataFrame:
    return pl.DataFrame([(at(seen), on(mark), source) for seen, mark in moves], schema=MARKS, orient="row")


def panes_frame(panes: Sequence[PaneCells]) -> pl.DataFrame:
    """Panes that are emitted at one time are of one epoch."""
    epochs = {seen: number for number, seen in enumerate(dict.fromkeys(each[4] for each in panes), 1)}
    cells = [
        (start and on(start), end and on(end), label, diff, epochs[seen], at(seen), timing)
        for start, end, label, diff, seen, timing in panes
    ]
    return pl.DataFrame(cells, schema=PANES, orient="row")


def recorded(panes: Sequence[PaneCells] = RETRACTING, **more: Any) -> Recording:
    return Recording(rows_of(TEN), marks_of(CURVE), panes_frame(panes), **more)


class Drawn:
    """A drawing, read back."""

    def __init__(self, recording: Recording, **look: Any) -> None:
        self.svg = Timeline(recording, title="totals", subtitle="a run", look=Look(**look)).svg()
        self.root = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", self.svg, count=1))

    @property
    def texts(self) -> list[str]:
        return ["".join(each.itertext()) for each in self.root.iter("text")]

    def tick(self, text: str, axis: str) -> float:
        """The place of a tick with this text: of event time for x, of processing time for y."""
        anchor = "middle" if axis == "x" else "end"
        (place,) = {
            float(each.get(axis, "nan")) - (4 if axis == "y" else 0)
            for each in self.root.iter("text")
            if each.text == text and each.get("text-anchor") == anchor
        }
        return place

    def hinted(self, tag: str, first: str, *more: str) -> list[ET.Element]:
        """The elements of this tag whose hint begins with the first text and has the others."""
        return [
            each
            for each in self.root.iter(tag)
            if (hint := each.findtext("title") or "").startswith(first) and all(word in hint for word in more)
        ]

    def place(self, first: str, *more: str) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the rectangle of the pane with these in its hint."""
        (rectangle,) = self.hinted("rect", first, *more)
        left, top, wide, high = (float(rectangle.get(name, "nan")) for name in ("x", "y", "width", "height"))
        return left, top, left + wide, top + high
