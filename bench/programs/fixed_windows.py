"""evercurrent on fixed windows with early, on-time and late panes, accumulating; count and sum by key.

An epoch takes its rows, then moves the watermark by hand, then emits: early panes where rows came, one on
time, late ones where late rows came, and one when the window closes. Those on time and at closing are emitted
even if nothing new came (`always`), since Beam always has one on time; each has its number and timing, as in Beam.
Measured: all calls of `push` together. Not measured: start of the process, imports, making the frames, and
the check that follows: the last pane of each key and window is compared with one polars evaluation of all
rows, and no row may have been refused.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.reply import send

TIME = pl.Datetime("us", "UTC")
SCHEMA = {"key": pl.Int64, "at": TIME, "value": pl.Int64}


def epochs_of(file: Path) -> tuple[list[pl.DataFrame], list[datetime]]:
    """The rows of each epoch, and the watermark after it."""
    with np.load(file) as data:
        rows, marks = data["rows"], data["marks"]
    at = pl.from_epoch("at", "s").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    frame = pl.DataFrame(rows, schema=["epoch", "key", "at", "value"]).with_columns(at)
    parts = frame.partition_by("epoch", maintain_order=True, include_key=False)
    return parts, [datetime.fromtimestamp(int(mark), UTC) for mark in marks]


def check(panes: pl.DataFrame, rows: pl.DataFrame, size: timedelta) -> None:
    """The last pane of each key and window must be about all of its rows."""
    place = ["key", "window_start"]
    last = panes.group_by(place).agg(pl.col("n", "total").sort_by("n").last())
    truth = rows.group_by("key", window_start=pl.col("at").dt.truncate(size)).agg(
        n=pl.len(), total=pl.col("value").sum()
    )
    assert_frame_equal(last, truth, check_row_order=False, check_dtypes=False)


def main(file: Path, size: timedelta, lateness: timedelta, shows_plan: bool) -> None:
    frames, marks = epochs_of(file)
    engine = ec.Engine()
    hits = engine.source("hits", SCHEMA, event_time="at")
    windowed = (
        hits.window(ec.fixed(size))
        .trigger(early=ec.every_epoch(), late=ec.each_row(), always=True)
        .accumulate("accumulating")
        .lateness(lateness)
        .with_pane_info()
    )
    sums = engine.view("sums", windowed.group_by("key").agg(n=pl.len(), total=pl.col("value").sum()))

    started = time.perf_counter()
    for frame, mark in zip(frames, marks, strict=True):
        engine.push("hits", frame, watermark=mark)
    seconds = time.perf_counter() - started

    contents, rows = sums.read(), pl.concat(frames)
    check(contents, rows, size)
    refused = engine.ledger().height
    if refused:
        raise SystemExit(f"{refused} rows were refused; all of them are good")
    if shows_plan:
        print(engine.explain())
    send(
        rows_per_second=rows.height / seconds,
        seconds=seconds,
        rows=rows.height,
        epochs=len(frames),
        panes=dict(contents["timing"].value_counts().rows()),
        version=version("evercurrent"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", type=int, required=True, help="of a window, seconds")
    parser.add_argument("--lateness", type=int, required=True, help="seconds")
    parser.add_argument("--plan", action="store_true", help="print the plan with its costs")
    options = parser.parse_args()
    main(options.file, timedelta(seconds=options.size), timedelta(seconds=options.lateness), options.plan)
