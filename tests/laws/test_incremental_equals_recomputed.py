"""The first law: after every epoch a view is what batch evaluation of all input so far gives."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from harness import check, contents, frame_of_entries
from oracle import Bag, TooLargeError, upserted
from source_modules import tree_of
from strategies import Case, Entries, Program, cases, histories, of_profile, rows, schemas


def checked(case: Case) -> None:
    try:
        check(case)
    except TooLargeError:
        assume(False)


def going(case: Case, each: int) -> Case:
    """The case, after which each source loses every ``each``-th row and gets it back while all others are there; then all go.

    So groups and matches are lost and found again, from either side, which rows drawn one by one seldom do.
    """
    goes = {
        name: [(row, -diff) for row, diff in case.total(name).counts.items()] for name in case.program.sources
    }
    some = {name: entries[::each] for name, entries in goes.items()}
    comes = {name: [(row, -diff) for row, diff in entries] for name, entries in some.items()}
    last = [epoch for name in goes for epoch in ({name: some[name]}, {name: comes[name]})]
    return replace(case, epochs=[*case.epochs, *last, goes])


EACH = st.sampled_from([1, 2])


@of_profile(2, quick=80)
@given(case=cases(trusted=False), each=EACH)
def test_views_over_collections(case: Case, each: int) -> None:
    checked(going(case, each))


@given(case=cases(trusted=True))
def test_views_over_diffs_of_any_sign(case: Case) -> None:
    checked(case)


KX = {"k": pl.Int64(), "x": pl.Int64()}
"""Two small columns: one operator at a time finds its own edges sooner than a random program does."""

ONE_VIEW = {
    "min and max": "a.group_by('k').agg(u=pl.col('x').min(), v=pl.col('x').max())",
    "distinct counts": "a.group_by('k').agg(u=pl.col('x').n_unique())",
    "bits": "a.group_by('k').agg(u=pl.col('x').bitwise_and(), v=pl.col('x').bitwise_or())",
    "whole groups": "a.group_by('k').agg(u=pl.col('x').implode(), v=pl.col('x').median())",
    "orders": "a.group_by('k').agg(u=pl.col('x').sort_by('x', descending=True).first(), v=pl.col('x').max_by('x'))",
    "one row for everything": "a.group_by().agg(pl.len(), u=pl.col('x').sum(), v=pl.col('x').max())",
    "unique": "a.select('x').unique()",
    "top": "a.top_k(2, by='x')",
    "bottom by group": "a.group_by('k').bottom_k(2, by='x')",
    "limit": "a.limit(3, by=['x', 'k'], descending=True)",
    "limit by group, nulls last": "a.group_by('k').limit(1, by='x', nulls_last=True)",
    "inner join": "a.join(b, on='k')",
    "left join": "a.join(b, on='k', how='left')",
    "right join": "a.join(b, on='k', how='right')",
    "full join": "a.join(b, on='k', how='full')",
    "full join, coalesced": "a.join(b, on='k', how='full', coalesce=True, nulls_equal=True)",
    "semi join": "a.join(b, on='k', how='semi')",
    "anti join": "a.join(b, on='k', how='anti', nulls_equal=True)",
    "cross join": "a.join(b, how='cross')",
    "self join": "a.join(a, left_on='k', right_on='x', how='left')",
    "unmatched against a grouping": "a.join(a.group_by('k').agg(x=pl.col('x').max()), on=['k', 'x'], how='anti')",
    "grouping of a grouping": "a.group_by('k').agg(u=pl.len()).group_by('u').agg(v=pl.len())",
    "difference": "a.minus(b).unique()",
}


def program_of(texts: Mapping[str, str], sources: Sequence[str]) -> Program:
    """Those of the views that are over all of these sources and no others, each by itself."""
    over = {
        name: {node.id for node in ast.walk(tree_of(text)) if isinstance(node, ast.Name)}
        for name, text in texts.items()
    }
    lines = [
        f"{re.sub('[ ,]+', '_', name)} = {text}"
        for name, text in texts.items()
        if over[name] - {"pl"} == {*sources}
    ]
    return Program(dict.fromkeys(sources, KX), tuple(lines))


@pytest.mark.parametrize(
    "program", [program_of(ONE_VIEW, sources) for sources in ("a", "ab")], ids=["of one source", "of two"]
)
@of_profile(0.5, quick=25)
@given(data=st.data(), each=EACH)
def test_each_operator_by_itself(program: Program, data: st.DataObject, each: int) -> None:
    """All of them over the same history: drawing one costs as much as an operator does with it."""
    assert len(program.lines) > 8
    checked(going(Case(program, data.draw(histories(program.sources, max_epochs=6))), each))


@of_profile(quick=40)
@given(columns=schemas(), data=st.data())
def test_an_upsert_source_holds_the_last_row_of_each_key(
    columns: dict[str, pl.DataType], data: st.DataObject
) -> None:
    engine = ec.Engine()
    source = engine.source("a", columns, kind="upsert", key="k")
    view = engine.view("v", source)
    grouped = engine.view("g", source.group_by("x").agg(pl.len()))
    present = rows(columns).filter(lambda row: row[0] is not None)
    batches: list[Entries] = data.draw(
        st.lists(st.lists(st.tuples(present, st.sampled_from([1, 1, -1])), max_size=5), max_size=5)
    )
    for until, batch in enumerate(batches, 1):
        engine.push("a", frame_of_entries(columns, batch))
        history = [
            [(dict(zip(columns, row, strict=True)), diff) for row, diff in given] for given in batches[:until]
        ]
        held = upserted(history, ["k"])
        expected = Bag(columns, dict.fromkeys(held, 1))
        assert contents(view) == expected
        assert contents(grouped) == expected.group_by("x").agg(pl.len())
