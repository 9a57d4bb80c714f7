"""Windows that depend on the other rows of a key: counted, the last rows, merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import polars as pl

from ...data.columns.grouping import group
from ...data.columns.json_texts import shown_row
from ...data.columns.kernels import Index, Ints, Keys, Mask, expand, gather, key_words, physical
from ...data.errors import InputError
from ...data.instants import shown
from ...data.schema import Order, listed
from ...data.tags import tagged
from ...state.lookup import KeyRows, rows_change
from ...state.negative_counts import NeverBelowZero, counts_of_retracted
from ...state.per_key import PerKey
from ...state.ranked_runs import ValueRuns
from ...state.run import Layout
from ...state.spine import Spine
from .assign_windows import bounds_by_function
from .changed_windows import changed_windows, places_before
from .kinds import WINDOW_END, WINDOW_START, Count, Custom, LastRows, Window, WindowTraits


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """The assignment of rows to windows: positions of the rows, bounds, and counts."""

    positions: Index
    starts: Ints
    ends: Ints
    diffs: Ints


class Rewindow(ABC):
    """A function that makes windows of one kind of all rows of some keys, as of one moment."""

    last_first: ClassVar[bool] = False
    """Whether it needs the rows of a key from the last to the first."""

    ends_by_rank: ClassVar[bool] = False
    """Whether the end of a window depends on how many of its key start at the same instant before it."""

    count: int | None = None
    """The number of rows that it needs of each key, the first in the order of ``layout_of``; None for all."""

    @abstractmethod
    def __init__(self, where: str, window: Any, keys: Mapping[str, str]) -> None:
        """Make it for windows by these keys, of the kind that it is for. ``keys`` has the column of rows that holds each."""

    @abstractmethod
    def __call__(self, rows: KeyRows) -> Rewritten:
        """Return the rows with their windows."""

    def rows_change(self, arrangement: Spine, keys: Keys) -> tuple[KeyRows, KeyRows]:
        """Return the rows of these keys before the epoch and after it, without such as are in the same windows in both."""
        return rows_change(arrangement, keys, self.count)

    def check(self, rows: KeyRows, rewritten: Rewritten) -> None:  # noqa: B027 - most need no check
        """Check that the windows which were made of these rows follow from the rows of each key. Raises if they do not."""


MadeOf = TypeVar("MadeOf", bound=type[Rewindow])

REWINDOWS: dict[type[WindowTraits], type[Rewindow]] = {}
"""The functions of all kinds of windows that depend on the other rows of their key: see ``rewindow_of``."""


def rewindow_of(kind: type[WindowTraits]) -> Callable[[MadeOf], MadeOf]:
    """Register the class of functions that make windows of a kind."""

    def remember(made_by: MadeOf) -> MadeOf:
        REWINDOWS[kind] = made_by
        return made_by

    return remember


def rewindow(where: str, window: Window, keys: Sequence[str] | Mapping[str, str]) -> Rewindow:
    """Return the function that makes windows of this kind, which ``depends_on_key``, from the rows of a key.

    A mapping gives the columns of the rows that hold the keys, if they have other names.
    """
    columns = keys if isinstance(keys, Mapping) else dict(zip(keys, keys, strict=True))
    return REWINDOWS[type(window)](where, window, columns)


def layout_of(window: Window, schema: pl.Schema) -> Layout:
    """Return the arrangement of rows by key: by window, then by the whole row; the last rows first for some kinds."""
    last_first = REWINDOWS[type(window)].last_first
    bounds = (WINDOW_START, WINDOW_END)
    others = [name for name, dtype in schema.items() if name not in bounds and not dtype.is_nested()]
    order = tuple(Order(name, last_first, last_first) for name in (*bounds, *others))
    return Layout(schema, by_row=True, order=order)


@tagged("core.eventtime.rewindow:WindowByKey")
class WindowByKey(PerKey):
    """Emits the rows of each key in windows that depend on all rows of the key.

        out(A) = rewindow(rows of A by key)

    The input has a first window in ``window_start`` and ``window_end`` (``AssignWindows``), the output has both
    columns rewritten. State: the arrangement that it reads, by ``keys`` and in the order of ``layout_of``; nothing is
    kept per window. A row with diff n is n rows, which may be in different windows. No row has a negative count: the input
    guarantees that, or ``never_below_zero`` refuses the epoch.
    Cost: all rows of each key touched; for ``LastRows`` the last ones, for ``Count`` those from the first window that changes on.
    """

    def __init__(
        self,
        schema: pl.Schema,
        arrangement: Spine,
        function: Rewindow,
        never_below_zero: NeverBelowZero | None = None,
    ) -> None:
        super().__init__(schema, arrangement, function.count)
        self._function = function
        self._never_below_zero = never_below_zero

    def rows_change(self, arrangement: Spine, keys: Keys) -> tuple[KeyRows, KeyRows]:
        """See ``PerKey``."""
        return self._function.rows_change(arrangement, keys)

    def check(self, arrangement: Spine) -> None:
        """Refuse the epoch if the count of a row would become negative."""
        if self._never_below_zero is not None:
            self._never_below_zero.require(*counts_of_retracted(arrangement))

    def made_of(self, rows: KeyRows) -> tuple[pl.DataFrame, Ints]:
        """Return the rows in their windows."""
        if not len(rows.diffs):
            return self.schema.to_frame(), rows.diffs
        rewritten = self._function(rows)
        self._function.check(rows, rewritten)
        windowed = gather(rows.payload, rewritten.positions)
        columns = {column.name: column for column in windowed.get_columns()}
        for name, bounds in ((WINDOW_START, rewritten.starts), (WINDOW_END, rewritten.ends)):
            columns[name] = pl.Series(name, bounds).cast(self.schema[name])
        return pl.DataFrame([columns[name] for name in self.schema]), rewritten.diffs


@rewindow_of(Count)
class Counted(Rewindow):
    """The rows of a key in order of event time, then of the row, ``size`` at a time; the last window may have fewer.

        window_start = first event time,   window_end = last event time + 1 us

    Windows of a key that start at the same instant end one microsecond later each, as they would be one otherwise.
    """

    ends_by_rank = True

    def __init__(self, where: str, window: Count, keys: Mapping[str, str]) -> None:
        self._size = window.size
        self._value_runs = ValueRuns(WINDOW_START)

    def rows_change(self, arrangement: Spine, keys: Keys) -> tuple[KeyRows, KeyRows]:
        """See ``Rewindow``: those from the start of the first window on in which a row comes or goes."""
        return changed_windows(arrangement, keys, self._value_runs, self._size)

    def __call__(self, rows: KeyRows) -> Rewritten:
        """Return the rows in their windows; a row with a count above one may be divided."""
        size, (times, _) = self._size, bounds_of(rows)
        places = places_before(rows)
        first, last = places // size, (places + rows.diffs - 1) // size
        numbers, positions = expand(first, last + 1)
        low = np.maximum(places[positions], numbers * size)
        high = np.minimum((places + rows.diffs)[positions], (numbers + 1) * size)
        owners = rows.owners[positions]
        begins = np.flatnonzero(_differs(owners, numbers))
        lengths = np.diff(begins, append=len(positions))
        starts = times[positions[begins]]
        ends = times[positions[begins + lengths - 1]] + 1
        ends = np.maximum(ends, starts + 1 + _ranks(_differs(owners[begins], starts)))
        return Rewritten(positions, np.repeat(starts, lengths), np.repeat(ends, lengths), high - low)


@rewindow_of(LastRows)
class TheLast(Rewindow):
    """The last rows of a key by event time, then by the row, as one window; earlier rows are in none.

    window_start = first event time of these,   window_end = last event time + 1 us
    """

    last_first = True

    def __init__(self, where: str, window: LastRows, keys: Mapping[str, str]) -> None:
        self.count = window.size

    def __call__(self, rows: KeyRows) -> Rewritten:
        """Return the rows in the window of their key; they were read from the last to the first."""
        times, _ = bounds_of(rows)
        begins = np.flatnonzero(_differs(rows.owners))
        lengths = np.diff(begins, append=len(times))
        starts = np.repeat(times[begins + lengths - 1], lengths)
        ends = np.repeat(times[begins] + 1, lengths)
        return Rewritten(np.arange(len(times)), starts, ends, rows.diffs)


@rewindow_of(Custom)
class Merged(Rewindow):
    """The windows of a key, merged by a user's function.

    The function gets a frame of different windows: the columns of the keys, ``window_start`` and ``window_end``. Those
    of a key stand together, by start and then by end; there may be many keys. It returns a frame of the same height
    whose ``window_start`` and ``window_end`` are those of the window that each has become, as ``merge_overlapping``.
    A function that is not ``merge_overlapping`` is called again with every other key, and with the rest (``check``).

    Raises:
        InputError: the function fails, or returns something else.
    """

    def __init__(self, where: str, window: Custom, keys: Mapping[str, str]) -> None:
        assert window.merge is not None, "without merge there is nothing to do"
        self._where = f"{where}: merge"
        self._keys = keys
        self._merge = window.merge

    def __call__(self, rows: KeyRows) -> Rewritten:
        """Return the rows in merged windows."""
        differs = _differs(rows.owners, *bounds_of(rows))
        starts, ends = self._bounds(self._windows(rows, np.flatnonzero(differs)))
        number = np.cumsum(differs) - 1
        return Rewritten(np.arange(len(differs)), starts[number], ends[number], rows.diffs)

    def check(self, rows: KeyRows, rewritten: Rewritten) -> None:
        """Check that the function gives every other key, and then the rest, the same windows without those between them.

        This finds a function that forgets ``.over(...)`` the key, or that gives something else whenever it is called. What
        it would have given before could not be taken back.

        Raises:
            InputError: it gives others; names a window.
        """
        if self._merge is merge_overlapping or not len(rows.diffs):
            return
        owners = rows.owners
        first = np.flatnonzero(_differs(owners, *bounds_of(rows)))
        is_odd = (np.cumsum(_differs(owners)) - 1)[first] % 2 == 1
        for places in (first[~is_odd], first[is_odd]):
            if not len(places):
                continue
            windows = self._windows(rows, places)
            starts, ends = self._bounds(windows)
            differs = np.flatnonzero((starts != rewritten.starts[places]) | (ends != rewritten.ends[places]))
            if len(differs):
                at = int(differs[0])
                before, after = (
                    f"from {shown(int(start))} to {shown(int(end))}"
                    for start, end in (
                        (rewritten.starts[places[at]], rewritten.ends[places[at]]),
                        (starts[at], ends[at]),
                    )
                )
                raise InputError(
                    f"{self._where}: the function gave {shown_row(windows, at)} the window {before}, and called again,"
                    f" without other keys, {after}; nothing has changed. {self._remedy}"
                )

    @property
    def _remedy(self) -> str:
        by = f": compute what it returns .over({listed(self._keys)})" if self._keys else ""
        return f"What a window is merged into must follow from the windows of its key and nothing else{by}"

    def _windows(self, rows: KeyRows, places: Index) -> pl.DataFrame:
        columns = [rows.payload.get_column(held_in).alias(key) for key, held_in in self._keys.items()]
        bounds = rows.payload.select(WINDOW_START, WINDOW_END).get_columns()
        return gather(pl.DataFrame([*columns, *bounds]), places)

    def _bounds(self, windows: pl.DataFrame) -> tuple[Ints, Ints]:
        dtype = windows.schema[WINDOW_START]
        assert isinstance(dtype, pl.Datetime)
        starts, ends = bounds_by_function(self._where, self._merge, windows, dtype)
        return physical(starts), physical(ends)


@tagged("core.eventtime.rewindow:merge_overlapping")
def merge_overlapping(windows: pl.DataFrame) -> pl.DataFrame:
    """Merge windows of a key that have an instant in common, as sessions merge from their proto-sessions.

    Windows that only touch stay apart. All columns but ``window_start`` and ``window_end`` are the key.

    >>> from datetime import datetime
    >>> hours = [(9, 11), (10, 12), (12, 13)]
    >>> day = [(datetime(2026, 1, 1, start), datetime(2026, 1, 1, end)) for start, end in hours]
    >>> windows = pl.DataFrame(day, schema=["window_start", "window_end"], orient="row")
    >>> [(row["window_start"].hour, row["window_end"].hour) for row in merge_overlapping(windows).to_dicts()]
    [(9, 12), (9, 12), (12, 13)]
    """
    if not windows.height:
        return windows
    keys = [column for column in windows.get_columns() if column.name not in (WINDOW_START, WINDOW_END)]
    starts, ends = (physical(windows.get_column(name)) for name in (WINDOW_START, WINDOW_END))
    owners = group(key_words(keys, windows.height)).numbers
    is_sorted = not (_precedes(owners, starts)).any()
    order = np.arange(windows.height) if is_sorted else np.lexsort((ends, starts, owners))
    owners, starts, ends = owners[order], starts[order], ends[order]
    reached = _greatest_so_far(owners, ends)
    begins = _differs(owners)
    begins[1:] |= starts[1:] >= reached[:-1]
    first = np.flatnonzero(begins)
    lengths = np.diff(first, append=len(starts))
    merged = np.empty((2, windows.height), np.int64)
    merged[:, order] = np.repeat(starts[first], lengths), np.repeat(reached[first + lengths - 1], lengths)
    return windows.with_columns(
        pl.Series(name, bounds).cast(windows.schema[name])
        for name, bounds in zip((WINDOW_START, WINDOW_END), merged, strict=True)
    )


def _precedes(owners: Index, starts: Ints) -> Mask:
    """Return which entries come after one that they precede in the order of owners and then of starts."""
    precedes: Mask = (owners[1:] < owners[:-1]) | ((owners[1:] == owners[:-1]) & (starts[1:] < starts[:-1]))
    return precedes


def _greatest_so_far(owners: Index, values: Ints) -> Ints:
    """Return the greatest value up to each entry among those of its owner; owners stand together and ascend."""
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span * (int(owners[-1]) + 1) < 2**63:
        begin = owners * span - least
        return np.maximum.accumulate(begin + values) - begin
    distinct, ranks = np.unique(values, return_inverse=True)
    greatest: Ints = distinct[np.maximum.accumulate(owners * len(distinct) + ranks) - owners * len(distinct)]
    return greatest


def bounds_of(rows: KeyRows) -> tuple[Ints, Ints]:
    """Return the bounds of the windows with which rows are kept, their own ones."""
    return physical(rows.payload.get_column(WINDOW_START)), physical(rows.payload.get_column(WINDOW_END))


def _differs(*columns: Ints | Index) -> Mask:
    """Return where one of these columns differs from the entry before; true for the first."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def _ranks(begins: Mask) -> Ints:
    """Return the place of each entry in its stretch, from 0, given where stretches begin."""
    places = np.arange(len(begins))
    return places - np.maximum.accumulate(np.where(begins, places, 0))
