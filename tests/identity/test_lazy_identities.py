"""Identities are digests of all that a plan holds, so none is made for an engine that compares nothing with anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.plan import digests
from evercurrent.views.plan.digest_scheme import SECOND, written_by
from identity.declaring import compiled_of, declared
from strategies import Program, of_profile, programs

NOON = datetime(2026, 1, 1, 12)


@pytest.fixture
def made() -> Iterator[list[int]]:
    """The lengths of what digests are made of."""
    lengths: list[int] = []
    digest = digests.blake2b

    def counted(content: bytes, **options: int) -> object:
        lengths.append(len(content))
        return digest(content, **options)

    with patch.object(digests, "blake2b", counted):
        yield lengths


def shop(engine: ec.Engine) -> ec.View:
    """A view after a grouping of a grouping, a join, a distinct count, first rows and windows."""
    sales = engine.source(
        "sales", {"shop": pl.String, "price": pl.Int64, "at": pl.Datetime("us")}, event_time="at"
    )
    per_shop = engine.view(
        "per_shop", sales.group_by("shop").agg(n=pl.len(), kinds=pl.col("price").n_unique(), most=pl.col("price").max())
    )  # fmt: skip
    engine.view(
        "per_day", sales.window(ec.fixed("1d")).trigger(ec.every("1m")).group_by("shop").agg(n=pl.len())
    )
    engine.view("cheapest", sales.group_by("shop").top_k(1, by="price"))
    return engine.view("sizes", per_shop.join(per_shop.group_by("n").agg(shops=pl.len()), on="n"))


def test_an_engine_in_memory_makes_none(made: list[int]) -> None:
    engine = ec.Engine()
    view = shop(engine)
    for price in (3, 4):
        engine.push("sales", {"shop": ["a", "b"], "price": [price, 5], "at": [NOON, NOON]})
    engine.push("sales", {"shop": ["a"], "price": [1], "at": [NOON]})
    assert view.read().height == 2
    assert [*view.deltas()]
    assert engine.explain(circuit=True)
    assert engine.published()
    assert made == []


def test_a_checkpoint_makes_them(made: list[int], tmp_path: Path) -> None:
    engine = ec.Engine(checkpoint=tmp_path)
    shop(engine)
    engine.push("sales", {"shop": ["a"], "price": [1], "at": [NOON]})
    engine.close()
    assert len(made) > 10


def test_a_new_definition_makes_them(made: list[int]) -> None:
    engine = ec.Engine()
    shop(engine)
    engine.push("sales", {"shop": ["a"], "price": [1], "at": [NOON]})
    engine.view("later", engine.views["sizes"].group_by("n").agg(m=pl.len()))
    engine.push("sales", {"shop": ["a"], "price": [1], "at": [NOON]})
    assert len(made) > 10


@of_profile(0.5, quick=25)
@given(programs(), st.data())
def test_they_are_the_same_whenever_and_in_whatever_order_they_are_read(
    program: Program, data: st.DataObject
) -> None:
    engine = declared(program)
    at_once, later = compiled_of(engine), compiled_of(engine)
    first = [(node.identity, node.identity_before) for node in at_once.circuit.nodes]
    order = data.draw(st.permutations(range(len(first))))
    found = {
        number: (later.circuit.nodes[number].identity, later.circuit.nodes[number].identity_before)
        for number in order
    }
    assert [found[number] for number in range(len(first))] == first


def test_they_are_made_by_the_scheme_under_which_the_circuit_was_begun() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64})
    engine.view("some", rows.filter(pl.col("k").is_in([2, 1])).map_batches(lambda frame: frame))
    with written_by(SECOND):
        inside, outside = (compile_plan(engine._plan, Ledger(9)) for _ in range(2))
        expected = [node.identity for node in inside.circuit.nodes]
    assert [node.identity for node in outside.circuit.nodes] == expected
    assert [node.identity for node in compiled_of(engine).circuit.nodes] != expected


def test_they_are_made_once_if_several_threads_read_them() -> None:
    engine = ec.Engine()
    shop(engine)
    expected = [node.identity for node in compiled_of(engine).circuit.nodes]
    for _ in range(20):
        nodes = compiled_of(engine).circuit.nodes
        with ThreadPoolExecutor(4) as threads:
            found = threads.map(lambda nodes: [node.identity for node in nodes], [nodes] * 4)
        assert [*found] == [expected] * 4


def test_a_function_is_identified_by_what_it_referred_to_when_rows_came() -> None:
    rates = [10]

    def defined() -> Callable[[pl.DataFrame], pl.DataFrame]:
        def rated(rows: pl.DataFrame) -> pl.DataFrame:
            return rows.with_columns(v=pl.col("v") * rates[0])

        return rated

    engine, schema = ec.Engine(), {"v": pl.Int64}
    rows = engine.source("rows", schema, retained=True)
    engine.view("rated", rows.map_batches(defined(), schema=schema))
    engine.push("rows", [(1,)])
    rates[0] = 20
    again = engine.view("rated", rows.map_batches(defined(), schema=schema), replace=True)
    assert again.read().rows() == [(20,)]


def test_a_function_of_windows_is_identified_by_what_it_referred_to_when_rows_came() -> None:
    lengths = [10]

    def defined() -> Callable[[pl.DataFrame], pl.DataFrame]:
        def ends(rows: pl.DataFrame) -> pl.DataFrame:
            at = pl.col("at")
            return rows.select(window_start=at, window_end=at + pl.duration(seconds=lengths[0]))

        return ends

    engine, schema = ec.Engine(), {"at": pl.Datetime("us")}
    rows = engine.source("rows", schema, event_time="at", retained=True)

    def declared() -> ec.Collection:
        windows = ec.custom_windows(defined())
        return rows.window(windows).group_by().agg(n=pl.len())

    engine.view("counts", declared())
    engine.push("rows", [(datetime(2026, 1, 1),)])
    lengths[0] = 20
    with pytest.raises(ec.PlanError, match="declared twice, in different ways"):
        engine.view("counts", declared())
