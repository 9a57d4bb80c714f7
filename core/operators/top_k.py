"""The first rows of each group by an order."""

from __future__ import annotations

import polars as pl

from ..data.columns.kernels import Ints
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
    Cost: ``count`` rows of each touched group, see ``first_rows``.
    """

    def __init__(self, schema: pl.Schema, arrangement: Spine, count: int) -> None:
        super().__init__(schema, arrangement, count)

    def made_of(self, rows: KeyRows) -> tuple[pl.DataFrame, Ints]:
        """Return the first rows as they are."""
        return rows.payload, rows.diffs
