"""Runs are converted to columns, which are written, and made of columns, which may be mapped from a file.

A run is immutable columns, so nothing is copied either way: opening a run costs the same whatever its size, pages are
loaded when they are read, and several processes share them.
"""

from __future__ import annotations

import polars as pl

from ..data.columns.directory import Deferred
from ..data.columns.kernels import Keys, Words
from ..data.errors import CheckpointError
from ..data.schema import listed
from .run import Layout, Run
from .snapshot import KEY, PAYLOAD, ROW, ROW_SECOND, SECOND, SUM


def columns_of_run(run: Run) -> pl.DataFrame:
    """Return the run as columns. Cost: none of its entries is copied."""
    words = {KEY: run.keys.first, SECOND: run.keys.second}
    if run.rows is not None:
        words |= {ROW: run.rows.first, ROW_SECOND: run.rows.second}
    series = [pl.Series(name, column) for name, column in words.items() if column is not None]
    series += [pl.Series(SUM + name, column) for name, column in run.sums.items()]
    series += [column.alias(PAYLOAD + column.name) for column in run.payload.get_columns()]
    return pl.DataFrame(series)


def run_of_columns(layout: Layout, columns: pl.DataFrame) -> Run:
    """Return the run made of these columns. Its directory is built when it is first searched.

    Raises:
        CheckpointError: they are the columns of another state.
    """
    missing = [name for name in layout.payload if PAYLOAD + name not in columns.columns]
    if missing or KEY not in columns.columns or (ROW in columns.columns) != layout.by_row:
        raise CheckpointError(
            f"a run with the columns {listed(columns.columns)} belongs to another state: expected are "
            f"{listed([KEY, *((ROW,) if layout.by_row else ()), *(PAYLOAD + name for name in layout.payload)])}"
        )
    payload = pl.DataFrame([columns.get_column(PAYLOAD + name).alias(name) for name in layout.payload])
    keys = Keys(columns.get_column(KEY).to_numpy(), _words(columns, SECOND))
    rows = Keys(columns.get_column(ROW).to_numpy(), _words(columns, ROW_SECOND)) if layout.by_row else None
    sums = {
        name.removeprefix(SUM): columns.get_column(name).to_numpy()
        for name in columns.columns
        if name.startswith(SUM)
    }
    return Run(keys, payload, sums, rows, Deferred.of(keys.first, is_matched=rows is None))


def _words(columns: pl.DataFrame, name: str) -> Words | None:
    return columns.get_column(name).to_numpy() if name in columns.columns else None
