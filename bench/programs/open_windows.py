"""The cost of a small epoch while many windows are open: fixed windows of a minute, or sessions with that gap.

Rows come out of order by up to hours, so that windows stay open: half of them are still before their end, where
they fire early, every minute of processing time; half are past it, where they are refined until the allowed
lateness is over. An epoch is a minute of event time and of processing time and has 1,000 rows: 500 open a
window, 500 go into any that is open. So in each the watermark moves on by a minute, what got rows in the
epoch before and is before its end is due and fires early, what got late rows fires again, 500 windows pass
their end and 500 close. Panes retract.

Loaded first: as many minutes as windows stay open. Then 20 epochs that are not counted, then the measured
ones. Measured: each call of `push`, alone. Not measured: making the frames, loading (reported beside), and
the check that follows: a last epoch without rows in which everything is due, and the view compared with one
polars evaluation of all rows. Merges of runs fall into the mean and mostly not into the median: both are reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import UTC, datetime, timedelta

import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.event_data import BEGIN, MINUTE, TIMED_ROWS, Minutes
from bench.reply import send

ROWS, KEYS = 1_000, 100_000
WARMING = 20
LENGTH = timedelta(seconds=MINUTE)
MARGIN = 3
"""Minutes before a window closes in which it is sent no rows, so that none is refused."""
SUMS = {"n": pl.len(), "total": pl.col("value").sum()}


def once(rows: pl.DataFrame, where: str) -> pl.DataFrame:
    """The windows as one batch evaluation finds them."""
    if where == "fixed":
        start = pl.col("at").dt.truncate(LENGTH)
        windows = rows.group_by("key", window_start=start).agg(**SUMS)
        return windows.with_columns(window_end=pl.col("window_start") + LENGTH)
    begins = (pl.col("key") != pl.col("key").shift()) | (pl.col("at").diff() >= LENGTH)
    numbered = rows.sort("key", "at").with_columns(session=begins.fill_null(True).cum_sum())
    bounds = {"window_start": pl.col("at").min(), "window_end": pl.col("at").max() + LENGTH}
    return numbered.group_by("key", "session").agg(**bounds, **SUMS).drop("session")


def main(where: str, pairs: int, epochs: int, shows_plan: bool) -> None:
    # Windows stay open for twice this long: until they end, since rows come so late, and then once more.
    delay = pairs // ROWS - 1
    window = ec.fixed(LENGTH) if where == "fixed" else ec.sessions(LENGTH)
    engine = ec.Engine()
    watermark = ec.bounded_delay(delay * LENGTH)
    source = engine.source("rows", TIMED_ROWS, event_time="at", watermark=watermark)
    windowed = (
        source.window(window)
        .trigger(early=ec.every(LENGTH), late=ec.each_row())
        .accumulate("retracting")
        .lateness(delay * LENGTH)
    )
    view = engine.view("sums", windowed.group_by("key").agg(**SUMS))

    minutes = Minutes(ROWS, KEYS, memory=2 * delay - MARGIN)
    frames: list[pl.DataFrame] = []

    def push(frame: pl.DataFrame) -> float:
        frames.append(frame)
        at = datetime.fromtimestamp(BEGIN, UTC) + minutes.minute * LENGTH
        started = time.perf_counter()
        engine.push("rows", frame, at=at)
        return time.perf_counter() - started

    step = max(delay // 10, 1)
    loading = sum(push(minutes.fresh_rows(step)) for _ in range(0, 2 * delay + 1, step))
    durations = [push(minutes.rows()) for _ in range(WARMING + epochs)][WARMING:]

    engine.tick(at=datetime.fromtimestamp(BEGIN, UTC) + (minutes.minute + 1) * LENGTH)
    rows, contents = pl.concat(frames), view.read()
    expected = once(rows, where)
    assert_frame_equal(
        contents, expected, check_row_order=False, check_column_order=False, check_dtypes=False
    )
    refused = engine.ledger().height
    if refused:
        raise SystemExit(f"{refused} rows were refused; all of them are good")
    mark = rows.select(pl.col("at").max() - delay * LENGTH).item()
    if shows_plan:
        print(engine.explain())
    send(
        median_ms=statistics.median(durations) * 1e3,
        mean_ms=statistics.fmean(durations) * 1e3,
        greatest_ms=max(durations) * 1e3,
        loading_seconds=loading,
        open=contents.filter(pl.col("window_end") + delay * LENGTH > mark).height,
        ended=contents.filter(
            pl.col("window_end").is_between(mark - delay * LENGTH, mark, closed="right")
        ).height,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", choices=("fixed", "sessions"))
    parser.add_argument("--pairs", type=int, required=True, help="open windows, all keys together")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--plan", action="store_true", help="print the plan with its costs")
    options = parser.parse_args()
    main(options.where, options.pairs, options.epochs, options.plan)
