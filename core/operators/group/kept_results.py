"""The results of groups after an epoch are those before the next one, so that epochs over the same keys compute each once.

They are kept for the groups of one run, which is all of the state, and belong to that very run: after an epoch that was refused,
a restore or a fork the state is another run, and all results are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np
import polars as pl

from ...data.columns.kernels import Floats, Index, Keys, Mask, series_of
from ...data.columns.nulls import nulls_as, nulls_in
from ...data.columns.whole_columns import AnyColumn
from ...state.run import Run
from .aggregate_contract import AggregateState, Change

FEWEST_KEYS = 1 << 12
"""The results of fewer groups cost less than keeping them."""

MOST_KEYS = 1 << 20
"""The most groups whose results are kept, in 9 bytes each for each aggregate."""

Before = tuple[Run, Index]
"""The only run before an epoch, and where the touched groups are in it; -1 for those that are not there."""


@dataclass(frozen=True, slots=True, eq=False)
class _Results:
    """One result of each group of a run: its value, and where it is null."""

    values: Floats
    is_null: Mask

    @staticmethod
    def of(column: pl.Series) -> _Results:
        values: Floats = nulls_as(0, column).to_numpy()
        return _Results(values, nulls_in(column))

    def at(self, places: Index, name: str, dtype: pl.DataType) -> pl.Series:
        """Return the results at these places as a column."""
        column, is_null = pl.Series(name, self.values.take(places), dtype), self.is_null.take(places)
        return column.set(pl.Series(is_null), None) if is_null.any() else column

    def replaced(self, places: Index, others: _Results) -> _Results:
        """Return these results with others at some places."""
        values, is_null = self.values.copy(), self.is_null.copy()
        values[places], is_null[places] = others.values, others.is_null
        return _Results(values, is_null)

    def moved(self, stay: Mask, places: Index, others: _Results) -> _Results:
        """Return others at some places, and between them, in their order, those of these results that ``stay``."""
        is_old = np.ones(len(places) + np.count_nonzero(stay), np.bool_)
        is_old[places] = False
        values, is_null = np.empty(len(is_old), self.values.dtype), np.empty(len(is_old), np.bool_)
        values[is_old], is_null[is_old] = self.values[stay], self.is_null[stay]
        values[places], is_null[places] = others.values, others.is_null
        return _Results(values, is_null)


class KeptResults:
    """The results of all groups of the only run of a state, by the number of the aggregate among those of the groups."""

    def __init__(self, parts: Sequence[AggregateState]) -> None:
        self._parts = {number: part for number, part in enumerate(parts) if part.is_kept}
        self.keeps_any = bool(self._parts)
        """Whether results of any aggregate are kept."""
        self._run: ReferenceType[Run] | None = None
        self._results: dict[int, _Results] = {}

    def before(self, runs: Sequence[Run], keys: Keys) -> Before | None:
        """Return the only run and where these touched groups are in it; None if its results are not kept. Cost: a look-up of them."""
        if self._run is None or len(runs) != 1 or self._run() is not runs[0]:
            return None
        hit, position = runs[0].match(keys)
        places = np.full(len(keys), -1)
        places[hit] = position
        return runs[0], places

    def changed(self, number: int, change: Change, before: Before) -> pl.Series | None:
        """Return the results of an aggregate for each row of a change; None if they are not kept."""
        if number not in self._parts:
            return None
        now = self._parts[number].after(change)
        existed = before[1][change.groups[: change.count_before]]
        return self._results[number].at(existed, now.name, now.dtype).append(now)

    def keep(
        self, run: Run | None, change: Change, columns: Sequence[AnyColumn], before: Before | None
    ) -> None:
        """Keep the results after a change, given those of its rows; ``run`` is all of the state then, if that is one run.

        Cost: two copies of the results, and a look-up of the touched groups if there are new ones. All are computed anew where
        most are touched and none are kept.
        """
        earlier, self._run, self._results = self._results, None, {}
        if run is None or not self._parts or not FEWEST_KEYS <= len(run) <= MOST_KEYS:
            return
        now = {
            number: _Results.of(series_of(columns[number])[change.count_before :]) for number in self._parts
        }
        groups = change.groups[change.count_before :]
        if len(groups) == len(run):
            # Each group that exists has an entry.
            self._results = now
        elif before is not None and run.keys is before[0].keys:
            places = before[1][groups]
            self._results = {number: earlier[number].replaced(places, now[number]) for number in now}
        elif before is not None:
            stay = np.ones(len(before[0]), np.bool_)
            stay[before[1][before[1] >= 0]] = False
            hit, places = run.match(change.keys.take(groups))
            if len(hit) < len(groups) or len(groups) + np.count_nonzero(stay) != len(run):
                return
            self._results = {number: earlier[number].moved(stay, places, now[number]) for number in now}
        elif 2 * len(groups) >= len(run):
            self._results = {
                number: _Results.of(part.current(run.keys, run.sums)) for number, part in self._parts.items()
            }
        else:
            return
        self._run = ref(run)
