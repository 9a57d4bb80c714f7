"""The rows of a source that are kept as state, from which views that are declared later can be filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import gather, keep, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.instants import instants_in
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.spine import Spine, Version


class RetainedRows:
    """All rows that a source has emitted so far: those that it keeps by key, or those of a retained source.

    With ``event_time``, rows whose time cannot be computed with are left out, as they went to the ledger.
    """

    def __init__(self, schema: pl.Schema, spine: Spine, event_time: str | None = None) -> None:
        self.schema = schema
        self.spine = spine
        self._event_time = event_time

    def changes(self, at: Sequence[Version] | None = None) -> Delta:
        """Return the rows with their diffs, which may be negative if the source is trusted. Cost: the state.

        ``at`` has the version of the state that is read; None: the last one.
        """
        run = (self.spine if at is None else self.spine.at(at[0])).merged()
        if not len(run):
            return Delta.empty(self.schema)
        columns = [run.payload.get_column(name) for name in self.schema]
        return Delta(self._usable(pl.DataFrame([*columns, pl.Series(DIFF, run.sums[DIFF])])))

    def chosen(self, choose: Callable[[pl.DataFrame], pl.DataFrame]) -> Delta:
        """Return the rows that a function keeps of some rows, of which it sees all, some at a time, and each perhaps several times.

        Cost: those of the function, and a sort of the rows that it keeps; the state is neither sorted nor merged.
        """
        names = [*self.schema, DIFF]
        parts = [choose(frame.select(names)) for frame in self.spine.version.rows_apart()]
        return Delta(self._usable(stack([Delta.empty(self.schema).frame, *parts]))).consolidate()

    def _usable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows whose time can be computed with."""
        if self._event_time is None:
            return frame
        _, usable = instants_in(frame.get_column(self._event_time))
        return frame if usable is None else keep(frame, usable)

    def contents(self) -> pl.DataFrame:
        """Return the rows, each as often as its diffs add up to. Cost: the state."""
        changes = self.changes()
        return gather(changes.rows, np.repeat(np.arange(len(changes)), np.maximum(changes.diffs, 0)))
