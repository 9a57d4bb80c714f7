"""However many views came and went, memory and time follow those that are there."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.durability.grouped_apart import views_of_replaced
from evercurrent.views.plan import node_identities, noted_objects
from evercurrent.views.plan import plan as plans
from evercurrent.views.plan.function_versions import without_versions
from evercurrent.views.plan.noted_objects import NotedObjects

FEW = 12
MANY = 3 * FEW


class Added(dict[Any, Any]):
    """A part of a plan to which another thread adds at any time."""

    def values(self) -> Any:
        return (value for _, value in self.items())

    def items(self) -> Any:
        for each in super().items():
            yield each
            self[-len(self)] = frozenset()


class Interrupting(dict[Any, Any]):
    """A part of a plan whose reader is interrupted."""

    def items(self) -> Any:
        raise KeyboardInterrupt

    copy = items


@pytest.fixture(autouse=True)
def _few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that nothing needs are forgotten soon."""
    monkeypatch.setattr(plans, "FEW_NODES", FEW)


def engine_of_counts() -> tuple[ec.Engine, Any]:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Int64}, kind="diffs", retained=True)
    counts = rows.group_by("k").agg(n=pl.len(), most=pl.col("x").max())
    engine.view("counts", counts)
    engine.push("rows", [(1, 5), (1, 7), (2, 3)])
    return engine, counts


def come_and_go(engine: ec.Engine, counts: Any, times: int, name: str = "brief") -> None:
    for least in range(times):
        view = engine.view(name, counts.filter(pl.col("n") > least).group_by("n").agg(k=pl.col("k").max()))
        assert view.read().height == sum(n > least for n in (1, 2))
        engine.drop_view(name)


def calls_of(engine: ec.Engine) -> int:
    gc.collect()
    return len(list(engine._plan.calls))


def test_nodes_and_calls_of_views_that_are_gone_are_forgotten() -> None:
    engine, counts = engine_of_counts()
    before = calls_of(engine)
    come_and_go(engine, counts, MANY)
    assert engine._plan.added > 2 * MANY
    assert len(engine._plan.nodes) < 2 * FEW + 10
    assert calls_of(engine) == before
    engine.push("rows", {"k": [2], "x": [9], "_diff": [1]})
    assert sorted(engine.views["counts"].read().rows()) == [(1, 2, 7), (2, 2, 9)]
    assert engine.views["counts"].prove()


def test_so_are_those_of_collections_that_no_view_was_of() -> None:
    engine, counts = engine_of_counts()
    for least in range(MANY):
        counts.filter(pl.col("n") > least).select("k")
    assert len(engine._plan.nodes) < 2 * FEW + 10


def test_a_collection_that_somebody_holds_stays() -> None:
    engine, counts = engine_of_counts()
    rows = engine.sources["rows"]
    few = counts.filter(pl.col("n") < 2)
    grouped = few.group_by("n")
    gone = engine.view("gone", counts.select("k"))
    engine.drop_view("gone")
    joined = rows.join(counts, on="k").select("k", "x", "n")
    come_and_go(engine, counts, MANY)
    assert engine.view("few", few).read().rows() == [(2, 1, 3)]
    assert engine.view("grouped", grouped.agg(k=pl.col("k").sum())).read().rows() == [(1, 2)]
    assert gone.columns == ["k"]
    assert joined.columns == ["k", "x", "n"]
    assert "few" in str(engine.explain())


def test_a_view_can_be_proved_whose_collections_nobody_holds() -> None:
    engine, counts = engine_of_counts()
    engine.view("kept", counts.filter(pl.col("n") > 1).with_columns(twice=pl.col("n") * 2))
    come_and_go(engine, counts, MANY)
    gc.collect()
    engine.push("rows", [(3, 1), (3, 2)])
    assert sorted(engine.views["kept"].read().rows()) == [(1, 2, 7, 4), (3, 2, 2, 4)]
    assert engine.views["kept"].prove()


def test_forks_forget_for_themselves() -> None:
    engine, counts = engine_of_counts()
    held = counts.filter(pl.col("n") > 1)
    fork = engine.fork()
    come_and_go(fork, fork.views["counts"], MANY)
    assert len(fork._plan.nodes) < 2 * FEW + 10
    assert engine.view("held", held).read().rows() == [(1, 2, 7)]
    assert fork.views["counts"].read().height == 2
    assert calls_of(fork) < 10


