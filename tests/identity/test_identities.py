"""Law: two nodes have one identity if, and only if, they compute the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime.pipelines import Setup, setups
from evercurrent.views.apps import retail, visits
from evercurrent.views.durability.plan_match import state_ids
from evercurrent.views.plan.node_identities import plan_identities
from identity.declaring import compiled_of, declared, identities_of_views, same, states_of_views
from other_process import OTHERS, results_of
from strategies import Program, of_profile, programs


@of_profile(1, quick=40)
@given(programs(), programs())
def test_identities_are_equal_where_nodes_of_plans_are(one: Program, two: Program) -> None:
    plans = [declared(one)._plan, declared(two)._plan]
    first, second = (plan_identities(plan, plan.nodes) for plan in plans)
    for here, identity in first.items():
        for there, other in second.items():
            assert (identity == other) == same(plans[0], here, plans[1], there), (
                plans[0].nodes[here],
                plans[1].nodes[there],
            )
    assert len(set(first.values())) == len(first)


@of_profile(0.5, quick=25)
@given(setups(), setups())
def test_identities_of_windowed_groupings_are_equal_where_they_are(one: Setup, two: Setup) -> None:
    plans = [windowed(one)._plan, windowed(two)._plan]
    first, second = (plan_identities(plan, plan.nodes) for plan in plans)
    assert len(set(first.values())) == len(first)
    for here, identity in first.items():
        for there, other in second.items():
            assert (identity == other) == same(plans[0], here, plans[1], there)


def windowed(setup: Setup, *, others: bool = False) -> ec.Engine:
    """An engine with the panes of a setup."""
    engine = ec.Engine()
    if others:
        engine.view("other", engine.source("other", {"t": pl.Datetime("us")}, event_time="t").unique())
    source = setup.source(engine)
    if others:
        engine.view("more", source.group_by("k").agg(pl.col("v").sum()))
    engine.view("panes", setup.panes(source))
    if setup.lateness is not None and not setup.is_global:
        engine.view("late", setup.late_rows(source))
    return engine


@of_profile(0.5, quick=25)
@given(st.data())
def test_order_and_neighbours_do_not_count(data: st.DataObject) -> None:
    program = data.draw(programs())
    shuffled = data.draw(st.permutations(list(program.lines)))
    order, known = [], set(program.sources)
    while len(order) < len(program.lines):
        for line in shuffled:
            name, text = line.split(" = ", 1)
            used = {other for other in program.views if other + "." in text or f"({other}" in text}
            if line not in order and used - {name} <= known:
                order.append(line)
                known.add(name)
    before, after = declared(program), declared(program, order, others=True)
    found = identities_of_views(after)
    assert identities_of_views(before).items() <= found.items()
    states = states_of_views(after)
    assert states_of_views(before) == {name: states[name] for name in program.views}


@of_profile(0.5)
@given(setups())
def test_neighbours_of_windowed_groupings_do_not_count(setup: Setup) -> None:
    before, after = windowed(setup), windowed(setup, others=True)
    found = identities_of_views(after)
    assert identities_of_views(before).items() <= found.items()
    states = states_of_views(after)
    assert all(nodes == states[name] for name, nodes in states_of_views(before).items())
    assert set(state_ids(compiled_of(before))) <= set(state_ids(compiled_of(after)))


@of_profile(0.5, quick=25)
@given(programs())
def test_every_state_and_every_node_has_an_identity_of_its_own(program: Program) -> None:
    compiled = compiled_of(declared(program))
    identities = [node.identity for node in compiled.circuit.nodes]
    assert len(set(identities)) == len(identities)
    assert {id(state) for state in state_ids(compiled).values()} >= {
        id(state) for state in compiled.circuit.states
    }
    assert len(state_ids(compiled)) == len(
        {id(state) for state in compiled.circuit.states} | {id(compiled.ledger)}
    )


FIXED = Program(
    {"a": {"k": pl.String(), "x": pl.Float64(), "d": pl.Datetime("us")}},
    (
        "v1 = a.filter(pl.col('k').is_in(['p', 'q']) & (pl.col('x') != nan))",
        "v2 = v1.group_by('k').agg(m=pl.col('x').max(), q=pl.col('x').quantile(0.25), n=pl.col('d').n_unique())",
        "v3 = v2.join(a, on='k', how='left').with_columns(u=pl.col('x') * inf, y=pl.lit(-0.0))",
        "v5 = a.filter(pl.col('k').is_in({'p', 'q', 'r', 's', 't'}))",
        "v4 = a.map_batches(lambda frame: frame.filter(frame['k'].is_in({'s', 't', 'u', 'v'})))",
    ),
)


def test_identities_are_the_same_in_another_process() -> None:
    """Another seed of Python's own hashes; expressions with sets, NaN and infinities; a function with a set."""
    found = [results_of(*other)["identity.test_identities"] for other in OTHERS]
    assert found == [results()] * len(OTHERS)


