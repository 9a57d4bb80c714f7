"""A topic of Kafka as a sink: messages of each epoch are sent by a producer's client, or by Spark's writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import EPOCH

from .function_sink import FunctionSink
from .kafka_messages import KEY, VALUE, Mode, messages_of, require_texts

EPOCH_HEADER = EPOCH
"""The header of each message, which tombstones have too: the number of the epoch, as text."""

POLL_SECONDS = 1.0

Send: TypeAlias = Callable[[pl.DataFrame, int], None]
"""Sends messages, in the order of their rows, with their epoch; returns once the broker has them all."""


class Producer(Protocol):
    """A client of Kafka, as far as it is used: ``confluent_kafka.Producer``."""

    def produce(self, topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        """Add a message to the client's queue."""
        ...

    def poll(self, timeout: float) -> int:
        """Call back for answers of the broker."""
        ...

    def flush(self) -> int:
        """Wait for the answers to all messages."""
        ...


def kafka_topic(
    topic: str,
    send: Send,
    schema: Mapping[str, pl.DataType],
    keys: Sequence[str],
    mode: Mode,
    position: int | None,
    to: Producer | Mapping[str, str],
) -> FunctionSink:
    """Return the sink of a topic, ``to`` which it is sent. It does not record how far it is: the checkpoint does.

    Raises:
        SinkError: a column has a type that JSON does not hold.
    """
    place = f"Kafka topic {topic!r}"
    require_texts(place, schema)

    def write(delta: pl.DataFrame) -> None:
        send(messages_of(delta, keys, mode), delta.item(0, EPOCH))

    broker = sorted(to.items()) if isinstance(to, Mapping) else id(to)
    return FunctionSink(write, position, place, (place, str(broker)))


def sent_by(producer: Producer, topic: str) -> Send:
    """Return the function that sends messages by a producer, and waits for the broker's answers.

    Raises:
        PlanError: it is no producer.
    """
    if not callable(getattr(producer, "produce", None)) or not callable(getattr(producer, "flush", None)):
        raise PlanError(
            f"to_kafka({topic!r}): to={producer!r}; give a producer of confluent-kafka, or, for a view in Spark, the options of "
            "Spark's writer: {'kafka.bootstrap.servers': 'host:9092'}"
        )

    def send(messages: pl.DataFrame, epoch: int) -> None:
        failed: list[object] = []

        def answered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for key, value in messages.select(KEY, VALUE).iter_rows():
            _produce(producer, topic, key, value, epoch, answered)
        producer.flush()
        if failed:
            raise OSError(f"{len(failed)} messages were not taken: {failed[0]}")

    return send


def _produce(
    producer: Producer,
    topic: str,
    key: str | None,
    value: str | None,
    epoch: int,
    answered: Callable[[object, object], None],
) -> None:
    headers = [(EPOCH_HEADER, str(epoch).encode())]
    while True:
        try:
            producer.produce(topic, value=value, key=key, headers=headers, on_delivery=answered)
        except BufferError:  # The queue of the client is full.
            producer.poll(POLL_SECONDS)
        else:
            return
