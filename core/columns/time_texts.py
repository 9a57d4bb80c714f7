"""Texts of ISO 8601 are read as dates and datetimes, each exactly and by itself.

A text with an offset is an instant, and fits a column that has a zone. One without is a time of day somewhere: it fits a
column without a zone as it stands, and in a column with one it is local time there. No format is guessed, and nothing is
rounded: a text that names no single value of the type is not read.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

OFFSET = r"[T ].*(Z|[+-]\d{2}(:?\d{2})?)$"
"""The end of a text that names an instant; the hyphens of a date alone are not an offset."""

READ_AS = pl.Date | pl.Datetime
"""The types that texts are read as."""


def has_offset(texts: pl.Series) -> pl.Series:
    """Return where a text of a time names its offset from UTC.

    >>> has_offset(pl.Series(["2026-01-31T12:00:00+01:00", "2026-01-31 12:00", "2026-01-31"])).to_list()
    [True, False, False]
    """
    return texts.str.contains(OFFSET)


def times_of_texts(texts: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return the times that texts name, as a column of dates or datetimes, and the first row that names none of the type.

    From that row on the times have no meaning; None if every text was read.

    >>> times_of_texts(pl.Series(["2026-01-31 12:00", "31.1.2026"]), pl.Datetime("us"))[1]
    1
    """
    if not isinstance(dtype, pl.Datetime) or dtype.time_zone is None:
        return _cast(texts, dtype)
    is_instant = has_offset(texts)
    instants, bad_instant = _cast(_only(is_instant, texts), dtype)
    if is_instant.all():
        return instants, bad_instant
    local, bad_local = _cast(_only(~is_instant, texts), pl.Datetime(dtype.time_unit))
    placed = local.dt.replace_time_zone(dtype.time_zone, ambiguous="null", non_existent="null")
    unplaced = (placed.is_null() & local.is_not_null()).arg_true()
    bad = (bad_instant, bad_local, unplaced[0] if len(unplaced) else None)
    times = pl.select(pl.when(is_instant).then(instants).otherwise(placed)).to_series()
    return times.alias(texts.name), min((row for row in bad if row is not None), default=None)


def _only(chosen: pl.Series, texts: pl.Series) -> pl.Series:
    return pl.select(pl.when(chosen).then(texts)).to_series().alias(texts.name)


def _cast(texts: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return Arrow's reading of the texts, which is strict where polars guesses formats and cuts fractions off."""
    arrow, target = texts.to_arrow(), pl.Series([], dtype=dtype).to_arrow().type
    try:
        return pl.Series(texts.name, pc.cast(arrow, target), dtype), None
    except pa.ArrowInvalid:
        good, bad = 0, len(arrow)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pc.cast(arrow.slice(good, middle - good), target)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    read = pl.Series(texts.name, pc.cast(arrow.slice(0, good), target), dtype)
    return read.extend_constant(None, len(texts) - good), good
