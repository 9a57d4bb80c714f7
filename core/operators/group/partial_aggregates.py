"""Changes are pre-aggregated by group before they are sent to the groups' buckets: fewer rows, the same sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...data.columns.grouping import Groups
from ...data.columns.kernels import Ints, gather
from ...data.columns.nulls import nulls_as
from ...data.delta import Delta
from ...data.schema import DIFF
from .accumulators import Sums

SUM = "sum:"
"""The prefix of a column that holds a part's additions to an additive column."""

ENTRIES = "entries"
"""The column of how many rows were added up, retractions counted like additions."""


ADDED_UP = SUM + ENTRIES
"""A column of rows of the form of ``added_up``, which may be several such frames concatenated, and of no others."""


def added_up(
    frame: pl.DataFrame, keys: Sequence[str], groups: Groups, sums: Sums, others: Sequence[pl.Series] = ()
) -> Delta:
    """Return a row per group: its key, what the frame's rows add to its additive columns, given as ``sums``, and ``others`` of it."""
    columns = [frame.get_column(name) for name in keys]
    named = gather(pl.DataFrame(columns), groups.first_entries).get_columns() if columns else []
    additions = {**sums, ENTRIES: groups.sums(np.abs(frame.get_column(DIFF).to_numpy()))}
    ones = pl.Series(DIFF, np.ones(len(groups), np.int64))
    return Delta(
        pl.DataFrame(
            [*named, *(pl.Series(SUM + name, column) for name, column in additions.items()), *others, ones]
        )
    )


def sums_in(frame: pl.DataFrame) -> dict[str, Ints]:
    """Return the additive columns of each row, and ``ENTRIES``; columns that a part does not have are zero."""
    return {
        column.name.removeprefix(SUM): nulls_as(0, column).to_numpy()
        for column in frame.get_columns()
        if column.name.startswith(SUM)
    }
