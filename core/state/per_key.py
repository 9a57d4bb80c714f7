"""Operators over all rows of a key: for the keys that a change touches, what they make of the rows before and after it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import polars as pl

from ..columns.grouping import boundaries
from ..columns.kernels import Ints, stack
from ..data.clock import Now
from ..data.delta import Delta
from .lookup import Found, rows_change
from .operator_contract import Operator
from .spine import Spine


class PerKey(Operator, ABC):
    """A function of the rows of each key, kept current by the keys that the epoch touches.

        out(A) = f(rows of A by key),   emitted as f(rows after) - f(rows before) for the keys in the change

    State: the arrangement that it reads, nothing of its own. ``count``: the function needs so many of the first rows of a
    key, in the order of the arrangement; None: all. What it makes must not depend on other keys.
    Cost: these rows of each touched key.
    """

    def __init__(self, schema: pl.Schema, arrangement: Spine, count: int | None) -> None:
        self.schema = schema
        self._arrangement = arrangement
        self.looks_at = (arrangement,)
        self._count = count
        self._nothing = Delta.empty(schema)

    @abstractmethod
    def made_of(self, found: Found) -> tuple[pl.DataFrame, Ints]:
        """Return the rows with their diffs that are made of the rows of some keys, as they are at one moment."""

    def check(self, arrangement: Spine) -> None:
        """Check the change before anything is made of it. Raises where the function cannot be applied."""

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return what is made of the touched keys after the epoch minus what was made of them before it."""
        spine = self._arrangement
        if not len(spine.delta):
            return self._nothing
        self.check(spine)
        touched = spine.delta.keys.take(boundaries(spine.delta.keys))
        before, after = rows_change(spine, touched, self._count)
        old, old_diffs = self.made_of(before)
        new, new_diffs = self.made_of(after)
        return Delta.of(stack([old, new]), np.concatenate((-old_diffs, new_diffs))).consolidate()
