"""Windows of whole local days, by the dates that polars has and the offsets of local clocks from UTC."""

from __future__ import annotations

import polars as pl

_DAY, _SECOND = 86_400_000_000, 1_000_000


def in_calendar(instants: pl.Series, every: str, zone: str) -> tuple[pl.Series, pl.Series]:
    """Return the instants at which the step of the calendar that holds each instant starts and ends.

    A step starts with the first instant at which clocks show its first day or a later one, so that an instant is in a
    later step than its date is where clocks go back over midnight.
    """
    dates = (instants + _offsets(instants, zone)).cast(pl.Datetime("us")).cast(pl.Date).dt.truncate(every)
    firsts = [dates, dates.dt.offset_by(every)]
    firsts.append(firsts[1].dt.offset_by(every))
    days = pl.concat(firsts).unique().drop_nulls()
    begins = [
        first.replace_strict(days, _first_instants(days, zone), return_dtype=pl.Int64) for first in firsts
    ]
    is_later = instants >= begins[1]
    return begins[1].zip_with(is_later, begins[0]), begins[2].zip_with(is_later, begins[1])


def _first_instants(days: pl.Series, zone: str) -> pl.Series:
    """Return the first instants at which clocks show these dates or later ones."""
    local = days.cast(pl.Datetime("us")).to_physical()
    # Clocks are less than a day off UTC, and change once in two days: they have one of two offsets.
    earlier, later = _offsets(local - _DAY, zone), _offsets(local + _DAY, zone)
    before, after = local - earlier, local - later
    is_before, is_after = _offsets(before, zone) == earlier, _offsets(after, zone) == later
    is_jump = ~(is_before | is_after)
    jumps = [
        _first_second(at, low, high, zone)
        for at, low, high in zip(*(each.filter(is_jump) for each in (local, after, before)), strict=True)
    ]
    begins = before.zip_with(is_before, after)
    return begins.scatter(is_jump.arg_true(), jumps)


def _first_second(local: int, low: int, high: int, zone: str) -> int:
    """Return the first second after low, and up to high, at which clocks show this local time or a later one."""
    seconds = pl.int_range(low + _SECOND, high + _SECOND, _SECOND, eager=True)
    reached = seconds.filter(seconds + _offsets(seconds, zone) >= local)
    return int(reached[0])


def _offsets(instants: pl.Series, zone: str) -> pl.Series:
    """Return how far local clocks are ahead of UTC at these instants."""
    zoned = instants.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    return zoned.dt.replace_time_zone(None).to_physical() - instants
