"""Messages to Kafka through Spark's writer: a stand-in of its format records them, as no broker runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import evercurrent as ec
from evercurrent import spark_bridge
from evercurrent.spark_bridge.output import kafka_writer

COLUMNS = {
    "topic": "string",
    "key": "string",
    "value": "string",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Columns and types that Spark's own writer requires."""


class Recorded(DataSource):
    """A format that is used as Spark's is, and appends to the file that is named as the broker."""

    @classmethod
    def name(cls) -> str:
        return "recorded_kafka"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        assert {field.name: field.dataType.simpleString() for field in schema} == COLUMNS
        return RecordingWriter(self.options["kafka.bootstrap.servers"])


class RecordingWriter(DataSourceWriter):
    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, rows: Iterator[Any]) -> WriterCommitMessage:
        with open(self._path, "a", encoding="utf8") as file:
            for row in rows:
                ((name, epoch),) = row.headers
                file.write(f"{json.dumps([row.topic, row.key, row.value, name, bytes(epoch).decode()])}\n")
        return WriterCommitMessage()


def test_a_view_is_sent_by_sparks_writer_and_goes_on_after_a_restart(
    spark: Any, feed: Any, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark keeps the name "kafka" for its own package, also where that is not installed.
    spark.dataSource.register(Recorded)
    monkeypatch.setattr(kafka_writer, "FORMAT", "recorded_kafka")
    broker = tmp_path / "broker"

    def run(frames: list[pl.DataFrame]) -> list[str]:
        engine = ec.Engine()
        hits = engine.source("hits", {"ip": pl.String}, kind="diffs")
        engine.view("hits", hits.group_by("ip").len("n"))
        query = spark_bridge.run(
            engine, {"hits": feed(frames)}, checkpoint=checkpoint, buckets=2, trigger={"availableNow": True}
        )
        to = {"kafka.bootstrap.servers": str(broker)}
        query.view("hits").to_kafka("hits", to, mode="upserts")
        query.await_termination()
        assert [each.error for each in query.deliveries] == [None]
        query.stop()
        return sorted(json.dumps(row, separators=(",", ":")) for row in query.view("hits").read().to_dicts())

    run([pl.DataFrame({"ip": ["a", "b", "a"], "_diff": [1, 1, 1]})])
    frames = [
        pl.DataFrame({"ip": ["b", "c"], "_diff": [-1, 1]}),
        pl.DataFrame({"ip": ["a"], "_diff": [-1]}),
    ]
    contents = run(frames)
    sent = [json.loads(line) for line in broker.read_text().splitlines()]
    last = {key: value for _, key, value, *_ in sent}
    assert sorted(value for value in last.values() if value) == contents
    assert [each for each in sent if each[2] is None] == [["hits", '{"ip":"b"}', None, "_epoch", "2"]]
    assert [int(epoch) for *_, epoch in sent] == sorted(int(epoch) for *_, epoch in sent)
    assert len({(key, epoch) for _, key, _, _, epoch in sent}) == len(sent)


def test_the_broker_is_named(spark: Any, feed: Any, checkpoint: Path) -> None:
    engine = ec.Engine()
    engine.view("hits", engine.source("hits", {"ip": pl.String}).group_by("ip").len("n"))
    views = spark_bridge.run_batch(engine, {"hits": spark.createDataFrame([("a",)], "ip string")})
    with pytest.raises(
        ec.PlanError, match=r"option 'kafka.bootstrap.servers' is missing; give it as 'host:9092'"
    ):
        views.view("hits").to_kafka("hits", {})
