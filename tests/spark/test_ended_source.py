"""A query whose heartbeat was killed ends with a sentence of cause and way out, in place of an empty text."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evercurrent.core.data.errors import EpochGoneError
from evercurrent.spark_bridge.query import Query
from evercurrent.spark_bridge.runtime.ended_source import SourceEndedError

PLACE = "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner"

KILLED = {
    "after it was read from": "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)",
    "while it was read from": "java.net.SocketException: Connection reset\n\tat java.base/sun.nio.ch.SocketChannelImpl.throwConnectionReset",
    "before it was written to": "java.io.IOException: Broken pipe\n\tat java.base/sun.nio.ch.SocketDispatcher.write0(Native Method)",
}
"""The beginning of Java's stack, by the moment at which the process was killed."""

FAILED = (
    "org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
    "latestOffset: ValueError: mine"
)


class SparkError(Exception):
    """Stands for an error of PySpark: a text, Java's stack, and a cause."""

    def __init__(self, text: str, stack: str = "", cause: Exception | None = None) -> None:
        super().__init__(text)
        self._stackTrace, self._cause = stack, cause


def ended(error: Exception) -> Any:
    """A query that Spark has ended with this error."""

    def wait(*_: Any) -> bool:
        raise error

    query: Any = object.__new__(Query)
    query._batches = SimpleNamespace(error=None, store=SimpleNamespace(url="here/hits.checkpoint"))
    spark = SimpleNamespace(exception=lambda: error)
    streaming = {"is_active": True, "has_lost_java": False, "query": spark}
    query._streaming = SimpleNamespace(await_termination=wait, process_all_available=wait, **streaming)
    return query


@pytest.mark.parametrize("moment", KILLED)
def test_a_killed_heartbeat_is_named(moment: str, tmp_path: Path) -> None:
    stack = f"{KILLED[moment]}\n\tat {PLACE}.latestOffset(PythonStreamingSourceRunner.scala:235)"
    for error in (
        SparkError("", stack),
        SparkError("", f"org.apache.spark.sql.streaming.StreamingQueryException\nCaused by: {stack}"),
        SparkError("", "org.apache.spark.sql.streaming.StreamingQueryException", SparkError("", stack)),
    ):
        query = ended(error)
        for work in (query.await_termination, query.process_all_available):
            with pytest.raises(
                SourceEndedError, match=r"heartbeat_seconds=.* has ended.*here/hits\.checkpoint"
            ):
                work()
        assert "start the query again" in str(query.exception())


@pytest.mark.parametrize("reason", ["", "Connection reset "])
def test_a_killed_heartbeat_is_named_under_spark_connect(reason: str) -> None:
    """There the server sends neither a cause nor the place."""
    streams = '{org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@7db47a04: {"beat": 35}}'
    text = f"terminated with exception: {reason} SQLSTATE: XXKST\n=== Streaming Query ===\nCurrent Committed Offsets: {streams}"
    query = ended(SparkError(text))
    with pytest.raises(SourceEndedError, match=r"heartbeat_seconds=.* has ended"):
        query.await_termination()
    assert isinstance(query.exception(), SourceEndedError)
    other = SparkError(text.replace(": " + reason + " SQLSTATE", ": mine SQLSTATE"))
    assert ended(other).exception() is other


def test_an_error_of_this_package_in_a_source_is_its_sentence() -> None:
    """As that of a query over the deltas of another one, which has dropped those that come next."""
    gone = "view 'v': a: the deltas of 'v' after epoch 20 are no longer retained, those after 63 are"
    text = (
        "[STREAM_FAILED] Query [id = 8ad, runId = c7d] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when "
        f"Python streaming data source perform planPartitions: evercurrent.core.data.errors.EpochGoneError: {gone}\n=== Streaming Query ==="
    )
    query = ended(SparkError(text))
    with pytest.raises(EpochGoneError) as raised:
        query.await_termination()
    assert str(raised.value) == str(query.exception()) == gone


@pytest.mark.parametrize(
    "error",
    [
        SparkError("mine", f"{FAILED}\n\tat {PLACE}.latestOffset(PythonStreamingSourceRunner.scala:240)"),
        SparkError("of another connection", KILLED["after it was read from"]),
    ],
)
def test_other_errors_stay_those_of_spark(error: SparkError) -> None:
    query = ended(error)
    with pytest.raises(SparkError) as raised:
        query.await_termination()
    assert raised.value is error is query.exception()
