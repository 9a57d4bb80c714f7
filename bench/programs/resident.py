"""What `resident_bytes` comes to: memory of a process whose state is several times its limit.

Count and sum by integer key, and the histogram of the counts, keys uniform over twice as many as there are rows, in epochs
that are small beside the limit. Loaded first: 20 epochs over a thousand keys. Measured after each push from then on: the
memory that is the process's own (`RssAnon`), less what it was then. Mapped files are reported beside it (`RssFile`): their pages are the
system's page cache, which it takes back when memory is short. The view is compared with one polars evaluation.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import evercurrent as ec
from bench.data import random_rows
from bench.memory import own, resident
from bench.programs.durable import declared
from bench.reply import send

WARMING = 20
FEW = 1_000


def main(folder: Path, epochs: int, rows: int, limit: int) -> None:
    generator = np.random.default_rng(7)
    place = Path(tempfile.mkdtemp(dir=folder)) / "checkpoint"
    engine, histogram = declared(
        checkpoint=ec.Checkpoint(place, resident_bytes=limit), retain=ec.Retain(epochs=2)
    )
    frames = [random_rows(generator, rows, FEW) for _ in range(WARMING)]
    for frame in frames:
        engine.push("rows", frame)
    frames += [random_rows(generator, rows, 2 * epochs * rows) for _ in range(epochs)]
    first, first_mapped = own(), resident() - own()
    memory: list[int] = []
    for frame in frames[WARMING:]:
        engine.push("rows", frame)
        memory.append(own() - first)
    mapped = resident() - own() - first_mapped
    counts = pl.concat(frames).group_by("key").agg(n=pl.len()).group_by("n").agg(keys=pl.len())
    contents = histogram.read().select("n", "keys").cast(pl.Int64)
    if not contents.sort("n").equals(counts.cast(pl.Int64).select("n", "keys").sort("n")):
        raise SystemExit("the histogram is not that of one evaluation over all rows")
    engine.close()
    send(
        most_mib=max(memory) / 2**20,
        median_mib=statistics.median(memory) / 2**20,
        times_limit=max(memory) / limit,
        mapped_mib=mapped / 2**20,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--limit", type=int, required=True)
    options = parser.parse_args()
    main(options.folder, options.epochs, options.rows, options.limit)
