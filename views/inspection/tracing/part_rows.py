"""Rows of parts of states at some positions, with their diffs: those of all parts are gathered together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Index, Ints, frame_of
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.run import Run
from evercurrent.core.state.waiting import Chunk

Part = Run | Chunk


def frame_of_part(part: Part) -> pl.DataFrame:
    """Return the rows of a part; those of a chunk with their diffs."""
    return part.frame if isinstance(part, Chunk) else part.payload


class ChosenRows:
    """Some rows of a part, by their positions."""

    def __init__(self, part: Part, positions: Index) -> None:
        self.part = part
        self.positions = positions

    @cached_property
    def _in_polars(self) -> pl.Series:
        return pl.Series(self.positions.astype(np.uint32))

    def column(self, name: str) -> pl.Series:
        """Return a whole column of the part."""
        return frame_of_part(self.part).get_column(name)

    def of_column(self, name: str) -> pl.Series:
        """Return the values of a column in these rows."""
        return self.column(name)[self._in_polars]

    @property
    def diffs(self) -> Ints:
        """Return the diffs of these rows."""
        if isinstance(self.part, Chunk):
            return self.part.frame.get_column(DIFF).to_numpy()[self.positions]
        if DIFF in self.part.sums:
            return self.part.sums[DIFF][self.positions]
        return np.zeros(len(self.positions), np.int64)


def with_diffs(chosen: Sequence[ChosenRows]) -> pl.DataFrame:
    """Return the rows of parts of one state with their diffs.

    Numbers are gathered by numpy, as polars takes some 50 us for each part and column.
    """
    names = [name for name in frame_of_part(chosen[0].part).columns if name != DIFF]
    columns = [_gathered(name, chosen) for name in names]
    return frame_of([*columns, pl.Series(DIFF, np.concatenate([rows.diffs for rows in chosen]))])


def _gathered(name: str, chosen: Sequence[ChosenRows]) -> pl.Series:
    columns = [rows.column(name) for rows in chosen]
    if all(map(is_numpy, columns)):
        values = [column.to_numpy()[rows.positions] for column, rows in zip(columns, chosen, strict=True)]
        return pl.Series(name, np.concatenate(values))
    return pl.concat([rows.of_column(name) for rows in chosen])


def is_numpy(column: pl.Series) -> bool:
    """Return whether numpy has these numbers as they are, without a copy."""
    dtype = column.dtype
    is_number = dtype.is_float() or (dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128))
    return is_number and not column.has_nulls()
