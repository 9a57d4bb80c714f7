"""Sources declared with other columns over a checkpoint: views are those of all rows with the columns of now, or a refusal.

Whatever the program: rows that came before have null in a column that is new, and the same values in one of a wider type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import polars as pl
from hypothesis import assume, example, given

from evercurrent.core.data.errors import CheckpointError, EvercurrentError, InputError, PlanError
from harness import frame_of_entries
from identity.editing import App, edited, positive, rows_of
from oracle import TooLargeError
from strategies import Case, Draw, Program, cases, of_profile

Columns = Mapping[str, pl.DataType]

WIDER: dict[Any, list[pl.DataType]] = {
    pl.Int32: [pl.Int64()],
    pl.Int64: [pl.Int128()],
    pl.Float32: [pl.Float64()],
    pl.Date: [pl.Datetime("us")],
    pl.Datetime("us"): [pl.Datetime("ns")],
    pl.Categorical: [pl.String()],
}
NARROWER: dict[Any, pl.DataType] = {
    pl.Int64: pl.Int32(),
    pl.Float64: pl.Float32(),
    pl.Datetime("us"): pl.Date(),
    pl.String: pl.Categorical(),
}
"""With what a source begins whose column is of this type in the program."""


@st.composite
def evolutions(draw: Draw, columns: Columns) -> tuple[Columns, Columns]:
    """The columns of a source then and now."""
    before, after = dict(columns), dict(columns)
    for name, dtype in columns.items():
        narrower = NARROWER.get(dtype)
        if narrower is not None and draw(st.integers(0, 3)) == 0:
            before[name] = narrower
    changed = draw(st.sampled_from(["none", "added", "added", "added first", "dropped", "was there"]))
    if changed == "added":
        after["added"] = pl.String()
    elif changed == "added first":
        after = {"added": pl.Int64(), **after}
    elif changed == "dropped":
        after.pop(draw(st.sampled_from(sorted(columns))))
    elif changed == "was there":
        before["z9"] = pl.String()
    return before, after


def conformed(frame: pl.DataFrame, columns: Columns, *, fresh: bool = False) -> pl.DataFrame:
    """Rows with these columns; in a new one null, or, of rows that come with it, what follows from the row."""
    kept = [frame.get_column(name).cast(dtype) for name, dtype in columns.items() if name in frame.columns]
    others = {}
    for name, dtype in columns.items():
        if name not in frame.columns:
            values = [[None, 1, 2][len(repr(row[:-1])) % 3] if fresh else None for row in frame.iter_rows()]
            others[name] = pl.Series(name, values, pl.Int64).cast(dtype)
    made = pl.DataFrame([*kept, *others.values(), frame.get_column("_diff")])
    return made.select([*columns, "_diff"])


def fits(frame: pl.DataFrame, columns: Columns) -> bool:
    """Whether a narrower source could have had these rows."""
    for name, dtype in columns.items():
        if name in frame.columns:
            column = frame.get_column(name)
            if (
                not column.cast(dtype, strict=False)
                .cast(column.dtype, strict=False)
                .equals(column, null_equal=True)
            ):
                return False
    return True


def app_of(case: Case, sources: Mapping[str, Columns], retained: frozenset[str]) -> App:
    def declare(app: App) -> None:
        named = {
            name: app.source(name, columns, kind="diffs", trusted=case.trusted, retained=name in retained)
            for name, columns in sources.items()
        }
        for name, collection in case.program.run(named).items():  # type: ignore[type-var]
            app.view(name, collection)

    app = App(declare)
    app.declare = declare  # type: ignore[attr-defined]
    return app


def frames_of(case: Case, number: int) -> dict[str, pl.DataFrame]:
    columns = case.program.sources
    return {name: frame_of_entries(columns[name], entries) for name, entries in case.epochs[number].items()}


def held(app: App) -> dict[str, object]:
    return {name: rows_of(positive(app, name)) for name in app.plan.views}


def edited_or_refused(old: App, new: App) -> App | CheckpointError:
    try:
        return edited(old, new.declare)[0]  # type: ignore[attr-defined]
    except CheckpointError as error:
        return error


A = {"k": pl.Int64(), "x": pl.Int64()}
COUNTED = Case(
    Program({"a": A}, ("v1 = a.group_by('k').agg(n=pl.len(), s=pl.col('x').sum())", "v2 = v1.filter(pl.col('n') > 1)")),
    [{"a": [((1, 1), 2), ((2, 5), 1)]}, {"a": [((1, 1), -1), ((3, 5), 1)]}],
    trusted=True,
)  # fmt: skip


@of_profile(1)
@given(cases(max_lines=3), st.sets(st.sampled_from("ab")), st.data())
@example(COUNTED, set[str](), None)
def test_views_are_those_of_all_rows_with_the_columns_of_now_or_it_is_refused(
    case: Case, retained: set[str], data: st.DataObject | None
) -> None:
    assume(case.epochs)
    before, after = dict(case.program.sources), dict(case.program.sources)
    if data is None:
        before["a"], after["a"] = {"k": pl.Int32(), "x": pl.Int64()}, {**A, "y": pl.String()}
    else:
        for name, columns in case.program.sources.items():
            before[name], after[name] = data.draw(evolutions(columns), f"columns of {name}")
    if data is not None and data.draw(st.booleans(), "trusted"):
        case = replace(case, trusted=True)  # What checks retractions keeps hashes of rows, which is refused.
    at = 1 if data is None else data.draw(st.integers(0, len(case.epochs)), "reopened after")
    try:
        old, truth = (app_of(case, each, frozenset(retained)).begin() for each in (before, after))
        for number in range(at):
            frames = frames_of(case, number)
            assume(all(fits(frame, before[name]) for name, frame in frames.items()))
            then = {name: conformed(frame, before[name]) for name, frame in frames.items()}
            old.push(then)
            truth.push({name: conformed(frame, after[name]) for name, frame in then.items()})
    except (InputError, PlanError, TooLargeError):
        assume(False)
    new = edited_or_refused(old, truth)
    if isinstance(new, CheckpointError):
        assert re.search(r"(view|source) '\w+'", str(new))
        return
    assert held(new) == held(truth)
    for number in range(at, len(case.epochs)):
        frames = {
            name: conformed(frame, after[name], fresh=True) for name, frame in frames_of(case, number).items()
        }
        try:
            expected = truth.push(frames)
        except EvercurrentError:
            return
        assert new.push(frames) == expected
        assert held(new) == held(truth)
