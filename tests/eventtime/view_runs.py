"""Views on one source, run through the public interface: times in seconds past noon, panes as tuples."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"k": pl.String, "v": pl.Int64, "t": pl.Datetime("us")}
TEN_ROWS: dict[str, Any] = runpy.run_path(
    str(Path(__file__).resolve().parents[2] / "docs" / "ten_rows.py"), run_name="ten_rows"
)
"""The running example of the Dataflow Model paper: rows, orders, watermarks."""

Declare = Callable[[Any], ec.Collection]
Row = tuple[Any, ...]


def when(seconds: float) -> datetime:
    """An event time, as it stands in rows."""
    return NOON + timedelta(seconds=seconds)


def seen(seconds: float) -> datetime:
    """A processing time, or a watermark."""
    return when(seconds).replace(tzinfo=UTC)


def cell(value: Any) -> Any:
    """Instants in seconds past noon, any other value as it is."""
    if not isinstance(value, datetime):
        return value
    seconds = (value.replace(tzinfo=None) - NOON).total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


def cells(frame: pl.DataFrame) -> list[Row]:
    """The rows of a frame, sorted."""
    return sorted(tuple(map(cell, row)) for row in frame.iter_rows())


def total(windowed: ec.Collection) -> ec.Collection:
    """What: the sum of ``v`` by ``k``."""
    return windowed.group_by("k").agg(v=pl.col("v").sum())


class ViewRun:
    """A source ``rows`` of key, value and event time, and views on it."""

    def __init__(
        self, *declarations: Declare, watermark: Any = None, columns: Any = None, **options: Any
    ) -> None:
        self.engine = ec.Engine()
        self.schema = {**COLUMNS, **(columns or {})}
        self.rows = self.engine.source("rows", self.schema, event_time="t", watermark=watermark, **options)
        self.views = [
            self.engine.view(f"view {n}", declare(self.rows)) for n, declare in enumerate(declarations)
        ]
        self.view = self.views[0]

    def push(self, *rows: Row, at: float = 0, watermark: float | None = None) -> list[Row]:
        """Rows (key, value, seconds, ..., diff for sources of diffs) as one epoch. Returns what the first view emits."""
        dated = [tuple(when(x) if place == 2 else x for place, x in enumerate(row)) for row in rows]
        mark: Any = None if watermark is None else _mark(watermark)
        self.engine.push("rows", dated, at=seen(at), watermark=mark)
        return self.emitted()

    def advance(self, watermark: float, at: float = 0) -> list[Row]:
        """Move the watermark."""
        self.engine.advance("rows", _mark(watermark), at=seen(at))
        return self.emitted()

    def tick(self, at: float) -> list[Row]:
        """Move processing time."""
        self.engine.tick(at=seen(at))
        return self.emitted()

    def emitted(self, view: int = 0) -> list[Row]:
        """The delta of the last epoch: cells and, last, the diff."""
        deltas = self.views[view].deltas(self.engine.epoch_number - 1)
        return [row for frame in deltas for row in cells(frame.drop("_epoch"))]

    def held(self, view: int = 0) -> list[Row]:
        """What the view holds."""
        return cells(self.views[view].read())

    def late(self) -> list[Row]:
        """The refused rows: key, value and event time."""
        return cells(self.engine.ledger("rows").select("k", "v", "t"))

    @property
    def entries(self) -> int:
        """How many entries all states hold, but for that which keeps the contents of views."""
        nodes = self.engine._current().circuit.nodes
        contents = {id(state) for node in nodes if node.name.startswith("keep") for state in node.states}
        states = {id(state): state for node in nodes for state in node.states}
        return sum(state.entries for mark, state in states.items() if mark not in contents)


def _mark(seconds: float) -> Any:
    return ec.END_OF_TIME if seconds == ec.END_OF_TIME else seen(seconds)


def clock(text: str) -> float:
    """A time of day of the ten rows, in seconds past noon."""
    hours, minutes, seconds = map(int, text.split(":"))
    return (hours - 12) * 3600 + minutes * 60 + seconds


def ten_rows(order: str = "FIRST_ORDER") -> list[tuple[int, float, float]]:
    """Value, event time and processing time of the ten rows as they arrive."""
    arrivals: Sequence[Any] = TEN_ROWS[order]
    return [(row.value, *map(_past_noon, (row.event_time, row.processing_time))) for row in arrivals]


def watermarks(curve: str) -> list[tuple[float, float]]:
    """Processing time and watermark along a curve of the drawings."""
    return [(_past_noon(at), _past_noon(mark)) for at, mark in TEN_ROWS["CURVES"][curve]]


def _past_noon(moment: datetime) -> float:
    noon: datetime = TEN_ROWS["happened"]("12:00:00")
    return (moment.replace(tzinfo=None) - noon).total_seconds()


def play(
    declare: Declare,
    *,
    rows: Iterable[tuple[int, float, float]] | None = None,
    curve: str | None = "heuristic",
    until: str = "12:10:00",
    **options: Any,
) -> list[tuple[float, Row]]:
    """The ten rows one by one, a curve of the watermark, a tick every minute: (processing time, pane) for each."""
    run = ViewRun(declare, **options)
    steps: list[tuple[float, int, Any]] = [(row[2], 0, row) for row in (ten_rows() if rows is None else rows)]
    steps += [(at, 1, mark) for at, mark in (watermarks(curve) if curve else ())]
    moved = {at for at, _, _ in steps}
    last = clock(until)
    steps += [(at, 2, None) for at in range(300, int(last) + 1, 60) if at not in moved]
    emitted: list[tuple[float, Row]] = []
    for at, kind, step in sorted(steps, key=lambda step: step[:2]):
        if at > last:
            break
        if kind == 0:
            panes = run.push(("blue", step[0], step[1]), at=at)
        else:
            panes = run.advance(step, at=at) if kind == 1 else run.tick(at)
        emitted += [(at, pane) for pane in panes]
    return emitted
