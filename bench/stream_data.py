"""Parquet files for micro-batches, one each, and the truth about them, counted with numpy and without any contender."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
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
    """Write each frame as a file. Spark takes files in the order of their times: they are a second apart, a day ago."""
    folder.mkdir(parents=True)
    counts: Integers = np.zeros(keys, dtype=np.int64)
    sums: Integers = np.zeros(keys, dtype=np.int64)
    began = time.time() - DAY
    rows = files = 0
    for number, frame in enumerate(frames):
        file = folder / f"part-{number:04}.parquet"
        frame.write_parquet(file)
        os.utime(file, (began + number, began + number))
        drawn = frame["key"].to_numpy()
        counts += np.bincount(drawn, minlength=keys)
        sums += np.bincount(drawn, weights=frame["value"].to_numpy(), minlength=keys).astype(np.int64)
        rows, files = rows + frame.height, files + 1
    return StreamInput(folder, files, rows, histogram_of(counts, sums))
