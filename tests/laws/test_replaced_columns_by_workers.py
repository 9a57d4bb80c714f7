"""Law: rows that met by a column do not meet by another one that takes its name: groups are whole with workers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

NOON = datetime(2026, 1, 1, 12)
WORKERS = (1, 2, 3)
SMALL = {
    "fixed": ec.fixed("10m"),
    "sliding": ec.sliding("10m", every="5m"),
    "calendar": ec.calendar("1d"),
    "count": ec.count_window(2),
    "last": ec.last_rows(3),
    "sessions": ec.sessions("3m"),
}
LARGE = {
    "fixed": ec.fixed("1h"),
    "sliding": ec.sliding("1h", every="25m"),
    "calendar": ec.calendar("1w"),
    "count": ec.count_window(5),
    "sessions": ec.sessions("1h"),
    "given": None,
}


def summed(view: ec.View) -> Counter[tuple[Any, ...]]:
    """Return what the deltas of a view add up to."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for delta in view.deltas():
        for *values, diff in delta.drop("_epoch").rows():
            rows[tuple(values)] += diff
    return +rows


def contents(engine: ec.Engine) -> Mapping[str, Counter[tuple[Any, ...]]]:
    """Return the contents of all views, which are what their deltas add up to."""
    rows = {name: Counter(view.read().rows()) for name, view in engine.views.items()}
    assert {name: summed(view) for name, view in engine.views.items()} == rows
    return rows


def panes_of_panes(workers: int, small: ec.Window, large: ec.Window | None) -> ec.Engine:
    """Panes of a key that are put into larger windows of the same key, and what is built on these."""
    engine = ec.Engine(workers=workers)
    visits = engine.source("visits", {"page": pl.String, "at": pl.Datetime("us")}, event_time="at")
    panes = engine.view("panes", visits.window(small).group_by("page").agg(n=pl.len()))
    again = engine.view("again", panes.window(large).group_by("page").agg(n=pl.col("n").sum()))
    engine.view("best", again.group_by("page").agg(best=pl.col("n").max(), windows=pl.len()))
    for push in range(3):
        minutes = [(7 * row + push) % 90 for row in range(24)]
        at = [NOON + timedelta(minutes=minute) for minute in minutes]
        engine.push("visits", {"page": ["a", "b", "c"] * 8, "at": at})
    return engine


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("small", SMALL)
def test_panes_that_are_put_into_other_windows(small: str, large: str) -> None:
    """The bounds of panes are replaced by those of other windows, under the same names."""
    one, *more = (contents(panes_of_panes(workers, SMALL[small], LARGE[large])) for workers in WORKERS)
    assert all(each == one for each in more)


def test_a_field_with_the_name_of_its_struct() -> None:
    def counted(workers: int) -> ec.Engine:
        engine = ec.Engine(workers=workers)
        rows = engine.source("rows", {"p": pl.Struct({"p": pl.String, "q": pl.Int64})})
        structs = engine.view("structs", rows.group_by("p").len())
        fields = engine.view("fields", structs.unnest("p").group_by("p").agg(n=pl.len()))
        engine.view("most", fields.group_by().agg(most=pl.col("n").max()))
        engine.push("rows", {"p": [{"p": "x", "q": number} for number in range(8)]})
        return engine

    for workers in WORKERS:
        engine = counted(workers)
        assert summed(engine.views["fields"]) == {("x", 8): 1}
        assert engine.views["most"].read().rows() == [(8,)]
