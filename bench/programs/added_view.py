"""What does it cost to add a view to a running engine? Over a grouping of so many keys: count and sum, and then how often each sum.

Measured: one polars evaluation of the same query over the rows of the grouping, from reading them on (the floor), and without reading
them; the view declared with `background=True` and waited for, while nobody pushes; and again while epochs of 1,000 rows are pushed one
after the other, beside the times of such epochs before. Then one fork, and a thousand of them that are all kept, with the memory that the
process has for them; and a thousand more, with what Python and numpy have allocated for them, as freed memory that is used again is not
in the memory of the process. The view is compared with the polars evaluation, after all pushes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from typing import Any

import numpy as np
import polars as pl

import evercurrent as ec
from bench.memory import resident
from bench.reply import send

ROWS, ALONE, PARTS, GROUPS = 1_000, 200, 10, 1_000
FORKS = 1_000


def sizes(totals: Any) -> Any:
    return totals.group_by((pl.col("total") % GROUPS).alias("size")).agg(n=pl.col("n").sum(), keys=pl.len())


def main(keys: int) -> None:
    random = np.random.default_rng(7)
    engine = ec.Engine()
    sales = engine.source("sales", {"key": pl.Int64, "price": pl.Int64})
    totals = engine.view("totals", sales.group_by("key").agg(n=pl.len(), total=pl.col("price").sum()))
    part = keys // PARTS
    for start in range(0, keys, part):
        numbers = np.arange(start, min(start + part, keys))
        engine.push(
            "sales", pl.DataFrame({"key": numbers, "price": random.integers(0, 100_000, len(numbers))})
        )

    def push() -> float:
        prices, numbers = random.integers(0, 1_000, ROWS), random.integers(0, keys, ROWS)
        started = time.perf_counter()
        engine.push("sales", pl.DataFrame({"key": numbers, "price": prices}))
        return time.perf_counter() - started

    alone = [push() for _ in range(ALONE)]
    started = time.perf_counter()
    engine.view("quiet", sizes(totals), background=True).wait()
    quiet = time.perf_counter() - started
    engine.drop_view("quiet")
    push()
    # Afterwards, as whoever reads all rows leaves the state merged.
    started = time.perf_counter()
    rows = totals.read()
    read = time.perf_counter()
    sizes(rows)
    floor, evaluated = time.perf_counter() - started, time.perf_counter() - read
    del rows
    push()

    started = time.perf_counter()
    view, busy = engine.view("sizes", sizes(totals), background=True), []
    while view.filling is not None:
        busy.append(push())
    meanwhile = time.perf_counter() - started
    expected = sizes(totals.read()).sort("size")
    assert view.read().sort("size").equals(expected.select(pl.all().cast(pl.Int64)))

    gc.collect()
    before, started = resident(), time.perf_counter()
    forks = [engine.fork()]
    first = time.perf_counter() - started
    one = resident() - before
    started = time.perf_counter()
    forks += [engine.fork() for _ in range(FORKS - 1)]
    later = (time.perf_counter() - started) / (FORKS - 1)
    each = (resident() - before) / FORKS
    tracemalloc.start()
    forks += [engine.fork() for _ in range(FORKS)]
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0] / FORKS
    tracemalloc.stop()
    forks[-1].push("sales", {"key": [0], "price": [1]})
    assert forks[-1].compare(engine)["totals"].height == 2
    send(
        floor_s=floor, evaluated_s=evaluated, quiet_s=quiet, meanwhile_s=meanwhile, pushes=len(busy),
        alone_ms=statistics.median(alone) * 1e3, busy_ms=statistics.median(busy) * 1e3, slowest_ms=max(busy) * 1e3,
        fill=quiet / floor, fill_evaluated=quiet / evaluated, push=statistics.mean(busy) / statistics.mean(alone),
        fork_ms=later * 1e3, first_fork_ms=first * 1e3, fork_mb=each / 1e6, first_fork_mb=one / 1e6,
        fork_traced_mb=traced / 1e6,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    main(parser.parse_args().keys)
