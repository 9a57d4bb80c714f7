"""Proofs of views for which rows alone do not decide: which of equal rows is picked, and which panes were emitted."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import evercurrent as ec


def test_of_equal_rows_a_proof_picks_the_one_of_views() -> None:
    y, f, is_big = pl.col("y"), pl.col("f"), pl.col("x") > 0
    picks = {
        "first": y.sort_by("x").first(), "last": y.sort_by("x", descending=True).last(), "by time": y.first(),
        "computed": (-y).sort_by("x").drop_nulls().first() - y.last(), "among": y.filter(is_big).first(),
        "greatest": y.get(f.arg_max()), "least": y.filter(is_big).get(f.filter(is_big).arg_min()), "by": y.max_by("x"),
        "all": (-y).sort_by("x").implode(), "values": (-y).implode(), "struct": pl.struct("y", "f").sort_by("x").first(),
    }  # fmt: skip
    engine = ec.Engine()
    schema = {"k": pl.Int64, "x": pl.Int64, "y": pl.Int64, "f": pl.Float64, "at": pl.Datetime("us")}
    rows = engine.source("rows", schema, event_time="at", retained=True)
    for name, pick in picks.items():
        engine.view(name, rows.group_by("k").agg(pick.alias("picked")))
    values, floats = [None, 3, 1, 2], [None, float("nan"), 1.0, 2.0]
    engine.push(
        "rows",
        [(n % 5, n // 3 % 3, values[n * 7 % 4], floats[n // 2 % 4], datetime(2026, 1, 1)) for n in range(60)],
    )
    assert len(proofs := engine.prove()) == len(picks), proofs
    assert proofs, proofs


def test_panes_that_accumulate_are_not_proved_behind_other_groupings_either() -> None:
    engine = ec.Engine()
    hits = engine.source("hits", {"at": pl.Datetime("us"), "n": pl.Int64}, event_time="at", retained=True)
    panes = hits.window(ec.fixed("1m")).accumulate("accumulating", allow_regrouping=True)
    counts = panes.group_by("n").agg(k=pl.len())
    engine.view("grouped", counts.group_by("k").agg(n=pl.len()))
    engine.view("joined", hits.select("n").join(counts, on="n"))
    for _ in range(2):
        engine.push("hits", [(datetime(2026, 1, 1), 1)])
    proofs = engine.prove()
    assert not len(proofs)
    assert all("a log of when they were emitted" in reason for reason in proofs.refused.values())
    assert proofs.refused.keys() == {"grouped", "joined"}


def test_lists_of_the_greatest_and_least_are_in_their_order() -> None:
    x, s = pl.col("x"), pl.col("s")
    lists = {
        "top": (x.top_k(3), [9, 7, 5]),
        "bottom": (x.bottom_k(3), [2, 5, 7]),
        "all": (x.top_k(9), [9, 7, 5, 2, None]),
        "least": (x.bottom_k(9), [2, 5, 7, 9, None]),
        "twice": (x.top_k(3) * 2, [18, 14, 10]),
        "of sorted": (x.sort().top_k(3), [9, 7, 5]),
        "among": (x.top_k(3).filter(x.top_k(3) > 5), [9, 7]),
        "sorted": (x.top_k(3).sort(), [5, 7, 9]),
        "top by": (s.top_k_by("y", 3), ["c", "a", "b"]),
        "bottom by": (s.bottom_k_by("y", 3), ["a", "b", "d"]),
        "by two": (s.top_k_by(["y", "x"], 3, reverse=[False, True]), ["c", "a", "d"]),
        "all by": (x.bottom_k_by("y", 9), [None, 2, 7, 9, 5]),
    }
    engine = ec.Engine()
    schema = {"k": pl.Int64, "s": pl.String, "x": pl.Int64, "y": pl.Int64}
    rows = engine.source("rows", schema, retained=True, kind="diffs")
    for name, (values, _) in lists.items():
        engine.view(name, rows.group_by("k").agg(values.implode().alias("values")))
    joined = rows.group_by("k").agg(s.top_k(2).str.join("-").alias("values"))
    engine.view("joined", joined)
    data = [("a", 2, 1), ("b", 9, 1), ("c", 5, 2), ("d", 7, 1), ("e", None, 1)]
    frame = pl.DataFrame([(k, *row, 1) for k in range(20) for row in data], [*schema, "_diff"], orient="row")
    engine.push("rows", frame.filter(pl.col("x") == 7))
    engine.push("rows", frame.filter(pl.col("x").ne_missing(7)).sample(fraction=1, shuffle=True, seed=1))
    for name, (_, values) in lists.items():
        read = engine.views[name].read()["values"].to_list()
        assert read == [values] * 20, (name, read)
    assert engine.views["joined"].read()["values"].to_list() == ["e-d"] * 20
    assert len(proofs := engine.prove()) == len(lists) + 1, proofs
    assert proofs, proofs
    engine.push("rows", frame.filter(pl.col("s") == "b").with_columns(_diff=-1))
    assert engine.views["top"].read()["values"].to_list() == [[7, 5, 2]] * 20
    assert engine.prove(), engine.prove()


@pytest.mark.parametrize("values", [pl.col("x").top_k(3), pl.col("x").sort().bottom_k(3) + 1], ids=str)
def test_one_of_the_greatest_is_refused_without_an_order(values: pl.Expr) -> None:
    rows = ec.Engine().source("rows", {"k": pl.Int64, "x": pl.Int64, "y": pl.Int64})
    with pytest.raises(ec.PlanError, match=r"order of the values of top_k or bottom_k.*sort them"):
        rows.group_by("k").agg(values.first())
    rows.group_by("k").agg(values.sort().first())
