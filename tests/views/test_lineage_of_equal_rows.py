"""Of equal rows those are in a lineage that take part, and no others: where first rows follow a join or a union."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import evercurrent as ec

Combined = Callable[[ec.Collection, ec.Collection], ec.Collection]

COMBINED: dict[str, Combined] = {
    "inner": lambda left, right: left.join(right, on="k"),
    "left": lambda left, right: left.join(right, on="k", how="left"),
    "full": lambda left, right: left.join(right, on="k", how="full"),
    "right": lambda left, right: right.join(left, on="k", how="right"),
    "cross": lambda left, right: left.join(right, how="cross"),
    "semi": lambda left, right: left.join(right, on="k", how="semi"),
    "anti": lambda left, right: left.join(right.filter(pl.col("k") > 1), on="k", how="anti"),
    "computed behind anti": lambda left, right: left.join(
        right.filter(pl.col("k") > 1), on="k", how="anti"
    ).with_columns(m=pl.col("n") + 1),
    "anti behind computed": lambda left, right: left.with_columns(m=pl.col("n") + 1).join(
        right.filter(pl.col("k") > 1), on="k", how="anti"
    ),
    "itself": lambda left, right: left.join(left.select("k").unique(), on="k"),
    "union": lambda left, right: left.concat(right.select("k", n="y")),
    "exploded": lambda left, right: left.with_columns(e=pl.concat_list("n", "n")).explode("e"),
}


def declared(combine: Combined) -> ec.Engine:
    engine = ec.Engine()
    left = engine.source("left", {"k": pl.Int64, "n": pl.Int64}, kind="diffs", retained=True)
    right = engine.source("right", {"k": pl.Int64, "y": pl.Int64}, kind="diffs", retained=True)
    first = engine.view("first", combine(left, right).top_k(2, by="n"))
    engine.view("totals", first.group_by().agg(rows=pl.len(), total=pl.col("n").sum()))
    return engine


@pytest.mark.parametrize("kind", COMBINED)
def test_the_rows_of_a_lineage_alone_make_the_row(kind: str) -> None:
    engine = declared(COMBINED[kind])
    engine.push("left", [(1, 9)] * 3 + [(2, 5)] * 2 + [(3, 1)])
    engine.push("right", [(1, 7)] * 2 + [(2, 9)])
    for name, view in engine.views.items():
        for row in view.read().rows():
            behind = view.lineage(row)
            alone = declared(COMBINED[kind])
            with alone.epoch():
                for source, rows in behind.items():
                    alone.push(source, rows)
            assert row in alone.views[name].read().rows(), (name, row)
            if kind not in ("itself", "exploded", "union"):
                assert behind["left"]["_diff"].sum() <= 2, (name, row)


def test_of_many_copies_of_both_sides_few_are_named() -> None:
    engine = declared(COMBINED["inner"])
    engine.push("left", [(1, 9)] * 30)
    engine.push("right", [(1, 7)] * 20)
    behind = engine.views["totals"].lineage({"rows": 2})
    assert {source: rows["_diff"].to_list() for source, rows in behind.items()} == {"left": [2], "right": [1]}