def test_a_declaration_computes_the_identities_that_the_plan_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = engine_of_counts()
    digest_of, computed = node_identities.digest_of, 0

    def counting(*values: object) -> str:
        nonlocal computed
        computed += 1
        return digest_of(*values)

    monkeypatch.setattr(node_identities, "digest_of", counting)
    come_and_go(engine, counts, 1)
    of_first, computed = computed, 0
    for least in range(FEW // 4):
        counts.filter(pl.col("n") > least + 10)
    come_and_go(engine, counts, 1, "other")
    assert 0 < computed <= of_first


def test_a_plan_goes_to_other_processes_without_collections() -> None:
    engine, counts = engine_of_counts()
    come_and_go(engine, counts, 3)
    plan = pickle.loads(pickle.dumps(engine._plan))
    assert plan.needed() == engine._plan.needed()
    assert list(plan.calls) == []


@pytest.mark.parametrize("read", [pickle.dumps, views_of_replaced, lambda plan: without_versions(plan, {})])
def test_others_add_nodes_while_a_plan_is_read(read: Any) -> None:
    engine, _ = engine_of_counts()
    plan = engine._plan
    plan.nodes, plan._known = Added(plan.nodes), Added(plan._known)
    read(plan)


@pytest.mark.parametrize("part", ["nodes", "windowed", "_known", "_sources", "_consequences"])
def test_a_declaration_can_be_repeated_after_an_interrupt_in_forgetting(part: str) -> None:
    engine, counts = engine_of_counts()
    plan = engine._plan
    for least in range(3):
        counts.filter(pl.col("n") > least)
    plan._most_nodes = 0
    setattr(plan, part, Interrupting(getattr(plan, part)))
    with pytest.raises(KeyboardInterrupt):
        counts.select("k")
    setattr(plan, part, dict(getattr(plan, part)))
    for least in range(3):
        view = engine.view(f"more than {least}", counts.filter(pl.col("n") > least))
        assert view.read().height == 2 - least


def test_a_declaration_can_be_repeated_after_an_interrupt_in_adding(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = engine_of_counts()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for step in ("replace", "_consequences"):
        with monkeypatch.context() as patch:
            patch.setattr(plans, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                counts.filter(pl.col("n") > 1)
    assert engine.view("many", counts.filter(pl.col("n") > 1)).read().rows() == [(1, 2, 7)]


def test_nodes_that_are_added_while_others_declare_stay_until_all_are_done() -> None:
    """Of a join with null keys several nodes are added before there is a collection."""
    engine, counts = engine_of_counts()
    with engine._plan.declaring():
        place = counts.filter(pl.col("n") > 77)._place
        thread = threading.Thread(target=come_and_go, args=(engine, counts, MANY))
        thread.start()
        thread.join()
        assert place in engine._plan.nodes
    assert place not in engine._plan.nodes


def test_others_declare_meanwhile() -> None:
    engine, counts = engine_of_counts()
    errors: list[BaseException] = []
    is_over = threading.Event()

    def declare() -> None:
        try:
            while not is_over.is_set():
                several = [counts.filter(pl.col("n") > each).join(counts, on="k") for each in range(7)]
                for each in several:
                    assert each.select("k", "n").columns == ["k", "n"]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=declare) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        come_and_go(engine, counts, 2 * FEW)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_fork_has_nothing_of_what_others_declare_while_it_is_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, counts = engine_of_counts()
    forked, declared = plans.Plan.forked, list[Any]()

    def forked_while_others_declare(plan: plans.Plan) -> plans.Plan:
        fork = forked(plan)
        declared.extend(counts.filter(pl.col("n") > least) for least in range(5, 5 + MANY))
        return fork

    monkeypatch.setattr(plans.Plan, "forked", forked_while_others_declare)
    gc.disable()
    try:
        fork = engine.fork()
        come_and_go(fork, fork.views["counts"], MANY)
    finally:
        gc.enable()
    assert fork.views["counts"].read().height == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_noted_of_an_object_that_is_gone_is_not_that_of_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(noted_objects, "_forget", interrupted)
    noted: NotedObjects[int] = NotedObjects()
    for number in range(9):
        each = frozenset({number})  # Where the one before was, as that is gone.
        assert noted.get(each) is None
        noted.put(each, number)
        assert noted.get(each) == number
        del each


def test_sources_are_looked_up_while_nodes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = engine_of_counts()
    plan, upstream = engine._plan, plans.Plan._sources_upstream

    def forgotten_meanwhile(plan: plans.Plan, place: Any) -> Any:
        sources = upstream(plan, place)
        plan._forget_unneeded()
        return sources

    monkeypatch.setattr(plans.Plan, "_sources_upstream", forgotten_meanwhile)
    for least in range(3):
        plan._sources = Added(plan._sources)
        few = counts.filter(pl.col("n") > least)
        assert [source.name for source in plan.sources_of(few._place)] == ["rows"]
