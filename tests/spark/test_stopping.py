"""A query is stopped again where Spark's interrupt of its thread was lost. Needs no Spark."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

pytest.importorskip("pyspark")

from evercurrent.spark_bridge.execution.streaming import stop_again


class Interrupted:
    """A query that ends when it was interrupted so many times."""

    def __init__(self, interrupts: int, error: Exception | None = None) -> None:
        self._left = interrupts
        self._error = error
        self._ended = Event()

    def stop(self) -> None:
        """As Spark does: interrupt once, and wait."""
        self._left -= 1
        if self._left <= 0:
            self._ended.set()
        assert self._ended.wait(60)
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("interrupts", [1, 2, 4])
def test_it_is_stopped_until_it_has_ended(interrupts: int) -> None:
    query: Any = Interrupted(interrupts)
    stop_again(query, seconds=0.02)
    assert query._left <= 0


def test_what_spark_raises_is_raised() -> None:
    query: Any = Interrupted(2, RuntimeError("no server"))
    with pytest.raises(RuntimeError, match="no server"):
        stop_again(query, seconds=0.02)
