"""Deltas of one or several epochs are reduced to net changes, for tables with one row per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed, require_columns


class NetChange(NamedTuple):
    """A net change: the rows as they are now, and the last epoch in it.

    ``replaced`` are the keys whose rows before are no longer there, ``gone`` those of them that have no row now.
    """

    now: pl.DataFrame
    replaced: pl.DataFrame
    gone: pl.DataFrame
    epoch: int


def net_change(delta: pl.DataFrame, keys: Sequence[str], after: int) -> NetChange:
    """Return the net change of the epochs after ``after``; a repeated delta changes nothing the second time.

    Raises:
        InputError: a key has two rows, so the columns are not a key.
    """
    require_columns("the delta", delta.schema, keys)
    news = delta.filter(pl.col(EPOCH) > after)
    columns = [name for name in delta.columns if name not in (EPOCH, DIFF)]
    rows = news.group_by(columns, maintain_order=True).agg(pl.col(DIFF).sum())
    now = rows.filter(pl.col(DIFF) > 0)
    require_one_row_each(now, keys)
    replaced = rows.filter(pl.col(DIFF) < 0).select(keys)
    gone = replaced.join(now, on=list(keys), how="anti", nulls_equal=True)
    last = news[EPOCH].max() if news.height else after
    assert isinstance(last, int)
    return NetChange(now.select(columns), replaced, gone, last)


def require_one_row_each(rows: pl.DataFrame, keys: Sequence[str]) -> None:
    """Check that no key has two rows, counting a row with diff n as n rows.

    Raises:
        InputError: one has; names it.
    """
    twice = rows.select(keys).is_duplicated()
    if DIFF in rows.columns:
        twice |= rows[DIFF] > 1
    if twice.any():
        example = rows.filter(twice).select(keys).row(0)
        raise InputError(
            f"there are several rows of one key {listed(keys)}, such as {example!r}; name all columns that tell rows apart"
        )
