"""The rows of some keys, as they are looked up in a state."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ..data.columns.kernels import Index, Ints


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """The rows of some keys: the position of the key among those looked up, the row, and its diff.

    Rows of a key are together, in the order of the layout; keys are in the order in which they were given.
    """

    owners: Index
    payload: pl.DataFrame
    diffs: Ints
