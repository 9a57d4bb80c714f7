"""Law: the row with the greatest sequence stands, however the changes of a key are cut into batches and ordered."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.data.errors import InputError
from harness import assert_consolidated, contents, frame_of_entries, hold_to_contract, summed
from oracle import Bag, sequenced
from strategies import Entries, of_profile

ROME = ZoneInfo("Europe/Rome")
SEQUENCES: dict[pl.DataType, list[Any]] = {
    pl.Int64(): [-3, 0, 1, 2**62],
    pl.UInt64(): [0, 1, 2**63, 2**64 - 1],
    pl.Float64(): [-inf, -0.0, 0.0, 1.5, inf],
    pl.String(): ["", "10", "9", "é", "e"],
    pl.Date(): [date(1969, 12, 31), date(2024, 2, 29)],
    pl.Datetime("ms"): [datetime(1969, 12, 31), datetime(2024, 2, 29)],
    pl.Datetime("us", "Europe/Rome"): [
        datetime(2024, 10, 27, 2, 30, tzinfo=ROME, fold=0),
        datetime(2024, 10, 27, 2, 30, tzinfo=ROME, fold=1),
        datetime(2024, 10, 27, 1, 59, tzinfo=ROME),
    ],
    pl.Duration("us"): [timedelta(-1), timedelta(1)],
    pl.Decimal(10, 2): [Decimal("-1.50"), Decimal("1.05"), Decimal("1.50")],
    pl.Boolean(): [False, True],
    pl.Binary(): [b"", b"\x00", b"\xff"],
    pl.Enum(["z", "a"]): ["z", "a"],
}
X: list[Any] = [0.0, -0.0, 1.5, nan, None]


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, pl.DataType], list[str], Entries]:
    """Columns, those of the sequence, and changes of a few keys."""
    count = draw(st.integers(1, 2))
    types = draw(st.lists(st.sampled_from(list(SEQUENCES)), min_size=count, max_size=count))
    sequence = {f"s{place}": dtype for place, dtype in enumerate(types)}
    columns = {"k": pl.Int64(), "x": pl.Float64(), **sequence, "y": pl.String()}
    row = st.tuples(
        st.integers(0, 2),
        st.sampled_from(X),
        *(st.sampled_from(SEQUENCES[dtype]) for dtype in types),
        st.sampled_from(["a", "", None]),
    )
    entries = draw(st.lists(st.tuples(row, st.sampled_from([1, 1, -1])), max_size=12))
    return columns, list(sequence), entries


def cuts(entries: Entries, seed: int) -> list[list[Entries]]:
    """The same changes at once, one by one, and shuffled into batches of any sizes."""
    shuffle = random.Random(seed)
    other = shuffle.sample(entries, len(entries))
    batches: list[Entries] = []
    while other:
        size = shuffle.randrange(0, 5)
        batches.append(other[:size])
        other = other[size:]
    return [[entries], [[entry] for entry in entries], [[entry] for entry in reversed(entries)], batches]


def engine_of(columns: dict[str, Any], sequence: Sequence[str], **options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    source = engine.source("a", columns, kind="upsert", key="k", sequence_by=list(sequence))
    engine.view("v", source)
    engine.view("g", source.group_by("y").agg(n=pl.len(), x=pl.col("x").sum()))
    return engine


@of_profile(0.3)
@given(given_changes=changes(), seed=st.integers(0, 2**32))
def test_the_greatest_sequence_of_a_key_stands_however_its_changes_come(
    given_changes: tuple[dict[str, pl.DataType], list[str], Entries], seed: int
) -> None:
    columns, sequence, entries = given_changes
    for batches in cuts(entries, seed):
        engine = engine_of(columns, sequence)
        hold_to_contract(engine)
        view, came = engine.views["v"], []
        for batch in batches:
            epoch = engine.push("a", frame_of_entries(columns, batch))
            came += batch
            expected = Bag(
                columns, dict.fromkeys(sequenced(frame_of_entries(columns, came), ["k"], sequence), 1)
            )
            for delta in view.deltas(since=epoch - 1):
                assert_consolidated(delta, epoch)
            assert contents(view) == expected
            assert Bag(columns, summed(view.deltas())) == expected
        expected = Bag(
            columns, dict.fromkeys(sequenced(frame_of_entries(columns, entries), ["k"], sequence), 1)
        )
        assert contents(engine.views["g"]) == expected.group_by("y").agg(n=pl.len(), x=pl.col("x").sum())


@of_profile(0.2)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, 1),
            st.lists(st.none() | st.integers(0, 1), max_size=2) | st.none(),
        ),
        max_size=8,
    ),
    seed=st.integers(0, 2**32),
)
def test_ties_of_rows_with_lists_do_not_depend_on_the_order(rows: list[tuple[Any, ...]], seed: int) -> None:
    columns = {"k": pl.Int64(), "s": pl.Int64(), "l": pl.List(pl.Int64())}
    found = []
    for batches in cuts([(row, 1) for row in rows], seed):
        engine = ec.Engine()
        view = engine.view("v", engine.source("a", columns, kind="upsert", key="k", sequence_by="s"))
        for batch in batches:
            engine.push("a", frame_of_entries(columns, batch))
        found.append(contents(view))
    assert all(each == found[0] for each in found)


@of_profile(0.05)
@given(given_changes=changes(), seed=st.integers(0, 2**32))
def test_what_was_deleted_stays_deleted_in_an_engine_that_is_opened_again(
    given_changes: tuple[dict[str, pl.DataType], list[str], Entries],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    columns, sequence, entries = given_changes
    path: Path = tmp_path_factory.mktemp("sequences")
    for batch in cuts(entries, seed)[-1]:
        with engine_of(columns, sequence, checkpoint=path) as engine:
            engine.push("a", frame_of_entries(columns, batch))
    with engine_of(columns, sequence, checkpoint=path) as engine:
        expected = dict.fromkeys(sequenced(frame_of_entries(columns, entries), ["k"], sequence), 1)
        assert contents(engine.views["v"]) == Bag(columns, expected)


COLUMNS = {"k": pl.Int64(), "x": pl.String(), "s": pl.Float64()}


def orders(**options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)
    source = engine.source("orders", COLUMNS, kind="upsert", key="k", sequence_by="s")
    return engine, engine.view("v", source)


def test_a_deletion_is_remembered_and_an_older_row_does_not_come_back() -> None:
    engine, view = orders()
    engine.push("orders", [(1, "new", 5.0)])
    engine.push("orders", [{"k": 1, "s": 7.0, "_diff": -1}])
    engine.push("orders", [(1, "older", 6.0)])
    engine.push("orders", [(1, "same", 7.0)])
    assert view.read().is_empty()
    assert engine.ledger().is_empty()
    engine.push("orders", [(1, "later", 8.0)])
    assert view.read().rows() == [(1, "later", 8.0)]


def test_a_deletion_of_what_has_not_come_yet_is_no_mistake() -> None:
    engine, view = orders()
    engine.push("orders", [{"k": 1, "s": 7.0, "_diff": -1}])
    engine.push("orders", [(1, "older", 6.0)])
    assert view.read().is_empty()
    assert engine.ledger().is_empty()


def test_explain_counts_deletions_that_are_remembered_and_rows_that_were_superseded() -> None:
    engine, _ = orders()
    line = "rows of orders by k, the greatest s standing: "
    assert line + "0 deletions remembered, 0 rows superseded when they came" in engine.explain()
    engine.push("orders", [(1, "a", 5.0), (2, "b", 1.0)])
    engine.push("orders", [{"k": 1, "s": 7.0, "_diff": -1}, {"k": 3, "s": 0.0, "_diff": -1}])
    engine.push("orders", [(1, "older", 6.0), (2, "older", 0.5), (2, "older", 0.25)])
    assert line + "2 deletions remembered, 3 rows superseded when they came" in engine.explain()
    engine.push("orders", [(1, "again", 8.0)])
    assert line + "1 deletion remembered, 3 rows superseded when they came" in engine.explain()


@pytest.mark.parametrize(("sequence", "what"), [(None, "null"), (nan, "NaN")])
def test_a_row_without_a_sequence_is_refused_by_name(sequence: float | None, what: str) -> None:
    engine, view = orders()
    with pytest.raises(InputError, match=rf"source 'orders': sequence 's' is {what} in row 1"):
        engine.push("orders", [(1, "a", 1.0), (2, "b", sequence)])
    assert view.read().is_empty()


def test_a_deletion_has_its_sequence() -> None:
    engine, _ = orders()
    with pytest.raises(InputError, match="column 's' is missing"):
        engine.push("orders", [{"k": 1, "_diff": -1}])


@pytest.mark.parametrize(
    ("options", "words"),
    {
        "append": ({"kind": "append", "sequence_by": "s"}, ["sequence_by=", "upsert"]),
        "unknown": ({"kind": "upsert", "key": "k", "sequence_by": "nope"}, ["'nope'"]),
        "key": ({"kind": "upsert", "key": "k", "sequence_by": ["s", "k"]}, ["'k'", "key"]),
        "twice": ({"kind": "upsert", "key": "k", "sequence_by": ["s", "s"]}, ["'s'", "twice"]),
        "list": ({"kind": "upsert", "key": "k", "sequence_by": "l"}, ["'l'", "order"]),
        "categorical": ({"kind": "upsert", "key": "k", "sequence_by": "c"}, ["'c'", "order"]),
    }.values(),
    ids=str,
)
def test_sequences_that_mean_nothing_are_refused(options: dict[str, Any], words: list[str]) -> None:
    columns = {"k": pl.Int64, "s": pl.Int64, "l": pl.List(pl.Int64), "c": pl.Categorical}
    with pytest.raises(ec.PlanError) as refused:
        ec.Engine().source("a", columns, **options)
    assert all(word in str(refused.value) for word in words)


def test_the_cost_of_a_row_does_not_follow_how_many_keys_there_are() -> None:
    touched = []
    for keys in (1_000, 30_000):
        engine, _ = orders()
        engine.push(
            "orders",
            pl.DataFrame({"k": range(keys)}).select(
                "k", x=pl.lit("a"), s=pl.lit(1.0), _diff=pl.when(pl.col("k") % 2 == 0).then(1).otherwise(-1)
            ),
        )
        spines = [state for state in engine._current().circuit.states if hasattr(state, "touched")]
        before = sum(spine.touched for spine in spines)
        engine.push("orders", [(1, "b", 2.0), (2, "b", 2.0), (3, "b", 0.0)])
        touched.append(sum(spine.touched for spine in spines) - before)
    assert touched[0] == touched[1]


def timed(path: Path | None, *, more: bool = False) -> ec.Engine:
    engine = ec.Engine() if path is None else ec.Engine(checkpoint=path)
    columns = {"k": pl.Int64, "v": pl.Int64, "s": pl.Int64, "at": pl.Datetime("us")}
    rows = engine.source(
        "rows",
        columns,
        kind="upsert",
        key="k",
        sequence_by="s",
        event_time="at",
        watermark=ec.bounded_delay("1m"),
    )
    engine.view("hours", rows.window(ec.fixed("1h")).group_by().agg(v=pl.col("v").sum()))
    if more:
        engine.view("all", rows)
    return engine


def test_with_event_time_a_deletion_needs_none_and_a_new_view_is_filled_with_what_stands(
    tmp_path: Path,
) -> None:
    noon = datetime(2026, 1, 1, 12)
    with timed(tmp_path) as engine:
        engine.push("rows", [(1, 10, 5, noon), (2, 20, 5, noon)])
        engine.push("rows", [{"k": 2, "s": 6, "_diff": -1}, {"k": 3, "s": 6, "_diff": -1}])
        engine.push("rows", [(2, 99, 4, noon), (3, 99, 4, noon), (1, 11, 6, noon)])
        assert engine.views["hours"].read()["v"].to_list() == [11]
    with timed(tmp_path, more=True) as engine:
        assert engine.views["all"].read().rows() == [(1, 11, 6, noon)]
        engine.push("rows", [(2, 98, 5, noon)])
        assert engine.views["all"].read().rows() == [(1, 11, 6, noon)]
        assert "2 deletions remembered, 3 rows superseded" in engine.explain()
