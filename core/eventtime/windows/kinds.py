"""The kinds of windows, and the assignment of instants to them.

Instants and lengths of time are microseconds, windows are half-open [start, end). A window of sessions starts as the
*proto-session* of its row, [t, t + gap), and one that depends on the other rows of its key as [t, t + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from ...data.calendar_days import calendar_steps
from ...data.clock import END_OF_TIME, START_OF_TIME
from ...data.columns.kernels import Index, Ints, Mask, expand, physical
from ...data.columns.stable_hash import stable_words
from ...data.errors import InputError
from ...data.instants import instants_in, spelled
from ...data.schema import counted
from ...data.tags import tagged

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns that hold the window of a row."""


Assignment = Callable[[pl.DataFrame], pl.DataFrame]


class Regular(NamedTuple):
    """Windows of one size that start once a period, in microseconds: at ``offset``, and a whole number of periods from it."""

    size: int
    period: int
    offset: int


class WindowTraits:
    """The properties of windows of any kind, with defaults for those that follow from the instant of a row alone.

    ``str`` describes windows in words, for labels and messages.
    """

    __slots__ = ()

    is_global = False
    """Whether there is one window for all of time, without bounds in the rows."""

    is_given = False
    """Whether the bounds are in the rows already."""

    needs_event_time = True
    """Whether rows need an event time to be assigned."""

    may_merge = False
    """Whether windows of a key may become one."""

    is_sliding = False
    """Whether a row is in all of several windows that start once a period."""

    may_close = True
    """Whether the rows of a window can be purged at some time, so that there may be a lateness."""

    @property
    def shifted_by_key(self) -> bool:
        """Return whether the windows of a row depend on its key."""
        return False

    @property
    def depends_on_key(self) -> bool:
        """Return whether the windows of a row depend on the other rows of its key, sessions aside."""
        return False

    @property
    def session_gap(self) -> int | None:
        """Return the gap of sessions; None of other windows."""
        return None

    @property
    def regular(self) -> Regular | None:
        """Return size, period and offset of windows that start once a period, for all keys alike; None of others."""
        return None

    @property
    def calendar(self) -> tuple[str, str | None] | None:
        """Return the length and the time zone of windows of whole days, weeks, months or years; None of others."""
        return None

    @property
    def functions(self) -> tuple[Assignment, Assignment | None] | None:
        """Return the functions by which a user assigns windows and, if there is one, merges them; None for other windows."""
        return None

    @property
    def merged_by_user(self) -> bool:
        """Return whether a user's function merges windows of a key."""
        return False

    @property
    def assigned_by_user(self) -> Assignment | None:
        """Return the user's function that gives the windows of rows; None if they follow from instants, or are there."""
        return None

    def in_zone(self, time_zone: str | None) -> Window:
        """Return the same windows where event time is in this zone, for windows that follow it."""
        return self  # type: ignore[return-value]

    def phases(self, columns: Sequence[pl.Series]) -> Ints | None:
        """Return how far the windows of each row are shifted by its key, which has these columns; None if they are not."""
        return None


@tagged("core.eventtime.windows:Global")
@dataclass(frozen=True, slots=True)
class Global(WindowTraits):
    """One window for all of time."""

    is_global = True
    needs_event_time = False

    def __str__(self) -> str:
        return "the global window"


@tagged("core.eventtime.windows:Fixed")
@dataclass(frozen=True, slots=True)
class Fixed(WindowTraits):
    """Windows of one size, side by side: start = t - (t - offset) mod size.

    With ``shifted_by_key`` those of a key are shifted by its ``key_phases``, so that not all close at once.
    """

    size: int
    offset: int = 0
    shifted_by_key: bool = False

    @property
    def regular(self) -> Regular | None:
        """Return it, unless each key has windows of its own."""
        return None if self.shifted_by_key else Regular(self.size, self.size, self.offset)

    def phases(self, columns: Sequence[pl.Series]) -> Ints:
        """Return the ``key_phases`` of the keys."""
        return key_phases(columns, self.size)

    def __str__(self) -> str:
        shifted = ", shifted by key" if self.shifted_by_key else ""
        return f"fixed windows of {spelled(self.size)}{_from(self.offset)}{shifted}"


