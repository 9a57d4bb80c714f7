"""Where a plan without another view, or with one, is cut otherwise, the rows that views keep go to their other buckets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.plan.plan import Plan
from evercurrent.views.store import store_at
from spark.offered import Offering, declared, forget_everything, held

COLUMNS = {"a": pl.Int64, "b": pl.Int64, "v": pl.Int64}
FIRST = [(0, 1, 0), (1, 2, 1), (2, 3, 2), (3, 4, 3), (None, 5, 4), (4, 6, 5), (5, 7, 6), (6, 8, 7)]
SECOND = [(key, 9, 9) for key in range(7)]


def declare(*, with_far: bool, with_count: bool = False) -> Callable[[ec.Engine], None]:
    """A join beside another one that reads the same rows, but a stage later: both are done there."""

    def declare_views(engine: ec.Engine) -> None:
        rows = engine.source("rows", COLUMNS)
        counts = engine.view("counts", rows.group_by("a").agg(n=pl.len()))
        if with_far:
            most = rows.group_by("b").agg(most=pl.col("v").max())
            engine.view("far", counts.join(most.group_by(a="most").agg(m=pl.len()), on="a"))
        sums = rows.group_by("a").agg(sum=pl.col("v").sum())
        near = engine.view("near", counts.join(sums, on="a", how="left"))
        if with_count:
            engine.view("count", near.group_by("n").agg(groups=pl.len()))

    return declare_views


def redeclared(offering: Offering, plan: Plan, drop: tuple[str, ...]) -> Offering:
    """The plan changes while the query runs."""
    return offering.redeclared(plan, drop=drop)


def opened(offering: Offering, plan: Plan, drop: tuple[str, ...]) -> Offering:
    """Another process goes on with another plan."""
    forget_everything()
    return Offering(plan, offering.epochs.log.store, drop=drop)


def frame(rows: list[tuple[int | None, int, int]]) -> dict[str, pl.DataFrame]:
    """Rows for the source."""
    return {"rows": pl.DataFrame(rows, schema=COLUMNS, orient="row")}


@pytest.mark.parametrize("change", [redeclared, opened])
@pytest.mark.parametrize("with_count", [False, True], ids=["alone", "with a view of them"])
def test_a_view_goes(
    change: Callable[[Offering, Plan, tuple[str, ...]], Offering], with_count: bool, tmp_path: Path
) -> None:
    before, after = (declare(with_far=True), declare(with_far=False, with_count=with_count))
    offering = Offering(declared(before), store_at(tmp_path))
    assert offering.offer(0, frame(FIRST))
    was_cut = offering.runner.routes
    offering = change(offering, declared(after), ("far",))
    assert any(was_cut[name] != route for name, route in offering.runner.routes.items() if name in was_cut)
    assert offering.offer(1, frame(SECOND))
    engine = ec.Engine()
    after(engine)
    for rows in (FIRST, SECOND):
        engine.push("rows", frame(rows)["rows"])
    expected = {name: sorted(view.read().rows(), key=repr) for name, view in engine.views.items()}
    assert held(offering.plan, tmp_path) == expected
    again = opened(offering, offering.plan, ())
    assert held(again.plan, tmp_path) == expected
