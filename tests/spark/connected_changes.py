"""A program with a Spark Connect session whose views and sources come and go while its query runs.

    python -m spark.connected_changes FOLDER

Reads what is in ``FOLDER/hits`` and ``FOLDER/names``, adds to the first, and says what it sees of the views, as JSON. Its sink writes
to ``FOLDER/heard``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import run
from spark.conftest import write_one_file
from spark.connected_query import Sink, connected, rows_of
from spark.doomed_streams import HITS, declared, stream

MORE = [
    pl.DataFrame({"ip": [at % 7 for at in rows], "bytes": [at * at % 31 for at in rows]}, schema=HITS)
    for rows in (range(40, 55), range(55, 90), range(90, 100))
]


def best(engine: ec.Engine) -> Any:
    """One more view."""
    return engine.sources["hits"].group_by("bytes").agg(ips=pl.len())


def main(folder: Path) -> None:
    """Change the query and its input, by turns."""
    engine = declared()
    spark = connected()
    query = run(
        engine,
        {"hits": stream(spark, folder, "hits")},
        checkpoint=folder / "checkpoint",
        buckets=3,
        driver_rows=20,
        on_epoch=Sink(folder / "heard"),
    )
    identity, seen = query.id, dict[str, Any]()
    query.process_all_available()
    engine.view("best", best(engine), background=True).wait(120)
    seen["filled"] = rows_of(query.view("best").read())
    write_one_file(MORE[0], folder / "hits" / "more 0.parquet", 10)
    declared(names=True, engine=engine)
    query.add_streams({"names": stream(spark, folder, "names")})
    write_one_file(MORE[1], folder / "hits" / "more 1.parquet", 11)
    query.process_all_available()
    write_one_file(MORE[2], folder / "hits" / "more 2.parquet", 12)
    query.process_all_available()
    seen["is the same"] = query.id == identity and query.isActive
    seen["read"] = {name: rows_of(view.read()) for name, view in query.views.items()}
    seen["deltas"] = {
        name: {str(delta["_epoch"][0]): rows_of(delta) for delta in view.deltas()}
        for name, view in query.views.items()
    }
    query.stop()
    seen["holds"] = [str(each) for each in (folder / "checkpoint").glob("holds/*/*")]
    print(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
