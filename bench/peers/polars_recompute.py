"""polars without an incremental engine: after each file, the whole chain again over all rows so far.

Measured: reading each file once, keeping its rows, one evaluation per file. Not measured: start of the
process, imports.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl

from bench.peers.polars_once import SCHEMA, chain
from bench.reply import send


def main(folder: Path) -> None:
    started = time.perf_counter()
    batches: list[pl.DataFrame] = []
    results: list[pl.DataFrame] = []
    for file in sorted(folder.glob("*.csv")):
        batches.append(pl.read_csv(file, schema=SCHEMA))
        results.append(chain(pl.concat(batches, rechunk=False).lazy()).collect())
    seconds = time.perf_counter() - started
    steps = [
        [list(row) for row in result.select("n", "keys", "total").sort("n").rows()] for result in results
    ]
    send(seconds=seconds, histogram=steps[-1], steps=steps, version=pl.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
