"""The operator that adds to each row the windows that it falls into, and the check of those that a user's function gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME, Now
from ...data.columns.kernels import MANY_ROWS, Index, Ints, gather, series_of
from ...data.delta import Delta
from ...data.errors import InputError, first_line
from ...data.instants import shown
from ...data.repeated import RepeatedDelta, Repeats
from ...data.schema import counted, listed
from ...data.tags import tagged
from ...state.operator_contract import Operator
from .kinds import WINDOW_END, WINDOW_START, Assignment, Regular, Window, assign, instants_of


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
        if window.calendar is not None:
            self._window = window.in_zone(self._bound_type.time_zone)

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
        if (function := self._window.assigned_by_user) is not None:
            return self._with_bounds(delta, None, *self._by_function(function, delta.rows))
        times = instants_of(self._where, series_of(delta.column(self._event_time)), self._shift)
        regular = self._window.regular if self._window.is_sliding and len(delta) > MANY_ROWS else None
        if regular is not None and not regular.size % regular.period:
            return self._repeated(delta, regular, times)
        rows, starts, ends = assign(self._window, times, self._phases(delta))
        if not len(starts):
            return self._nothing
        self._forbid_far_bounds(starts, ends)
        dtype = self._bound_type
        return self._with_bounds(delta, rows, pl.Series(starts).cast(dtype), pl.Series(ends).cast(dtype))

    def _repeated(self, delta: Delta, window: Regular, times: Ints) -> Delta:
        """Return each row in its last window, and that it is in those before it."""
        repeats = Repeats((WINDOW_START, WINDOW_END), window.size // window.period, window.period)
        starts = times - np.mod(times - window.offset % window.period, window.period)
        ends, dtype = starts + window.size, self._bound_type
        self._forbid_far_bounds(starts - (window.size - window.period), ends)
        bounds = pl.Series(starts).cast(dtype), pl.Series(ends).cast(dtype)
        return RepeatedDelta(self._with_bounds(delta, None, *bounds), repeats)

    def _phases(self, delta: Delta) -> Ints | None:
        return self._window.phases([*map(series_of, delta.columns(self._keys))]) if self._keys else None

    def _forbid_missing_bounds(self, frame: pl.DataFrame) -> None:
        for name in (WINDOW_START, WINDOW_END):
            if nulls := frame.get_column(name).null_count():
                raise InputError(
                    f"{self._where}: column {name!r} is null in {counted(nulls)}, which are in no window; nothing has changed. "
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
        # Rows that differ only in the replaced windows may be one row now.
        apart = delta.is_consolidated and WINDOW_START not in delta.names and WINDOW_END not in delta.names
        if rows is not None:
            delta = Delta(gather(delta.frame, rows))
        bounds = {WINDOW_START: starts.alias(WINDOW_START), WINDOW_END: ends.alias(WINDOW_END)}
        columns = {name: bounds[name] if name in bounds else delta.column(name) for name in self.schema}
        return Delta.of_mapping(columns, delta.diffs, is_consolidated=apart)

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
    remedy = (
        f"return a frame of {counted(frame.height)} with the columns {listed((WINDOW_START, WINDOW_END))}"
    )
    if not isinstance(windows, pl.DataFrame):
        library = type(windows).__module__.partition(".")[0]
        of_library = "" if library == "builtins" else f" of {library}"
        raise InputError(
            f"{where}: the function gave {type(windows).__name__}{of_library}; {remedy}, as a pl.DataFrame"
        )
    if windows.height != frame.height or not {WINDOW_START, WINDOW_END} <= set(windows.columns):
        shape = f"{counted(windows.height)} of {listed(windows.columns)}"
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
