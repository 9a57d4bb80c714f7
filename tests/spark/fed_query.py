"""A program that is fed by another one: the deltas of its view "by_user" are a source of kind "diffs" here.

    python -m spark.fed_query FOLDER

Reads the checkpoint ``FOLDER/checkpoint``, which ``doomed_query`` writes in another process, keeps views on ``FOLDER/fed``, and
ends when the other one has ended, ``FOLDER/ended`` is there, and all is read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge import register, run
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.store import LocalStore
from spark.doomed_query import BUCKETS, started_session

FED = {"user": pl.Int64(), "n": pl.Int64(), "x": pl.Int64()}


def declare(engine: ec.Engine) -> None:
    """What the other program has too, from the rows behind; and a join of the rows with themselves."""
    by_user = engine.source("by_user", FED, kind="diffs")
    engine.view("histogram", by_user.group_by("n").agg(users=pl.len(), most=pl.col("x").max()))
    parts = by_user.select("user", part=pl.col("n") % 4)
    others = parts.rename({"user": "other"})
    engine.view("alike", parts.join(others, on="part").filter(pl.col("user") < pl.col("other")))


def run_to_the_end(spark: Any, folder: Path) -> None:
    """Run the query over all epochs that are committed there now."""
    engine = ec.Engine()
    declare(engine)
    register(spark)
    stream = spark.readStream.format("evercurrent").option("view", "by_user")
    deltas = stream.option("maxEpochsPerTrigger", 3).load(str(folder / "checkpoint"))
    query = run(
        engine,
        {"by_user": deltas.drop("_epoch")},
        checkpoint=folder / "fed",
        buckets=BUCKETS,
        trigger={"availableNow": True},
        driver_rows=20,
    )
    query.await_termination()


def main(folder: Path) -> None:
    """Run until the other program has ended."""
    spark = started_session()
    while True:
        has_ended = (folder / "ended").exists()
        if CommitLog(LocalStore(folder / "checkpoint")).last is not None:
            run_to_the_end(spark, folder)
        if has_ended:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
