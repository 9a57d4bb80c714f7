"""The base class of operators over all rows of a key: the result for each touched key is compared before and after a change."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.grouping import boundaries
from ..data.columns.kernels import Ints, Keys, stack
from ..data.delta import Delta
from .lookup import KeyRows, rows_change
from .operator_contract import Operator
from .spine import Spine


class PerKey(Operator, ABC):
    """A function of the rows of each key, kept current by the keys that the epoch touches.

        out(A) = f(rows of A by key),   emitted as f(rows after) - f(rows before) for the keys in the change

    State: the arrangement that it reads, and nothing of its own. ``count`` is the number of rows of a key that the function
    needs, the first in the order of the arrangement; None if it needs all. The result for a key must not depend on other
    keys. Cost: these rows of each touched key.
    """

    def __init__(self, schema: pl.Schema, arrangement: Spine, count: int | None) -> None:
        self.schema = schema
        self._arrangement = arrangement
        self.looks_at = (arrangement,)
        self._count = count
        self._nothing = Delta.empty(schema)

    @abstractmethod
    def made_of(self, rows: KeyRows) -> tuple[pl.DataFrame, Ints]:
        """Return the result for some keys, as rows with diffs, given the rows of these keys at one moment."""

    def rows_change(self, arrangement: Spine, keys: Keys) -> tuple[KeyRows, KeyRows]:
        """Return the rows of touched keys before the epoch and after it, as many as the function needs."""
        return rows_change(arrangement, keys, self._count)

    def check(self, arrangement: Spine) -> None:
        """Check the change before results are computed. Raises if the function cannot be applied to it."""

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the result for the touched keys after the epoch, minus the result before it."""
        spine = self._arrangement
        if not len(spine.delta):
            return self._nothing
        self.check(spine)
        touched = spine.delta.keys.take(boundaries(spine.delta.keys))
        before, after = self.rows_change(spine, touched)
        old, old_diffs = self.made_of(before)
        new, new_diffs = self.made_of(after)
        return Delta.of(stack([old, new]), np.concatenate((-old_diffs, new_diffs))).consolidate()
