"""Texts of ISO 8601 are read as dates and datetimes, each exactly and by itself.

A text with an offset is an instant: in a column without a zone it is the time in UTC. One without is a time of day
somewhere: a column without a zone takes it as it stands, and in a column with one it is local time there. A date is a
midnight. No format is guessed, and nothing is rounded: a text that names no single value of the type, or none in the years
1 to 9999 of UTC, is not read.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from .lossless import in_utc

OFFSET = r"[T ].*(Z|[+-]\d{2}(:?\d{2})?)$"
"""The end of a text that names an instant; the hyphens of a date alone are not an offset."""

READ_AS = pl.Date | pl.Datetime
"""The types that texts are read as."""

DAYS = (-719_162, 2_932_897)
"""The first day of the year 1, and that of the year 10000, counted from 1970: Python has the times between them."""

PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000}


def has_offset(texts: pl.Series) -> pl.Series:
    """Return where a text of a time names its offset from UTC.

    >>> has_offset(pl.Series(["2026-01-31T12:00:00+01:00", "2026-01-31 12:00", "2026-01-31"])).to_list()
    [True, False, False]
    """
    return texts.str.contains(OFFSET)


def times_of_texts(texts: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return the times that texts name, as a column of dates or datetimes, and the first row that names none of the type.

    That row is null, or a time that the type does not allow: beyond the years, or no midnight. From it on the times have no
    meaning. None: every text was read.

    >>> times_of_texts(pl.Series(["2026-01-31 12:00", "31.1.2026"]), pl.Datetime("us"))[1]
    1
    """
    if (times := _read(texts.to_arrow(), dtype)) is not None:
        times, bad = times.alias(texts.name), None  # The texts are written as the type is, which is common.
    elif isinstance(dtype, pl.Datetime):
        times, bad = _each(texts, dtype)
    else:
        times, bad = _midnights(texts)
    return times, _first(bad, _beyond_years(times))


def _each(texts: pl.Series, dtype: pl.Datetime) -> tuple[pl.Series, int | None]:
    """Return the times of texts of which some name an offset, and others do not."""
    is_instant = has_offset(texts)
    instants, bad_instant = _cast(
        _only(is_instant, texts), pl.Datetime(dtype.time_unit, dtype.time_zone or "UTC")
    )
    local, bad_local = _cast(_only(~is_instant, texts), pl.Datetime(dtype.time_unit))
    placed = local
    if dtype.time_zone is not None:
        placed = local.dt.replace_time_zone(dtype.time_zone, ambiguous="null", non_existent="null")
    unplaced = (placed.is_null() & local.is_not_null()).arg_true()
    bad = _first(bad_instant, bad_local, unplaced[0] if len(unplaced) else None)
    times = pl.select(pl.when(is_instant).then(in_utc(instants, dtype)).otherwise(placed)).to_series()
    return times.alias(texts.name), bad


def _midnights(texts: pl.Series) -> tuple[pl.Series, int | None]:
    """Return the dates of texts of which some are written as times, and the first that is no midnight."""
    times, bad = _each(texts, pl.Datetime("us"))
    odd = (times.to_physical() % PER_DAY["us"] != 0).arg_true()
    return times.cast(pl.Date), _first(bad, odd[0] if len(odd) else None)


def _beyond_years(times: pl.Series) -> int | None:
    """Return the first time that is in UTC not in the years that Python has."""
    per_day = PER_DAY.get(times.dtype.time_unit) if isinstance(times.dtype, pl.Datetime) else 1
    if per_day is None or times.null_count() == len(times):
        return None  # Nanoseconds never are.
    numbers, (first, end) = times.to_physical(), DAYS
    beyond = ((numbers < first * per_day) | (numbers >= end * per_day)).arg_true()
    return beyond[0] if len(beyond) else None


def _first(*rows: int | None) -> int | None:
    return min((row for row in rows if row is not None), default=None)


def _only(chosen: pl.Series, texts: pl.Series) -> pl.Series:
    return pl.select(pl.when(chosen).then(texts)).to_series().alias(texts.name)


def _cast(texts: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return the texts read as a type up to the first one that is none of it, then nulls; and the row of that one."""
    arrow = texts.to_arrow()
    if (times := _read(arrow, dtype)) is not None:
        return times.alias(texts.name), None
    good, bad = 0, len(arrow)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (
            (middle, bad) if _read(arrow.slice(good, middle - good), dtype) is not None else (good, middle)
        )
    times = _read(arrow.slice(0, good), dtype)
    assert times is not None
    return times.alias(texts.name).extend_constant(None, len(texts) - good), good


def _read(texts: pa.Array, dtype: pl.DataType) -> pl.Series | None:
    """Return Arrow's reading of the texts, which is strict where polars guesses formats and cuts fractions off; None: it refuses one."""
    target = pl.Series([], dtype=dtype).to_arrow().type
    try:
        return pl.Series(texts.cast(target), dtype=dtype)
    except pa.ArrowInvalid:
        return None
