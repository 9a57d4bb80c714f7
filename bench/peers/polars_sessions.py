"""The floor: polars reads all files, finds the sessions and counts them by their pages, as one query.

Measured: from before the first file is opened to the histogram as a frame. Not measured: start of the
process, imports. Nothing is maintained: this is what the answer costs when nobody reads it before the end. A
session ends where the next hit of its key is the gap or more away; the rows are sorted once, and the sessions
are counted by runs of equal numbers.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl

from bench.reply import send

SCHEMA = {"key": pl.Int64, "at": pl.Int64}


def lengths(hits: pl.LazyFrame, gap: int) -> pl.LazyFrame:
    """How many sessions have so many pages; hits of a key that are `gap` apart are in different sessions."""
    begins = (pl.col("key") != pl.col("key").shift()) | (pl.col("at").diff() >= gap)
    sessions = hits.sort("key", "at").select(session=begins.fill_null(True).cum_sum())
    pages = sessions.select(n=pl.col("session").rle().struct.field("len"))
    return pages.group_by("n").agg(sessions=pl.len())


def main(folder: Path, gap: int) -> None:
    started = time.perf_counter()
    histogram = lengths(pl.scan_csv(sorted(folder.glob("*.csv")), schema=SCHEMA), gap).collect()
    seconds = time.perf_counter() - started
    rows = [[n, count, n * count] for n, count in histogram.select("n", "sessions").sort("n").rows()]
    send(seconds=seconds, histogram=rows, version=pl.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