@tagged("core.eventtime.windows:Sliding")
@dataclass(frozen=True, slots=True)
class Sliding(WindowTraits):
    """Windows of one size that start once a period; a row is in each of them that contains its instant."""

    is_sliding = True

    size: int
    period: int
    offset: int = 0

    @property
    def regular(self) -> Regular:
        """Return it."""
        return Regular(self.size, self.period, self.offset)

    def __str__(self) -> str:
        return f"sliding windows of {spelled(self.size)} every {spelled(self.period)}{_from(self.offset)}"


@tagged("core.eventtime.windows:Sessions")
@dataclass(frozen=True, slots=True)
class Sessions(WindowTraits):
    """Rows of a key that are less than a gap apart, [first, last + gap)."""

    may_merge = True

    gap: int

    @property
    def session_gap(self) -> int:
        """Return the gap."""
        return self.gap

    def __str__(self) -> str:
        return f"sessions with a gap of {spelled(self.gap)}"


@tagged("core.eventtime.windows:Calendar")
@dataclass(frozen=True, slots=True)
class Calendar(WindowTraits):
    """Days, weeks from Monday, months, quarters or years, or several: "1d", "2w", "1mo", "1q", "1y"; from midnight to midnight.

    The midnights are those of ``time_zone``; None is the zone of the column of event time, and UTC where it has none.
    """

    every: str
    time_zone: str | None = None

    @property
    def calendar(self) -> tuple[str, str | None]:
        """Return both."""
        return self.every, self.time_zone

    def in_zone(self, time_zone: str | None) -> Calendar:
        """Return them in that zone, unless they have one."""
        return self if self.time_zone is not None else Calendar(self.every, time_zone)

    def __str__(self) -> str:
        return f"calendar windows of {self.every}{f' in {self.time_zone}' if self.time_zone else ''}"


@tagged("core.eventtime.windows:Count")
@dataclass(frozen=True, slots=True)
class Count(WindowTraits):
    """The rows of a key in order of event time, ``size`` at a time."""

    depends_on_key = True
    may_close = False

    size: int

    def __str__(self) -> str:
        return f"windows of {self.size} row{'s' if self.size > 1 else ''}"


@tagged("core.eventtime.windows:LastRows")
@dataclass(frozen=True, slots=True)
class LastRows(WindowTraits):
    """The last rows of a key by event time, ``size`` of them."""

    depends_on_key = True
    may_close = False

    size: int

    def __str__(self) -> str:
        return f"the last {self.size} rows" if self.size > 1 else "the last row"


@tagged("core.eventtime.windows:Given")
@dataclass(frozen=True, slots=True)
class Given(WindowTraits):
    """The windows that are in the columns already, as in the panes of a view."""

    is_given = True
    needs_event_time = False

    def __str__(self) -> str:
        return "the windows that are given"


@tagged("core.eventtime.windows:Custom")
@dataclass(frozen=True, slots=True)
class Custom(WindowTraits):
    """Windows by a user's functions from frames to frames of the same height, see ``AssignWindows`` and ``Merged``."""

    needs_event_time = False
    may_merge = True

    assign: Assignment
    merge: Assignment | None = None

    @property
    def depends_on_key(self) -> bool:
        """Return whether windows of a key are merged."""
        return self.merged_by_user

    @property
    def functions(self) -> tuple[Assignment, Assignment | None]:
        """Return them."""
        return self.assign, self.merge

    @property
    def merged_by_user(self) -> bool:
        """Return whether there is a function that merges them."""
        return self.merge is not None

    @property
    def assigned_by_user(self) -> Assignment:
        """Return the function."""
        return self.assign

    def __str__(self) -> str:
        merged = f", merged by {_named(self.merge)}" if self.merge else ""
        return f"windows by {_named(self.assign)}{merged}"


def _from(offset: int) -> str:
    return f" from {spelled(offset)} on" if offset else ""


