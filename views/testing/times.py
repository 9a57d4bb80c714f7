"""Times as tests write them: numbers of a unit, times of one day, dates; internally, microseconds since 1970."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import DAY, UNITS, instant_of

_UTC = pl.Datetime("us", "UTC")
_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_EXAMPLE = 'write 26, "12:00:26", "2024-05-01T12:00:26Z" or "inf"'


@dataclass(frozen=True, slots=True)
class Times:
    """How times are written in one transcript.

    ``unit`` is that of plain numbers, which count from midnight of ``day``; so do times such as "12:00:26". ``day``
    is an instant in microseconds since 1970-01-01 UTC. ``clock``: show instants as times of the day, not as numbers.

    >>> times = Times("s")
    >>> times.instant("00:01:00") == times.instant(60) == times.instant("1970-01-01T00:01Z") == 60_000_000
    True
    >>> times.duration("1m30s"), times.written(90_000_000), Times("s", clock=True).written(90_000_000)
    (90000000, '90', '00:01:30')
    """

    unit: str = "s"
    day: int = 0
    clock: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InputError(f"time unit {self.unit!r}; there are {', '.join(UNITS)}")

    def instant(self, time: Any) -> int:
        """Return an instant in microseconds; ``END_OF_TIME`` for "inf". Times without a zone are in UTC.

        Raises:
            InputError: it is not a time.
        """
        if isinstance(time, date):
            return _since_1970(time)
        if isinstance(time, str):
            return self._of_text(time.strip())
        if isinstance(time, int | float) and not isinstance(time, bool):
            if time in (END_OF_TIME, float("inf")):
                return END_OF_TIME
            return self.day + round(time * UNITS[self.unit])
        raise InputError(f"{time!r} is not a time; {_EXAMPLE}")

    def duration(self, length: Any) -> int:
        """Return a duration in microseconds, given as a number of the unit, a text such as "1m30s" or "2min", or a timedelta.

        Raises:
            PlanError: it is not a duration, or a negative text.
        """
        if isinstance(length, int | float) and not isinstance(length, bool):
            return round(length * UNITS[self.unit])
        if isinstance(length, str):
            length = "0s" if length == "0" else length.replace("min", "m").replace(" ", "")
        return microseconds("duration", length)

    def written(self, instant: int) -> str:
        """Return an instant as it is written in a transcript."""
        if instant in (END_OF_TIME, START_OF_TIME):
            return "inf" if instant == END_OF_TIME else "-inf"
        since = instant - self.day
        if not self.clock:
            whole, rest = divmod(since, UNITS[self.unit])
            return f"{since / UNITS[self.unit]:.15g}" if rest else str(whole)
        moment = as_datetime(instant).replace(tzinfo=None)
        return moment.time().isoformat() if 0 <= since < DAY else moment.isoformat()

    def floored(self, instant: int) -> int:
        """Return the instant, rounded down to the unit."""
        return instant - (instant - self.day) % UNITS[self.unit]

    def _of_text(self, text: str) -> int:
        if text == "inf":
            return END_OF_TIME
        if clock := _CLOCK.fullmatch(text):
            hours, minutes, seconds, rest = clock.groups(default="0")
            whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
            return self.day + whole * 1_000_000 + int(rest.ljust(6, "0"))
        try:
            return _since_1970(datetime.fromisoformat(text))
        except ValueError as error:
            raise InputError(f"{text!r} is not a time; {_EXAMPLE}") from error


def _since_1970(moment: date) -> int:
    """Return the instant of a date or datetime; without a zone it is in UTC."""
    if isinstance(moment, datetime) and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return instant_of("time", moment, _UTC)


def as_datetime(instant: int) -> datetime:
    """Return an instant as a datetime in UTC."""
    return _ORIGIN + timedelta(microseconds=instant)


def midnight(instant: int) -> int:
    """Return the start of an instant's day in UTC."""
    return instant // DAY * DAY
