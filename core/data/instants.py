"""Instants and lengths of time are converted from columns and datetimes, and to columns and readable text.

An instant is a whole number of microseconds since 1970-01-01 UTC. Times without a zone are read as UTC.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import polars as pl

from .clock import END_OF_TIME, START_OF_TIME
from .columns.kernels import Ints, Mask, physical
from .columns.time_texts import has_offset, times_of_texts
from .errors import InputError

DAY = 86_400_000_000
"""Microseconds in 24 hours."""

UNITS = {"w": 7 * DAY, "d": DAY, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""The units in which a length of time is written, as polars has them."""

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instants_in(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Return the instants of a column of dates or datetimes, rounded down, and a mask of those that can be computed with.

    The mask is None if all of them can. Others are nulls, and instants so far away that sums would wrap.
    """
    values, scale = physical(column), resolution(column.dtype)
    if _is_fine(column.dtype):
        values = values // 1000
    bound = END_OF_TIME // scale
    within = not len(values) or (-bound < int(values.min()) and int(values.max()) < bound)
    if within and not column.has_nulls():
        return values * scale if scale > 1 else values, None
    usable = (values > -bound) & (values < bound)
    if column.has_nulls():
        usable &= column.is_not_null().to_numpy()
    return np.where(usable, values, 0) * scale, usable


def resolution(dtype: pl.DataType) -> int:
    """Return how many microseconds lie between two neighbouring instants of a column of this type, at least 1."""
    if dtype == pl.Date:
        return DAY
    return 1000 if isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms" else 1


def column_of_instants(name: str, instants: Ints, dtype: pl.DataType) -> pl.Series:
    """Return instants as a column of dates or datetimes, rounded down; the inverse of ``instants_in``."""
    values = instants * 1000 if _is_fine(dtype) else instants // resolution(dtype)
    return pl.Series(name, values).cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)


def can_hold(dtype: pl.DataType, instant: int) -> bool:
    """Return whether a column of this type can hold the instant: nanoseconds reach from 1677 to 2262."""
    return not _is_fine(dtype) or abs(instant) < 2**63 // 1000


def _is_fine(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"


def instant_of(where: str, moment: date, dtype: pl.DataType) -> int:
    """Return the instant of a date or datetime beside a column of this type, which without a zone is read as UTC.

    Raises:
        InputError: a time without a zone, where the column has one; finer than microseconds, or not in the years 1 to
            9999 of UTC.
    """
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if moment.tzinfo is None:
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
        if zone is not None:
            raise InputError(
                f"{where}: {moment!r} has no time zone, and the column of event time is in {zone}; give it one, "
                "as in datetime(2026, 1, 31, tzinfo=UTC)"
            )
        moment = moment.replace(tzinfo=UTC)
    nanoseconds: object = getattr(moment, "nanosecond", 0)  # Of a time of pandas.
    if in_utc(moment) is None or nanoseconds:
        raise InputError(
            f"{where}: {moment} is not a time in whole microseconds within the years 1 to 9999 in UTC; give one that is"
        )
    return (moment - _ORIGIN) // _MICROSECOND


def in_utc(moment: datetime) -> datetime | None:
    """Return a time with a zone as the time in UTC, without one; None if Python has none, which ends with the year 9999.

    >>> in_utc(datetime.fromisoformat("2026-01-31T12:00:00+02:00"))
    datetime.datetime(2026, 1, 31, 10, 0)
    """
    try:
        return None if moment.utcoffset() is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, ValueError):  # ValueError: the missing time of pandas, which is a datetime too.
        return None


def instant_in_text(where: str, text: str, dtype: pl.DataType) -> datetime | None:
    """Return the instant that a text of ISO 8601 names beside a column of this type; without a zone, in that of the column.

    None: it is not such a text.

    Raises:
        InputError: it is a local time that does not exist or exists twice, or not in the years 1 to 9999 of UTC.
    """
    zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    texts = pl.Series([text], dtype=pl.String)
    if zone is None and has_offset(texts).item():
        zone = "UTC"
    times, bad = times_of_texts(texts, pl.Datetime("us", zone))
    if bad is None:
        utc = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else times
        moment: datetime = utc.item()
        return moment.replace(tzinfo=UTC)
    if times.is_not_null().item():
        raise InputError(f"{where}: {text!r} is beyond the years 1 to 9999 in UTC; give a time within them")
    if zone is not None and times_of_texts(texts, pl.Datetime("us"))[1] is None:
        raise InputError(f"{where}: {text!r} names no single instant in {zone}; give its offset")
    return None


def time_of(instant: int) -> datetime | None:
    """Return the instant as a datetime in UTC; None at the start and the end of time, and beyond the years 1 to 9999."""
    try:
        return _ORIGIN + timedelta(microseconds=instant)
    except OverflowError:
        return None


def shown(instant: int) -> str:
    """Return the instant as text.

    >>> shown(90_000_000)
    '1970-01-01 00:01:30 UTC'
    """
    if instant <= START_OF_TIME:
        return "the start of time"
    if instant >= END_OF_TIME:
        return "the end of time"
    moment = time_of(instant)
    if moment is None:
        return f"{instant} microseconds since 1970"
    return f"{moment.replace(tzinfo=None)} UTC"


def spelled(length: int) -> str:
    """Return a length of time in microseconds as text that polars reads.

    >>> spelled(5_400_000_000), spelled(-1_500_000), spelled(0)
    ('1h30m', '-1s500ms', '0s')
    """
    if not length:
        return "0s"
    rest, parts = abs(length), []
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return ("-" if length < 0 else "") + "".join(parts)


def spelled_briefly(length: int) -> str:
    """Return a measured length of time in microseconds, rounded to two neighbouring units; ``spelled`` does not round.

    >>> spelled_briefly(28_227_723_000_001), spelled_briefly(3_200_400), spelled_briefly(-3_599_999_999)
    ('46w5d', '3s200ms', '-1h')
    """
    sizes = list(UNITS.values())
    largest = next((at for at, size in enumerate(sizes) if abs(length) >= size), len(sizes) - 1)
    finest = sizes[min(largest + 1, len(sizes) - 1)]
    rounded = (abs(length) + finest // 2) // finest * finest
    return spelled(-rounded if length < 0 else rounded)
