"""Changes that are added up by group before they are sent to where the groups are kept: fewer rows, the same sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..columns.grouping import Groups
from ..columns.kernels import Ints, gather
from ..data.delta import Delta
from ..data.schema import DIFF
from .accumulators import Sums

SUM = "sum:"
"""Before the name of an additive column: what a part of the change adds to it."""

ENTRIES = "entries"
"""How many rows were added up, those that went counted like those that came."""


def added_up(frame: pl.DataFrame, keys: Sequence[str], groups: Groups, sums: Sums) -> Delta:
    """A row per group: its key and what the rows of the frame add to its additive columns."""
    columns = [frame.get_column(name) for name in keys]
    named = gather(pl.DataFrame(columns), groups.first_entries).get_columns() if columns else []
    made = {**{name: groups.sums(column) for name, column in sums.items()}}
    made[ENTRIES] = groups.sums(np.abs(frame.get_column(DIFF).to_numpy()))
    ones = pl.Series(DIFF, np.ones(len(groups), np.int64))
    return Delta(
        pl.DataFrame([*named, *(pl.Series(SUM + name, column) for name, column in made.items()), ones])
    )


def is_added_up(frame: pl.DataFrame) -> bool:
    """Whether these rows are of the form of ``added_up``. Several such frames may stand one after the other."""
    return SUM + ENTRIES in frame.columns


def sums_in(frame: pl.DataFrame) -> dict[str, Ints]:
    """The additive columns of each row, and ``ENTRIES``; what one part had and another had not is zero there."""
    return {
        column.name.removeprefix(SUM): (column.fill_null(0) if column.has_nulls() else column).to_numpy()
        for column in frame.get_columns()
        if column.name.startswith(SUM)
    }
