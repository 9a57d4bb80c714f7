"""Law: the name of a key changes nothing but the name: a key may take that of a column from which aggregates are computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"a": pl.Int64, "b": pl.Int64, "at": pl.Datetime("us")}
A, B, AT = pl.col("a"), pl.col("b"), pl.col("at")


def opened(rows: pl.DataFrame) -> pl.DataFrame:
    """Windows by a function: a quarter of an hour from each row on."""
    return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(minutes=15))


WINDOWS = {
    "fixed": ec.fixed("20m"),
    "shifted": ec.fixed("20m", shifted_by_key=True),
    "sessions": ec.sessions("4m"),
    "count": ec.count_window(3),
    "last": ec.last_rows(4),
    "merged": ec.custom_windows(opened, ec.merge_overlapping),
}
KEYS = {
    "swapped": {"a": B, "b": A},
    "computed, and the event time": {"a": A % 2, "at": AT.dt.truncate("1h")},
}
EMITTED: dict[str, Callable[[ec.Collection], ec.Collection]] = {
    "at every epoch": lambda rows: rows,
    "by the sum of a column": lambda rows: rows.trigger(
        early=ec.after_bytes(6, "a"), late=ec.after_bytes(6, "b")
    ),
    "until they close": lambda rows: rows.lateness("10m"),
}


def epochs() -> Iterator[list[tuple[Any, ...]]]:
    """Rows of few keys that come and go, some of them late."""
    rows = [
        (number % 3, number % 5 - 1, NOON + timedelta(minutes=7 * number % 50 + number))
        for number in range(24)
    ]
    for begin in range(0, 24, 8):
        yield [(*row, 1) for row in rows[begin : begin + 8]] + [
            (*row, -1) for row in rows[max(begin - 6, 0) : begin : 2]
        ]


def emitted(
    window: ec.Window,
    emit: Callable[[ec.Collection], ec.Collection],
    keys: dict[str, pl.Expr],
    names: dict[str, str],
) -> tuple[dict[int, Counter[tuple[Any, ...]]], int]:
    """Return the deltas of a view of windows by epoch, its keys grouped by these names and renamed, and the rows refused."""
    engine = ec.Engine()
    source = engine.source("rows", COLUMNS, kind="diffs", event_time="at", watermark=ec.bounded_delay("10m"))
    grouped = emit(source.window(window)).group_by(**{names[key]: expr for key, expr in keys.items()})
    panes = grouped.agg(n=pl.len(), sum_of_a=A.sum(), most_of_b=B.max(), kinds=A.n_unique(), last=AT.max())
    view = engine.view("panes", panes.rename({new: key for key, new in names.items() if new != key}))
    for rows in epochs():
        engine.push("rows", rows)
    deltas: dict[int, Counter[tuple[Any, ...]]] = {}
    for delta in view.deltas():
        for row in delta.select(sorted(delta.columns)).iter_rows(named=True):
            epoch, diff = row.pop("_epoch"), row.pop("_diff")
            deltas.setdefault(epoch, Counter())[tuple(row.values())] += diff
    return deltas, engine.ledger().height


@pytest.mark.parametrize("emit", EMITTED)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_key_that_takes_the_name_of_a_column(window: str, emit: str) -> None:
    if window in ("count", "last") and emit == "until they close":
        return
    for name, keys in KEYS.items():
        own = emitted(WINDOWS[window], EMITTED[emit], keys, {key: key for key in keys})
        other = emitted(WINDOWS[window], EMITTED[emit], keys, {key: f"key_{key}" for key in keys})
        assert own == other, name
        assert any(own[0].values())
