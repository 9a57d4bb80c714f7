"""Rows that are in several windows are added up once: the sums of a period are then added to each of its windows."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...data.delta import Delta
from ...data.repeated import RepeatedDelta


def sums_of_windows(
    delta: RepeatedDelta,
    keys: Collection[str],
    read: Collection[str | None],
    combine: Callable[[Delta], Delta | None],
) -> Delta:
    """Return the change with its rows added up by group before they are written out for each of their windows.

    ``combine`` adds up rows by these key columns, and ``read`` are the columns that it adds up. A change whose rows
    differ in other columns than keys is returned as it is. Cost: the rows, once, and their groups in each window.
    """
    windows = set(delta.repeats.columns)
    sums = None if windows.difference(keys) or windows.intersection(read) else combine(delta.once)
    return delta if sums is None else delta.repeats.written_out(sums)
