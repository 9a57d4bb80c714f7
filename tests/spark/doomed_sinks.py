"""A program that is killed while a view of its query is written into tables, a log and a folder: see ``doomed_query``.

python -m spark.doomed_sinks FOLDER -1
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from sink_places import Place
from spark.doomed_query import HITS, begun, declare, started_session

KINDS = ("sqlite", "delta", "delta log", "iceberg", "parquet")
VIEW = "by_user"


def places(folder: Path) -> list[Place]:
    """Where the view is written: one of each kind."""
    return [Place(kind, folder / "places", [], []) for kind in KINDS]


def write_down(folder: Path, delta: pl.DataFrame) -> None:
    """Add the rows of an epoch to a file, as one line."""
    with (folder / "written.jsonl").open("a") as file:
        file.write(json.dumps([list(row) for row in delta.rows()]) + "\n")


def run_to_the_end(spark: Any, folder: Path) -> Any:
    """Run the query in this session until the input ends and everything is written, and return it."""
    (folder / "places").mkdir(exist_ok=True)
    engine = ec.Engine()
    declare(engine)
    query = begun(spark, folder, engine, "hits", HITS)
    view = query.view(VIEW)
    for place in places(folder):
        place.deliver(view)
    view.foreach(lambda delta: write_down(folder, delta), name="written")
    query.await_termination()
    assert all(delivery.join(120) for delivery in query.deliveries), query.deliveries
    return query


if __name__ == "__main__":
    run_to_the_end(started_session(), Path(sys.argv[1]))
