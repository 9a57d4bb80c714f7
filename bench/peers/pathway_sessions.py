"""Pathway: a session window over the folder, its sessions grouped by their pages, changes taken by a subscriber.

Measured: from the declaration of the input to the end of the run. Not measured: start of the process,
imports. The folder is read with mode="static": all files are there, none will follow, so that the run ends
by itself and waits for nobody; with one worker every file of this size is an epoch of its own, with
retractions between them (smaller ones it may fold together: the reply contains how many epochs there were). Times
are integers, as in the files. Its sessions end where the next row is `max_gap` or more away, as ours do. The
number of workers is set by the environment variable PATHWAY_THREADS.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pathway as pw  # type: ignore[import-not-found]

from bench.changes import Changes
from bench.reply import send


class Hit(pw.Schema):  # type: ignore[misc]
    key: int
    at: int


def main(folder: str, gap: int) -> None:
    changes = Changes()
    epochs: set[int] = set()

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        epochs.add(time)
        n, sessions = row["n"], row["sessions"]
        changes.add(n, sessions, n * sessions, 1 if is_addition else -1)

    started = time.perf_counter()
    hits = pw.io.csv.read(folder, schema=Hit, mode="static")
    window = pw.temporal.session(max_gap=gap)
    sessions = hits.windowby(pw.this.at, window=window, instance=pw.this.key).reduce(n=pw.reducers.count())
    histogram = sessions.groupby(pw.this.n).reduce(pw.this.n, sessions=pw.reducers.count())
    pw.io.subscribe(histogram, on_change=on_change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.perf_counter() - started
    send(
        seconds=seconds,
        histogram=changes.histogram(),
        changes=changes.count,
        epochs=len(epochs),
        version=pw.__version__,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
