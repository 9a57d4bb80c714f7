"""A checkpoint in buckets in which an earlier version has grouped rows apart is refused with the ways out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.rebucket import TOGETHER, rebucket
from evercurrent.views.partitioned import bucket_commits
from evercurrent.views.plan.plan import Plan
from evercurrent.views.store import LocalStore
from spark.offered import Offering, declared, forget_everything, held

AFFECTED = ["hours", "best"]


def panes(engine: ec.Engine) -> ec.View:
    rows = engine.source("rows", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at")
    return engine.view("tens", rows.window(ec.fixed("10m")).group_by("k").len())


def windows(engine: ec.Engine) -> None:
    hours = panes(engine).window(ec.fixed("1h")).group_by("k").agg(n=pl.col("len").sum())
    engine.view("best", engine.view("hours", hours).group_by("k").agg(best=pl.col("n").max(), hours=pl.len()))


def structs(engine: ec.Engine) -> ec.View:
    rows = engine.source("rows", {"k": pl.Struct({"k": pl.String, "x": pl.Int64})})
    return engine.view("tens", rows.group_by("k").len())


def unnested(engine: ec.Engine) -> None:
    hours = structs(engine).select("k", "len").unnest("k").group_by("k").agg(n=pl.col("len").sum())
    engine.view("best", engine.view("hours", hours).group_by("n").agg(best=pl.len()))


ROWS = pl.DataFrame(
    {"k": list("abcdef") * 6, "at": [datetime(2026, 1, 1, 12, number // 6 * 10) for number in range(36)]}
)
STRUCTS = pl.DataFrame({"k": [{"k": key, "x": x} for key in "abcdef" for x in range(6)]})


def of(declare: Callable[[ec.Engine], object]) -> Plan:
    return declared(declare)  # type: ignore[arg-type]


def contents(declare: Callable[[ec.Engine], object], batches: list[pl.DataFrame]) -> dict[str, list[Any]]:
    engine = ec.Engine()
    declare(engine)
    for rows in batches:
        engine.push("rows", rows)
    return {name: sorted(view.read().rows(), key=repr) for name, view in engine.views.items()}


@pytest.mark.parametrize(
    ("before", "declare", "rows"),
    [(panes, windows, ROWS), (structs, unnested, STRUCTS)],
    ids=["windows", "unnest"],
)
def test_it_is_refused_until_its_views_were_dropped(
    before: Callable[..., Any], declare: Callable[..., Any], rows: pl.DataFrame,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store = LocalStore(tmp_path / "kept")
    with monkeypatch.context() as earlier:
        earlier.setattr(bucket_commits, "TOGETHER", "not recorded")
        Offering(of(declare), store).offer(0, {"rows": rows})
    forget_everything()
    assert TOGETHER not in CommitLog(store).last.facts  # type: ignore[union-attr]
    with pytest.raises(
        CheckpointError,
        match=r"'hours', 'best' may have rows of one group as several.*drop=\['hours', 'best'\]",
    ):
        Offering(of(declare), store)
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    declare(engine)
    with pytest.raises(CheckpointError, match="may have rows of one group as several"):
        engine.ready()
    dropped = Offering(of(before), store, drop=AFFECTED)
    dropped.offer(1, {"rows": rows})
    forget_everything()
    again = Offering(of(declare), store)
    again.offer(2, {"rows": rows})
    assert held(of(declare), store, runner=again.runner) == contents(declare, [rows] * 3)


def test_what_cuts_it_anew_forgets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "kept")
    with monkeypatch.context() as earlier:
        earlier.setattr(bucket_commits, "TOGETHER", "not recorded")
        Offering(of(windows), store).offer(0, {"rows": ROWS})
    for buckets in (1, 2):
        rebucket(store, buckets)
        forget_everything()
        with pytest.raises(CheckpointError, match="may have rows of one group as several"):
            Offering(of(windows), store, buckets=buckets)


def test_what_one_process_has_written_is_right(tmp_path: Path) -> None:
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    windows(engine)
    engine.push("rows", ROWS)
    engine.close()
    store = LocalStore(tmp_path / "kept")
    rebucket(store, 3)
    forget_everything()
    offering = Offering(of(windows), store)
    offering.offer(0, {"rows": ROWS})
    assert held(of(windows), store, runner=offering.runner) == contents(windows, [ROWS] * 2)
    forget_everything()
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    windows(engine)
    engine.push("rows", ROWS)
    assert sorted(engine.views["hours"].read().rows()) == contents(windows, [ROWS] * 3)["hours"]
    engine.close()
