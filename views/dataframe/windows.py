"""The windows that users give to ``collection.window(...)``."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from evercurrent.core.data.calendar_days import calendar_step
from evercurrent.core.data.durations import as_polars_spells, microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.windows.kinds import (
    Assignment,
    Calendar,
    Count,
    Custom,
    Fixed,
    Global,
    LastRows,
    Sessions,
    Sliding,
    Window,
)

__all__ = [
    "calendar",
    "count_window",
    "custom_windows",
    "fixed",
    "global_window",
    "last_rows",
    "sessions",
    "sliding",
]
"""What users call by its name in the package."""

Length = str | timedelta
"""A length of time: "2m", "1h30m", "500ms", or a timedelta."""

MOST_COPIES = 1_000_000
"""The most sliding windows that a row may be in: more are surely a mistake, and would fill the memory."""


@tagged("views.windows:fixed")
def fixed(size: Length, *, offset: Length = timedelta(), shifted_by_key: bool = False) -> Fixed:
    """Return windows of one size, side by side; also called tumbling.

        start = t - (t - offset) mod size,   end = start + size

    Args:
        size: the length of a window, above zero.
        offset: where windows begin, counted from 1970-01-01 UTC; any length, taken modulo the size.
        shifted_by_key: shift the windows of each key by a part of the size that depends on the key alone, so that
            not all of them close at once. The shift is the same in every process. Until rows are grouped, they have the
            bounds of windows that are not shifted.

    Raises:
        PlanError: the size is not a length of time, or not above zero.

    >>> import evercurrent as ec
    >>> str(ec.fixed("1 hour", offset="15m"))
    'fixed windows of 1h from 15m on'
    """
    length = microseconds("fixed: size", size, zero=False)
    return Fixed(length, microseconds("fixed: offset", offset, negative=True) % length, bool(shifted_by_key))


@tagged("views.windows:sliding")
def sliding(size: Length, *, every: Length, offset: Length = timedelta()) -> Sliding:
    """Return windows of one size that start once a period; also called hopping. A row is in each that covers its time.

        all [s, s + size) with s = offset mod every and s <= t < s + size

    The size need not be a multiple of the period. With a period above the size there are gaps: rows in them are in no
    window. Each row costs ``size / every`` rows.

    Raises:
        PlanError: the size or period is not a length of time, or not above zero, or a row would be in over a million windows.

    >>> import evercurrent as ec
    >>> str(ec.sliding("10m", every="5m"))
    'sliding windows of 10m every 5m'
    >>> ec.sliding("10m", every="0s")
    Traceback (most recent call last):
    ...
    evercurrent.core.data.errors.PlanError: sliding: every: '0s' is zero; give a time of more than 0
    """
    length, period = (
        microseconds("sliding: size", size, zero=False),
        microseconds("sliding: every", every, zero=False),
    )
    if length // period > MOST_COPIES:
        raise PlanError(
            f"sliding: a row would be in {length // period:,} windows; the limit is {MOST_COPIES:,}: give a longer"
            " every or a shorter size"
        )
    return Sliding(length, period, microseconds("sliding: offset", offset, negative=True) % period)


@tagged("views.windows:sessions")
def sessions(gap: Length) -> Sessions:
    """Return session windows: rows of a key less than a gap apart are one session, [first, last + gap).

    Rows exactly a gap apart are two sessions.

    Raises:
        PlanError: the gap is not a length of time, or not above zero.

    >>> import evercurrent as ec
    >>> str(ec.sessions("30m"))
    'sessions with a gap of 30m'
    """
    return Sessions(microseconds("sessions: gap", gap, zero=False))


@tagged("views.windows:calendar")
def calendar(every: str, *, time_zone: str | None = None) -> Calendar:
    """Return calendar windows, from midnight to midnight: days, weeks from Monday, months, quarters or years.

    A day has 23 or 25 hours where the clock is changed.

    Args:
        every: "1d", "1w", "1mo", "1q" or "1y", or several, which are counted from 1970-01-01 and weeks from
            1970-01-05, as ``dt.truncate`` of polars does.
        time_zone: the zone of the midnights; by default that of the column of event time, and UTC if it has none.

    Raises:
        PlanError: there is no such step, or the time zone is unknown.

    >>> import evercurrent as ec
    >>> str(ec.calendar("1d", time_zone="Europe/Berlin"))
    'calendar windows of 1d in Europe/Berlin'
    >>> ec.calendar("12h")
    Traceback (most recent call last):
    ...
    evercurrent.core.data.errors.PlanError: calendar: every is '12h'; give days, weeks, months, quarters or years, as '1d', '2w', '1mo', '1q', '1y'; for windows of hours take fixed(...)
    """
    every = as_polars_spells(every) if isinstance(every, str) else every
    try:
        calendar_step(every)
    except (ValueError, TypeError):
        raise PlanError(
            f"calendar: every is {every!r}; give days, weeks, months, quarters or years, as '1d', '2w', '1mo', '1q',"
            " '1y'; for windows of hours take fixed(...)"
        ) from None
    if time_zone is not None:
        _require_time_zone(time_zone)
    return Calendar(every, time_zone)


@tagged("views.windows:global_window")
def global_window() -> Global:
    """Return the one window of all time, which ends with the input. It adds no columns.

    >>> import evercurrent as ec
    >>> str(ec.global_window())
    'the global window'
    """
    return Global()


@tagged("views.windows:count_window")
def count_window(rows: int) -> Count:
    """Return windows with this many rows of a key, by event time and then by the whole row; the last may have fewer.

        window_start = first event time,   window_end = last event time + 1 us

    Of several windows that start at one instant, the second ends at least 2 us after it, the third 3 us, so that they differ.

    A row that comes late or is retracted moves the rows after it by one place, and all windows are corrected. Cost: all
    rows of each key that changes.

    Raises:
        PlanError: the number is not a whole number from 1.

    >>> import evercurrent as ec
    >>> str(ec.count_window(100))
    'windows of 100 rows'
    """
    return Count(_number("count_window", rows))


@tagged("views.windows:last_rows")
def last_rows(rows: int) -> LastRows:
    """Return one window per key of its last rows by event time, then by the whole row; earlier rows are in no window.

        window_start = first event time of these,   window_end = last event time + 1 us

    Raises:
        PlanError: the number is not a whole number from 1.

    >>> import evercurrent as ec
    >>> str(ec.last_rows(10))
    'the last 10 rows'
    """
    return LastRows(_number("last_rows", rows))


@tagged("views.windows:custom_windows")
def custom_windows(assign: Assignment, merge: Assignment | None = None) -> Custom:
    """Return windows of your own: a function assigns rows to windows, and another one may merge windows of a key.

    Args:
        assign: gets a frame of rows and returns, row by row, a frame of the same height with the columns
            ``window_start`` and ``window_end``.
        merge: gets a frame of the different windows of keys, with the columns of the key, ``window_start`` and
            ``window_end``, sorted by key, start and end. It returns a frame of the same height with the bounds of the
            merged window that each belongs to. ``evercurrent.merge_overlapping`` merges windows that have an instant
            in common.

    Both must depend on nothing but the frame, as they are called again when a row is retracted.

    With ``.lateness(...)`` merged windows close as sessions do: a row is too late if its own window, before others are looked
    at, ended longer ago than that; a window that closes emits what is pending, and its rows are purged. So a merged window has
    to contain those that are merged into it, no two of a key may start at the same instant, and what ``merge`` returns
    for the windows that are left must not depend on those that have closed. In discarding mode no row that comes may
    split a window. An epoch in which a function does otherwise is refused with ``InputError``, which names the row.
    An epoch is refused as well if ``merge`` gives other windows for a key when it is called again without some of the other
    keys: to check that, it is called with every other key of the epoch, and with the rest.

    Cost: all rows of each key that an epoch touches, without lateness ever, with it those of open windows; each epoch calls ``merge``
    with the different windows of these keys as they were before and after it, after it once more in two parts, and with those that are
    left when windows close. With the same merge that is about twice the cost of ``evercurrent.sessions`` with lateness for many rows,
    three times for few among many, and what a slower function takes on top (``bench/programs/operators.py``);
    ``evercurrent.merge_overlapping`` itself is not checked.

    Raises:
        PlanError: one of them is not a function.

    >>> import evercurrent as ec
    >>> str(ec.custom_windows(lambda rows: rows.select(window_start="opens", window_end="closes")))
    'windows by <lambda>'
    """
    for what, function in (("assign", assign), ("merge", merge)):
        if not (callable(function) or (what == "merge" and function is None)):
            raise PlanError(
                f"custom_windows: {what} is {function!r}; give a function that takes a frame and returns one with the columns"
                " 'window_start' and 'window_end'"
            )
    return Custom(assign, merge)


def described(window: Window) -> str:
    """Describe windows in words, for labels and messages."""
    return str(window)


def _number(where: str, rows: int) -> int:
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows < 2**31:
        raise PlanError(
            f"{where}: the number of rows is {rows!r}; give a whole number from 1 to 2,147,483,647"
        )
    return rows


def _require_time_zone(time_zone: str) -> None:
    try:
        if not time_zone:
            raise ValueError(time_zone)
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(time_zone)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        raise PlanError(
            f"calendar: the time zone {time_zone!r} is unknown; give one of the tz database, as 'Europe/Berlin'"
        ) from None
