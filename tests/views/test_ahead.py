"""Items are computed ahead, in order, and no item is lost where threads fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from evercurrent.views.concurrency.ahead import computed_ahead


def test_items_come_in_order_and_the_next_one_while_one_is_used() -> None:
    begun = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number in range(4):
            begun[number].set()
            yield number

    used = []
    for number in computed_ahead(items()):
        if number < 3:
            assert begun[number + 1].wait(10)
        used.append(number)
    assert used == [0, 1, 2, 3]


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[str]:
        yield "first"
        raise ValueError("no second")

    ahead = computed_ahead(items())
    assert next(ahead) == "first"
    with pytest.raises(ValueError, match="no second"):
        next(ahead)


def test_where_no_thread_can_be_started_the_caller_computes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    assert list(computed_ahead(iter("abc"))) == ["a", "b", "c"]


def test_what_is_not_used_is_not_computed() -> None:
    computed = []

    def items() -> Iterator[int]:
        for number in range(100):
            computed.append(number)
            yield number

    ahead = computed_ahead(items())
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()  # type: ignore[attr-defined]
    assert len(computed) <= 3
