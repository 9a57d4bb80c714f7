"""Equal rows of which only some are in a window, and how many of the rows before it these come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Index, Ints, keep, key_words
from evercurrent.core.data.schema import DIFF

from ...plan.nodes import PlanId
from ...plan.shapes import Assigned, Chosen, Computed, Exploded, InTurn, Paired, Retimed, Union, Unnested
from .rows import Rows
from .stages import applied, columns_of, joined

PASSED_ON = (Chosen, InTurn, Retimed)
"""The stages whose rows are rows of their input."""

OF_SEVERAL = (Paired, Union)
"""The stages whose rows come from several inputs."""

ONE_FROM_ONE = (*PASSED_ON, Assigned, Computed, Exploded, Unnested)
"""The stages each of whose rows comes from one row of their input."""

REQUESTED = "_requested"
"""A column of how many copies of a row are requested."""


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


def copies_of_sides(
    rows: Rows, place: PlanId, some: pl.DataFrame, sides: Sequence[tuple[PlanId, pl.DataFrame]]
) -> list[tuple[PlanId, pl.DataFrame]]:
    """Return as many rows of several inputs as it takes to make ``some`` rows, with ``_diff``, of a join or a union.

    They may make some more, where a row has several partners, or its copies are not a multiple of those of its partner. All rows
    are returned where one input is not there, or two are the same.
    """
    node = rows.plan[place]
    join = node.operation.shape
    # An anti join never has its other side here.
    if isinstance(join, Paired) and join.kind in ("semi", "anti"):
        return [(node.inputs[0], columns_of(some, [*rows.plan[node.inputs[0]].schema, DIFF])), *sides[1:]]
    if [source for source, _ in sides] != [*dict.fromkeys(node.inputs)]:
        return [*sides]
    if isinstance(join, Union):
        return _of_union(some, sides)
    if not isinstance(join, Paired):
        return [*sides]
    (left, ours), (right, theirs) = sides
    pairs = joined(join, node.schema, ours, theirs)
    copies = first_copies(pairs.rows, some)
    in_pairs = []
    for side, index in ((ours, pairs.left_index), (theirs, pairs.right_index)):
        diffs = np.append(side.get_column(DIFF).to_numpy(), 1)  # A missing partner, at -1, counts once.
        in_pairs.append(diffs[index])
    in_left, in_right = in_pairs
    is_of_right = (copies > in_left) & (copies <= in_right)
    of_left = np.where(is_of_right, 1, np.minimum(copies, in_left))
    of_right = -(-copies // np.maximum(of_left, 1))
    return [
        (left, with_copies(ours, _most(ours.height, pairs.left_index, of_left))),
        (right, with_copies(theirs, _most(theirs.height, pairs.right_index, of_right))),
    ]


def _of_union(
    some: pl.DataFrame, parts: Sequence[tuple[PlanId, pl.DataFrame]]
) -> list[tuple[PlanId, pl.DataFrame]]:
    """Return as many rows of the parts of a union as ``some`` has, those of the first parts first."""
    if not all(DIFF in part.columns for _, part in parts):
        return [*parts]
    together = pl.concat([columns_of(part, some.columns) for _, part in parts])
    copies = np.split(first_copies(together, some), np.cumsum([part.height for _, part in parts])[:-1])
    return [(source, with_copies(part, own)) for (source, part), own in zip(parts, copies, strict=True)]


def _most(height: int, index: Index, copies: Ints) -> Ints:
    """Return the most copies of each row that any pair needs."""
    most = np.zeros(height, np.int64)
    is_there = index >= 0
    np.maximum.at(most, index[is_there], copies[is_there])
    return most


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
    for frame, number in ((rows, DIFF), (some, REQUESTED)):
        words = key_words([frame.get_column(name) for name in names], frame.height)
        counts = frame.get_column(DIFF).alias(number)
        keyed.append(pl.DataFrame({"first": words.first, "second": words.seconds()}).hstack([counts]))
    all_rows, some_rows = keyed
    by = ("first", "second")
    requested_copies = some_rows.group_by(by).agg(pl.col(REQUESTED).sum())
    earlier = pl.col(DIFF).cum_sum().over(by) - pl.col(DIFF)
    left = (pl.col(REQUESTED).fill_null(0) - earlier).clip(0, pl.col(DIFF))
    counted = all_rows.join(requested_copies, on=by, how="left", maintain_order="left")
    return counted.select(left).to_series().to_numpy()
