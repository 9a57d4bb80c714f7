"""Items are computed ahead, in order, and no item is lost where threads fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.delta import Delta
from evercurrent.core.state.run import Run
from evercurrent.views.concurrency.ahead import computed_ahead
from evercurrent.views.durability import kept_rows, piecewise_fill


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


@pytest.mark.parametrize(
    ("aggregate", "is_ahead"),
    [
        (pl.col("price").sum().alias("total"), True),
        ((pl.col("price").sum() * 2).alias("total"), False),
        (pl.col("price").max().alias("total"), False),
    ],
    ids=["added up", "computed", "read from rows"],
)
def test_groups_are_read_ahead_where_no_function_of_a_user_can_be_called(
    monkeypatch: pytest.MonkeyPatch, aggregate: pl.Expr, is_ahead: bool
) -> None:
    monkeypatch.setattr(piecewise_fill, "PIECE_ROWS", 64)
    kinds = set[type]()

    def noted(items: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        for entries, item in computed_ahead(items):
            kinds.add(type(item))
            yield entries, item

    monkeypatch.setattr(kept_rows, "computed_ahead", noted)
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, kind="diffs")
    shops = engine.view("shops", sales.group_by("shop").agg(aggregate))
    numbers = pl.int_range(1000, eager=True)
    engine.push("sales", pl.DataFrame({"shop": numbers % 300, "price": numbers, "_diff": 1}))
    engine.push("sales", pl.DataFrame({"shop": numbers[:50], "price": numbers[:50], "_diff": -1}))
    view = engine.view("sizes", shops.group_by(pl.col("total") % 7).agg(n=pl.len()))
    assert kinds == {Delta if is_ahead else Run}
    expected = shops.read().group_by(pl.col("total") % 7).agg(n=pl.len().cast(pl.Int64))
    assert sorted(view.read().rows()) == sorted(expected.rows())
