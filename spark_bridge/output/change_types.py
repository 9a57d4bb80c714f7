"""Deltas as Delta Lake's change data feed names them: each row once, with ``_change_type`` in place of its diff."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import gather
from evercurrent.core.data.schema import DIFF, EPOCH

CHANGE_TYPE = "_change_type"


def with_change_types(delta: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the rows of whole epochs, a row with diff n as n rows; with keys, a deletion and an insertion of one are an update.

    >>> delta = pl.DataFrame({"ip": ["a", "a", "b"], "n": [1, 2, 1], "_epoch": 7, "_diff": [-1, 1, 2]})
    >>> with_change_types(delta, ["ip"]).rows()
    [('a', 1, 7, 'update_preimage'), ('a', 2, 7, 'update_postimage'), ('b', 1, 7, 'insert'), ('b', 1, 7, 'insert')]
    """
    is_new = pl.col(DIFF) > 0
    change = pl.when(is_new).then(pl.lit("insert")).otherwise(pl.lit("delete"))
    if keys:
        of_key = [EPOCH, *keys]
        is_update = (pl.col(DIFF).min().over(of_key) < 0) & (pl.col(DIFF).max().over(of_key) > 0)
        image = pl.when(is_new).then(pl.lit("update_postimage")).otherwise(pl.lit("update_preimage"))
        change = pl.when(is_update).then(image).otherwise(change)
    named = delta.with_columns(change.alias(CHANGE_TYPE))
    counts = np.abs(delta[DIFF].to_numpy())
    return gather(named.drop(DIFF), np.repeat(np.arange(delta.height), counts))
