"""Rows are brought together by several columns whose values have few combinations: these are counted, and each is hashed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .grouping import DENSE_BELOW, SMALL, DenseGroups, Groups, group
from .kernels import Ints, at, is_one_word, key_words, least_and_greatest, physical, series_of
from .whole_columns import AnyColumn

SAMPLE = 256
"""The step of a column is guessed by so many of its values."""


def group_by_columns(columns: Sequence[AnyColumn], height: int, routed: int = 0) -> Groups | None:
    """Return the ``group`` of the ``key_words`` of these columns; None unless they are integers with fewer combinations than rows.

    Cost: some passes over each column, and a hash and a sort of the combinations.
    """
    if not SMALL < height < DENSE_BELOW:
        return None
    if not all(is_one_word([column.dtype]) and not column.has_nulls() for column in columns):
        return None
    codes, size = np.zeros(height, np.int64), 1
    integers = [physical(column) for column in columns]
    for place, values in enumerate(integers):
        if any(_differ_by_one_number(values, others) for others in integers[:place]):
            continue  # As the end of a window follows from its start.
        scaled = _scaled(values, height // size)
        if scaled is None:
            return None
        own, count = scaled
        codes *= count
        codes += own
        size *= count
    counts = np.bincount(codes, minlength=size)
    present = np.flatnonzero(counts)
    any_row = np.zeros(size, np.intp)
    any_row[codes] = np.arange(height)
    rows = any_row[present]
    groups = group(key_words([at(series_of(column), rows) for column in columns], len(rows), routed))
    return DenseGroups(codes, present[groups.first_entries], counts, groups.keys)


def _differ_by_one_number(values: Ints, others: Ints) -> bool:
    """Return whether all values are the others and the same number, modulo 2^64."""
    number = values[:1] - others[:1]
    return bool(values[-1:] - others[-1:] == number) and bool((values - others == number).all())


def _scaled(values: Ints, most: int) -> tuple[Ints, int] | None:
    """Return values as numbers from 0, and the bound below which they lie; None if that is above ``most``.

    They are counted in steps of the greatest common divisor, as instants and the bounds of windows are round.
    """
    least, greatest = least_and_greatest(values)
    if greatest - least < most:
        return values - least, greatest - least + 1
    if greatest - least >= 2**63:
        return None
    step = int(np.gcd.reduce(values[:: max(len(values) // SAMPLE, 1)] - least))
    if not step or (greatest - least) // step >= most:
        return None
    distances = values - least
    steps = distances // step
    return (steps, (greatest - least) // step + 1) if (steps * step == distances).all() else None
