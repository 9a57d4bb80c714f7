"""Bounded runs read everything that is there, of streams of different speed, and close windows if the option is set."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.spark_bridge import run

BEGIN = datetime(2026, 1, 1)


def declare(engine: ec.Engine) -> None:
    """A join of a fast stream and a slow one, and windows of the fast one that are emitted when they close."""
    hits = engine.source(
        "hits", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at", watermark=ec.bounded_delay("1m")
    )
    names = engine.source("names", {"ip": pl.String, "name": pl.String})
    engine.view("named", hits.join(names, on="ip").group_by("name").len("n"))
    minutes = hits.window(ec.fixed("1m")).trigger(ec.after_watermark()).group_by("ip")
    engine.view("minutes", minutes.agg(n=pl.len()))


@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_streams_of_different_speed_are_drained(
    trigger: str, spark: Any, feed: Any, checkpoint: Path
) -> None:
    hits = [
        pl.DataFrame(
            {"ip": ["a", "b", "a"], "at": [BEGIN + timedelta(minutes=number)] * 3},
            schema_overrides={"at": pl.Datetime("us")},
        )
        for number in range(6)
    ]
    names = pl.DataFrame({"ip": ["a", "b"], "name": ["one", "two"]})
    engine = ec.Engine()
    declare(engine)
    query = run(
        engine,
        {"hits": feed(hits, into="hits"), "names": feed([names], into="names")},
        checkpoint=checkpoint,
        buckets=2,
        trigger={trigger: True},
    )
    query.await_termination()
    assert sorted(query.view("named").read().rows()) == [("one", 12), ("two", 6)]
    assert query.view("minutes").read().height < 12  # The last windows are open.
    query.finish()
    assert sorted(query.view("minutes").read()["n"]) == [1] * 6 + [2] * 6
