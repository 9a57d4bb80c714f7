"""A program with a Spark Connect session: a client of the server at an address, or of one in a process that Spark starts for it.

    python -m spark.connected_changes FOLDER [ADDRESS]

Two queries run one after the other: that of ``connected_query`` in ``FOLDER/query``, and one in ``FOLDER/changes`` whose views and
sources come and go while it runs. It reads what is in ``hits`` and ``names`` there, and adds to the first; its sink writes to ``delivered``.
The program prints what it sees of the views of each, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import run
from spark import connected_query
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


def seen_of_it(spark: Any, folder: Path) -> dict[str, Any]:
    """Change the query and its input, by turns, and return what can be seen of the views."""
    engine = declared()
    query = run(
        engine,
        {"hits": stream(spark, folder, "hits")},
        checkpoint=folder / "checkpoint",
        buckets=3,
        driver_rows=20,
        on_epoch=Sink(folder / "delivered"),
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
    return seen


def main(folder: Path, *server: str) -> None:
    """Run both queries, and print what can be seen of them."""
    spark = connected(*server)
    seen = {
        "query": connected_query.seen_of_it(spark, folder / "query"),
        "changes": seen_of_it(spark, folder / "changes"),
    }
    print(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
