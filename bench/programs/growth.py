"""What is left of many small epochs: one row each, under the default options of a checkpoint.

Three views on one source: count and sum by user, the histogram of the counts, the slow ones. Every tenth of the epochs the
files are counted, the writer's own among them. Measured: each call of `push`, alone. At the end, closed: files, their
bytes, and the bytes that are retained, which are the pieces that the retained commits name and the records of these. The
views are compared with one polars evaluation over all rows, and the deltas of the last 1,000 epochs are read from files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import evercurrent as ec
from bench.reply import send
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.store import LocalStore

USERS = 5_000
SLOW = 900
SCHEMA = {"user": pl.Int64(), "page": pl.String(), "ms": pl.Int64()}
BY_USER = {"n": pl.len(), "ms": pl.col("ms").sum()}
SINCE = 1_000


def declared(checkpoint: ec.Checkpoint) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint, retain=ec.Retain(epochs=10))
    hits = engine.source("hits", SCHEMA)
    by_user = hits.group_by("user").agg(**BY_USER)
    engine.view("users", by_user)
    engine.view("depth", by_user.group_by("n").agg(users=pl.len()))
    engine.view("slow", hits.filter(pl.col("ms") > SLOW))
    return engine


def files_of(folder: Path) -> dict[str, int]:
    """The files of a folder with their sizes; some may go while they are counted."""
    sizes: dict[str, int] = {}
    for file in folder.rglob("*"):
        try:
            if file.is_file():
                sizes[str(file)] = file.stat().st_size
        except FileNotFoundError:
            continue
    return sizes


def retained_bytes(folder: Path) -> tuple[int, int]:
    """The bytes of all pieces that the retained commits name, and of the records of these; and how many commits there are."""
    log = CommitLog(LocalStore(folder))
    epochs = log.epochs()
    pieces = {
        ref
        for epoch in epochs
        for commit in [log.at(epoch)]
        for refs in (
            *(state.pieces for state in commit.states.values()),
            *(tuple(delta.piece for delta in deltas) for deltas in commit.deltas.values()),
        )
        for ref in refs
    }
    records = sum(file.stat().st_size for file in (folder / "commits").iterdir())
    return sum(ref.size for ref in pieces) + records, len(epochs)


def main(folder: Path, epochs: int) -> None:
    place = Path(tempfile.mkdtemp(dir=folder)) / "checkpoint"
    generator = np.random.default_rng(7)
    rows = pl.DataFrame(
        {
            "user": generator.integers(0, USERS, epochs),
            "page": [f"page {number % 10}" for number in range(epochs)],
            "ms": generator.integers(0, 1000, epochs),
        }
    )
    engine = declared(ec.Checkpoint(place))
    durations: list[float] = []
    most_files = 0
    for number in range(epochs):
        frame = rows.slice(number, 1)
        started = time.perf_counter()
        engine.push("hits", frame)
        durations.append(time.perf_counter() - started)
        if (number + 1) % (epochs // 10) == 0:
            most_files = max(most_files, len(files_of(place)))
    since = max(0, epochs - SINCE)
    assert engine.views["users"].deltas(since).frame()["_epoch"].unique().len() == epochs - since
    check(engine, rows)
    engine.close()
    files = files_of(place)
    retained, commits = retained_bytes(place)
    tenth = epochs // 10
    first, last = statistics.median(durations[:tenth]), statistics.median(durations[-tenth:])
    send(
        files=len(files),
        most_files=most_files,
        commits=commits,
        bytes=sum(files.values()),
        retained_bytes=retained,
        times_retained=sum(files.values()) / retained,
        first_ms=first * 1e3,
        last_ms=last * 1e3,
        last_over_first=last / first,
        seconds=sum(durations),
    )


def check(engine: ec.Engine, rows: pl.DataFrame) -> None:
    """The views are what one evaluation over all rows gives."""
    by_user = rows.group_by("user").agg(**BY_USER)
    truth = {
        "users": by_user,
        "depth": by_user.group_by("n").agg(users=pl.len()),
        "slow": rows.filter(pl.col("ms") > SLOW),
    }
    for name, frame in truth.items():
        assert_frame_equal(
            engine.views[name].read(),
            frame,
            check_row_order=False,
            check_column_order=False,
            check_dtypes=False,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, required=True)
    options = parser.parse_args()
    main(options.folder, options.epochs)
