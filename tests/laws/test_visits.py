"""A circuit that visits only the nodes that have something to do emits and keeps what one emits and keeps that visits all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from driven import Driven, Step, as_columns, frame_bytes, given_back, plan_of, steps_in, steps_of
from eventtime.pipelines import Run, runs
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.protocol import State
from evercurrent.views.plan.plan import Plan
from harness import circuit_of
from strategies import Case, cases, of_profile


def with_pauses(steps: Sequence[Step]) -> list[Step]:
    """Each step, and after it one without rows at the same time and one a little later."""
    found = []
    for step in steps:
        none = {source: frame.clear() for source, frame in step.rows.items()}
        found += [step, Step(none, at=step.at), Step(none, at=step.at + 500_000)]
    return found


def kept(state: State) -> tuple[list[bytes], object]:
    """All that outlives the process of a state, to be compared byte by byte."""
    columns, facts = as_columns(state, state.saved())
    return [frame_bytes(frame) for frame in columns], facts


def assert_visits_change_nothing(plan: Plan, steps: Sequence[Step], stop: int) -> None:
    """Compare all deltas and states after every epoch; one of the two circuits is given its states anew at some epoch."""
    skipping, thorough = Driven(plan), Driven(plan)
    thorough.circuit.visits_all = True
    for number, step in enumerate(steps):
        if number == stop:
            again = Driven(plan, skipping.number)
            for state, one in zip(again.states, skipping.states, strict=True):
                given_back(state, as_columns(one, one.saved()))
            skipping = again
        ours, theirs = skipping.step(step), thorough.step(step)
        for node, one, other in zip(skipping.circuit.nodes, ours, theirs, strict=True):
            assert frame_bytes(one) == frame_bytes(other), f"epoch {number + 1}: {node.name}"
        for (name, one), (_, other) in zip(skipping.named, thorough.named, strict=True):
            assert kept(one) == kept(other), f"epoch {number + 1}: state of {name}"


@of_profile(0.3)
@given(case=cases())
def test_any_program_emits_and_keeps_the_same_with_fewer_visits(case: Case) -> None:
    engine = ec.Engine()
    sources = {
        name: engine.source(name, columns, kind="diffs", trusted=case.trusted)
        for name, columns in case.program.sources.items()
    }
    collections = case.program.run(sources)
    for name in case.program.views:
        engine.view(name, collections[name])
    steps = steps_of(case)
    # In every second epoch one of the sources brings nothing.
    quiet = sorted(sources)[0]
    steps = [
        replace(step, rows={**step.rows, quiet: step.rows[quiet].clear()}) if number % 2 else step
        for number, step in enumerate(steps)
    ]
    assert_visits_change_nothing(engine._plan, steps, len(steps) // 2)


@of_profile(0.3)
@given(run=runs())
def test_any_windowed_pipeline_emits_and_keeps_the_same_with_fewer_visits(run: Run) -> None:
    steps = with_pauses(steps_in(run))
    assert_visits_change_nothing(plan_of(run), steps, len(steps) // 2)


def chained() -> ec.Engine:
    """Windows over windows, whose watermark is held back, over two sources of which one is quiet for long."""
    engine = ec.Engine()
    columns = {"k": pl.Int64, "at": pl.Datetime("us")}
    one, two = (
        engine.source(name, columns, event_time="at", watermark=ec.bounded_delay("2s")) for name in "ab"
    )
    panes = (
        one.concat(two)
        .window(ec.sessions("4s"))
        .trigger(ec.after_watermark(early=ec.repeat(ec.at_period("3s")), late=ec.every_epoch()))
        .lateness("5s")
        .group_by("k")
        .agg(n=pl.len(), m=pl.col("at").max())
    )
    engine.view("sessions", panes)
    engine.view(
        "histogram",
        panes.window(ec.fixed("10s"))
        .trigger(ec.after_watermark())
        .lateness("0s")
        .group_by("n")
        .agg(c=pl.len()),
    )
    engine.view("released", two.order_by_time())
    return engine


@pytest.mark.parametrize("stop", [0, 25])
def test_windows_over_windows_emit_and_keep_the_same_with_fewer_visits(stop: int) -> None:
    def rows(*at: int) -> pl.DataFrame:
        data = {"k": [each % 2 for each in at], "at": [each * 1_000_000 for each in at], DIFF: [1] * len(at)}
        return pl.DataFrame(data, {"k": pl.Int64, "at": pl.Datetime("us"), DIFF: pl.Int64})

    steps = [
        Step(
            {"a": rows(n, n + 1) if n % 3 else rows(), "b": rows(n) if n % 7 == 0 else rows()},
            at=n * 1_000_000,
        )
        for n in range(14)
    ]
    steps.append(Step({"a": rows(), "b": rows()}, {"a": 30_000_000, "b": 60_000_000}, at=15_000_000))
    assert_visits_change_nothing(chained()._plan, with_pauses(steps), stop)


def visited_by_a_row(count: int, *, sources: int) -> int:
    """How many nodes one row visits where there are so many views over so many sources."""
    engine = ec.Engine()
    declared = [
        engine.source(f"s{number}", {"k": pl.Int64, "x": pl.Int64}, kind="diffs") for number in range(sources)
    ]
    for number in range(count):
        rows = declared[number % sources].filter(pl.col("x") >= 0)
        engine.view(f"v{number}", rows.group_by("k").agg(n=pl.len(), m=pl.col("x").max() + number))
    circuit, visited = circuit_of(engine), 0
    engine.push("s0", {"k": [0], "x": [1]})
    for node in circuit.nodes:
        node.seconds = 0.0
    engine.push("s0", {"k": [0], "x": [2]})
    for node in circuit.nodes:
        visited += node.seconds > 0
    return visited


def test_a_row_visits_the_nodes_that_it_is_for() -> None:
    assert visited_by_a_row(60, sources=60) == visited_by_a_row(1, sources=1)


@pytest.mark.parametrize("count", [1, 30])
def test_a_row_visits_the_one_filter_that_its_value_is_for(count: int) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "s": pl.String})
    for number in range(count):
        engine.view(f"v{number}", rows.filter(pl.col("k") == number, pl.col("s") != "no").select("s"))
    engine.push("rows", {"k": [0], "s": ["yes"]})
    visited = [node.name for node in circuit_of(engine).nodes if node.rows_in]
    assert len(visited) == 3, visited


def windowed(count: int) -> ec.Engine:
    """So many views of windows with triggers, each of the rows of one key, and one of sessions."""
    engine = ec.Engine()
    columns = {"k": pl.Int64, "at": pl.Datetime("us")}
    rows = engine.source("rows", columns, event_time="at", watermark=ec.bounded_delay("1m"))
    trigger = ec.after_watermark(early=ec.every("1m"), late=ec.each_row())
    for number in range(count):
        kinds = [ec.fixed("10m"), ec.sessions("10m")]
        for kind, window in enumerate(kinds):
            view = rows.filter(pl.col("k") == number).window(window).trigger(trigger).lateness("1h")
            engine.view(f"v{number} {kind}", view.accumulate("retracting").group_by("k").agg(n=pl.len()))
    return engine


def test_windows_of_others_are_visited_once_after_the_start_and_not_again() -> None:
    def visited_by_a_row(count: int) -> int:
        engine = windowed(count)
        circuit = circuit_of(engine)
        at = datetime(2024, 1, 1, tzinfo=UTC)
        visited = 0
        for number in range(4):
            before = [node.seconds for node in circuit.nodes]
            engine.push(
                "rows", {"k": [0], "at": [at.replace(tzinfo=None)]}, at=at + timedelta(seconds=number)
            )
            visited = sum(node.seconds > then for node, then in zip(circuit.nodes, before, strict=True))
        return visited

    assert visited_by_a_row(20) == visited_by_a_row(1)


def test_a_window_that_has_fired_is_visited_once_more_and_then_sleeps() -> None:
    engine = windowed(1)
    circuit = circuit_of(engine)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    engine.push("rows", {"k": [0], "at": [at.replace(tzinfo=None)]}, at=at)
    visits = []
    for minute in (1, 2, 3, 4):
        before = [node.seconds for node in circuit.nodes]
        engine.tick(at=at + timedelta(minutes=minute, seconds=minute))
        visits.append(sum(node.seconds > then for node, then in zip(circuit.nodes, before, strict=True)))
    # The timer of a minute; what was found then is forgotten; the clock of the source goes on alone.
    assert visits[0] > visits[2] == visits[3] == 0


@pytest.mark.parametrize("most", [0, 3, 4_096])
def test_filters_by_value_emit_and_keep_the_same_with_fewer_visits(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.core.circuit.circuit.MOST_LOOKED_UP", most)
    columns = {"k": pl.Int8, "s": pl.String, "b": pl.Boolean, "f": pl.Float64}
    engine = ec.Engine()
    rows = engine.source("a", columns, kind="diffs")
    conditions = [
        pl.col("k") == 1, pl.lit(1) == pl.col("k"), pl.col("k") == 0, pl.col("k") == -1, pl.col("k") == pl.lit(None),
        pl.col("s") == "1", pl.col("s") == "", (pl.col("s") == "x") | (pl.col("k") == 1), pl.col("f") == 1,
        (pl.col("k") == 1) & (pl.col("s") == "x"), pl.col("b") == True, pl.col("k").eq_missing(pl.lit(None)),  # noqa: E712
        ~(pl.col("k") == 1), pl.col("k") == pl.col("k"), pl.col("k") == pl.lit(1, pl.Int64), pl.col("k") == 1.0,
    ]  # fmt: skip
    for number, condition in enumerate(conditions):
        engine.view(f"v{number}", rows.filter(condition).group_by("k").agg(n=pl.len(), m=pl.col("f").max()))
    cells = [(1, "x", True, 1.0), (0, "1", False, -0.0), (-1, "", None, None), (None, None, True, 1.0)]
    steps = [
        Step(
            {"a": pl.DataFrame([(*cell, diff) for cell in chosen], {**columns, DIFF: pl.Int64}, orient="row")}
        )
        for chosen in (cells[:1], cells[1:2], cells[2:], cells, [])
        for diff in (1, 1, -1)
    ]
    assert_visits_change_nothing(engine._plan, steps, 4)


def test_a_condition_that_cannot_be_computed_refuses_the_epoch_whatever_stands_beside_it() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "s": pl.String})
    engine.view("v", rows.filter((pl.col("k") == 1) & (pl.col("s").cast(pl.Int64) > 0)))
    with pytest.raises(ec.InputError, match="'v'"):
        engine.push("rows", {"k": [2], "s": ["no number"]})
    assert engine.push("rows", {"k": [2], "s": ["3"]}) == 1


def test_nothing_is_visited_in_an_epoch_without_rows() -> None:
    engine = ec.Engine()
    rows = engine.source("a", {"k": pl.Int64})
    engine.view("v", rows.group_by("k").agg(n=pl.len()))
    engine.push("a", {"k": [1]})
    before = [node.seconds for node in circuit_of(engine).nodes]
    engine.tick()
    assert [node.seconds for node in circuit_of(engine).nodes] == before