def results() -> list[dict[str, Any]]:
    """The identities of the views of a program that is fixed, and of their states."""
    engine = declared(FIXED)
    states = {name: sorted(each) for name, each in states_of_views(engine).items()}
    return [identities_of_views(engine), states]


COLUMNS: dict[str, Any] = {"k": pl.String, "v": pl.Int64, "t": pl.Datetime("us")}
SOURCE: dict[str, Any] = {"kind": "diffs", "event_time": "t"}

OTHER_SOURCES: dict[str, Callable[[ec.Engine], Any]] = {
    "as it is": lambda engine: engine.source("a", COLUMNS, **SOURCE),
    "name": lambda engine: engine.source("b", COLUMNS, **SOURCE),
    "kind": lambda engine: engine.source("a", COLUMNS, event_time="t"),
    "key": lambda engine: engine.source("a", COLUMNS, kind="upsert", key="k", event_time="t"),
    "other key": lambda engine: engine.source("a", COLUMNS, kind="upsert", key="v", event_time="t"),
    "sequence": lambda engine: engine.source(
        "a", COLUMNS, kind="upsert", key="k", event_time="t", sequence_by="v"
    ),
    "other sequence": lambda engine: engine.source(
        "a", COLUMNS, kind="upsert", key="k", event_time="t", sequence_by="t"
    ),
    "strict": lambda engine: engine.source("a", COLUMNS, **SOURCE, strict=True),
    "trusted": lambda engine: engine.source("a", COLUMNS, **SOURCE, trusted=True),
    "bounded": lambda engine: engine.source("a", COLUMNS, **SOURCE, bounded=True),
    "no event time": lambda engine: engine.source("a", COLUMNS, kind="diffs"),
    "watermark": lambda engine: engine.source("a", COLUMNS, **SOURCE, watermark=ec.bounded_delay("1m")),
    "delay": lambda engine: engine.source("a", COLUMNS, **SOURCE, watermark=ec.bounded_delay("2m")),
    "time unit": lambda engine: engine.source("a", {**COLUMNS, "t": pl.Datetime("ms")}, **SOURCE),
    "time zone": lambda engine: engine.source("a", {**COLUMNS, "t": pl.Datetime("us", "UTC")}, **SOURCE),
    "categories": lambda engine: engine.source("a", {**COLUMNS, "k": pl.Enum(["x", "y"])}, **SOURCE),
    "order of categories": lambda engine: engine.source("a", {**COLUMNS, "k": pl.Enum(["y", "x"])}, **SOURCE),
    "order of columns": lambda engine: engine.source("a", dict(reversed(COLUMNS.items())), **SOURCE),
    "column name": lambda engine: engine.source("a", {**COLUMNS, "w": pl.Int64}, **SOURCE),
}


def test_whatever_is_another_source_has_another_identity() -> None:
    found = {}
    for name, declare in OTHER_SOURCES.items():
        engine = ec.Engine()
        engine.view("v", declare(engine).unique())
        found[name] = identities_of_views(engine)["v"]
    assert len(set(found.values())) == len(found), found


def test_whether_rows_are_retained_is_no_part_of_what_is_computed() -> None:
    found = []
    for retained in (False, True):
        engine = ec.Engine()
        source = declare_source(engine, "a", COLUMNS, retained=retained)
        engine.view("v", source.group_by("k").agg(n=pl.len()))
        found.append((identities_of_views(engine), states_of_views(engine)))
    assert found[0] == found[1]


def declare_source(engine: ec.Engine, name: str, columns: dict[str, Any], **options: Any) -> Any:
    """A source, also with the options that the engine may not have yet."""
    from evercurrent.views.dataframe.source import declare

    known = {
        "kind": "append", "key": None, "event_time": None, "watermark": None, "bounded": False, "strict": False,
        "trusted": False,
    }  # fmt: skip
    engine.sources[name] = declare(engine._plan, name, columns, **{**known, **options})
    return engine.sources[name]


