"""The operators by which pushed rows enter the circuit; rows that cannot be accepted go to the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..columns.grouping import group
from ..columns.json_texts import shown_row
from ..columns.kernels import frame_of, gather, has_floats, stack, with_plain_zeros
from ..data.clock import Now
from ..data.delta import Delta
from ..data.errors import RetractionError
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.ledger import Ledger as Ledger
from ..state.ledger import Refused as Refused
from ..state.lookup import first_rows
from ..state.operator_contract import KeyedOperator, Operator
from ..state.partitioning import KeyColumns
from ..state.run import Layout, run_of_groups, run_of_rows
from ..state.spine import Spine


@tagged("core.operators.inputs:Append")
class Append(Operator):
    """A source of rows that are only added, or whose retractions are trusted: the delta passes unchanged. No state."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self._has_floats = any(map(has_floats, schema.dtypes()))

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change, with 0.0 for -0.0."""
        return _plain(deltas[0]) if self._has_floats else deltas[0]


def _plain(delta: Delta) -> Delta:
    """Return the delta with 0.0 for -0.0, so that equal rows look alike from here on."""
    if not any(map(has_floats, delta.frame.dtypes)):
        return delta
    columns = [with_plain_zeros(column) for column in delta.frame.get_columns()]
    return Delta(frame_of(columns), delta.is_consolidated)


@tagged("core.operators.inputs:CheckRetractions")
class CheckRetractions(Operator):
    """Accept a retraction as often as the row is there, and refuse the rest.

    State: the sum of the diffs of each row, by the row's hash. Cost: the delta. An addition and a retraction
    of one row within one epoch cancel before they are checked.
    """

    role = "counts of rows"
    counts_rows = True

    def __init__(self, source: str, schema: pl.Schema, ledger: Ledger, *, strict: bool) -> None:
        self.schema = schema
        self.spine = Spine(Layout())
        self._source = source
        self._ledger = ledger
        self._strict = strict

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the accepted part of the change."""
        delta = _plain(deltas[0])
        if not len(delta):
            return delta
        rows, groups = delta.rows, delta.groups
        added = groups.sums(delta.diffs)
        held = self.spine.totals(groups.keys).get(DIFF, np.zeros(len(groups), np.int64))
        accepted = np.maximum(added, -held)
        self.spine.stage(run_of_groups(groups, pl.DataFrame(), {DIFF: accepted}))
        excess = np.flatnonzero(accepted != added)
        if not len(excess):
            if len(groups) == len(delta):
                return delta.as_consolidated()
            if (delta.diffs > 0).all():
                return delta
        entries = groups.first_entries
        if len(excess):
            self._refuse(now, Delta.of(gather(rows, entries[excess]), (added - accepted)[excess]))
        # Rows that cancel do not reach any operator, clocks included, whatever else is in the batch or its bucket.
        kept = np.flatnonzero(accepted)
        kept = kept[np.argsort(entries[kept])]
        return Delta.of(gather(rows, entries[kept]), accepted[kept], is_consolidated=True)

    def _refuse(self, now: Now, refused: Delta) -> None:
        if self._strict:
            first = shown_row(refused.rows, 0)
            raise RetractionError(
                f"source {self._source!r}: retraction of a row that is not there: {first} "
                f"({len(refused)} in this batch); nothing was changed. Declare the source with strict=False to "
                "have such rows refused into the ledger instead"
            )
        self._ledger.stage(
            Refused(now.epoch, self._source, "retraction of a row that is not there", refused.frame)
        )


@tagged("core.operators.inputs:Upsert")
class Upsert(KeyedOperator):
    """Rows replace the row of their key; a row with diff -1 deletes it. The engine derives the retractions.

    The last row of a key in a batch wins. State: the rows by key. Cost: the delta.
    """

    role = "rows"

    def __init__(self, source: str, schema: pl.Schema, keys: Sequence[str], ledger: Ledger) -> None:
        super().__init__(schema, KeyColumns.of(keys))
        self.spine = Spine(Layout(schema, by_row=True))
        self._source = source
        self._ledger = ledger
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return minus the rows that were there, plus those that replace them."""
        delta = _plain(deltas[0])
        if not len(delta):
            return self._nothing
        groups = group(self._keys.words_of(delta))
        last = np.maximum.reduceat(groups.order, groups.starts)
        stands = delta.diffs[last] > 0
        before = first_rows(self.spine, groups.keys, 1)
        after = gather(delta.rows, np.sort(last[stands]))
        missing = np.setdiff1d(np.flatnonzero(~stands), before.owners)
        if len(missing):
            rows = gather(delta.frame, last[missing])
            self._ledger.stage(Refused(now.epoch, self._source, "deletion of a key that is not there", rows))
        diffs = np.concatenate((-before.diffs, np.ones(after.height, np.int64)))
        change = Delta.of(stack([before.payload, after]), diffs).consolidate()
        self.spine.stage(run_of_rows(self.spine.layout, self._keys, change.frame))
        return change
