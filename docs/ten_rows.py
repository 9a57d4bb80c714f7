"""The ten rows of the Dataflow Model paper and of Streaming 102: when they happened, and when they were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time

DAY = datetime(2015, 8, 31)


@dataclass(frozen=True, slots=True)
class Seen:
    """A row: its value, when it happened, when it was seen."""

    value: int
    event_time: datetime
    processing_time: datetime


def happened(clock: str) -> datetime:
    """An event time of the day, as ``12:03:39``."""
    return datetime.combine(DAY, time.fromisoformat(clock))


def seen(clock: str) -> datetime:
    """A processing time of the day."""
    return happened(clock).replace(tzinfo=UTC)


def _rows(*rows: tuple[int, str, str]) -> tuple[Seen, ...]:
    return tuple(Seen(value, happened(event), seen(arrival)) for value, event, arrival in rows)


FIRST_ORDER = _rows(
    (5, "12:00:26", "12:05:19"),
    (7, "12:02:24", "12:05:39"),
    (3, "12:03:39", "12:06:13"),
    (4, "12:03:53", "12:06:26"),
    (3, "12:04:19", "12:06:39"),
    (8, "12:03:06", "12:07:06"),
    (3, "12:06:39", "12:07:19"),
    (9, "12:01:25", "12:08:19"),
    (8, "12:07:26", "12:08:39"),
    (1, "12:07:46", "12:08:59"),
)
"""As the texts have it: read off the drawings, with two values and two event times that follow from the results."""

SECOND_ORDER = _rows(
    (7, "12:02:24", "12:05:22"),
    (5, "12:00:26", "12:06:08"),
    (9, "12:01:25", "12:06:24"),
    (8, "12:03:06", "12:06:40"),
    (3, "12:03:39", "12:07:05"),
    (3, "12:04:19", "12:07:22"),
    (8, "12:07:26", "12:07:50"),
    (3, "12:06:39", "12:08:26"),
    (1, "12:07:46", "12:08:48"),
    (4, "12:03:53", "12:10:20"),
)
"""The same rows in another order, made up so that the sums of two minutes are those that Streaming 102 names."""

EXTRA = _rows((6, "12:00:53", "12:06:39"))[0]
"""The row that Streaming 102 adds to show allowed lateness."""

Curve = Sequence[tuple[datetime, datetime]]
"""From these processing times on the watermark is that."""


def _curve(*moves: tuple[str, str]) -> Curve:
    return [(seen(at), happened(watermark)) for at, watermark in moves]


CURVES: Mapping[str, Curve] = {
    "heuristic": _curve(
        ("12:06:00", "12:02:00"), ("12:07:30", "12:04:00"), ("12:07:40", "12:06:00"), ("12:09:30", "12:08:30")
    ),
    "perfect": _curve(
        ("12:08:20", "12:02:00"), ("12:09:02", "12:04:00"), ("12:09:10", "12:06:00"), ("12:09:20", "12:08:00")
    ),
    "second": _curve(
        ("12:06:30", "12:02:00"), ("12:07:10", "12:04:00"), ("12:07:40", "12:06:00"), ("12:09:30", "12:08:30")
    ),
}
"""Where the curves of the drawings cross the ends of windows; that of the second order is made up like its rows."""

NOTHING_MORE = seen("12:09:10")
"""When a batch engine has read everything."""
