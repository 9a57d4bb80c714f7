"""How long does it take to find the sales behind one row, three stages away? By shop and item, by shop, by the total of the shop.

Measured: the first call in the process, which loads what it needs, and then 20 calls, each about another row and after a push of
ten rows: their median, and the slowest one; processor time of all threads, and wall-clock time. At the end the found rows are compared with the batch that
was pushed. Left out: filling, and reading a view to choose a row.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import polars as pl

import evercurrent as ec
from bench.reply import send

CALLS = 20
SALES_OF_A_SHOP, ITEMS_OF_A_SHOP = 200, 20


def filled(rows: int, batch: int) -> ec.Engine:
    """Return an engine with this many sales, in shops of equal size."""
    engine = ec.Engine(retain=ec.Retain(epochs=10))
    columns = {"shop": pl.Int64, "item": pl.Int64, "price": pl.Int64}
    sales = engine.source("sales", columns, retained=True)
    items = engine.view("items", sales.group_by("shop", "item").agg(n=pl.len(), total=pl.col("price").sum()))
    shops = engine.view("shops", items.group_by("shop").agg(items=pl.len(), total=pl.col("total").sum()))
    engine.view("sizes", shops.group_by("total").agg(shops=pl.len(), most=pl.col("items").max()))
    random = np.random.default_rng(1)
    count = max(rows // SALES_OF_A_SHOP, 1)
    for start in range(0, rows, batch):
        height = min(batch, rows - start)
        engine.push(
            "sales",
            {
                "shop": random.integers(0, count, height),
                "item": random.integers(0, ITEMS_OF_A_SHOP, height),
                "price": random.integers(0, 1_000_000, height),
            },
        )
    return engine


def main(rows: int, batch: int) -> None:
    engine = filled(rows, batch)
    sizes, shops = engine.views["sizes"], engine.views["shops"]
    totals = sizes.read()["total"].to_list()
    begun = time.process_time()
    sizes.lineage({"total": totals[0]})
    first = time.process_time() - begun
    seconds, wall_seconds, indexes = [], [], engine._indexes
    sorted_rows = read_rows = found_rows = 0
    for number in range(CALLS):
        ten = np.arange(number, number + 10)
        engine.push("sales", {"shop": ten, "item": ten, "price": ten})
        total = int(sizes.read()["total"][number * 7])
        sorted_before, read_before = indexes.indexed, indexes.touched
        begun, wall_begun = time.process_time(), time.perf_counter()
        lineage_rows = sizes.lineage({"total": total})["sales"]
        seconds.append(time.process_time() - begun)
        wall_seconds.append(time.perf_counter() - wall_begun)
        sorted_rows, read_rows = indexes.indexed - sorted_before, indexes.touched - read_before
        found_rows = int(lineage_rows["_diff"].sum())
        of_shops = shops.read().filter(pl.col("total") == total)["shop"]
        assert set(lineage_rows["shop"]) == set(of_shops)
        assert int((lineage_rows["price"] * lineage_rows["_diff"]).sum()) == total * len(of_shops)
    send(
        first_ms=first * 1000,
        slowest_ms=max(seconds) * 1000,
        call_ms=statistics.median(seconds) * 1000,
        wall_ms=statistics.median(wall_seconds) * 1000,
        sorted_rows=sorted_rows,
        read_rows=read_rows,
        found_rows=found_rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--batch", type=int, default=250_000)
    arguments = parser.parse_args()
    main(arguments.rows, arguments.batch)