OTHER_VIEWS: dict[str, Callable[[Any], Any]] = {
    "grouping": lambda a: a.group_by("k").agg(n=pl.len()),
    "key": lambda a: a.group_by("v").agg(n=pl.len()),
    "name": lambda a: a.group_by("k").agg(m=pl.len()),
    "name of the key": lambda a: a.group_by(j="k").agg(n=pl.len()),
    "aggregate": lambda a: a.group_by("k").agg(n=pl.col("v").sum()),
    "more": lambda a: a.group_by("k").agg(n=pl.len(), m=pl.col("v").sum()),
    "order": lambda a: a.group_by("k").agg(m=pl.col("v").sum(), n=pl.len()),
    "constant": lambda a: a.group_by("k").agg(n=pl.len() + 1),
    "float": lambda a: a.group_by("k").agg(n=pl.len() + 1.0),
    "zero": lambda a: a.group_by("k").agg(n=pl.len() * 0.0),
    "minus zero": lambda a: a.group_by("k").agg(n=pl.len() * -0.0),
    "ddof": lambda a: a.group_by("k").agg(n=pl.col("v").var(ddof=0)),
    "other ddof": lambda a: a.group_by("k").agg(n=pl.col("v").var(ddof=1)),
    "filter": lambda a: a.filter(pl.col("v") > 0).group_by("k").agg(n=pl.len()),
    "other filter": lambda a: a.filter(pl.col("v") > 1).group_by("k").agg(n=pl.len()),
    "nan": lambda a: a.filter(pl.col("v") > float("nan")),
    "infinity": lambda a: a.filter(pl.col("v") > float("inf")),
    "minus infinity": lambda a: a.filter(pl.col("v") > float("-inf")),
    "window": lambda a: a.window(ec.fixed("1m")).group_by("k").agg(n=pl.len()),
    "size": lambda a: a.window(ec.fixed("2m")).group_by("k").agg(n=pl.len()),
    "sessions": lambda a: a.window(ec.sessions("1m")).group_by("k").agg(n=pl.len()),
    "lateness": lambda a: a.window(ec.fixed("1m")).lateness("1m").group_by("k").agg(n=pl.len()),
    "trigger": lambda a: a.window(ec.fixed("1m")).trigger(ec.each_row()).group_by("k").agg(n=pl.len()),
    "count": lambda a: (
        a.window(ec.fixed("1m")).trigger(ec.repeat(ec.after_count(2))).group_by("k").agg(n=pl.len())
    ),
    "mode": lambda a: a.window(ec.fixed("1m")).accumulate("accumulating").group_by("k").agg(n=pl.len()),
    "timestamp": lambda a: a.window(ec.fixed("1m"), timestamp="start").group_by("k").agg(n=pl.len()),
    "top": lambda a: a.top_k(1, by="v"),
    "two": lambda a: a.top_k(2, by="v"),
    "bottom": lambda a: a.bottom_k(1, by="v"),
    "join": lambda a: a.join(a, on="k"),
    "left": lambda a: a.join(a, on="k", how="left"),
    "nulls": lambda a: a.join(a, on="k", nulls_equal=True),
    "suffix": lambda a: a.join(a, on="k", suffix="_other"),
    "twice": lambda a: a.concat(a),
    "minus": lambda a: a.minus(a),
}


@pytest.mark.filterwarnings("ignore::evercurrent.core.data.errors.GrowthWarning")
def test_whatever_is_another_view_has_another_identity() -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, event_time="t")
    for name, make in OTHER_VIEWS.items():
        engine.view(name, make(source))
    found = identities_of_views(engine)
    assert len(set(found.values())) == len(OTHER_VIEWS), found
    identities = [node.identity for node in compiled_of(engine).circuit.nodes]
    assert len(set(identities)) == len(identities)


def test_which_view_comes_first_to_an_arrangement_does_not_matter() -> None:
    """Arrangements, pairs to count and prepared columns are shared; their states are the same either way."""
    views = {
        "max": lambda a: a.group_by("k").agg(m=pl.col("v").max()),
        "min and max": lambda a: a.group_by("k").agg(m=pl.col("v").max(), n=pl.col("v").n_unique()),
        "join": lambda a: a.join(a.filter(pl.col("v") > 0), on="k"),
        "left": lambda a: a.join(a.filter(pl.col("v") > 0), on="k", how="left"),
    }
    found = []
    for names in (list(views), list(reversed(views))):
        engine = ec.Engine()
        source = engine.source("a", COLUMNS)
        for name in names:
            engine.view(name, views[name](source))
        found.append((set(state_ids(compiled_of(engine))), states_of_views(engine)))
    assert found[0] == found[1]


def test_a_percentile_is_identified_by_its_source_not_by_the_order_of_sources() -> None:
    found = []
    for names in (["a", "b"], ["b", "a"]):
        engine = ec.Engine()
        sources = {name: engine.source(name, COLUMNS, event_time="t") for name in names}
        both = sources["a"].concat(sources["b"]).window(ec.fixed("1m"))
        triggered = both.trigger(early=ec.after_percentile(0.9), late=ec.each_row())
        engine.view("v", triggered.group_by("k").agg(n=pl.len()))
        found.append(set(state_ids(compiled_of(engine))))
    assert found[0] == found[1]


@pytest.mark.parametrize("application", [retail, visits])
def test_the_same_application_has_the_same_states(application: Any) -> None:
    """Loaded twice, as two runs of a program would."""
    first = set(state_ids(compiled_of(application.engine())))
    again = importlib.reload(application)
    assert first == set(state_ids(compiled_of(again.engine())))
