"""The entries of a few keys are taken out of rows that wait, and only these are sorted."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..data.columns.directory import entries_among
from ..data.columns.kernels import Keys, gather, stack
from .partitioning import KeyColumns
from .run import Layout, Run, empty_run, run_of_rows


def run_of_keys(
    layout: Layout, columns: KeyColumns, chunks: Sequence[tuple[pl.DataFrame, Keys]], keys: Keys
) -> Run:
    """Return the rows of these ascending, distinct keys as one run, given rows with diffs and the words of their keys.

    Cost: a look at each row, and a sort of those that have one of the keys.
    """
    rows = [gather(frame, entries_among(words, keys)[0]) for frame, words in chunks]
    rows = [frame for frame in rows if frame.height]
    return run_of_rows(layout, columns, stack(rows)) if rows else empty_run(layout)
