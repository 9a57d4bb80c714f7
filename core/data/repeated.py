"""Rows that are each in several windows are passed on once, with a rule for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from .columns.kernels import frame_of, gather, physical
from .columns.whole_columns import AnyColumn
from .delta import Delta
from .schema import DIFF


@dataclass(frozen=True, slots=True)
class Repeats:
    """Each row stands for ``count`` rows, whose ``columns``, instants, lie a ``period`` of microseconds apart, up to its own."""

    columns: tuple[str, ...]
    count: int
    period: int

    def written_out(self, delta: Delta) -> Delta:
        """Return all rows: those of each row one after the other, their instants ascending."""
        rows = np.repeat(np.arange(len(delta)), self.count)
        back = np.tile(np.arange(self.count - 1, -1, -1) * self.period, len(delta))
        columns = {column.name: column for column in gather(delta.rows, rows).get_columns()}
        for name in self.columns:
            column = columns[name]
            columns[name] = pl.Series(name, physical(column) - back).cast(column.dtype)
        diffs = pl.Series(DIFF, delta.diffs[rows])
        return Delta(frame_of([*columns.values(), diffs]), delta.is_consolidated)


class RepeatedDelta(Delta):
    """A change of which each row of ``once`` stands for several rows; these are only made when somebody needs them."""

    __slots__ = ("once", "repeats")

    def __init__(self, once: Delta, repeats: Repeats) -> None:
        super().__init__(once.frame, once.is_consolidated)
        self._frame = None
        self.height: int = len(once) * repeats.count
        self.once: Delta = once
        self.repeats: Repeats = repeats

    def mapped(self, function: Callable[[Delta], Delta]) -> RepeatedDelta:
        """Return the result of a function of rows that neither reads nor changes the columns in which they differ."""
        return RepeatedDelta(function(self.once), self.repeats)

    @property
    def frame(self) -> pl.DataFrame:
        """See ``Delta``."""
        if self._frame is None:
            self._frame = self.repeats.written_out(self.once).frame
        return self._frame

    def renamed(self, copies: Mapping[str, str]) -> list[AnyColumn]:
        """See ``Delta``."""
        return Delta(self.frame).renamed(copies)

    def as_consolidated(self) -> Delta:
        """See ``Delta``."""
        return Delta(self.frame, True)
