"""A run as frames: the rows that came, the watermarks over time, and the panes that a view emitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed

STANDINGS = ("late", "refused")
TIMINGS = ("EARLY", "ON_TIME", "LATE")

_KINDS: Mapping[str, Callable[[pl.DataType], bool]] = {
    "Datetime": lambda dtype: dtype == pl.Datetime,
    "String": lambda dtype: dtype == pl.String,
    "an integer": lambda dtype: dtype.is_integer(),
}
_ROWS = {
    "event_time": "Datetime",
    "processing_time": "Datetime",
    "label": "String",
    "diff": "an integer",
    "source": "String",
}
_ROWS_MAY_HAVE = {"key": "String", "standing": "String"}
_WATERMARKS = {"processing_time": "Datetime", "watermark": "Datetime", "source": "String"}
_PANES = {
    "window_start": "Datetime",
    "window_end": "Datetime",
    "label": "String",
    "diff": "an integer",
    "epoch": "an integer",
    "processing_time": "Datetime",
    "timing": "String",
}
_PANES_MAY_HAVE = {"key": "String"}


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A run of one view in the two domains of time. Time columns are Datetime of any unit, with or without a zone.

    ``rows``: event_time, processing_time, label (the text at the row), diff, source; optionally ``key``, the key of the
    row, and ``standing``: "late" for a row behind the watermark of its time, "refused" for one that came after its windows
    had closed, else null. Without that column it follows from the watermarks.

    ``watermarks``: processing_time, watermark, source, in the order in which they moved: the watermark of the source from
    that time on. Null if unknown; physically ``END_OF_TIME`` when there are no more rows.

    ``panes``: window_start, window_end (null: all of time), label, diff, epoch, processing_time, timing ("EARLY",
    "ON_TIME", "LATE", or null if unknown); optionally ``key``.

    ``unrecorded_rows`` counts rows that came and are not in ``rows``; ``remarks`` are sentences about what is missing.

    Raises:
        PlanError: a column is missing or of another type, or a standing or timing is unknown.
    """

    rows: pl.DataFrame
    watermarks: pl.DataFrame
    panes: pl.DataFrame
    unrecorded_rows: int = 0
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("rows", self.rows, _ROWS, _ROWS_MAY_HAVE)
        _check("watermarks", self.watermarks, _WATERMARKS, {})
        _check("panes", self.panes, _PANES, _PANES_MAY_HAVE)
        for frame, column, allowed in ((self.rows, "standing", STANDINGS), (self.panes, "timing", TIMINGS)):
            values = set(frame[column].unique().drop_nulls()) if column in frame.columns else set()
            if unknown := values - set(allowed):
                raise PlanError(f"recording: {column} {listed(sorted(unknown))}; there are {listed(allowed)}")

    @property
    def zone(self) -> str | None:
        """The time zone of event time; None if its columns have none and are read as UTC."""
        for column in (self.rows["event_time"], self.panes["window_start"]):
            if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
                return column.dtype.time_zone
        return None


def instants(column: pl.Series, missing: int = START_OF_TIME) -> pl.Series:
    """Return times as microseconds since 1970-01-01 UTC, Int64; nulls as ``missing``.

    Physically a Datetime counts from 1970-01-01 UTC whatever its zone, so the zone plays no part.
    """
    unit = column.dtype.time_unit if isinstance(column.dtype, pl.Datetime) else "us"
    counted = column.to_physical()
    scaled = counted // 1000 if unit == "ns" else counted * 1000 if unit == "ms" else counted
    return scaled.fill_null(missing).clip(START_OF_TIME, END_OF_TIME)


def _check(name: str, frame: pl.DataFrame, needed: Mapping[str, str], optional: Mapping[str, str]) -> None:
    if missing := [column for column in needed if column not in frame.columns]:
        raise PlanError(f"recording: {name} has no column {listed(missing)}; it has {listed(frame.columns)}")
    for column, kind in {**needed, **optional}.items():
        if column in frame.columns and not _KINDS[kind](frame.schema[column]):
            raise PlanError(
                f"recording: column {column!r} of {name} is {frame.schema[column]}; it has to be {kind}"
            )
