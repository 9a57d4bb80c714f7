"""The first rows of each group by an order."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..columns.kernels import Ints, gather
from ..data.clock import Now
from ..data.delta import Delta
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.lookup import KeyRows
from ..state.per_key import PerKey
from ..state.spine import Spine


@tagged("core.operators.top_k:TopK")
class TopK(PerKey):
    """Keep the first ``count`` rows of each group by an order; a row with diff n is n rows.

        top_k(A) = rows of A whose rank within their key is below count

    State: the arrangement it reads, by group and order; nothing is kept per rank. Exactly the rows that move over the
    boundary are emitted. Ties are broken by the whole row, so the result does not depend on history.
    Cost: ``count`` rows of each touched group, see ``first_rows``; none where the arrangement ``holds_first`` rows only, as its
    change is then that of the result.
    """

    def __init__(
        self, schema: pl.Schema, arrangement: Spine, count: int, *, holds_first: bool = False
    ) -> None:
        super().__init__(schema, arrangement, count)
        self._holds_first = holds_first

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows that are no longer among the first ones, and then those that are from now on."""
        moved = self._arrangement.delta
        if not self._holds_first or not len(moved):
            return super().step(now, *deltas)
        diffs = moved.sums[DIFF]
        order = np.concatenate((np.flatnonzero(diffs < 0), np.flatnonzero(diffs > 0)))
        return Delta.of(gather(moved.payload, order), diffs[order], is_consolidated=True)

    def made_of(self, rows: KeyRows) -> tuple[pl.DataFrame, Ints]:
        """Return the first rows as they are."""
        return rows.payload, rows.diffs
