"""Parquet files for micro-batches, one each, and the truth about them, counted with numpy and without any contender."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bench.data import Integers, histogram_of
from bench.reply import Histogram

DAY = 86_400


@dataclass(frozen=True)
class StreamInput:
    """A folder of numbered parquet files, how many there are, their rows, and the histogram after the last."""

    folder: Path
    files: int
    rows: int
    truth: Histogram


def write_stream(folder: Path, frames: Iterable[pl.DataFrame], keys: int) -> StreamInput:
    """Write each frame as a file, and count what is in them."""
    counts: Integers = np.zeros(keys, dtype=np.int64)
    sums: Integers = np.zeros(keys, dtype=np.int64)
    rows = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal counts, sums, rows
        for frame in frames:
            drawn = frame["key"].to_numpy()
            counts += np.bincount(drawn, minlength=keys)
            sums += np.bincount(drawn, weights=frame["value"].to_numpy(), minlength=keys).astype(np.int64)
            rows += frame.height
            yield frame

    files = write_files(folder, counted())
    return StreamInput(folder, files, rows, histogram_of(counts, sums))


def write_files(folder: Path, frames: Iterable[pl.DataFrame]) -> int:
    """Write each frame as a file, and return their number.

    Spark takes files in the order of their times: they are a second apart, a day ago.
    """
    folder.mkdir(parents=True)
    began, files = time.time() - DAY, 0
    for files, frame in enumerate(frames, 1):
        file = folder / f"part-{files - 1:04}.parquet"
        frame.write_parquet(file)
        os.utime(file, (began + files, began + files))
    return files
