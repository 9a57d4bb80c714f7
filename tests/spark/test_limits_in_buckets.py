"""What exceeds the limits in bytes goes through files, and a stage to executors; results stay what they are. Without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.partitioned import stage_runner
from evercurrent.views.partitioned.leaving_rows import LeavingRows
from evercurrent.views.partitioned.limits import DriverLimits, InlineLimits
from evercurrent.views.partitioned.tasks import RowBatch
from evercurrent.views.store import store_at
from spark.offered import Offering, declared, held
from spark.twins import TwinEngine, Way

BEGIN = datetime(2026, 1, 1)


def texts(engine: ec.Engine) -> None:
    """Windows that close at once, so that rows are refused, and the longest text of each."""
    rows = engine.source(
        "rows", {"key": pl.Int64, "text": pl.String, "at": pl.Datetime("us")},
        event_time="at", watermark=ec.bounded_delay("0s"),
    )  # fmt: skip
    hours = rows.window(ec.fixed("1h")).lateness("0s").group_by("key").agg(text=pl.col("text").max())
    engine.view("hours", hours)
    engine.view("keys", rows.group_by("key").agg(n=pl.len()))


def batch(hour: int, width: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "key": range(20),
            "text": [str(number % 10) * width for number in range(20)],
            "at": [BEGIN + timedelta(hours=hour - number % 3) for number in range(20)],
        }
    )


def test_rows_that_are_passed_on_and_refused_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the twin has the same deltas, contents and ledger, epoch by epoch, with limits of 64 bytes."""
    written: list[int] = []
    refuse = LeavingRows.refuse

    def noting(self: LeavingRows, result: Any, ledger: Any) -> None:
        refuse(self, result, ledger)
        written.append(len(result.refused_files))

    monkeypatch.setattr(stage_runner, "InlineLimits", partial(InlineLimits, bytes=64))
    monkeypatch.setattr(LeavingRows, "refuse", noting)
    for way in (Way(), Way(buckets=3, parts=3, elsewhere=True)):
        TwinEngine.way = way
        engine = TwinEngine()
        texts(engine)
        for hour in (5, 1, 7):
            engine.push("rows", batch(hour, 100))
        assert engine.compared == 4
        assert engine.ledger().height > 10
    assert sum(written)


def test_where_a_stage_runs_is_decided_by_its_bytes_too(tmp_path: Path) -> None:
    offering = Offering(declared(texts), store_at(str(tmp_path)), elsewhere=True)
    evaluator = offering.epochs._evaluator
    for width, ran_elsewhere in ((10, 0), (20_000, 1)):
        evaluator._limits, evaluator.ran_elsewhere = DriverLimits(1_000, 100_000), 0
        offering.offer(0 if width == 10 else 1, {"rows": batch(5, width)})
        assert (evaluator.ran_elsewhere > 0) == bool(ran_elsewhere)
    assert len(held(offering.plan, store_at(str(tmp_path)))["keys"]) == 20


def test_the_limits() -> None:
    limits = DriverLimits(1_000, 10_000)
    assert limits.allow(1_000, 10_000, 2)
    assert not limits.allow(1_001, 0, 2)
    assert not limits.allow(0, 10_001, 2)
    assert not limits.allow(1_000, 0, 8)
    assert not DriverLimits(-1, 10_000).allow(0, 0, 1)
    assert InlineLimits(10, 100).allow(10, 100)
    assert not InlineLimits(10, 100).allow(1, 101)
    frame = batch(5, 1_000)
    assert RowBatch(frame.height, frame).bytes > 20_000
