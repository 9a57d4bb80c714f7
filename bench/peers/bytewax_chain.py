"""Bytewax: two keyed stateful steps, one worker; every file is one batch.

Bytewax has no retractions of its own, so the first step emits its previous row with -1 and the present one
with +1, and the second adds them up; each emits once per key and batch, which is the least that is
possible. Keys must be strings. Measured: from the declaration of the flow to its end, reading with the csv
module included. Not measured: start of the process, imports. One worker, since the files are one stream in
order: a second was no faster.
"""

from __future__ import annotations

import csv
import sys
import time
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bytewax.operators as op  # type: ignore[import-not-found]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition  # type: ignore[import-not-found]
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # type: ignore[import-not-found]
from bytewax.testing import run_main  # type: ignore[import-not-found]

from bench.changes import Changes
from bench.reply import send


class FilesInOrder(StatefulSourcePartition):  # type: ignore[misc]
    def __init__(self, files: list[Path]) -> None:
        self.files = iter(files)

    def next_batch(self) -> list[tuple[str, int]]:
        file = next(self.files)  # by its StopIteration a source ends
        with file.open(newline="") as lines:
            reader = csv.reader(lines)
            next(reader)
            return [(key, int(value)) for key, value in reader]

    def snapshot(self) -> None:
        return None


class Folder(FixedPartitionedSource):  # type: ignore[misc]
    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.csv"))

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> FilesInOrder:
        return FilesInOrder(self.files)


class CountAndSum(op.StatefulBatchLogic):  # type: ignore[misc]
    """State of one key; emits (count, (diff, sum))."""

    __slots__ = ("n", "total")

    def __init__(self) -> None:
        self.n = 0
        self.total = 0

    def on_batch(self, values: list[int]) -> tuple[list[tuple[str, tuple[int, int]]], bool]:
        changes = []
        if self.n:
            changes.append((str(self.n), (-1, self.total)))
        self.n += len(values)
        self.total += sum(values)
        changes.append((str(self.n), (1, self.total)))
        return changes, False

    def on_notify(self) -> tuple[list[Any], bool]:
        return [], False

    def on_eof(self) -> tuple[list[Any], bool]:
        return [], False

    def notify_at(self) -> datetime | None:
        return None

    def snapshot(self) -> tuple[int, int]:
        return self.n, self.total


class Level(CountAndSum):
    """State of one count; emits (diff, keys, total)."""

    __slots__ = ()

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        before = (-1, self.n, self.total)
        for diff, total in values:
            self.n += diff
            self.total += diff * total
        now = (1, self.n, self.total)
        return [change for change in (before, now) if change[1]], not self.n


class Collect(StatelessSinkPartition):  # type: ignore[misc]
    def __init__(self, changes: Changes) -> None:
        self.changes = changes

    def write_batch(self, items: list[tuple[str, tuple[int, int, int]]]) -> None:
        for n, (diff, keys, total) in items:
            self.changes.add(int(n), keys, total, diff)


class Collected(DynamicSink):  # type: ignore[misc]
    def __init__(self, changes: Changes) -> None:
        self.changes = changes

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Collect:
        return Collect(self.changes)


def main(folder: Path) -> None:
    changes = Changes()
    started = time.perf_counter()
    flow = Dataflow("chain")
    rows = op.input("rows", flow, Folder(folder))
    by_key = op.stateful_batch("by_key", rows, lambda state: CountAndSum())
    by_count = op.map("by_count", by_key, lambda keyed: keyed[1])
    histogram = op.stateful_batch("histogram", by_count, lambda state: Level())
    op.output("changes", histogram, Collected(changes))
    run_main(flow)
    seconds = time.perf_counter() - started
    send(seconds=seconds, histogram=changes.histogram(), changes=changes.count, version=version("bytewax"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
