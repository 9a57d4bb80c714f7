"""A topic of Kafka as a sink: what is sent, in which order, after failures and restarts.

The producer records what ``confluent_kafka.Producer`` would send; no broker runs here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

RETRY = ec.Retry(first_seconds=0.02, most_seconds=0.1)


class Producer:
    """Takes messages into a queue of a few, and answers for each when it is polled or flushed."""

    def __init__(self, room: int = 3) -> None:
        self.sent: list[tuple[str, Any, Any, int]] = []
        self.refusing = 0
        self._room = room
        self._queue: list[tuple[tuple[str, Any, Any, int], Any]] = []

    def produce(self, topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        if len(self._queue) == self._room:
            raise BufferError
        ((name, epoch),) = headers
        assert name == "_epoch"
        self._queue.append(((topic, key, value, int(epoch)), on_delivery))

    def poll(self, timeout: float) -> int:
        return self.flush()

    def flush(self) -> int:
        for message, answer in self._queue:
            if self.refusing:
                self.refusing -= 1
                answer("no broker", None)
            else:
                self.sent.append(message)
                answer(None, message)
        self._queue.clear()
        return 0

    def contents(self) -> list[str]:
        """What a compacted topic has at last: the last value of each key, without tombstones."""
        return sorted(value for value in {key: value for _, key, value, _ in self.sent}.values() if value)


def counted(engine: ec.Engine) -> ec.View:
    words = engine.source("words", {"word": pl.String, "n": pl.Int64}, kind="diffs")
    return engine.view("counts", words.group_by("word").agg(n=pl.col("n").sum()))


HISTORY = (
    {"word": ["a", "b", "a", None], "n": [1, 2, 3, 4]},
    {"word": ["a", "c"], "n": [1, 1], "_diff": [-1, 1]},
    {"word": ["a", None], "n": [3, 4], "_diff": [-1, -1]},
    {"word": ["x", "y", "x"], "n": [7, 8, 9]},
)


def test_upserts_lead_to_the_contents_with_tombstones() -> None:
    engine, producer = ec.Engine(), Producer()
    view = counted(engine)
    delivery = view.to_kafka("counts", producer, mode="upserts", retry=RETRY)
    for rows in HISTORY:
        engine.push("words", rows)
        assert delivery.join(20)
        assert producer.contents() == sorted(
            json.dumps(row, separators=(",", ":")) for row in view.read().to_dicts()
        )
    tombstones = [(key, epoch) for _, key, value, epoch in producer.sent if value is None]
    assert sorted(tombstones) == [('{"word":"a"}', 3), ('{"word":null}', 3)]
    assert {topic for topic, *_ in producer.sent} == {"counts"}


def test_changes_have_their_diffs_and_retractions_come_first() -> None:
    engine, producer = ec.Engine(), Producer()
    delivery = counted(engine).to_kafka("counts", producer, retry=RETRY)
    for rows in HISTORY[:2]:
        engine.push("words", rows)
        assert delivery.join(20)
    of_a = [(key, json.loads(value)) for _, key, value, _ in producer.sent if key == '{"word":"a"}']
    assert [each for _, each in of_a] == [
        {"word": "a", "n": 4, "_epoch": 1, "_diff": 1},
        {"word": "a", "n": 4, "_epoch": 2, "_diff": -1},
        {"word": "a", "n": 3, "_epoch": 2, "_diff": 1},
    ]


def test_changes_without_a_key() -> None:
    engine, producer = ec.Engine(), Producer()
    words = engine.source("words", {"word": pl.String})
    delivery = engine.view("all", words.filter(pl.col("word") != "x")).to_kafka("all", producer, retry=RETRY)
    engine.push("words", {"word": ["a", "x", "a"]})
    assert delivery.join(20)
    assert producer.sent == [("all", None, '{"word":"a","_epoch":1,"_diff":2}', 1)]


def test_one_topic_is_of_one_view() -> None:
    engine, producer, other_broker = ec.Engine(), Producer(), Producer()
    view = counted(engine)
    other = engine.view("other", view.filter(pl.col("n") > 1))
    delivery = view.to_kafka("counts", producer, retry=RETRY)
    with pytest.raises(
        ec.PlanError, match="view 'other': Kafka topic 'counts' is being written already, from view 'counts'"
    ):
        other.to_kafka("counts", producer, retry=RETRY)
    other.to_kafka("others", producer, retry=RETRY)
    other.to_kafka("counts", other_broker, retry=RETRY).close()
    delivery.close()
    other.to_kafka("counts", producer, retry=RETRY)


def test_an_epoch_that_the_broker_has_not_taken_completely_is_sent_again() -> None:
    engine, producer = ec.Engine(), Producer()
    view = counted(engine)
    delivery = view.to_kafka("counts", producer, mode="upserts", retry=RETRY)
    assert delivery.join(20)
    producer.refusing = 2
    engine.push("words", HISTORY[0])
    assert delivery.join(20)
    assert (delivery.failures, delivery.error, delivery.epoch) == (0, None, 1)
    assert len(producer.contents()) == view.read().height


def test_it_continues_after_a_restart(tmp_path: Path) -> None:
    producer = Producer()
    for rows in HISTORY:
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            view.to_kafka("counts", producer, mode="upserts", retry=RETRY)
            engine.push("words", rows)
            expected = sorted(json.dumps(row, separators=(",", ":")) for row in view.read().to_dicts())
    assert producer.contents() == expected
    assert [epoch for *_, epoch in producer.sent] == sorted(epoch for *_, epoch in producer.sent)
    assert len({(key, epoch) for _, key, _, epoch in producer.sent}) == len(producer.sent)


def test_what_is_refused() -> None:
    engine = ec.Engine()
    view, producer = counted(engine), Producer()
    with pytest.raises(ec.PlanError, match=r"give a producer of confluent-kafka, or, for a view in Spark"):
        view.to_kafka("counts", {"kafka.bootstrap.servers": "host:9092"})
    with pytest.raises(ec.PlanError, match=r"mode='upsert'; there are 'changes', 'upserts'"):
        view.to_kafka("counts", producer, mode="upsert")  # type: ignore[arg-type]
    rows = engine.source("rows", {"b": pl.Binary})
    with pytest.raises(ec.PlanError, match="its rows have no key"):
        engine.view("all", rows.filter(pl.col("b").is_null())).to_kafka("all", producer, mode="upserts")
    with pytest.raises(ec.SinkError, match="column 'b' is Binary, which JSON cannot represent; cast it"):
        engine.views["all"].to_kafka("all", producer)
