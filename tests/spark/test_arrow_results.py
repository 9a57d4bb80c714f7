"""Rows come from Java through a socket, whose other end may be late: nobody waits for ever, and it is tried again."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import util

from evercurrent.spark_bridge.execution import arrow_results
from evercurrent.spark_bridge.execution.arrow_results import UnansweredError, arrow_table


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each connection is one that Java accepts, the first ones as the test sets it; later ones are.

    The others have another secret, of which Java makes what it makes of one that does not come in time: its thread ends.
    """
    is_late: list[bool] = []
    connect = util.local_connect_and_auth

    def connecting(place: Any, secret: Any) -> Any:
        if not is_late or not is_late.pop(0):
            return connect(place, secret)
        sock = socket.create_connection(("127.0.0.1", place))
        sock.sendall(len(b"no").to_bytes(4, "big") + b"no")
        assert sock.recv(64).endswith(b"err")
        raise TimeoutError("late")

    monkeypatch.setattr(util, "local_connect_and_auth", connecting)
    monkeypatch.setattr(arrow_results, "PATIENCE", "300 milliseconds")
    return is_late


def test_a_connection_that_is_late_is_made_again(spark: Any, connected: list[bool]) -> None:
    connected += [True, True]
    assert arrow_table(spark.range(5)).column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert connected == []


def test_java_that_answers_never_is_an_error(spark: Any, connected: list[bool]) -> None:
    connected += [True, True, True]
    with pytest.raises(UnansweredError, match="has not ended the job after 300 milliseconds"):
        arrow_table(spark.range(5))


def test_an_error_of_a_job_is_that_of_spark(spark: Any) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        arrow_table(spark.range(2).selectExpr("1 div id as one"))
    assert arrow_table(spark.range(0)).num_rows == 0
