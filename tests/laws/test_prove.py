"""A proof is true of every view, and finds every row that was changed behind the engine's back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.data.schema import DIFF
from retained_case import engine_after
from strategies import Case, cases, of_profile

SALES = {"shop": pl.String, "price": pl.Int64, "rate": pl.Float64}
ROWS = {
    "shop": ["north", "south", "north", None],
    "price": [3, 4, 5, None],
    "rate": [0.1, 0.2, 0.3, float("nan")],
}


@of_profile(0.6, quick=60)
@given(case=cases(trusted=False))
def test_random_views_are_proved(case: Case) -> None:
    engine = engine_after(case)
    proofs = engine.prove()
    assert proofs, proofs
    for reason in proofs.refused.values():
        assert "counts below zero" in reason, reason


def started(**options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    sales = engine.source("sales", SALES, kind="diffs", retained=True)
    per_shop = engine.view(
        "per_shop",
        sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum(), rate=pl.col("rate").mean()),
    )
    engine.view("sizes", per_shop.group_by("n").agg(shops=pl.len()))
    engine.view("best", sales.top_k(2, by="price"))
    engine.view("paired", sales.join(per_shop, on="shop", how="left"))
    engine.view("distinct", sales.select("shop").unique())
    engine.view("same", sales.rename({}))
    engine.push("sales", ROWS)
    engine.push("sales", {name: [values[1]] for name, values in ROWS.items()} | {"_diff": [-1]})
    return engine


@pytest.mark.parametrize("durable", [False, True])
def test_a_proof_says_what_it_is_of(durable: bool, tmp_path: Any) -> None:
    with started(checkpoint=tmp_path if durable else None) as engine:
        found = engine.views["sizes"].prove()
        assert found
        assert (found.view, found.epoch, found.rows, found.over) == ("sizes", 2, 2, ("source 'sales'",))
        assert repr(found) == "view 'sizes' at epoch 2: 2 rows evaluated over source 'sales': equal"
        proofs = engine.prove()
        assert proofs
        assert list(proofs) == list(engine.views)
        assert not proofs.refused
        assert engine.fork().fork().prove()


def test_a_proof_finds_each_planted_fault() -> None:
    """One number of one entry is another one: a count of rows, in any run of a state that a view shows."""
    engine = started()
    compiled = engine._current()
    planted = 0
    for name in ("per_shop", "sizes", "best", "paired"):
        spine = compiled.contents[name].spine
        version, kept = spine.version, spine.runs
        for at, run in enumerate(kept):
            for column in {DIFF, "length"} & set(run.sums):
                for entry in range(len(run)):
                    sums = {each: values.copy() for each, values in run.sums.items()}
                    sums[column][entry] += 1
                    runs = (*kept[:at], replace(run, sums=sums), *kept[at + 1 :])
                    spine._committed = version.with_parts(runs, ())
                    found = engine.views[name].prove()
                    spine._committed = version
                    assert not found, (name, column, entry)
                    assert found.differences.height
                    planted += 1
    assert planted == 16
    assert engine.prove()


def test_views_stand_in_for_sources_that_keep_nothing() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES)
    per_shop = engine.view("per_shop", sales.group_by("shop").agg(n=pl.len()))
    sizes = engine.view("sizes", per_shop.group_by("n").agg(shops=pl.len()))
    engine.push("sales", ROWS)
    assert sizes.prove()
    assert sizes.prove().over == ("view 'per_shop'",)
    with pytest.raises(
        ec.InputError, match=r"'per_shop' cannot be proved: source 'sales' does not retain.*retained=True"
    ):
        per_shop.prove()
    proofs = engine.prove()
    assert list(proofs) == ["sizes"]
    assert list(proofs.refused) == ["per_shop"]


def test_what_is_not_evaluated_is_refused_by_name() -> None:
    engine = ec.Engine()
    hits = engine.source("hits", {"at": pl.Datetime("us"), "n": pl.Int64}, event_time="at", retained=True)
    windows = engine.view("windows", hits.window(ec.fixed("1m")).group_by().agg(n=pl.len()))
    own = ec.aggregate(
        create=lambda: 0, add=lambda total, values: total + values.sum(), merge=lambda one, other: one + other,
        extract=lambda total: total, dtype=pl.Int64,
    )  # fmt: skip
    custom = engine.view("custom", hits.group_by().agg(n=own(pl.col("n"))))
    firsts = engine.view("firsts", hits.group_by().agg(first=pl.col("n").first(), last=pl.col("n").last()))
    negative = engine.view("negative", hits.negate().group_by("n").agg(k=pl.len()))
    engine.push("hits", pl.DataFrame({"at": [3, 1, 2], "n": [30, 10, 20]}).cast({"at": pl.Datetime("us")}))
    assert firsts.prove()
    for view, reason in (
        (windows, "window"),
        (custom, "aggregate of your own"),
        (negative, "counts below zero"),
    ):
        with pytest.raises(ec.InputError, match=f"view '{view.name}' cannot be proved: .*{reason}"):
            view.prove()


def test_floats_that_polars_adds_up_in_another_order_are_equal() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Float64}, retained=True)
    view = engine.view("sums", rows.group_by("k").agg(s=pl.col("x").sum(), m=pl.col("x").std()))
    random = np.random.default_rng(7)
    for _ in range(5):
        engine.push("rows", {"k": random.integers(0, 5, 1_000), "x": random.normal(size=1_000) * 1e6})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert view.prove()


def test_rows_turned_and_firsts_of_their_columns_are_proved() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "a": pl.Int64, "b": pl.Int32}, retained=True)
    engine.view("turned", rows.unpivot(["a", "b"], index="k"))
    engine.view("all turned", rows.unpivot(index="k", variable_name="name"))
    engine.view("any", rows.unique("k"))
    engine.view("last", rows.unique("k", keep="last", by="a"))
    engine.view("first", rows.unique(["k", "a"], keep="first", by="b"))
    engine.push("rows", {"k": ["p", "q", "p", None], "a": [1, 2, 3, None], "b": [4, None, 6, 7]})
    engine.push("rows", {"k": ["p", "q"], "a": [3, 2], "b": [1, 2]})
    proofs = engine.prove()
    assert list(proofs) == list(engine.views)
    assert proofs
