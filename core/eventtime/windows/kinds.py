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

from ...columns.kernels import MANY_ROWS, Index, Ints, Mask, expand, gather, physical
from ...columns.stable_hash import stable_words
from ...data.calendar_days import calendar_steps
from ...data.clock import END_OF_TIME, START_OF_TIME, Now
from ...data.delta import Delta
from ...data.errors import InputError, first_line
from ...data.instants import instants_in, shown, spelled
from ...data.repeated import RepeatedDelta, Repeats
from ...data.schema import DIFF, listed
from ...data.tags import tagged
from ...state.operator_contract import Operator

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns that hold the window of a row."""


class Regular(NamedTuple):
    """Windows of one size that start once a period, in microseconds: at ``offset``, and a whole number of periods from it."""

    size: int
    period: int
    offset: int


Assignment = Callable[[pl.DataFrame], pl.DataFrame]
"""A user's function from a frame to one of the same height, with the bounds of a window for each row."""


class WindowTraits:
    """What is asked of windows of any kind, with the answers of those that follow from the instant of a row alone.

    Windows print themselves in words, for labels and messages.
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

    def __str__(self) -> str:
        shifted = ", shifted by key" if self.shifted_by_key else ""
        return f"fixed windows of {spelled(self.size)}{_from(self.offset)}{shifted}"


@tagged("core.eventtime.windows:Sliding")
@dataclass(frozen=True, slots=True)
class Sliding(WindowTraits):
    """Windows of one size that start once a period; a row is in each of them that contains its instant."""

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
            f"{where}: column {column.name!r} is null in {column.null_count()} rows, and a row without event time"
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
    dtype = schema[event_time]
    bound = pl.Datetime("us", dtype.time_zone if isinstance(dtype, pl.Datetime) else None)
    return pl.Schema({**schema, WINDOW_START: bound, WINDOW_END: bound})


@tagged("core.eventtime.windows:AssignWindows")
class AssignWindows(Operator):
    """Adds to each row the windows it falls into, in the columns ``window_start`` and ``window_end``; a row for each window.

        f(A + B) = f(A) + f(B)

    ``schema`` is the ``windowed_schema`` of the input, whose columns may come in any order. The instant of a row is its
    ``event_time`` plus ``shift_us``. ``keys`` are the columns by which ``Fixed.shifted_by_key`` shifts. The
    function of ``Custom`` gets the rows and returns, row by row, a frame with the two columns, of the same height.
    No state. Cost: the rows and their copies. Raises ``InputError`` for instants that are null or too far from 1970, and if
    a user's function fails.
    """

    def __init__(
        self,
        where: str,
        schema: pl.Schema,
        window: Window,
        event_time: str,
        shift_us: int = 0,
        *,
        keys: Sequence[str] | None = None,
    ) -> None:
        self.schema = schema
        self._where = where
        self._window = window
        self._event_time = event_time
        self._shift = shift_us
        assert not window.shifted_by_key or keys is not None, "windows that are shifted by key need the keys"
        self._keys = tuple(keys or ()) if window.shifted_by_key else ()
        self._nothing = Delta.empty(schema)
        if isinstance(window, Calendar) and window.time_zone is None:
            self._window = Calendar(window.every, self._bound_type.time_zone)

    @property
    def _bound_type(self) -> pl.Datetime:
        dtype = self.schema[WINDOW_START]
        assert isinstance(dtype, pl.Datetime)
        return dtype

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change, each row with its windows."""
        (delta,) = deltas
        if self._window.is_global:
            return delta
        if not len(delta):
            return self._nothing
        if self._window.is_given:
            self._forbid_missing_bounds(delta.frame)
            return delta
        if isinstance(self._window, Custom):
            return self._with_bounds(delta, None, *self._by_function(self._window.assign, delta.rows))
        times = instants_of(self._where, delta.frame.get_column(self._event_time), self._shift)
        if (
            isinstance(self._window, Sliding)
            and len(delta) > MANY_ROWS
            and not self._window.size % self._window.period
        ):
            return self._repeated(delta, self._window, times)
        rows, starts, ends = assign(self._window, times, self._phases(delta.frame))
        if not len(starts):
            return self._nothing
        self._forbid_far_bounds(starts, ends)
        dtype = self._bound_type
        return self._with_bounds(delta, rows, pl.Series(starts).cast(dtype), pl.Series(ends).cast(dtype))

    def _repeated(self, delta: Delta, window: Sliding, times: Ints) -> Delta:
        """Return each row in its last window, and that it is in those before it."""
        repeats = Repeats((WINDOW_START, WINDOW_END), window.size // window.period, window.period)
        starts = times - _since_start(window, times, None)
        ends, dtype = starts + window.size, self._bound_type
        self._forbid_far_bounds(starts - (window.size - window.period), ends)
        bounds = pl.Series(starts).cast(dtype), pl.Series(ends).cast(dtype)
        return RepeatedDelta(self._with_bounds(delta, None, *bounds), repeats)

    def _phases(self, frame: pl.DataFrame) -> Ints | None:
        if not (isinstance(self._window, Fixed) and self._keys):
            return None
        return key_phases([frame.get_column(name) for name in self._keys], self._window.size)

    def _forbid_missing_bounds(self, frame: pl.DataFrame) -> None:
        for name in (WINDOW_START, WINDOW_END):
            if nulls := frame.get_column(name).null_count():
                raise InputError(
                    f"{self._where}: column {name!r} is null in {nulls} rows, which are in no window; nothing has changed. "
                    "Leave such rows out first, with .filter(...)"
                )

    def _forbid_far_bounds(self, starts: Ints, ends: Ints) -> None:
        first, last = int(starts.min()), int(ends.max())
        if first <= START_OF_TIME or last >= END_OF_TIME:
            raise InputError(
                f"{self._where}: column {self._event_time!r} has an event time whose window is too far away to compute"
                f" with: windows from {shown(first)} to {shown(last)}; leave such rows out first"
            )

    def _with_bounds(self, delta: Delta, rows: Index | None, starts: pl.Series, ends: pl.Series) -> Delta:
        frame = delta.frame if rows is None else gather(delta.frame, rows)
        columns = {column.name: column for column in frame.get_columns()}
        # Rows that differ only in the replaced windows may be one row now.
        apart = delta.is_consolidated and WINDOW_START not in columns and WINDOW_END not in columns
        columns |= {WINDOW_START: starts.alias(WINDOW_START), WINDOW_END: ends.alias(WINDOW_END)}
        return Delta(pl.DataFrame([columns[name] for name in (*self.schema, DIFF)]), apart)

    def _by_function(self, function: Assignment, rows: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        return bounds_by_function(f"{self._where}: assign", function, rows, self._bound_type)


def bounds_by_function(
    where: str, function: Assignment, frame: pl.DataFrame, dtype: pl.Datetime
) -> tuple[pl.Series, pl.Series]:
    """Return the bounds that a user's function gives for each row of a frame, checked.

    Raises:
        InputError: the function raised, or gave something other than a window for each row.
    """
    try:
        windows = function(frame)
    except Exception as error:
        raise InputError(
            f"{where}: the function raised {type(error).__name__}: {first_line(error)}; nothing has changed"
        ) from error
    remedy = f"return a frame of {frame.height} rows with the columns {listed((WINDOW_START, WINDOW_END))}"
    if not isinstance(windows, pl.DataFrame):
        raise InputError(f"{where}: the function gave {type(windows).__name__}; {remedy}")
    if windows.height != frame.height or not {WINDOW_START, WINDOW_END} <= set(windows.columns):
        shape = f"{windows.height} rows of {listed(windows.columns)}"
        raise InputError(f"{where}: the function gave {shape}; {remedy}, in the same order")
    starts, ends = (_bound(where, windows.get_column(name), dtype) for name in (WINDOW_START, WINDOW_END))
    if bad := int((starts >= ends).sum()):
        raise InputError(
            f"{where}: {bad} windows end at their start or before; a window is [window_start, window_end)"
        )
    return starts, ends


def _bound(where: str, column: pl.Series, dtype: pl.Datetime) -> pl.Series:
    given_type = column.dtype
    if not (given_type == pl.Date or isinstance(given_type, pl.Datetime)):
        raise InputError(f"{where}: {column.name!r} is {given_type}; make it {dtype}")
    zone = given_type.time_zone if isinstance(given_type, pl.Datetime) else None
    if (zone is None) != (dtype.time_zone is None):
        raise InputError(
            f"{where}: {column.name!r} is {given_type}, event time is {dtype}; give both or none a time zone"
        )
    return pl.Series(column.name, instants_of(where, column)).cast(dtype)