def _named(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


Window = Global | Fixed | Sliding | Sessions | Calendar | Count | LastRows | Given | Custom


def key_phases(columns: Sequence[pl.Series], size: int) -> Ints:
    """Return how far the fixed windows of each key are shifted, in [0, size), by the value of the key alone."""
    height = len(columns[0]) if columns else 0
    return (stable_words(columns, height) % np.uint64(size)).astype(np.int64)


def assign(window: Window, times: Ints, phases: Ints | None = None) -> tuple[Index | None, Ints, Ints]:
    """Return the windows into which instants fall: the position of the instant of each window, its start, its end.

    None in place of positions means one window for each, in order. The windows of one instant ascend. ``phases`` shift the
    windows of ``Fixed``, instant by instant. Cost: linear in the windows; of ``Calendar``, also in the days.
    """
    match window:
        case Global():
            return None, np.full(len(times), START_OF_TIME), np.full(len(times), END_OF_TIME)
        case Fixed(size):
            starts = times - _since_start(window, times, phases)
            return None, starts, starts + size
        case Sliding(size, period):
            return _sliding(size, period, times, _since_start(window, times, None))
        case Sessions(gap):
            return None, times, times + gap
        case Calendar(every, time_zone):
            return None, *calendar_steps(every, time_zone, times)
        case Count() | LastRows():
            return None, times, times + 1
        case _:
            raise TypeError(f"the windows of {window} do not follow from an instant alone")


def last_window(window: Window, times: Ints, starts: Ints) -> Mask:
    """Return whether a window is the last one of its instant: if it is closed, all windows of the row are."""
    if isinstance(window, Sliding):
        last: Mask = times - starts < window.period
        return last
    return np.ones(len(times), np.bool_)


def last_end_of(window: Window) -> Callable[[Ints], Ints] | None:
    """Return a function for the end of each instant's last window; None if an instant is in one window at most.

    When the last window is closed, all windows of the row are.
    """
    match window:
        case Sliding(size):
            return lambda times: times - _since_start(window, times, None) + size
        case _:
            return None


def _since_start(window: Fixed | Sliding, times: Ints, phases: Ints | None) -> Ints:
    """Return the time since the start of the last window: (t - offset - phase) mod period."""
    period = window.size if isinstance(window, Fixed) else window.period
    shifted = times - window.offset % period
    since: Ints = np.mod(shifted if phases is None else shifted - phases, period)
    return since


def _sliding(size: int, period: int, times: Ints, since: Ints) -> tuple[Index | None, Ints, Ints]:
    last = times - since
    if size % period:
        # Rows with so little time left before the next start are in one window less, or in none.
        counts = (size - 1 - since) // period + 1
        numbers, rows = expand(np.zeros(len(times), np.intp), counts)
        starts = last[rows] - (counts[rows] - 1 - numbers) * period
        return rows, starts, starts + size
    count = size // period
    if count == 1:
        return None, last, last + size
    starts = (last[:, None] - np.arange(count - 1, -1, -1) * period).ravel()
    return np.repeat(np.arange(len(times)), count), starts, starts + size


def instants_of(where: str, column: pl.Series, shift: int = 0) -> Ints:
    """Return the instants in a column of dates or datetimes, plus ``shift``.

    Raises:
        InputError: there is a null, or an instant too far from 1970 to compute with; names the column and the remedy.
    """
    instants, usable = instants_in(column)
    if usable is None:
        return instants + shift if shift else instants
    if column.has_nulls():
        raise InputError(
            f"{where}: column {column.name!r} is null in {counted(column.null_count())}, and a row without event time"
            f" is in no window; leave them out with .filter(pl.col({column.name!r}).is_not_null()) first"
        )
    far = physical(column)[np.argmin(usable)]
    raise InputError(
        f"{where}: column {column.name!r} has the event time {far} ({column.dtype}, counted from 1970), which is too far"
        " away to compute with; leave such rows out first"
    )


def windowed_schema(schema: pl.Schema, window: Window, event_time: str) -> pl.Schema:
    """Return the columns of rows with their windows: two more, or those of that name replaced in place."""
    if window.is_global or window.is_given:
        return schema
    dtype = schema.get(event_time)
    bound = pl.Datetime("us", dtype.time_zone if isinstance(dtype, pl.Datetime) else None)
    return pl.Schema({**schema, WINDOW_START: bound, WINDOW_END: bound})
