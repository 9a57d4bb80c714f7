"""How soon an engine is back: the chain with many keys, from its checkpoint.

`make` loads every key once, in epochs of 500,000 rows, and ends. `start` is measured: from the making of the engine,
with source and views declared, until the view has been read, and until an epoch of 10,000 rows has been pushed and is
on disk. Imports are reported beside it. With `--cold` the system is made to drop the pages of the checkpoint first, as after a start
of the machine. What was read and pushed is compared with what has to be there.
"""

import time

_BEGAN = time.perf_counter()

import argparse  # noqa: E402
import os  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from bench import memory  # noqa: E402
from bench.data import keys_in_turn, random_rows  # noqa: E402
from bench.programs.durable import declared  # noqa: E402
from bench.reply import send  # noqa: E402

_IMPORTED = time.perf_counter()
LOADING = 500_000
ROWS = 10_000


def make(checkpoint: Path, keys: int) -> None:
    engine, _ = declared(checkpoint=checkpoint)
    started = time.perf_counter()
    for frame in keys_in_turn(keys, LOADING):
        engine.push("rows", frame)
    engine.close()
    written = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
    send(seconds=time.perf_counter() - started, bytes=written)


def start(checkpoint: Path, keys: int, cold: bool) -> None:
    if cold:
        _drop_pages(checkpoint)
    frame = random_rows(np.random.default_rng(9), ROWS, keys)
    before = memory.resident()
    started = time.perf_counter()
    engine, histogram = declared(checkpoint=checkpoint)
    first = histogram.read()
    read = time.perf_counter()
    engine.push("rows", frame)
    pushed = time.perf_counter()
    resident = memory.resident() - before
    engine.push("rows", frame)
    again = time.perf_counter()
    _check(first, keys)
    _check(histogram.read(), keys + 2 * ROWS)
    engine.close()
    send(
        import_seconds=_IMPORTED - _BEGAN,
        read_seconds=read - started,
        ready_seconds=pushed - started,
        second_push_seconds=again - pushed,
        resident_mib=resident / 2**20,
    )


def _check(histogram: pl.DataFrame, rows: int) -> None:
    counted = histogram.select(pl.col("n").cast(pl.Int64).dot(pl.col("keys").cast(pl.Int64))).item()
    if counted != rows:
        raise SystemExit(f"the histogram counts {counted} rows; {rows} were pushed")


def _drop_pages(folder: Path) -> None:
    os.sync()
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "start"])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if options.what == "make":
        make(options.checkpoint, options.keys)
    else:
        start(options.checkpoint, options.keys, options.cold)
