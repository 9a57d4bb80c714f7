"""Equal rows of which only some are in a window, and how many of the rows before it these come from."""

from __future__ import annotations

import numpy as np
import polars as pl

from evercurrent.core.columns.kernels import Ints, keep, key_words
from evercurrent.core.data.schema import DIFF

from ..plan.nodes import PlanId
from ..plan.shapes import Assigned, Chosen, Computed, Exploded, InTurn, Retimed, Unnested
from .rows import Rows
from .stages import applied, columns_of

PASSED_ON = (Chosen, InTurn, Retimed)
"""The stages whose rows are rows of their input."""

ONE_FROM_ONE = (*PASSED_ON, Assigned, Computed, Exploded, Unnested)
"""The stages each of whose rows comes from one row of their input."""

WANTED = "_wanted"
"""A column of how many copies of a row are wanted."""


def copies_behind(
    rows: Rows, place: PlanId, source: PlanId, some: pl.DataFrame, origins: pl.DataFrame
) -> pl.DataFrame:
    """Return as many rows of an input as it takes to make ``some`` rows, with ``_diff``, of a stage ``ONE_FROM_ONE``.

    ``origins`` are all rows of the input of which these are made; of those that make equal ones the first are returned.
    """
    if isinstance(rows.plan[place].operation.shape, PASSED_ON):
        return columns_of(some, [*rows.plan[source].schema, DIFF])
    results, owners = applied(rows.compiled, place, source, origins)
    counts = np.zeros(origins.height, np.int64)
    np.maximum.at(counts, owners, first_copies(results, some))
    return with_copies(origins, counts)


def with_copies(rows: pl.DataFrame, counts: Ints) -> pl.DataFrame:
    """Return rows with these numbers of copies, without those that have none."""
    return keep(rows.with_columns(pl.Series(DIFF, counts)), counts > 0)


def first_copies(rows: pl.DataFrame, some: pl.DataFrame) -> Ints:
    """Return how many copies of each row there are among the first of its equals, as many as ``some`` has; by all columns.

    >>> rows = pl.DataFrame({"n": [1, 1, 2], "_diff": [2, 3, 1]})
    >>> first_copies(rows, pl.DataFrame({"n": [1], "_diff": [4]})).tolist()
    [2, 2, 0]
    """
    names = [name for name in rows.columns if name != DIFF]
    keyed = []
    for frame, number in ((rows, DIFF), (some, WANTED)):
        words = key_words([frame.get_column(name) for name in names], frame.height)
        counts = frame.get_column(DIFF).alias(number)
        keyed.append(pl.DataFrame({"first": words.first, "second": words.seconds()}).hstack([counts]))
    all_rows, some_rows = keyed
    by = ("first", "second")
    wanted_copies = some_rows.group_by(by).agg(pl.col(WANTED).sum())
    earlier = pl.col(DIFF).cum_sum().over(by) - pl.col(DIFF)
    left = (pl.col(WANTED).fill_null(0) - earlier).clip(0, pl.col(DIFF))
    counted = all_rows.join(wanted_copies, on=by, how="left", maintain_order="left")
    return counted.select(left).to_series().to_numpy()
