"""What was kept under names of an earlier scheme of digests is found again, and goes on under those of today."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from durability.kept_programs import PROGRAMS, KeptProgram, contents
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.compiler.state_forms import is_read
from evercurrent.views.durability.digest_schemes import EarlierNames
from evercurrent.views.durability.plan_match import is_same_record, plan_record
from evercurrent.views.plan.digest_scheme import FIRST, SCHEME, SECOND, THIRD, written_by
from evercurrent.views.plan.digests import digest_of
from evercurrent.views.store import LocalStore

of_this_polars = pytest.mark.skipif(
    pl.__version__ != "2.1.0", reason="the first scheme is that of polars' own form"
)


def test_a_scheme_is_another_one_for_expressions_and_columns_alone() -> None:
    values = (1, "a", ("b", 2.0), pl.Int64(), {"a": b"c"})
    with written_by(FIRST):
        first = [digest_of(each) for each in (*values, pl.col("x") + 1, pl.Series([1, 2]))]
    now = [digest_of(each) for each in (*values, pl.col("x") + 1, pl.Series([1, 2]))]
    assert first[:-2] == now[:-2]
    assert {*first[-2:]}.isdisjoint(now[-2:])


@of_this_polars
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.folder)
def test_a_commit_of_the_first_scheme_has_the_names_of_today(program: KeptProgram, tmp_path: Path) -> None:
    last = CommitLog(LocalStore(program.copied(tmp_path / "checkpoint"))).last
    assert last is not None
    assert "digests" not in last.plan
    plan = program.opened(None, range(0)).declared
    now = plan_record(plan, compile_plan(plan, Ledger(1000)))
    renewed = EarlierNames(plan).renewed(last)
    for part in (
        "views",
        "sources",
        "states",
        "holds",
        "digests",
        *(each for each in ("spines",) if each in last.plan),
    ):
        assert renewed.plan[part] == now[part], part
    assert all(map(is_read, renewed.plan.get("forms", now["forms"]), now["forms"]))
    assert {name.rpartition("/")[0] for name in renewed.states} <= set(now["states"])
    if "labels" in last.plan and last.plan["versions"] == now["versions"]:
        assert is_same_record(renewed.plan, now), (
            "so that input that waits is evaluated as by the same program"
        )
    assert EarlierNames(plan).renewed(renewed) is renewed


@of_this_polars
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.folder)
def test_what_goes_on_is_kept_under_the_names_of_today(program: KeptProgram, tmp_path: Path) -> None:
    folder = program.copied(tmp_path / "checkpoint")
    with program.opened(folder, range(0)) as engine:
        program.push(engine, program.kept_at)
        after = contents(engine)
    last = CommitLog(LocalStore(folder)).last
    assert last is not None
    assert last.plan["digests"] == SCHEME
    with program.opened(folder, range(0)) as engine:
        assert contents(engine) == after


@of_this_polars
def test_a_view_that_is_another_one_is_another_one_in_either_scheme(tmp_path: Path) -> None:
    def declared(number: int, folder: Path | None = None) -> ec.Engine:
        engine = ec.Engine() if folder is None else ec.Engine(checkpoint=folder)
        rows = engine.source("rows", {"x": pl.Int64, "k": pl.Int64})
        engine.view("same", rows.group_by("k").agg(n=(pl.col("x") + 1).sum()))
        engine.view("other", rows.filter(pl.col("x") > number))
        return engine

    with written_by(FIRST), declared(1, tmp_path / "kept") as engine:
        engine.push("rows", {"x": [1, 2, 3], "k": [1, 1, 2]})
    commit = CommitLog(LocalStore(tmp_path / "kept")).last
    assert commit is not None
    assert commit.plan["digests"] == FIRST
    plan = declared(2).declared
    first, now = EarlierNames(plan).renewed(commit).plan, plan_record(plan, compile_plan(plan, Ledger(1000)))
    assert commit.plan["views"]["same"] != now["views"]["same"] == first["views"]["same"]
    assert first["views"]["other"] != now["views"]["other"]
    assert first["sources"] == now["sources"]


def test_what_was_looked_up_in_the_order_of_the_second_scheme_goes_on(tmp_path: Path) -> None:
    def declared() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path / "kept")
        rows = engine.source("rows", {"x": pl.Int64, "k": pl.Int64}, kind="diffs")
        engine.view("n", rows.filter(pl.col("k").is_in([3, 1, 2])).group_by("k").agg(n=pl.col("x").sum()))
        return engine

    with written_by(SECOND), declared() as engine:
        engine.push("rows", {"x": [1, 2, 3], "k": [1, 1, 4]})
    log = CommitLog(LocalStore(tmp_path / "kept"))
    assert log.last is not None
    assert log.last.plan["digests"] == SECOND
    with declared() as engine:
        engine.push("rows", {"x": [5], "k": [1]})
        assert engine.views["n"].read().rows() == [(1, 8)]
    log.refresh()
    assert log.last.plan["digests"] == SCHEME


def test_a_function_that_names_arguments_goes_on_from_the_third_scheme(tmp_path: Path) -> None:
    def declared() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path / "kept")
        rows = engine.source("rows", {"x": pl.Int64, "k": pl.Int64}, kind="diffs")
        doubled = rows.map_batches(lambda frame: frame.with_columns(y=frame["x"] * 2))
        engine.view("n", doubled.group_by("k").agg(n=pl.col("y").sum()))
        return engine

    with written_by(THIRD), declared() as engine:
        engine.push("rows", {"x": [1, 2, 3], "k": [1, 1, 4]})
    log = CommitLog(LocalStore(tmp_path / "kept"))
    assert log.last is not None
    assert log.last.plan["digests"] == THIRD
    with declared() as engine:
        engine.push("rows", {"x": [5], "k": [1]})
        assert sorted(engine.views["n"].read().rows()) == [(1, 16), (4, 6)]
    log.refresh()
    assert log.last.plan["digests"] == SCHEME
