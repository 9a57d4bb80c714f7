"""Frames of deltas that tasks pass on: with the number of their epoch, and brought together."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.schema import DIFF, EPOCH


def with_epoch(frame: pl.DataFrame, epoch: int) -> pl.DataFrame:
    """Return a delta as readers see it: with the number of its epoch before ``_diff``."""
    numbers = pl.Series(EPOCH, [epoch], pl.UInt64).new_from_index(0, frame.height)
    columns = frame.get_columns()
    return pl.DataFrame([*columns[:-1], numbers, columns[-1]])


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return all rows; a part in which a sum is zero in all rows has no column for it."""
    columns = dict.fromkeys(name for frame in frames for name in frame.columns if name != DIFF)
    names = [*columns, DIFF]
    if all(frame.columns == names for frame in frames):
        return stack(frames)
    return pl.concat(
        frame.with_columns(
            pl.lit(0, pl.Int64).alias(name) for name in names if name not in frame.columns
        ).select(names)
        for frame in frames
    )
