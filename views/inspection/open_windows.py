"""The open windows of a view as a frame, from which ``why`` and ``fire`` select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Index, Keys, Mask, gather, stack
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed
from evercurrent.core.eventtime.triggers.window_columns import END, OPEN, PENDING
from evercurrent.core.state.lookup import all_rows
from evercurrent.core.state.spine import Spine

from ..compiler.builder import Compiled
from ..connectors.nested_times import has_times
from ..connectors.pushed_frames import time_value
from ..plan.nodes import BOUNDS, PlanId
from ..plan.plan import Plan

NamesOf = Callable[[Keys], tuple[Mask, pl.DataFrame]]
"""Returns which of some windows have key columns that are kept, and these."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenWindows:
    """The open windows of a grouping: ``frame`` has keys and bounds, ``state`` the columns of state of each window.

    Those that are not ``named`` have no pane to emit: all rows of a window were retracted before it emitted one, or it has discarded
    them with its last one. Their keys and bounds are null, unless they can be chosen because their trigger awaits signals.
    """

    keys: Keys
    frame: pl.DataFrame
    state: dict[str, np.ndarray[Any, np.dtype[np.int64]]]
    is_named: Mask
    can_be_chosen: Mask

    def named(self) -> OpenWindows:
        """Return those that hold rows or have a pane."""
        return self._at(np.flatnonzero(self.is_named))

    def of(self, where: str, key: object, window: object) -> OpenWindows:
        """Return the windows with this key (None: any) and these bounds (None: any).

        Raises:
            InputError: the key or the window does not fit the columns.
        """
        names = [name for name in self.frame.columns if name not in BOUNDS]
        is_any = key is None and window is None
        is_chosen = pl.Series(np.ones(len(self.keys), np.bool_) if is_any else self.can_be_chosen)
        for name, value in key_values(where, names, key).items():
            column = self.frame.get_column(name)
            is_chosen &= column.eq_missing(literal_of(where, name, value, column.dtype))
        for name, value in zip(BOUNDS, bounds_of(where, window), strict=False):
            if name not in self.frame.columns:
                raise InputError(f"{where}: its one window covers all of time; leave out window=")
            column = self.frame.get_column(name)
            is_chosen &= column.eq_missing(literal_of(where, name, value, column.dtype))
        return self._at(np.flatnonzero(is_chosen.to_numpy()))

    def _at(self, places: Index) -> OpenWindows:
        state = {name: column[places] for name, column in self.state.items()}
        frame, is_named, can_be_chosen = (
            gather(self.frame, places),
            self.is_named[places],
            self.can_be_chosen[places],
        )
        return OpenWindows(self.keys.take(places), frame, state, is_named, can_be_chosen)


def open_windows(compiled: Compiled, plan: Plan, place: PlanId) -> OpenWindows:
    """Return all open windows of the grouping at this place. Cost: all of them.

    Where a trigger awaits signals, those that have discarded their rows are named.
    """
    tracker, group = compiled.trackers[place], compiled.groupings[place]
    run = tracker.spine.merged()
    is_open = np.flatnonzero(run.sums.get(OPEN, np.zeros(len(run), np.int64)))
    keys = run.keys.take(is_open)
    is_named, frame = group.are_named(keys), group.names(keys)
    if (panes := compiled.panes.get(place)) is not None:
        frame = _with_emitted_names(frame, panes.emitted, keys, is_named)
        frame = _with_counted_names(frame, panes.counted_names, keys, is_named)
    can_be_chosen = is_named.copy()
    if panes is not None:
        frame = _with_counted_names(frame, panes.emptied_names, keys, can_be_chosen)
    state = {name: column[is_open] for name, column in run.sums.items()}
    state = {name: state.get(name, np.zeros(len(keys), np.int64)) for name in (*state, END, PENDING)}
    schema = plan[place].schema
    if BOUNDS[1] in schema and BOUNDS[1] not in frame.columns:
        frame = frame.with_columns(pl.Series(BOUNDS[1], state[END]).cast(schema[BOUNDS[1]]))
    return OpenWindows(keys, frame, state, is_named, can_be_chosen)


def _with_emitted_names(frame: pl.DataFrame, emitted: Spine, keys: Keys, is_named: Mask) -> pl.DataFrame:
    """Return the key columns of windows, of those that are not named from the pane that they emitted: then they are.

    A group whose rows are all retracted is in no run once they are merged, and its pane is still to be retracted.
    """
    others = np.flatnonzero(~is_named)
    panes = all_rows(emitted, keys.take(others))
    if not len(panes.owners):
        return frame
    place = np.arange(len(keys))
    place[others[panes.owners]] = len(keys) + np.arange(len(panes.owners))
    is_named[others[panes.owners]] = True
    return gather(stack([frame, panes.payload.select(frame.columns)]), place)


def _with_counted_names(frame: pl.DataFrame, names_of: NamesOf, keys: Keys, is_named: Mask) -> pl.DataFrame:
    """Return the key columns of windows, of those that are not named as they are kept beside the counts of panes: then they are."""
    others = np.flatnonzero(~is_named)
    if not len(others):
        return frame
    is_counted, names = names_of(keys.take(others))
    counted = np.flatnonzero(is_counted)
    place = np.arange(len(keys))
    place[others[counted]] = len(keys) + np.arange(len(counted))
    is_named[others[counted]] = True
    return gather(stack([frame, gather(names, counted).select(frame.columns)]), place)


def key_values(where: str, names: list[str], key: object) -> dict[str, object]:
    """Return the values of a key by column, from a value, a tuple or a dictionary."""
    if key is None:
        return {}
    if isinstance(key, dict):
        if unknown := [name for name in key if name not in names]:
            raise InputError(f"{where}: unknown key {listed(unknown)}; the keys are {listed(names)}")
        return key
    values = key if isinstance(key, tuple | list) else (key,)
    if len(values) != len(names):
        some = (
            f"; give a dictionary with the values of some of them, as {{{names[0]!r}: ...}}" if names else ""
        )
        raise InputError(
            f"{where}: key {key!r} has {len(values)} {'value' if len(values) == 1 else 'values'}, for the keys {listed(names)}{some}"
        )
    return dict(zip(names, values, strict=True))


def bounds_of(where: str, window: object) -> tuple[object, ...]:
    """Return the bounds of a window: its start, or start and end; none if no window is given.

    Raises:
        InputError: there are more.
    """
    if window is None:
        return ()
    bounds = tuple(window) if isinstance(window, tuple | list) else (window,)
    if len(bounds) > len(BOUNDS):
        raise InputError(f"{where}: window {window!r}; give its start, or (start, end)")
    return bounds


def literal_of(where: str, name: str, value: object, dtype: pl.DataType) -> pl.Series:
    """Return a value as a literal of the column's type; 1.5 or "1" for a column of whole numbers is refused."""
    if has_times(dtype):
        return time_value(where, name, value, dtype)
    try:
        column = pl.Series(name, [value], dtype if value is None else None)
        literal = column.cast(dtype)
        is_same = dtype.is_float() or literal.cast(column.dtype).eq_missing(column).all()
        is_same = is_same and _kind(column.dtype) == _kind(dtype)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        is_same = False
    if not is_same:
        raise InputError(f"{where}: {name} {value!r} does not go with the column, which is {dtype}")
    return literal


def _kind(dtype: pl.DataType) -> object:
    """Return the kind of a type: values of one kind can be compared with each other."""
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "time of day" if dtype == pl.Time else "length"
    return pl.String if dtype in (pl.String, pl.Categorical, pl.Enum) else dtype.base_type()
