"""Rows that would get a negative count are detected and refused, where such a count has no meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ..data.columns.grouping import boundaries
from ..data.columns.json_texts import shown_row
from ..data.columns.kernels import Index, Ints, Keys, expand, gather, physical
from ..data.errors import RetractionError
from ..data.schema import DIFF, listed
from .row_merge import first_not_below
from .run import Run
from .spine import Spine


@dataclass(frozen=True, slots=True)
class NeverBelowZero:
    """A check that refuses a batch after which rows would have a negative count.

    ``where`` names the view, ``sources`` are those whose retractions are not checked, ``columns`` identify a row in the
    message.
    """

    where: str
    sources: tuple[str, ...]
    columns: tuple[str, ...]

    def require(self, rows: pl.DataFrame, counts: Ints) -> None:
        """Check rows that were retracted, given their counts now.

        Raises:
            RetractionError: one of them would have a negative count.
        """
        missing = np.flatnonzero(counts < 0)
        if not len(missing):
            return
        row = shown_row(rows.select(self.columns), int(missing[0]))
        raise RetractionError(
            f"{self.where}: the row {row} would have the count {counts[missing[0]]} ({len(missing)} such rows in this "
            "batch), and these windows need rows whose count is not negative; nothing has changed. Retractions are not "
            f"checked at {listed(self.sources)}, declared with trusted=True: push a row before its retraction or "
            "together with it, leave out trusted=True, so that such retractions are refused into the ledger, or put "
            ".unique() before .window(...)"
        )


def retracted_entries(run: Run) -> tuple[Index, Ints]:
    """Return the positions of the retractions among the entries that an epoch adds, and their diffs."""
    diffs = run.sums.get(DIFF, np.zeros(len(run), np.int64))
    entries = np.flatnonzero(diffs < 0)
    return entries, diffs[entries]


def counts_of_retracted(spine: Spine, change: Run | None = None) -> tuple[pl.DataFrame, Ints]:
    """Return the rows that this epoch retracts from an arrangement, and their counts after it.

    The arrangement is ordered by a column of instants without nulls, and then by others. ``change`` takes the place of
    what the epoch has staged. Cost: a search for each of these rows, and the entries that have its key and instant.
    """
    delta = spine.delta if change is None else change
    entries, counts = retracted_entries(delta)
    if not len(entries):
        return delta.payload.clear(), counts
    keys, rows = delta.keys.take(entries), delta.rows_at(entries)
    retracted = gather(delta.payload, entries)
    for run in spine.runs:
        positions, owners = expand(*_of_same_instant(run, spine, keys, retracted))
        theirs = run.rows_at(positions)
        same = (theirs.first == rows.first[owners]) & (theirs.seconds() == rows.seconds_at(owners))
        np.add.at(counts, owners[same], run.sums[DIFF][positions[same]])
        spine.touched += len(positions)
    return retracted, counts


def _of_same_instant(run: Run, spine: Spine, keys: Keys, rows: pl.DataFrame) -> tuple[Index, Index]:
    """Return the ranges [lower, upper) of the entries of a run that have the keys and instants of these rows."""
    starts = boundaries(keys)
    times = np.diff(starts, append=len(keys))
    lower, upper = (np.repeat(bound, times) for bound in run.find(keys.take(starts)))
    first = spine.layout.order[0]
    stored, bounds = (physical(frame.get_column(first.column)) for frame in (run.payload, rows))
    after = bounds - 1 if first.descending else bounds + 1
    lower = first_not_below(stored, bounds, lower, upper, descending=first.descending)
    return lower, first_not_below(stored, after, lower, upper, descending=first.descending)
