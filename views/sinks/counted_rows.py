"""The contents of a view as a delta: what a log of deltas begins with."""

from __future__ import annotations

import polars as pl

from evercurrent.core.data.schema import DIFF, EPOCH


def counted(contents: pl.DataFrame, epoch: int) -> pl.DataFrame:
    """Return each row once, with ``_epoch`` and, as ``_diff``, how often it is there.

    >>> counted(pl.DataFrame({"a": [1, 2, 1]}), 7).rows()
    [(1, 7, 2), (2, 7, 1)]
    """
    columns = contents.columns
    counts = contents.group_by(columns, maintain_order=True).agg(pl.len().cast(pl.Int64).alias(DIFF))
    return counts.select(*columns, pl.lit(epoch, pl.UInt64).alias(EPOCH), DIFF)
