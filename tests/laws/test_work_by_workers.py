"""Law: with workers too, an epoch visits what its rows touch and what is due, and restores only the states of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.circuit.circuit import NodeId
from evercurrent.views.partitioned.held_states import HeldStates
from evercurrent.views.partitioned.stage_nodes import StageNodes

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VIEWS = 50


@pytest.fixture
def work() -> Iterator[Counter[str]]:
    """How many nodes are visited and how many states restored, since it was cleared."""
    counted: Counter[str] = Counter()
    visits, restore = StageNodes.visits, HeldStates.restore

    def visited(nodes: StageNodes, *args: Any) -> Iterator[NodeId]:
        for place in visits(nodes, *args):
            counted["visited"] += 1
            yield place

    def restored(held: HeldStates, states: Any, records: Any) -> None:
        counted["restored"] += len(states)
        restore(held, states, records)

    with patch.object(StageNodes, "visits", visited), patch.object(HeldStates, "restore", restored):
        yield counted


def chosen(views: int) -> ec.Engine:
    """As many views, each of one key, and each grouped again."""
    engine = ec.Engine(workers=2)
    source = engine.source("s", {"k": pl.Int64, "v": pl.Int64})
    for number in range(views):
        counts = engine.view(f"v{number}", source.filter(pl.col("k") == number).group_by("v").agg(n=pl.len()))
        engine.view(f"w{number}", counts.group_by("n").agg(m=pl.len()))
    engine.push("s", {"k": [*range(views)], "v": [1] * views})
    return engine


def test_a_row_costs_the_views_that_it_touches(work: Counter[str]) -> None:
    costs = []
    for views in (5, VIEWS):
        engine = chosen(views)
        work.clear()
        for value in range(20):
            engine.push("s", {"k": [3], "v": [value]})
        costs.append(dict(work))
        assert engine.views["v3"].read().height == 20
    assert costs[0] == costs[1]
    assert costs[0]["visited"] <= 20 * 10


def windows(views: int) -> ec.Engine:
    """As many views of panes that wait for processing time, each over a source of its own."""
    engine = ec.Engine(workers=2)
    for number in range(views):
        source = engine.source(f"s{number}", {"k": pl.Int64, "at": pl.Datetime("us", "UTC")}, event_time="at")
        panes = source.window(ec.fixed("1h")).trigger(early=ec.every("1m")).group_by("k").agg(n=pl.len())
        engine.view(f"v{number}", panes)
        engine.push(f"s{number}", {"k": [1, 2], "at": [NOON] * 2}, at=NOON + timedelta(minutes=number))
    return engine


def test_windows_are_visited_when_they_have_rows_or_a_timer_is_due(work: Counter[str]) -> None:
    engine = windows(10)
    engine.tick(at=NOON + timedelta(minutes=30))
    assert all(engine.views[f"v{number}"].read().height == 2 for number in range(10))
    work.clear()
    engine.tick(at=NOON + timedelta(minutes=31))
    assert work["visited"] == 0
    engine.push("s3", {"k": [1], "at": [NOON]}, at=NOON + timedelta(minutes=32))
    with_rows, work["visited"] = work["visited"], 0
    assert 0 < with_rows <= 8
    assert engine.views["v3"].read().sort("k")["n"].to_list() == [1, 1]
    engine.tick(at=NOON + timedelta(minutes=40))
    assert 0 < work["visited"] <= 8
    assert engine.views["v3"].read().sort("k")["n"].to_list() == [2, 1]
