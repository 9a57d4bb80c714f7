"""How a checkpoint describes its states to those who have no plan: words, and how their runs are sorted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from durability.kept_programs import declare_states as of_every_kind
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.spine import Spine
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.durability.plan_match import check_plan, is_same_record, plan_record, state_ids
from identity.declaring import compiled_of, declared
from strategies import Case, cases, of_profile


def labels_of(declare: Callable[[ec.Engine], None]) -> list[tuple[str, list[str], list[str]]]:
    """The labels of all states of what is declared, sorted."""
    engine = ec.Engine()
    declare(engine)
    record = plan_record(engine._plan, compiled_of(engine))
    assert json.loads(json.dumps(record)) == record
    return sorted(tuple(label) for label in record["labels"].values())


def shop(engine: ec.Engine) -> Any:
    return engine.source("sales", {"shop": pl.String, "price": pl.Int64}, kind="diffs", trusted=True)


def test_states_of_every_kind_name_what_they_are_and_their_views() -> None:
    windows, visits = "group by ip, sessions with a gap of 20m", ["visits"]
    found = labels_of(of_every_kind)
    assert [label for at, label in enumerate(found) if label not in found[:at]] == sorted(
        [
            ("watermark", [], ["hits"]),
            ("rows", [], ["users"]),
            ("counts of rows", [], ["moves"]),
            ("left join on 'ip': rows", ["named"], []),
            ("left join on 'ip': counts of keys", ["named"], []),
            ("rows", ["named"], []),
            ("group by name: rows", ["names"], []),
            ("group by name: distinct values", ["names"], []),
            ("group by name", ["names"], []),
            ("group by hits", ["histogram"], []),
            ("top_k 2 of each ip by bytes", ["top"], []),
            ("rows", ["top"], []),
            (f"{windows}: sessions", visits, []),
            (f"{windows}: rows of sessions", visits, []),
            (f"{windows}: timers of sessions", visits, []),
            (f"{windows}: open windows", visits, []),
            (f"{windows}: timers of window ends", visits, []),
            (f"{windows}: timers of processing time", visits, []),
            (f"{windows}: timers that hold the watermark", visits, []),
            (f"{windows}: held watermark", visits, []),
            (windows, visits, []),
            (f"{windows}: last panes", visits, []),
            (f"{windows}: counts of panes", visits, []),
            ("rows", visits, []),
            ("group by ip, fixed windows of 1h", ["hours"], []),
        ]
    )


def test_what_is_shared_names_its_views() -> None:
    def declare(engine: ec.Engine) -> None:
        sales = shop(engine)
        for name, how in (("a", "inner"), ("b", "left")):
            engine.view(name, sales.join(sales, on="shop", how=how, nulls_equal=True))

    assert labels_of(declare) == sorted(
        [
            ("inner join on 'shop': rows", ["a", "b"], []),
            ("left join on 'shop': counts of keys", ["b"], []),
            ("rows", ["a"], []),
            ("rows", ["b"], []),
        ]
    )


@pytest.mark.filterwarnings("ignore::evercurrent.core.data.errors.GrowthWarning")
def test_a_view_on_a_view_has_what_comes_after_it() -> None:
    def declare(engine: ec.Engine) -> None:
        totals = engine.view("totals", shop(engine).group_by("shop").agg(total=pl.col("price").sum()))
        rich = totals.filter(pl.col("total") > 123_456_789)
        engine.view("rich", rich)
        engine.view("count", rich.group_by().agg(pl.len()))

    assert labels_of(declare) == sorted(
        [
            ("group by shop", ["totals"], []),
            ("group by nothing", ["count"], []),
            ("rows", ["rich"], []),
        ]
    )


def test_rows_of_a_source_may_be_those_of_a_view() -> None:
    def declare(engine: ec.Engine) -> None:
        kept = engine.source("kept", {"x": pl.Int64}, retained=True)
        alone = engine.source("alone", {"x": pl.Int64}, retained=True)
        engine.view("same", kept)
        engine.view("least", alone.group_by().agg(pl.col("x").min()))

    assert labels_of(declare) == sorted(
        [
            ("rows", ["same"], ["kept"]),
            ("rows", [], ["alone"]),
            ("group by nothing: rows", ["least"], []),
            ("group by nothing", ["least"], []),
        ]
    )


def test_a_clock_of_a_trigger_is_for_what_reads_it() -> None:
    def declare(engine: ec.Engine) -> None:
        columns = {"k": pl.String, "at": pl.Datetime("us")}
        hits = engine.source("hits", columns, event_time="at", watermark=ec.bounded_delay("1m"))
        share = hits.window(ec.fixed("1h")).trigger(ec.repeat(ec.after_percentile(0.9)))
        engine.view("most", share.group_by("k").agg(pl.len()))

    assert ("group by k, fixed windows of 1h: watermark", ["most"], []) in labels_of(declare)


def test_labels_have_no_part_in_what_is_the_same() -> None:
    engine = ec.Engine()
    of_every_kind(engine)
    compiled = compiled_of(engine)
    record = plan_record(engine._plan, compiled)
    other = {name: ["other", ["views"], []] for name in record["labels"]}
    earlier = {name: value for name, value in record.items() if name not in ("labels", "spines")}
    assert is_same_record(record, {**record, "labels": other})
    for each in (record, {**record, "labels": other}, earlier):
        assert check_plan(each, engine._plan, compiled).is_same


@of_profile(0.2)
@given(case=cases(max_lines=5, max_epochs=1))
def test_every_state_has_a_label_and_every_spine_its_order(case: Case) -> None:
    engine = declared(case.program)
    compiled = compile_plan(engine._plan, Ledger(10))
    record, states = plan_record(engine._plan, compiled), state_ids(compiled)
    assert set(record["labels"]) == set(states) - {"ledger"}
    assert all(label[1] or label[2] for label in record["labels"].values())
    for name, state in states.items():
        assert (name in record["spines"]) == isinstance(state, Spine)
        if isinstance(state, Spine):
            assert (record["spines"][name] is None) == (not state.layout.by_row)
