"""Pathway: two chained groupbys over the folder, changes of the second one taken by a subscriber.

Measured: from the declaration of the input to the end of the run. Not measured: start of the process,
imports. The folder is read with mode="static": all files are there, none will follow, so that the run ends
by itself and waits for nobody. With one worker Pathway still takes every file as an epoch of its own, with
retractions between them; with more workers it may fold several files into one epoch, which is less work:
the reply contains how many epochs there were. The number of workers is set by the environment variable
PATHWAY_THREADS.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pathway as pw  # type: ignore[import-not-found]

from bench.changes import Changes
from bench.reply import send


class Row(pw.Schema):  # type: ignore[misc]
    key: int
    value: int


def main(folder: str) -> None:
    changes = Changes()
    epochs: set[int] = set()

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        epochs.add(time)
        changes.add(row["n"], row["keys"], row["total"], 1 if is_addition else -1)

    started = time.perf_counter()
    rows = pw.io.csv.read(folder, schema=Row, mode="static")
    by_key = rows.groupby(pw.this.key).reduce(
        pw.this.key, n=pw.reducers.count(), total=pw.reducers.sum(pw.this.value)
    )
    histogram = by_key.groupby(pw.this.n).reduce(
        pw.this.n, keys=pw.reducers.count(), total=pw.reducers.sum(pw.this.total)
    )
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
    main(sys.argv[1])
