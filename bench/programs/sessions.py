"""evercurrent on sessions: hits in sessions by key, then the sessions by their pages; every file is one epoch.

Retracting: a hit that extends a session, or joins two, takes back what they were counted as. Nothing closes,
since no lateness is given. Measured: from the making of the engine to the view as a frame, reading the files
with polars and turning seconds into times included: a thread reads one file ahead (how long epochs waited
for it is reported as `waiting`). A subscriber receives the delta of every epoch. Not measured: start of
the process, imports, and the check that follows: the deltas are added up epoch by epoch, and the harness
compares each sum with the truth after that file.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import polars as pl

import evercurrent as ec
from bench.changes import Changes
from bench.event_data import HITS
from bench.reply import Histogram, send

TIME = pl.Datetime("us", "UTC")


def read(file: Path) -> pl.DataFrame:
    """The hits of a file, with times instead of seconds."""
    at = pl.from_epoch("at", "s").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.read_csv(file, schema=HITS).with_columns(at)


def added_up(deltas: list[pl.DataFrame], last: int) -> tuple[list[Histogram], int]:
    """The histogram after each epoch up to the last, from the deltas alone, and the number of changes."""
    changes = Changes()
    steps: list[Histogram] = []
    by_epoch = {int(delta["_epoch"][0]): delta for delta in deltas}
    for epoch in range(1, last + 1):
        if epoch in by_epoch:
            for n, sessions, diff in by_epoch[epoch].select("n", "sessions", "_diff").rows():
                changes.add(n, sessions, n * sessions, diff)
        steps.append(changes.histogram())
    return steps, changes.count


def main(folder: Path, gap: int, disorder: int, shows_plan: bool) -> None:
    deltas: list[pl.DataFrame] = []
    waiting = 0.0
    started = time.perf_counter()
    engine = ec.Engine()
    watermark = ec.bounded_delay(timedelta(seconds=disorder))
    hits = engine.source("hits", {"key": pl.Int64, "at": TIME}, event_time="at", watermark=watermark)
    windowed = hits.window(ec.sessions(timedelta(seconds=gap))).accumulate("retracting")
    visits = windowed.group_by("key").agg(n=pl.len())
    histogram = engine.view("histogram", visits.group_by("n").agg(sessions=pl.len()))
    histogram.subscribe(deltas.append)
    files = sorted(folder.glob("*.csv"))
    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(read, files[0])
        for following in [*files[1:], None]:
            began = time.perf_counter()
            batch = ahead.result()
            waiting += time.perf_counter() - began
            if following is not None:
                ahead = reader.submit(read, following)
            engine.push("hits", batch)
    contents = histogram.read()
    seconds = time.perf_counter() - started

    steps, count = added_up(deltas, engine.epoch_number)
    refused = engine.ledger().height
    if refused:
        raise SystemExit(f"{refused} rows were refused; all of them are good")
    if shows_plan:
        print(engine.explain())
    send(
        seconds=seconds,
        waiting=waiting,
        histogram=[[n, s, n * s] for n, s in contents.select("n", "sessions").sort("n").rows()],
        steps=steps,
        changes=count,
        epochs=engine.epoch_number,
        version=version("evercurrent"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gap", type=int, required=True, help="seconds")
    parser.add_argument("--disorder", type=int, required=True, help="seconds")
    parser.add_argument("--plan", action="store_true", help="print the plan with its costs")
    options = parser.parse_args()
    main(options.folder, options.gap, options.disorder, options.plan)
