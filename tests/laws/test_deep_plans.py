"""Plans may be deep: whatever works for a plan and for an engine works for chains longer than Python's stack."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from driven import Driven, Step
from evercurrent.core.data.schema import DIFF
from evercurrent.views.plan.plan import Plan

CHEAP = ("with_columns", "filter")
"""Chains that are longer than Python's stack in the quick profile too."""

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
DEEP = 10_000 if LONG else sys.getrecursionlimit() + 50
COLUMNS = {"k": pl.Int64, "x": pl.Int64}

Chain = Callable[[ec.Collection, int, ec.Collection], ec.Collection]
CHAINS: dict[str, Chain] = {
    "with_columns": lambda rows, n, _: rows.with_columns(x=pl.col("x") + (1 if n % 2 else -1)),
    "filter": lambda rows, n, _: rows.filter(pl.col("x") > -n),
    "group_by": lambda rows, n, _: rows.group_by("k").agg(x=pl.col("x").sum()),
    "unique": lambda rows, n, _: rows.filter(pl.col("x") > -n).unique(),
    "join": lambda rows, n, first: rows.join(first.select("k"), on="k", how="semi"),
    "concat": lambda rows, n, first: rows.concat(first.filter(pl.col("x") < -n)),
    "minus": lambda rows, n, first: rows.minus(first.filter(pl.col("x") < -n)),
    "diamond": lambda rows, n, _: rows.filter(pl.col("x") < -n).concat(rows),
}
"""One step more, of the rows so far, its number, and the rows of the source; none changes what there is."""


def chained(engine: ec.Engine, kind: str, depth: int) -> ec.View:
    first: ec.Collection = engine.source("rows", COLUMNS, kind="diffs")
    rows = first
    steps = depth if LONG or kind in CHEAP else depth // 8
    for number in range(1, steps + 1):
        rows = CHAINS[kind](rows, number, first)
    return engine.view("v", rows)


@pytest.mark.parametrize("kind", CHAINS)
def test_a_deep_chain_is_declared_run_shown_and_cut(kind: str) -> None:
    engine = ec.Engine()
    view = chained(engine, kind, DEEP)
    for number in range(2):
        engine.push("rows", {"k": [number], "x": [0]})
    engine.push("rows", {"k": [0], "x": [0], DIFF: [-1]})
    assert view.read().select("k").rows() == [(1,)]
    nodes = engine.plan.number_of_nodes()
    assert nodes > (DEEP if LONG or kind in CHEAP else DEEP // 8)
    assert f"{nodes} nodes" in engine.explain()
    assert len(engine.explain("mermaid").splitlines()) > nodes
    assert len(repr(view)) < 1_000, "what a message calls a node does not grow with what is before it"
    assert "source 'rows'" in engine._plan.name_of(engine._plan.nodes[view._place].inputs[0])
    with pytest.raises(ec.PlanError, match="'none'") as refused:
        view.select("none")
    assert len(str(refused.value)) < 1_000
    cut = engine._current().cut
    assert sum(len(stage.owned) for stage in cut.stages) == len(engine._current().circuit.nodes)
    again: Plan = pickle.loads(pickle.dumps(engine._plan)) if kind == "unique" else engine._plan
    assert len(Driven(again).contents()) == 1


@pytest.mark.parametrize("kind", ["with_columns", "group_by", "join"] if LONG else ["filter"])
def test_a_deep_chain_goes_on_from_its_checkpoint(kind: str, tmp_path: Path) -> None:
    for number in range(2):
        with ec.Engine(checkpoint=tmp_path) as engine:
            view = chained(engine, kind, DEEP)
            assert view.read().height == number
            engine.push("rows", {"k": [number], "x": [0]})
            assert sorted(view.read()["k"]) == list(range(number + 1))


def windowed(engine: ec.Engine, depth: int) -> ec.View:
    """Windows over windows: each is inherited, and each watermark held back by the one before."""
    rows: ec.Collection = engine.source(
        "rows", {"k": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending()
    )
    for number in range(depth):
        windows = rows.window(ec.fixed("1m")) if not number else rows.window()
        rows = windows.trigger(ec.after_watermark(late=ec.every_epoch())).group_by("k").agg(n=pl.len())
    return engine.view("v", rows)


def test_windows_over_many_windows_fire_when_the_watermark_has_passed_all() -> None:
    engine = ec.Engine()
    view = windowed(engine, 1_000 if LONG else 40)
    engine.push("rows", {"k": [1, 1], "at": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)]})
    assert view.why()
    assert not view.read().height
    engine.advance("rows", ec.END_OF_TIME)
    assert view.read()["n"].to_list() == [1]
    assert view.watermark is not None
    assert "windows of" in engine.explain()


def test_a_watermark_over_many_sources_is_the_least_of_all() -> None:
    engine = ec.Engine()
    count = 40
    sources = [
        engine.source(f"s{n}", {"at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending())
        for n in range(count)
    ]
    rows: ec.Collection = sources[0]
    for source in sources[1:]:
        rows = rows.concat(source)
    for number in range(DEEP if LONG else 300):
        rows = rows.filter(pl.col("at").dt.year() != number)
    windows = rows.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s")
    view = engine.view("v", windows.group_by().agg(n=pl.len()))
    engine.push("s0", {"at": [datetime(2024, 1, 1)]})
    with engine.epoch():
        for source in sources[:-1]:
            engine.advance(source.name, ec.END_OF_TIME)
    assert not view.read().height
    engine.advance(sources[-1].name, ec.END_OF_TIME)
    assert view.read()["n"].to_list() == [1]


def test_names_of_views_on_the_way_are_shown() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS)
    near = engine.view("near", rows.filter(pl.col("x") > 0)).filter(pl.col("x") > 1)
    assert engine._plan.name_of(near._place) == "(filter col(\"x\") > 1) of view 'near'"
    far: ec.Collection = rows
    for number in range(9):
        far = far.filter(pl.col("x") > number)
    name = engine._plan.name_of(far._place)
    assert name.startswith('(filter col("x") > 8) of (filter col("x") > 7) of ')
    assert name.endswith(" of … of source 'rows'")


def test_steps_of_a_deep_chain_cost_what_they_touch() -> None:
    driven = Driven(deep_plan(200))
    rows = pl.DataFrame({"k": [1], "x": [-1_000], DIFF: [1]}, {"k": pl.Int64, "x": pl.Int64, DIFF: pl.Int64})
    driven.step(Step({"rows": rows}))
    visited = [node for node in driven.circuit.nodes if node.rows_in]
    assert len(visited) == 1, "the first filter lets nothing pass"


def deep_plan(depth: int) -> Plan:
    engine = ec.Engine()
    chained(engine, "filter", depth)
    return engine._plan
