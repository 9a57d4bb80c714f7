"""The distinct rows of a collection: each once, however often it is in the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.grouping import group
from ..data.columns.kernels import gather
from ..data.delta import Delta
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.combined_rows import consolidated_if_fewer
from ..state.operator_contract import Operator
from ..state.partitioning import KeyColumns
from ..state.run import Layout, run_of_groups
from ..state.spine import Spine


@tagged("core.operators.distinct:Distinct")
class Distinct(Operator):
    """Rows whose diffs add up to more than zero, each with diff 1.

        distinct(A)[row] = 1 if A[row] > 0 else 0

    State: the sum of the diffs of each row, by the row's hash; the rows themselves are not kept, since those
    that appear or disappear are in the delta. ``by`` are the first columns, if only these decide the bucket of a row.
    Cost: the delta.
    """

    role = "distinct values"
    may_combine = True

    def __init__(self, schema: pl.Schema, by: Sequence[str] | None = None) -> None:
        self.schema = schema
        self._key_columns = KeyColumns.of(tuple(schema), by)
        self.spine = Spine(Layout(), self._key_columns.route)
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return +1 for rows whose count becomes positive, -1 for those whose count no longer is."""
        (delta,) = deltas
        if not len(delta):
            return self._nothing
        rows = delta.rows
        groups = group(self._key_columns.words(rows))
        added = groups.sums(delta.diffs)
        before = self.spine.totals(groups.keys).get(DIFF, np.zeros(len(groups), np.int64))
        self.spine.stage(run_of_groups(groups, pl.DataFrame(), {DIFF: added}))
        turned = (before + added > 0).astype(np.int64) - (before > 0)
        changed = np.flatnonzero(turned)
        entries = groups.first_entries[changed]
        return Delta.of(gather(rows, entries), turned[changed], is_consolidated=True)

    def combine(self, delta: Delta) -> Delta | None:
        """Return the change consolidated, if equal rows are many."""
        return consolidated_if_fewer(delta)
