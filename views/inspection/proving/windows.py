"""Windows as polars computes them: rows with the bounds of the windows that they fall into, and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.windows.kinds import Assignment, Global, Regular, Window

from .calendars import in_calendar

BOUNDS = ("window_start", "window_end")
PANE_TIME = "pane_time"
"""The column of the event time of panes that are put into windows again."""

_AT, _SESSION = "#at", "#session"


class UnprovableError(Exception):
    """A method that cannot be evaluated here, and why."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of rows that are to be grouped: their kind, and whether panes wait, accumulate or are late."""

    window: Window = Global()  # noqa: RUF009
    stamp: str = "end"
    mode: str = "retracting"
    waits: bool = False
    has_info: bool = False

    @property
    def pane_time(self) -> tuple[str | None, int]:
        """Return the column of event time of panes, and the microseconds that are added to it."""
        if self.window.is_global:
            return None, 0
        times: dict[str, tuple[str | None, int]] = {"end": (BOUNDS[1], -1), "start": (BOUNDS[0], 0)}
        return times.get(self.stamp, (None, 0))


def waits(trigger: Any, early: Any, late: Any, always: Any) -> bool:
    """Return whether panes wait for a trigger, or are emitted without a change."""
    return not ((trigger is not None and trigger.refines_only) and early is None and late is None) or bool(
        always
    )


def assigned(frame: pl.DataFrame, time: str | None, shift: int, window: Window) -> pl.DataFrame:
    """Return rows with the bounds of their windows, a row for each; of sessions with those of a session of its own.

    Raises:
        UnprovableError: the windows of a row do not follow from its instant in a way that polars has.
    """
    if window.is_global or window.is_given:
        return frame
    if window.functions is not None:
        return _as_assigned(
            frame, bound_type(pl.Datetime() if time is None else frame.schema[time]), window.functions[0]
        )
    if time is None:
        raise UnprovableError("there is no event time by which polars could assign windows")
    bound = bound_type(frame.schema[time])
    at = instants_of_column(frame.get_column(time)) + shift
    if window.session_gap is not None:
        starts, ends = at.alias(BOUNDS[0]), (at + window.session_gap).alias(BOUNDS[1])
        return frame.with_columns(starts.cast(bound), ends.cast(bound))
    if window.regular is not None:
        return _in_regular(frame, at, window.regular).with_columns(pl.col(BOUNDS).cast(bound))
    if window.calendar is not None:
        every, time_zone = window.calendar
        starts, ends = in_calendar(at, every, time_zone or bound.time_zone or "UTC")
        return frame.with_columns(starts.cast(bound).alias(BOUNDS[0]), ends.cast(bound).alias(BOUNDS[1]))
    if window.shifted_by_key:
        raise UnprovableError("how far windows are shifted by their key is not evaluated in a batch")
    raise UnprovableError(f"windows of {type(window).__name__} are not evaluated in a batch")


def _as_assigned(frame: pl.DataFrame, bound: pl.Datetime, assign: Assignment) -> pl.DataFrame:
    """Return rows with the bounds that a user's function gives, before windows are merged."""
    if not frame.height:
        return frame.with_columns(pl.lit(None, bound).alias(name) for name in BOUNDS)
    windows = assign(frame.drop(DIFF))
    if not isinstance(windows, pl.DataFrame) or windows.height != frame.height:
        raise UnprovableError("the function that assigns windows does not give one for each row")
    return frame.with_columns(
        instants_of_column(windows.get_column(name)).cast(bound).alias(name) for name in BOUNDS
    )


def _in_regular(frame: pl.DataFrame, at: pl.Series, windows: Regular) -> pl.DataFrame:
    """Return rows with the bounds of the windows that contain their instants, a row for each."""
    size, period, offset = windows
    last = _floor(at - offset % period, period) + offset % period
    numbered = frame.with_columns(last.alias(BOUNDS[0]), at.alias(_AT))
    copies = [
        numbered.with_columns(pl.col(BOUNDS[0]) - number * period) for number in range(-(-size // period))
    ]
    contained = pl.concat(copies).filter(pl.col(_AT) < pl.col(BOUNDS[0]) + size)
    return contained.with_columns((pl.col(BOUNDS[0]) + size).alias(BOUNDS[1])).drop(_AT)


def sessions_of(windows: pl.DataFrame, keys: Sequence[str], gap: int) -> pl.DataFrame:
    """Return the bounds of the sessions of each own one, sorted by key and start: a new one begins after a gap."""
    start, by = pl.col(BOUNDS[0]).to_physical(), [pl.col(name) for name in keys] or [pl.lit(0)]
    begins = ((start - start.shift(1)).over(by) >= gap).fill_null(True).cast(pl.Int64)
    session = [*by, begins.cum_sum().over(by).alias(_SESSION)]
    return windows.select(pl.col(BOUNDS[0]).min().over(session), pl.col(BOUNDS[1]).max().over(session))


def instants_of_column(column: pl.Series) -> pl.Series:
    """Return a column of dates or datetimes as microseconds since 1970."""
    return column.cast(pl.Datetime("us")).to_physical() if column.dtype == pl.Date else _of_unit(column)


def _of_unit(column: pl.Series) -> pl.Series:
    unit = getattr(column.dtype, "time_unit", "us")
    counted = column.to_physical()
    return _floor(counted, 1000) // 1000 if unit == "ns" else counted * 1000 if unit == "ms" else counted


def _floor(values: pl.Series, step: int) -> pl.Series:
    return values - ((values % step) + step) % step


def bound_type(dtype: pl.DataType) -> pl.Datetime:
    """Return the type of the bounds of windows of instants of this type."""
    return pl.Datetime("us", dtype.time_zone if isinstance(dtype, pl.Datetime) else None)
