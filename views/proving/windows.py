"""Windows as polars computes them: rows with the bounds of the windows that they fall into, and sessions by sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evercurrent.core.eventtime.triggers.kinds import EveryEpoch
from evercurrent.core.eventtime.windows.kinds import (
    Calendar,
    Fixed,
    Given,
    Global,
    Sessions,
    Sliding,
    Window,
)

BOUNDS = ("window_start", "window_end")
PANE_TIME = "pane_time"
"""The column of the event time of panes that are put into windows again."""

_AT, _BREAK, _SESSION = "#at", "#break", "#session"


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
        if isinstance(self.window, Global):
            return None, 0
        times: dict[str, tuple[str | None, int]] = {"end": (BOUNDS[1], -1), "start": (BOUNDS[0], 0)}
        return times.get(self.stamp, (None, 0))


def waits(trigger: Any, early: Any, late: Any, always: Any) -> bool:
    """Return whether panes wait for a trigger, or are emitted without a change."""
    return not (isinstance(trigger, EveryEpoch) and early is None and late is None) or bool(always)


def assigned(frame: pl.DataFrame, time: str | None, shift: int, window: Window) -> pl.DataFrame:
    """Return rows with the bounds of their windows, a row for each; of sessions with those of a session of its own.

    Raises:
        UnprovableError: the windows of a row do not follow from its instant in a way that polars knows.
    """
    if isinstance(window, Global | Given):
        return frame
    if time is None:
        raise UnprovableError("there is no event time by which polars could assign windows")
    bound = _bound(frame.schema[time])
    at = _instants(frame.get_column(time)) + shift
    match window:
        case Fixed(size, offset, shifted_by_key=False):
            start = _floor(at - offset % size, size) + offset % size
            made = frame.with_columns(start.alias(BOUNDS[0]), (start + size).alias(BOUNDS[1]))
        case Sliding(size, period, offset):
            last = _floor(at - offset % period, period) + offset % period
            numbered = frame.with_columns(last.alias(BOUNDS[0]), at.alias(_AT))
            copies = [
                numbered.with_columns(pl.col(BOUNDS[0]) - number * period)
                for number in range(-(-size // period))
            ]
            made = pl.concat(copies).filter(pl.col(_AT) < pl.col(BOUNDS[0]) + size)
            made = made.with_columns((pl.col(BOUNDS[0]) + size).alias(BOUNDS[1])).drop(_AT)
        case Sessions(gap):
            made = frame.with_columns(at.alias(BOUNDS[0]), (at + gap).alias(BOUNDS[1]))
        case Calendar(every, time_zone) if every[:1] == "1" and not every[1:2].isdigit():
            zone = time_zone or bound.time_zone or "UTC"
            start = at.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone).dt.truncate(every)
            ends = start.dt.offset_by(every)
            return frame.with_columns(
                start.to_physical().cast(bound).alias(BOUNDS[0]),
                ends.to_physical().cast(bound).alias(BOUNDS[1]),
            )
        case _:
            raise UnprovableError(f"windows of {type(window).__name__} are not evaluated in a batch")
    return made.with_columns(pl.col(BOUNDS).cast(bound))


def in_sessions(frame: pl.DataFrame, keys: pl.DataFrame, gap: int) -> pl.DataFrame:
    """Return rows with the bounds of the sessions of their keys: a new one begins after a gap."""
    names = [f"#key {number}" for number in range(keys.width)]
    bound = frame.schema[BOUNDS[0]]
    keyed = frame.hstack([column.alias(name) for column, name in zip(keys.get_columns(), names, strict=True)])
    by: Sequence[Any] = names or [pl.lit(0)]
    ordered = keyed.with_columns(pl.col(BOUNDS[0]).to_physical().alias(_AT)).sort(
        [*names, _AT], nulls_last=True
    )
    since = pl.col(_AT) - pl.col(_AT).shift(1)
    begins = ordered.with_columns((since >= gap).fill_null(True).over(by).cast(pl.Int64).alias(_BREAK))
    numbered = begins.with_columns(pl.col(_BREAK).cum_sum().over(by).alias(_SESSION))
    own: Sequence[Any] = [*names, _SESSION]
    made = numbered.with_columns(
        pl.col(_AT).min().over(own).alias(BOUNDS[0]), (pl.col(_AT).max().over(own) + gap).alias(BOUNDS[1])
    )
    return made.with_columns(pl.col(BOUNDS).cast(bound)).select(frame.columns)


def _instants(column: pl.Series) -> pl.Series:
    """Return a column of dates or datetimes as microseconds since 1970."""
    return column.cast(pl.Datetime("us")).to_physical() if column.dtype == pl.Date else _of_unit(column)


def _of_unit(column: pl.Series) -> pl.Series:
    unit = getattr(column.dtype, "time_unit", "us")
    counted = column.to_physical()
    return _floor(counted, 1000) // 1000 if unit == "ns" else counted * 1000 if unit == "ms" else counted


def _floor(values: pl.Series, step: int) -> pl.Series:
    return values - ((values % step) + step) % step


def _bound(dtype: pl.DataType) -> pl.Datetime:
    return pl.Datetime("us", dtype.time_zone if isinstance(dtype, pl.Datetime) else None)
