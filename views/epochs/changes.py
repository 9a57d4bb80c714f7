"""Deltas as change rows, for readers that need the row before and the row after side by side."""

from __future__ import annotations

import polars as pl

from evercurrent.core.data.schema import DIFF

from ..connectors.change_rows import CHANGE


def change_rows(frame: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Return a delta as change rows: ``_change`` in place of ``_diff``, and a row with diff n repeated n times.

    The k-th deletion and the k-th insertion of a key are one update, pre-image first.
    """
    names = [name for name in frame.columns if name != DIFF]
    rows = (
        frame.select(pl.all().repeat_by(pl.col(DIFF).abs()).explode(empty_as_null=False))
        if frame.height
        else frame
    )
    rows = rows.with_columns(pl.col(DIFF).sign().alias("__sign")).with_row_index("__row")
    if not keys:
        change = pl.when(pl.col("__sign") > 0).then(pl.lit("insert")).otherwise(pl.lit("delete"))
        return rows.select(*names, change.alias(CHANGE))
    rows = rows.with_columns(pl.int_range(pl.len()).over(*keys, "__sign").alias("__nth"))
    paired = (pl.col("__sign").n_unique() == 2).over(*keys, "__nth")
    change = (
        pl.when(paired)
        .then(
            pl.when(pl.col("__sign") > 0)
            .then(pl.lit("update_postimage"))
            .otherwise(pl.lit("update_preimage"))
        )
        .otherwise(pl.when(pl.col("__sign") > 0).then(pl.lit("insert")).otherwise(pl.lit("delete")))
    )
    rows = rows.with_columns(
        change.alias(CHANGE), pl.col("__row").min().over(*keys, "__nth").alias("__place")
    )
    return rows.sort("__place", "__sign", maintain_order=True).select(*names, CHANGE)
