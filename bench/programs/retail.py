"""The retail application over a parquet file of invoice lines, in the order of the file.

Its four views (invoices, customers, tiers, countries) are chained, so one line can touch all of them.
Measured: pushing all lines, slices of so many lines each, or (0) all of them in one epoch. Not measured:
reading the file, building the engine, reading the views. Afterwards customers and revenue of the tiers are
compared with the lines themselves, and a digest of each view is reported, floats rounded to the sixth decimal,
for the harness to compare the splits by.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import time
from pathlib import Path

import polars as pl
import polars.selectors as cs

from bench.reply import send
from evercurrent.views.apps import retail

SOURCE = "orders"


def digest(contents: pl.DataFrame) -> str:
    """The same for the same rows, in whatever order they come."""
    # Adding zero makes -0.0, which rounding can leave, into 0.0.
    plain = contents.with_columns(cs.float().round(6) + 0.0)
    return hashlib.sha256(plain.sort(plain.columns).write_csv().encode()).hexdigest()


def check(tiers: pl.DataFrame, orders: pl.DataFrame) -> None:
    """The tiers must count every customer of a country once, and all that they paid."""
    identified = orders.filter(pl.col("CustomerID").is_not_null())
    customers = identified.select(pl.struct("Country", "CustomerID").n_unique()).item()
    revenue = identified.select((pl.col("Quantity") * pl.col("UnitPrice")).sum()).item()
    totals = tiers.select(pl.col("customers").sum(), pl.col("revenue").sum()).row(0)
    if totals[0] != customers or not math.isclose(totals[1], revenue, rel_tol=1e-9):
        raise SystemExit(f"the tiers hold {totals}; the lines hold {(customers, revenue)}")


def main(file: Path, lines: int, limit: int) -> None:
    engine = retail.engine()
    orders = pl.read_parquet(file, n_rows=limit or None)
    size = lines or orders.height
    started = time.perf_counter()
    for batch in orders.iter_slices(size):
        engine.push(SOURCE, batch)
    seconds = time.perf_counter() - started
    contents = {name: view.read() for name, view in engine.views.items()}
    check(contents["tiers"], orders)
    send(
        rows_per_second=orders.height / seconds,
        seconds=seconds,
        rows=orders.height,
        epochs=engine.epoch_number,
        digests={name: digest(frame) for name, frame in sorted(contents.items())},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    main(options.file, options.lines, options.limit)
