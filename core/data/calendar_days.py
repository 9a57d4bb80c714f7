"""Days, weeks, months and years of local calendars: which one contains an instant, and when it begins."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from .columns.kernels import Ints, physical
from .instants import DAY

_STEP = re.compile(r"([1-9]\d{0,3})(d|w|mo|q|y)")
_MONDAY = 4
"""1970-01-05, in days since 1970-01-01."""


def calendar_step(every: str) -> tuple[int, str]:
    """Return a step of the calendar, written as 1 to 9999 of d, w, mo, q or y, as a number of "d", "w" or "mo".

    >>> calendar_step("2w"), calendar_step("1q")
    ((2, 'w'), (3, 'mo'))

    Raises:
        ValueError: the text is not a step of the calendar.
    """
    match = _STEP.fullmatch(every)
    if match is None:
        raise ValueError(f"{every!r} is not a step of the calendar")
    count, unit = int(match[1]), match[2]
    months = {"q": 3, "y": 12}
    return (count * months[unit], "mo") if unit in months else (count, unit)


def calendar_steps(every: str, time_zone: str | None, instants: Ints) -> tuple[Ints, Ints]:
    """Return the start and end of the calendar step that contains each instant, from midnight to midnight.

    Several days, weeks or months are counted as polars does in ``dt.truncate``: from 1970-01-01, and weeks from
    Monday, 1970-01-05. Cost: linear, and a conversion of four midnights for each different day of UTC.
    """
    if not len(instants):
        return instants, instants
    step = calendar_step(every)
    days = instants // DAY
    first, last = int(days.min()), int(days.max())
    if last - first <= 2 * len(days):
        different_days, place = np.arange(first, last + 1), days - first
    else:
        different_days, place = np.unique(days, return_inverse=True)
    # The local day is that of UTC, the one before or the one after: so it is in one of three steps.
    numbers = _step_numbers(step, different_days - 1) + np.arange(4)[:, None]
    begins = midnights(time_zone, _first_days(step, numbers.ravel())).reshape(4, -1)
    step_number = (instants >= begins[1][place]).astype(np.intp) + (instants >= begins[2][place])
    return begins[step_number, place], begins[step_number + 1, place]


def _step_numbers(step: tuple[int, str], days: Ints) -> Ints:
    """Return the number of the step that holds each day, the days counted from 1970-01-01."""
    count, unit = step
    if unit == "mo":
        return days.astype("M8[D]").astype("M8[M]").astype(np.int64) // count
    return days // count if unit == "d" else (days - _MONDAY) // (7 * count)


def _first_days(step: tuple[int, str], numbers: Ints) -> Ints:
    """Return the day on which each step begins."""
    count, unit = step
    if unit == "mo":
        return (numbers * count).astype("M8[M]").astype("M8[D]").astype(np.int64)
    return numbers * count if unit == "d" else numbers * (7 * count) + _MONDAY


def midnights(time_zone: str | None, days: Ints) -> Ints:
    """Return the instants at which local days begin: the first at which clocks show this day or a later one.

    That is midnight; the first one if clocks show it twice; the instant of the jump if they skip it. Zone None is UTC.
    """
    if time_zone is None or time_zone == "UTC":
        return days * DAY
    local = pl.Series(days * DAY).cast(pl.Datetime("us"))
    zoned = local.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    instants = physical(zoned)
    if zoned.has_nulls():
        skipped = np.flatnonzero(zoned.is_null().to_numpy())
        instants = instants.copy()
        instants[skipped] = _reached(time_zone, days[skipped] * DAY)
    return instants


def _reached(time_zone: str, local_times: Ints) -> Ints:
    """Return the first instants at which local clocks show these local times or later, where they skip them."""
    # No clock is more than a day off UTC, so the instant is within two days: bisection finds it.
    low, high = local_times - DAY, local_times + DAY
    while (high - low > 1).any():
        middle = (low + high) // 2
        zoned = pl.Series(middle).cast(pl.Datetime("us", time_zone))
        reached = physical(zoned.dt.replace_time_zone(None)) >= local_times
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high
