"""A query in Spark that is killed while views are declared in it.

    python -m spark.doomed_declaration FOLDER WHEN

Reads what is in ``FOLDER/input``, replaces a view and declares another one while the query runs, and kills itself in the record of the
epoch in which the last one appears: "torn", with half of it written, or "after" it is whole.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution import micro_batches
from evercurrent.spark_bridge.runtime.spark_types import spark_schema
from evercurrent.views.store import LocalStore
from failing_store import Killed
from spark.doomed_query import Doomed, Sudden, started_session

SALES = pl.Schema({"shop": pl.Int64, "price": pl.Int64})
BUCKETS = 3


class DoomedAfter(Doomed):
    """Ends the process after the operation, and not in its middle."""

    def _do(self, operation: str, name: str, work: Any, *more: Any) -> Any:
        result = work() if self._name is not None and name.startswith(self._name) else None
        return super()._do(operation, name, work if result is None else lambda: result, *more)


def declared(*names: str) -> ec.Engine:
    """An engine with views of these names."""
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=True)
    for name in names:
        engine.view(name, lines(sales)[name], replace=True)
    return engine


def lines(sales: ec.Source) -> dict[str, Any]:
    """All definitions."""
    totals = sales.group_by("shop").agg(total=pl.col("price").sum(), n=pl.len())
    return {
        "totals": totals,
        "sizes": totals.group_by("n").agg(shops=pl.len()),
        "best": sales.group_by("shop").agg(price=pl.col("price").max()),
    }


def started(spark: Any, engine: ec.Engine, folder: Path, **options: Any) -> Any:
    """The query over what is in the folder."""
    stream = spark.readStream.schema(spark_schema("sales", SALES)).option("maxFilesPerTrigger", 1)
    return run(
        engine,
        {"sales": stream.parquet(str(folder / "input"))},
        checkpoint=ec.Checkpoint(folder / "checkpoint", **options),
        buckets=BUCKETS,
        driver_rows=20,
    )


def until_it_is_killed(spark: Any, folder: Path, when: str, error: type[Killed] = Sudden) -> None:
    """Run the query, declare, and be killed."""
    store = (Doomed if when == "torn" else DoomedAfter)(LocalStore(folder / "checkpoint"), "never/", error)
    micro_batches.store_at = lambda where: store  # type: ignore[attr-defined]
    engine = declared("totals")
    query = started(spark, engine, folder)
    try:
        query.process_all_available()
        every = lines(engine.sources["sales"])  # type: ignore[arg-type]
        engine.view("sizes", every["sizes"])
        store._name = "commits/"
        engine.view("best", every["best"])
    finally:
        query.stop()
    raise AssertionError("it was not killed")


if __name__ == "__main__":
    until_it_is_killed(started_session(), Path(sys.argv[1]), sys.argv[2])
