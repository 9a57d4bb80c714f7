"""The change of one epoch: rows with signed counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ..columns.grouping import Groups, consolidated, group
from ..columns.kernels import Ints, gather, key_words
from .schema import DIFF, empty_frame, with_diff


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """Rows with diffs: the change of a collection in one epoch.

    ``frame`` holds the data columns and, last, ``_diff`` (Int64, no nulls). A delta is *consolidated* when each row is in
    it once and no diff is zero. Linear operators neither need nor restore that form, so a delta has a flag for it
    (``is_consolidated``), and ``consolidate`` establishes it where it is needed: at the edge of the circuit.
    """

    frame: pl.DataFrame
    is_consolidated: bool = False
    _groups: list[Groups] = field(default_factory=list, repr=False)
    """The entries by equal rows, once they were brought together: whoever needs them next has them for nothing."""

    @staticmethod
    def empty(schema: pl.Schema) -> Delta:
        """Return the delta without rows over these data columns."""
        return Delta(empty_frame(with_diff(schema)), is_consolidated=True)

    @staticmethod
    def of(rows: pl.DataFrame, diffs: Ints, *, is_consolidated: bool = False) -> Delta:
        """Return rows and their diffs, side by side."""
        return Delta(pl.DataFrame([*rows.get_columns(), pl.Series(DIFF, diffs)]), is_consolidated)

    def __len__(self) -> int:
        """Return the number of entries, each a row with its diff."""
        return self.frame.height

    @property
    def diffs(self) -> Ints:
        """Return the diffs as int64, one per entry."""
        diffs: Ints = self.frame.get_column(DIFF).to_numpy()
        return diffs

    @property
    def rows(self) -> pl.DataFrame:
        """Return the data columns, without ``_diff``."""
        return pl.DataFrame(self.frame.get_columns()[:-1])

    @property
    def groups(self) -> Groups:
        """Return the entries by equal rows. Cost: two hashes and one sort of the entries, the first time."""
        if not self._groups:
            self._groups.append(group(key_words(self.rows.get_columns(), len(self))))
        return self._groups[0]

    def as_consolidated(self) -> Delta:
        """Return the same entries, each of which is known to be another row, with a diff that is not zero."""
        return Delta(self.frame, True, self._groups)

    def consolidate(self) -> Delta:
        """Return the same change with each row once and no zero diff, rows in order of first appearance.

        Cost: that of ``groups``; nothing if the delta is already consolidated.
        """
        if self.is_consolidated:
            return self
        keep, diffs = consolidated(self.groups, self.diffs)
        if keep is None:
            return self.as_consolidated()
        return Delta.of(gather(self.rows, keep), diffs, is_consolidated=True)

    def negate(self) -> Delta:
        """Return the change that undoes this one."""
        return Delta.of(self.rows, np.negative(self.diffs), is_consolidated=self.is_consolidated)
