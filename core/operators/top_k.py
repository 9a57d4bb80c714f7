"""The first rows of each group by an order."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..columns.grouping import boundaries
from ..columns.kernels import stack
from ..data.clock import Now
from ..data.delta import Delta
from ..data.tags import tagged
from ..state.lookup import first_rows_change
from ..state.operator_contract import Operator
from ..state.spine import Spine


@tagged("core.operators.top_k:TopK")
class TopK(Operator):
    """Keep the first ``count`` rows of each group by an order; a row with diff n is n rows.

        top_k(A) = rows of A whose rank within their key is below count

    State: the arrangement it reads, by group and order; nothing is kept per rank. For the keys of the delta
    the first rows before and after are read and their difference is the output, so exactly the rows that move
    over the boundary move. Ties are broken by the whole row, so the result does not depend on history.
    Cost: ``count`` rows of each touched group, see ``first_rows``.
    """

    def __init__(self, schema: pl.Schema, arrangement: Spine, count: int) -> None:
        self.schema = schema
        self._arrangement = arrangement
        self.looks_at = (arrangement,)
        self._count = count
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the first rows after the epoch minus the first rows before it."""
        spine = self._arrangement
        if not len(spine.delta):
            return self._nothing
        touched = spine.delta.keys.take(boundaries(spine.delta.keys))
        before, after = first_rows_change(spine, touched, self._count)
        rows = stack([before.payload, after.payload])
        return Delta.of(rows, np.concatenate((-before.diffs, after.diffs))).consolidate()
