"""Seeded inputs, and the truth about them, computed with numpy and without any contender.

`write_chain` writes the files of the chain twice: `headed/` with a line of column names and `bare/`
without, since Flink's CSV format cannot skip one. `keys_in_turn` walks through all keys of a range in a
scattered order without holding them in memory, so that a memory figure is not blurred by its own input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from bench.reply import Histogram

Integers = npt.NDArray[np.int64]
SCHEMA = {"key": pl.Int64, "value": pl.Int64}
LARGEST_VALUE = 1_000
_STRIDE = 7_654_321


@dataclass(frozen=True)
class ChainInput:
    """Folders with the same rows, and the histogram as it must stand after each file."""

    headed: Path
    bare: Path
    truth: tuple[Histogram, ...]


def write_chain(folder: Path, rows: int, keys: int, files: int, seed: int = 20) -> ChainInput:
    """Write `rows` rows with keys uniform over `keys`, in `files` files of the same size."""
    written = ChainInput(folder / "headed", folder / "bare", ())
    for place in (written.headed, written.bare):
        place.mkdir(parents=True)
    counts: Integers = np.zeros(keys, dtype=np.int64)
    sums: Integers = np.zeros(keys, dtype=np.int64)
    truth: list[Histogram] = []
    generator = np.random.default_rng(seed)
    for number, size in enumerate(_shares(rows, files)):
        frame = random_rows(generator, size, keys)
        frame.write_csv(written.headed / f"part-{number:03}.csv")
        frame.write_csv(written.bare / f"part-{number:03}.csv", include_header=False)
        drawn, values = frame["key"].to_numpy(), frame["value"].to_numpy()
        np.add.at(counts, drawn, 1)
        np.add.at(sums, drawn, values)
        truth.append(histogram_of(counts, sums))
    return ChainInput(written.headed, written.bare, tuple(truth))


def random_rows(generator: np.random.Generator, rows: int, keys: int) -> pl.DataFrame:
    """Rows with keys uniform over `keys` and small whole values."""
    drawn = generator.integers(0, keys, rows)
    return pl.DataFrame({"key": drawn, "value": generator.integers(0, LARGEST_VALUE, rows)}, schema=SCHEMA)


def keys_in_turn(keys: int, rows: int) -> Iterator[pl.DataFrame]:
    """Every key of `range(keys)` once, scattered, in frames of at most `rows` rows."""
    stride = _STRIDE
    while math.gcd(stride, keys) != 1:
        stride += 1
    for start in range(0, keys, rows):
        place = np.arange(start, min(start + rows, keys), dtype=np.int64)
        yield pl.DataFrame({"key": place * stride % keys, "value": place % LARGEST_VALUE}, schema=SCHEMA)


def _shares(rows: int, files: int) -> list[int]:
    least, extra = divmod(rows, files)
    return [least + (number < extra) for number in range(files)]


def histogram_of(counts: Integers, sums: Integers) -> Histogram:
    """The histogram of keys that were seen so often (0: never) and whose values add up to so much."""
    seen = counts > 0
    sizes, place = np.unique(counts[seen], return_inverse=True)
    totals: Integers = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(totals, place, sums[seen])
    keys = np.bincount(place, minlength=len(sizes))
    return [[int(n), int(k), int(t)] for n, k, t in zip(sizes, keys, totals, strict=True)]
