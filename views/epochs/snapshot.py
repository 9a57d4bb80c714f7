"""The contents of a view, with the epoch that they are of."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.tags import tagged


@tagged("views.view:Snapshot")
@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a view at the end of an epoch: follow it with ``view.deltas(since=snapshot.epoch)``."""

    epoch: int
    frame: pl.DataFrame
