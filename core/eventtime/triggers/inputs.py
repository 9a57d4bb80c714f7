"""The inputs of each window's trigger from the rows of an epoch: how many came or went, sums of columns, patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.columns.grouping import consolidated_rows
from ...data.columns.kernels import Index, Ints, Mask, physical
from ...data.delta import Delta
from .firing import Merging
from .kinds import Trigger

MOST = 1 << 61
"""What a column is at most added up to in an epoch: a limit that is reached stays reached, and no sum wraps."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The inputs of triggers from the rows of an epoch, an entry for each window: see ``TriggerContext``."""

    rows: Ints
    sums: dict[str, Ints]
    patterns: dict[tuple[str, str], tuple[Mask, Mask, Mask, Mask]]


class TriggerInputs:
    """Computes the inputs of a trigger from rows.

    A column that the trigger adds up is an integer per row, under its name with ``prefix``. Windows that merge are
    identified by the last of the ``keys``.
    """

    def __init__(self, trigger: Trigger, prefix: str, keys: tuple[str, ...]) -> None:
        parts = list(trigger.every_part())
        self._sums = [name for part in parts for name in part.added_up]
        self._patterns = [names for part in parts for names in part.patterns]
        self._prefix = prefix
        self._keys = keys

    def of(self, rows: Delta, windows: Index, size: int, merging: Merging | None) -> Inputs:
        """Return the inputs of ``size`` windows from these rows; ``windows`` has the window of each row.

        For windows that merge, ``merging`` marks which rows have only moved with theirs: these do not count. Cost: the rows.
        """
        entries, diffs = self._news(rows, windows, merging)
        changed_windows, counts = windows[entries], np.abs(diffs)
        added = np.maximum(diffs, 0)
        return Inputs(
            rows=_sums(changed_windows, counts, size),
            sums={
                name: _bounded_sums(changed_windows, added, self._column(rows, name)[entries], size)
                for name in self._sums
            },
            patterns={
                names: self._pattern(names, rows, entries, diffs, changed_windows, size)
                for names in self._patterns
            },
        )

    def _column(self, rows: Delta, name: str) -> Ints:
        return physical(rows.column(self._prefix + name))

    def _news(self, rows: Delta, windows: Index, merging: Merging | None) -> tuple[Index, Ints]:
        """Return which entries are new for a window, and how many rows came or went; rows that moved with their session do not count.

        If a session may have been split, the new entries are rows that a window has now and did not have before, or the reverse.
        """
        if merging is None:
            return np.arange(len(rows)), rows.diffs
        arrivals = merging.arrivals
        if not merging.may_split:
            return np.arange(arrivals), rows.diffs[:arrivals]
        start = self._keys[-1]
        columns = [column for column in rows.rows.get_columns() if column.name != start]
        columns += [pl.Series(start, windows), pl.Series("instant", merging.instants)]
        entries, diffs = consolidated_rows(pl.DataFrame(columns), rows.diffs)
        return np.arange(len(rows)) if entries is None else entries, diffs

    def _pattern(
        self,
        names: tuple[str, str],
        rows: Delta,
        entries: Index,
        diffs: Ints,
        changed_windows: Index,
        size: int,
    ) -> tuple[Mask, Mask, Mask, Mask]:
        """Return which windows had a start row, a stop row, a stop row after a start row, and a start row after all stops."""
        start, stop = (self._column(rows, name)[entries] != 0 for name in names)
        first, last, latest = np.full(size, len(changed_windows)), np.full(size, -1), np.full(size, -1)
        begins, ends = np.flatnonzero(start & (diffs > 0)), np.flatnonzero(stop & (diffs > 0))
        np.minimum.at(first, changed_windows[begins], begins)
        np.maximum.at(last, changed_windows[ends], ends)
        np.maximum.at(latest, changed_windows[begins], begins)
        return first < len(changed_windows), last >= 0, first < last, latest > last


def _bounded_sums(windows: Index, counts: Ints, values: Ints, size: int) -> Ints:
    """Return the sums of counts times values by window, at most ``MOST`` and at least minus it."""
    totals = _sums(windows, counts * values, size)
    if not len(values) or int(counts.sum()) * max(-int(values.min()), int(values.max())) < MOST:
        return totals
    rough = np.bincount(windows, counts.astype(np.float64) * values, size)
    return np.where(np.abs(rough) < MOST, totals, np.where(rough < 0, -MOST, MOST))


def _sums(windows: Index, values: Ints, size: int) -> Ints:
    totals = np.zeros(size, np.int64)
    np.add.at(totals, windows, values)
    return totals
