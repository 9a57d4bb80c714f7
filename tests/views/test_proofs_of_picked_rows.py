"""Proofs of views for which rows alone do not decide: which of equal rows is picked, and which panes were emitted."""

from __future__ import annotations

from datetime import datetime

import polars as pl

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
