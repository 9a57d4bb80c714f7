"""Engines whose views are run by something else, as by a query in Spark, take no rows of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import polars as pl
import pytest

import evercurrent as ec
from evercurrent import Engine, InputError
from evercurrent.views.engine.view_driver import StatesFill
from evercurrent.views.plan.plan import Plan

NOON = datetime(2026, 1, 1, 12)


class Runs:
    """A driver that takes part in nothing."""

    is_running = True

    def begin(self, where: str, plan: Plan) -> StatesFill:
        raise NotImplementedError

    def redeclare(self, where: str, plan: Plan, computed: StatesFill | None) -> Exception | None:
        raise NotImplementedError


def in_a_block(engine: Engine) -> None:
    with engine.epoch():
        engine.push("hits", [("a", NOON)])


def a_signal(engine: Engine) -> None:
    engine.views["on demand"].fire("a")


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.push("hits", [("a", NOON)]),
        lambda engine: engine.sources["hits"].push([("a", NOON)], position=1),
        lambda engine: engine.advance("hits", NOON),
        lambda engine: engine.tick(),
        in_a_block,
        a_signal,
    ],
)
def test_rows_are_refused_while_a_driver_runs(call: Callable[[Engine], object]) -> None:
    engine, driver = Engine(), Runs()
    hits = engine.source("hits", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at")
    engine.view("totals", hits.group_by("ip").agg(n=pl.len()))
    engine.view("on demand", hits.trigger(ec.repeat(ec.signal())).group_by("ip").agg(n=pl.len()))
    engine.driven_by(driver)
    with pytest.raises(InputError, match=r"takes rows from its streams alone.*engine\.fork\("):
        call(engine)
    assert (engine.epoch_number, engine.positions) == (0, {})
    fork = engine.fork()
    fork.push("hits", [("a", NOON)])
    assert fork.views["totals"].read().rows() == [("a", 1)]
    driver.is_running = False
    call(engine)
    assert engine.epoch_number == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda view: view.read(),
        lambda view: view.snapshot(),
        lambda view: view.lookup("a"),
        lambda view: list(view.deltas()),
        lambda view: view.head(),
        len,
        lambda view: view.to_arrow(),
    ],
)
def test_rows_that_the_driver_has_are_not_read_as_none(read: Callable[[ec.View], object]) -> None:
    engine, driver = Engine(), Runs()
    hits = engine.source("hits", {"ip": pl.String})
    totals = engine.view("totals", hits.group_by("ip").agg(n=pl.len()))
    engine.driven_by(driver)
    with pytest.raises(InputError, match=r"view 'totals': a query runs the views.*query\.view\('totals'\)"):
        read(totals)
    assert "totals" in repr(totals)
    assert "totals" in repr(engine)
    driver.is_running = False
    read(totals)
