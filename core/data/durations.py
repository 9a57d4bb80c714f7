"""Lengths of time and instants as users write them are converted to microseconds, the unit of the core."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from .clock import END_OF_TIME
from .columns.time_texts import has_offset
from .errors import InputError, PlanError
from .instants import UNITS, instant_in_text, instant_of

LONGEST = 2**61
"""Lengths of time are below this, 73,000 years: sums of an instant and a length do not wrap."""

CALENDAR = ("mo", "q", "y")
"""Units of polars that have no fixed length."""

_ZONED = pl.Datetime("us", "UTC")
_BEYOND_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
_TEXT = re.compile(r"([+-]?)((?:\d+[a-z]+)+)")
_PART = re.compile(r"(\d+)([a-z]+)")
_WORDS = re.compile(r"\s*(?:interval\s+)?(\d+\s*[a-z]+(?:\s+\d+\s*[a-z]+)*)\s*", re.IGNORECASE)
_INTERVAL = re.compile(r"\s*interval\b", re.IGNORECASE)
_WORD = re.compile(r"(\d+)\s*([a-z]+)", re.IGNORECASE)
_SPELLED_OUT = {
    "week": "w", "day": "d", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms", "microsecond": "us",
    "nanosecond": "ns", "month": "mo", "quarter": "q", "year": "y",
}  # fmt: skip
"""Units as Spark and SQL spell them, in the singular, by the units of polars."""

_MICROSECOND = timedelta(microseconds=1)
_EXAMPLE = 'write it as "10s", "30m", "1h30m", "500ms" or "10 minutes", or as a timedelta'


def microseconds(where: str, what: Any, *, zero: bool = True, negative: bool = False) -> int:
    """Return a length of time in microseconds: text as polars or Spark spells it, or a ``timedelta``.

    Units are w, d (24 hours), h, m, s, ms and us, with an optional sign in front, or words, as in "1 hour 30 minutes". The
    sum is exact; the parser of polars, which gives the same results, wraps at some 292,000 years. ``where`` names the
    argument in messages.

    Raises:
        PlanError: it is not such a text, has a calendar unit, is too long, or is zero or negative where that has no meaning.

    >>> microseconds("delay", "1h30m"), microseconds("delay", timedelta(seconds=1))
    (5400000000, 1000000)
    >>> microseconds("delay", "10 minutes") == microseconds("delay", "10m")
    True
    """
    length = what // _MICROSECOND if isinstance(what, timedelta) else _parsed(where, what)
    if abs(length) >= LONGEST:
        raise PlanError(f"{where}: {what!r} is too long a time; it must be below 73,000 years")
    if length < 0 and not negative:
        raise PlanError(
            f"{where}: {what!r} is negative; give a time of {'0 or more' if zero else 'more than 0'}"
        )
    if length == 0 and not zero:
        raise PlanError(f"{where}: {what!r} is zero; give a time of more than 0")
    return length


def _parsed(where: str, text: Any) -> int:
    if isinstance(text, bool) or not isinstance(text, str):
        raise PlanError(f"{where}: {text!r} is not a length of time; {_EXAMPLE}")
    parts = _TEXT.fullmatch(as_polars_spells(text))
    if parts is None:
        raise PlanError(f"{where}: {text!r} is not a length of time; {_EXAMPLE}")
    length = nanoseconds = 0
    for count, unit in _PART.findall(parts[2]):
        if unit in CALENDAR:
            raise PlanError(
                f"{where}: {text!r} has no fixed length, as months and years differ; use days, as in '30d' "
                "(windows by the calendar: calendar('1mo'))"
            )
        if unit == "ns":
            nanoseconds += int(count)
        elif unit in UNITS:
            length += int(count) * UNITS[unit]
        else:
            raise PlanError(f"{where}: {text!r}: unknown unit {unit!r}; the units are {', '.join(UNITS)}")
    if nanoseconds % 1000:
        raise PlanError(f"{where}: {text!r} is finer than a microsecond, which is as fine as time is kept")
    length += nanoseconds // 1000
    return -length if parts[1] == "-" else length


def as_polars_spells(text: str) -> str:
    """Return a length of time that is spelled out in words as polars writes it; any other text unchanged.

    In an interval of SQL numbers, or all of it, may be in quotes.

    >>> as_polars_spells("1 hour 30 minutes"), as_polars_spells("1 month"), as_polars_spells("10s")
    ('1h30m', '1mo', '10s')
    >>> as_polars_spells("INTERVAL '10' MINUTE"), as_polars_spells("interval '1 hour 5 minutes'")
    ('10m', '1h5m')
    """
    words = _WORDS.fullmatch(text.replace("'", "") if _INTERVAL.match(text) else text)
    if words is None:
        return text
    parts = []
    for count, unit in _WORD.findall(words[1]):
        short = _SPELLED_OUT.get(unit.lower().removesuffix("s"))
        if short is None:
            return text
        parts.append(count + short)
    return "".join(parts)


def processing_time(at: datetime | str) -> datetime:
    """Return the processing time that a user gives: a datetime with its zone, or a text of ISO 8601 with it.

    Raises:
        InputError: it is neither, or has no zone; there is no column from whose zone it could be known. Or it is not in
            the years 1 to 9999 of UTC.

    >>> processing_time("2026-01-31T12:00:00Z")
    datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    moment: object = at
    if isinstance(at, str):
        moment = instant_in_text("at", at, _ZONED) if has_offset(pl.Series([at])).item() else at
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InputError(
            f"processing time at={at!r} must be a time with its zone, as datetime.now(UTC) or '2026-01-31T12:00:00Z'"
        )
    instant_of("at", moment, _ZONED)
    return moment


def _is_finer(text: str) -> bool:
    """Return whether a text is a time but for its digits beyond microseconds."""
    shorter = _BEYOND_MICROSECONDS.sub(r"\1", text)
    return shorter != text and instant_in_text("a watermark", shorter, _ZONED) is not None


def instant(where: str, moment: Any, event_time: pl.DataType) -> int:
    """Return an instant in microseconds since 1970-01-01 UTC, read as a column of event time of this type would hold it.

    A datetime with a zone is converted; one without is read as UTC where the column has no zone, and refused where
    it has one. A date is its midnight in UTC. A text is read as one in a row would be: ISO 8601, without a zone in that of
    the column. ``END_OF_TIME`` is itself.

    Raises:
        InputError: it is anything else; ``where`` names the source.
    """
    if isinstance(moment, int) and not isinstance(moment, bool) and moment == END_OF_TIME:
        return END_OF_TIME
    if isinstance(moment, str):
        moment = instant_in_text(where, moment, event_time) or moment
    if isinstance(moment, str) and _is_finer(moment):
        raise InputError(
            f"{where}: the watermark {moment!r} is finer than a microsecond, which is as fine as time is kept; leave out the digits "
            "after the sixth"
        )
    if not isinstance(moment, date):
        raise InputError(
            f"{where}: the watermark {moment!r} is not a time; give a datetime or a text such as '2026-01-31 12:00', or "
            "END_OF_TIME if no more rows will come"
        )
    return instant_of(where, moment, event_time)
