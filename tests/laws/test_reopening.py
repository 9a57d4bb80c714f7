"""A checkpoint that another compiler has written gives the same views, or a refusal that names what is missing: never others.

Another version of the library may share, order, name and split otherwise what it keeps. Whatever it is, an empty state is
not taken for what came so far.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, example, given

import evercurrent as ec
from durability.kept_programs import FUNCTIONS, STATES, KeptProgram, contents
from evercurrent.core.data.errors import ArithmeticRefusedError, CheckpointError
from evercurrent.core.operators.group.group_by import GroupBy
from evercurrent.views.durability.plan_match import PlanMatch
from harness import frame_of_entries
from identity.editing import App, edited, positive, rows_of
from identity.other_compilers import OURS, Kind, compiled_by
from oracle import TooLargeError
from strategies import Case, Draw, Program, cases, of_profile

A = {"k": pl.Int64(), "x": pl.Int64()}
COUNTED = Case(
    Program(
        {"a": A},
        ("v1 = a.group_by('k').agg(n=pl.len(), s=pl.col('x').sum())", "v2 = v1.group_by('n').agg(pl.len())"),
    ),
    [{"a": [((1, 1), 2), ((2, 5), 1)]}, {"a": [((1, 1), -1), ((3, 5), 1)]}],
)
SHARED = Case(
    Program({"a": A, "b": A}, ("v1 = a.join(b, on='k')", "v2 = a.join(b, on='k', how='left')", "v3 = a.join(a, on='k')")),
    [{"a": [((1, 1), 1)], "b": [((1, 2), 1)]}, {"a": [((2, 1), 1)], "b": [((1, 2), -1)]}],
)  # fmt: skip


@st.composite
def kinds(draw: Draw) -> Kind:
    """Another compiler, in one or more ways."""
    return Kind(
        shares=draw(st.booleans()),
        order=draw(st.none() | st.integers(0, 9)),
        renamed=draw(st.none() | st.tuples(st.integers(0, 9), st.sampled_from([0.1, 0.3, 1.0]))),
        spreads=draw(st.booleans()),
        splits=draw(st.booleans()),
    )


def app_of(case: Case, retained: frozenset[str]) -> App:
    def declare(app: App) -> None:
        named = {
            name: app.source(name, columns, kind="diffs", trusted=case.trusted, retained=name in retained)
            for name, columns in case.program.sources.items()
        }
        for name, collection in case.program.run(named).items():  # type: ignore[type-var]
            app.view(name, collection)

    app = App(declare)
    app.declare = declare  # type: ignore[attr-defined]
    return app


def frames_of(case: Case, number: int) -> Mapping[str, pl.DataFrame]:
    columns = case.program.sources
    return {name: frame_of_entries(columns[name], entries) for name, entries in case.epochs[number].items()}


def held(app: App) -> dict[str, object]:
    return {name: rows_of(positive(app, name)) for name in app.plan.views}


def edited_or_refused(old: App) -> tuple[App, PlanMatch] | CheckpointError:
    try:
        return edited(old, old.declare)  # type: ignore[attr-defined]
    except CheckpointError as error:
        return error


@of_profile(0.4)
@given(cases(max_lines=3), st.sets(st.sampled_from("ab")), kinds(), kinds(), st.data())
@example(COUNTED, {"a"}, OURS, Kind(splits=True), None)
@example(COUNTED, {"a"}, Kind(splits=True), OURS, None)
@example(COUNTED, {"a"}, OURS, Kind(renamed=(1, 1.0), spreads=True), None)
@example(COUNTED, set[str](), OURS, Kind(renamed=(1, 1.0)), None)
@example(SHARED, {"a", "b"}, OURS, Kind(shares=False), None)
@example(SHARED, {"a", "b"}, Kind(shares=False, order=1), OURS, None)
def test_another_compiler_reopens_the_same_views_or_names_what_is_missing(
    case: Case, retained: set[str], one: Kind, other: Kind, data: st.DataObject | None
) -> None:
    assume(case.epochs)
    if case.trusted or any(re.search(r"\.(minus|negate)\(", line) for line in case.program.lines):
        one, other = (
            replace(one, splits=False),
            replace(other, splits=False),
        )  # Rows less than zero times only add up.
    at = 1 if data is None else data.draw(st.integers(0, len(case.epochs)), "reopened after")
    truth = app_of(case, frozenset(retained)).begin()
    try:
        with compiled_by(one):
            old = app_of(case, frozenset(retained)).begin()
            for number in range(at):
                old.push(frames_of(case, number))
                truth.push(frames_of(case, number))
        assert held(old) == held(truth)
    except (ArithmeticRefusedError, TooLargeError):
        assume(False)
    with compiled_by(other):
        reopened = edited_or_refused(old)
        if isinstance(reopened, CheckpointError):
            assert re.search(r"(view|source) '\w+'", str(reopened))
            return
        new, match = reopened
        assert match.to_fill == ()
        assert held(new) == held(truth)
        for number in range(at, len(case.epochs)):
            try:
                expected = truth.push(frames_of(case, number))
            except ArithmeticRefusedError:
                return
            assert new.push(frames_of(case, number)) == expected
            assert held(new) == held(truth)


@pytest.mark.parametrize("retained", [True, False])
@pytest.mark.parametrize("view", ["counted", "counted twice"])
def test_a_group_by_that_is_known_by_another_name_is_not_begun_anew(
    retained: bool, view: str, tmp_path: Path
) -> None:
    def opened() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path)
        rows = engine.source("rows", {"k": pl.String}, retained=retained)
        counted = rows.group_by("k").agg(n=pl.len())
        engine.view(view, counted if view == "counted" else counted.group_by("n").agg(k=pl.col("k").max()))
        return engine

    with opened() as engine:
        engine.push("rows", {"k": ["a", "a"]})
        before = engine.views[view].read().rows()
    with compiled_by(Kind(renamed=(1, 1.0), of=GroupBy)), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        engine = opened()
        if not retained:
            with pytest.raises(
                CheckpointError,
                match=rf"(?s)view '{view}'.*'rows' does not retain its rows.*nothing that is declared uses",
            ):
                engine.push("rows", {"k": ["a"]})
            return
        assert engine.views[view].read().rows() == before
        assert any(
            "nothing declared uses" in str(each.message) and view in str(each.message) for each in warned
        )
        engine.push("rows", {"k": ["a", "b"]})
        expected = [("a", 3), ("b", 1)] if view == "counted" else [(1, "b"), (3, "a")]
        assert sorted(engine.views[view].read().rows()) == expected
        with pytest.raises(ec.EpochGoneError, match="in another form"):
            engine.views[view].read(epoch=1)
        engine.close()
    with (
        pytest.raises(CheckpointError, match=f"view '{view}'") if not retained else warnings.catch_warnings()
    ):
        warnings.simplefilter("ignore")
        assert sorted(opened().views[view].read().rows()) == expected


OTHERS = [
    *(Kind(renamed=(seed, 0.1), spreads=seed % 2 == 1) for seed in range(6)),
    Kind(shares=False),
    Kind(order=1),
    Kind(order=2, splits=True),
    Kind(splits=True),
]


@pytest.mark.filterwarnings("ignore:.*nothing declared uses")
@pytest.mark.parametrize("program", [STATES, FUNCTIONS], ids=lambda program: program.folder)
@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_windows_and_functions_go_on_or_are_refused(kind: Kind, program: KeptProgram, tmp_path: Path) -> None:
    program.opened(tmp_path, range(2)).close()
    undisturbed = program.opened(None, range(2))
    with compiled_by(kind):
        engine = program.opened(tmp_path, range(0))
        after = read_or_refused(engine)
        if isinstance(after, CheckpointError):
            assert re.search(r"of (view|source) '\w+'.* is missing and cannot be computed", str(after))
            return
        for epoch in range(2, program.epochs):
            assert after == contents(undisturbed)
            program.push(engine, epoch)
            program.push(undisturbed, epoch)
            after = contents(engine)
        assert after == contents(undisturbed)
        engine.close()


def read_or_refused(engine: ec.Engine) -> object:
    try:
        return contents(engine)
    except CheckpointError as error:
        return error
