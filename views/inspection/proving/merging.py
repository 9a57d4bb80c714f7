"""Windows that merge, as they are computed in a batch: of all rows at once, or around those that had closed before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from .windows import BOUNDS, UnprovableError, bound_type, instants_of_column, sessions_of

_KEY, _ROW, _AT, _START, _END = "#number", "#window", "#at", "#merged start", "#merged end"
_MERGED = [_START, _END]

Merge = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """What closed of windows that merge: all that ended by ``until``, in microseconds since 1970.

    ``windows`` are those of the view, by key and bounds; None where there is no view of them. ``report`` gets those of them that were
    followed.
    """

    until: int
    windows: pl.DataFrame | None
    report: Callable[[pl.DataFrame], None]


def in_sessions(frame: pl.DataFrame, keys: pl.DataFrame, gap: int, closed: Closed | None) -> pl.DataFrame:
    """Return rows with the bounds of the sessions of their keys: a new one begins after a gap. See ``in_merged``."""
    return in_merged(frame, keys, lambda windows: sessions_of(windows, keys.columns, gap), closed)


def in_merged(frame: pl.DataFrame, keys: pl.DataFrame, merge: Merge, closed: Closed | None) -> pl.DataFrame:
    """Return rows with the bounds of the windows into which a function merges those that they have.

    ``keys`` has the key of each row. The rows of a window that closed are purged, and those that come later are merged without it.
    In which order they came the rows do not show; so a window that has closed is followed where the function merges
    otherwise, if it gives that window to the rows within it alone. Cost: a call for all keys, and two more for each window
    that is followed, of the key that has most of them.

    Raises:
        UnprovableError: a window may have closed before rows came that belong to it, and there is no view that shows it.
    """
    if not frame.height:
        return frame
    shown = closed.windows if closed is not None else None
    own_keys = keys if keys.width else pl.DataFrame(height=frame.height)
    numbers = _numbers(own_keys, None if shown is None else shown.select(keys.columns))
    rows = frame.select(BOUNDS).with_columns(numbers.head(frame.height).alias(_KEY)).with_row_index(_AT)
    own = rows.group_by(_KEY, *BOUNDS).agg(pl.col(_AT)).sort(_KEY, *BOUNDS).with_row_index(_ROW)
    of_keys = keys[own.get_column(_AT).list.first()].get_columns() if keys.width else []
    windows = pl.DataFrame([*own.select(_KEY, _ROW), *of_keys, *own.select(BOUNDS)])
    function = _Function(merge)
    merged = function(windows)
    if closed is not None and shown is None:
        _require_open(merged, closed.until)
    elif closed is not None and shown is not None and shown.height:
        numbered = shown.select(BOUNDS).with_columns(numbers.tail(shown.height).alias(_KEY))
        merged, before = _around(function, merged, numbered)
        if before.height:
            closed.report(before.select(*keys.columns, *BOUNDS))
    placed = own.select(_ROW, _AT).join(merged.select(_ROW, *_MERGED), on=_ROW)
    bounds = placed.explode(_AT, empty_as_null=False).sort(_AT)
    return frame.with_columns(
        bounds.get_column(each).alias(name) for each, name in zip(_MERGED, BOUNDS, strict=True)
    )


def _require_open(merged: pl.DataFrame, until: int) -> None:
    """Require that no window may have closed before all of its rows came."""
    end = pl.col(BOUNDS[1]).to_physical()
    may_have = merged.group_by(_KEY, *_MERGED).agg((end.min() <= until).alias("may"), pl.len().alias("own"))
    if may_have.filter(pl.col("may"), pl.col("own") > 1).height:
        raise UnprovableError(
            "windows may have closed before rows came that would be merged into them, and there is no view of their panes"
            " that shows it; declare one"
        )


class _Function:
    """A function that merges windows, called with those of some keys."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge

    def __call__(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return windows with the bounds of those into which they are merged."""
        if not windows.height:
            return windows.with_columns(pl.col(BOUNDS[0]).alias(_START), pl.col(BOUNDS[1]).alias(_END))
        result: Any = self._merge(windows.drop(_ROW, _KEY))
        if not isinstance(result, pl.DataFrame) or result.height != windows.height:
            raise UnprovableError("the function that merges windows does not give one for each")
        bound = bound_type(windows.schema[BOUNDS[0]])
        return windows.with_columns(
            instants_of_column(result.get_column(name)).cast(bound).alias(merged)
            for name, merged in zip(BOUNDS, _MERGED, strict=True)
        )


def _around(
    function: _Function, merged: pl.DataFrame, closed: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the windows merged around those that had closed before, and one row of each of these."""
    by = [_KEY, *_MERGED]
    closed = closed.rename(dict(zip(BOUNDS, _MERGED, strict=True))).unique()
    followed = [merged.clear()]
    tried = closed.clear()
    left = closed.join(merged, on=by, how="anti")
    while left.height:
        first = left.sort(_KEY, _END, _START).unique(_KEY, keep="first", maintain_order=True)
        tried = pl.concat([tried, first.select(tried.columns)])
        within = merged.drop(_MERGED).join(first, on=_KEY, maintain_order="left")
        is_within = (pl.col(BOUNDS[0]) >= pl.col(_START)) & (pl.col(BOUNDS[1]) <= pl.col(_END))
        alone = function(within.filter(is_within).drop(_MERGED))
        alone = alone.join(first, on=by, how="semi", maintain_order="left")
        followed.append(alone)
        without = merged.join(alone, on=_ROW, how="anti", maintain_order="left")
        is_touched = pl.col(_KEY).is_in(alone.get_column(_KEY).unique().implode())
        again = function(without.filter(is_touched).drop(_MERGED))
        merged = pl.concat([without.filter(~is_touched), again])
        left = closed.join(tried, on=by, how="anti").join(merged, on=by, how="anti")
    rows = pl.concat(followed)
    windows = (
        rows.unique(by, maintain_order=True).drop(BOUNDS).rename(dict(zip(_MERGED, BOUNDS, strict=True)))
    )
    return pl.concat([merged, rows]), windows


def _numbers(keys: pl.DataFrame, others: pl.DataFrame | None) -> pl.Series:
    """Return a number for each key of both frames, the same for the same one; NaN and null are values like others."""
    height = keys.height + (0 if others is None else others.height)
    if not keys.width:
        return pl.repeat(0, height, dtype=pl.UInt32, eager=True)
    both = keys if others is None else pl.concat([keys, others])
    numbered = both.with_row_index(_AT).group_by(keys.columns, maintain_order=True).agg(pl.col(_AT))
    places = numbered.select(pl.col(_AT)).with_row_index(_KEY).explode(_AT, empty_as_null=False).sort(_AT)
    return places.get_column(_KEY)
