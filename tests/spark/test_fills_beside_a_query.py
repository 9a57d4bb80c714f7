"""What a query does beside a fill that reads its commits: it deletes files, and takes up other declarations. Without Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge.execution.jobs import Setup
from evercurrent.spark_bridge.execution.micro_batches import MicroBatches
from evercurrent.spark_bridge.execution.options import Options
from evercurrent.spark_bridge.execution.preflight import check_picklable
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.partitioned import upkeep
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.partitioned.running_fill import RunningFill
from evercurrent.views.store import LocalStore
from spark.offered import Offering, held
from spark.test_filled_in_buckets import shops

WITH_PRICES = ("totals", "prices")
COUNTS = [(1, 1), (2, 1), (3, 1)]


def setup(folder: Path, *names: str) -> Setup:
    plan = shops(list(names), retained=True).declared
    return Setup(check_picklable(plan, "the plan"), LocalStore(folder).url, 2, 1000)


def begun(folder: Path) -> MicroBatches:
    """A query with one view, after an epoch."""
    rows = {"sales": pl.DataFrame({"shop": ["a", "b", "a"], "price": [1, 2, 3]})}
    assert Offering(shops(["totals"], retained=True).declared, LocalStore(folder), buckets=2).offer(0, rows)
    query = MicroBatches(setup(folder, "totals"), Options(ec.Checkpoint(folder, keep=1, grace="0s"), 1000))
    assert query.opened().last.epoch == 1
    return query


def test_a_fill_does_not_begin_while_files_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it writes, and which no commit names yet, would be deleted with the others."""
    query = begun(tmp_path)
    fills: list[RunningFill] = []
    is_filled = threading.Event()

    def fill() -> None:
        fills.append(query.filling("view 'prices'", setup(tmp_path, *WITH_PRICES), ()))
        assert list(fills[0].pieces(1))
        is_filled.set()

    beside = threading.Thread(target=fill)

    def without_waste(*_: Any) -> None:
        beside.start()
        is_filled.wait(0.5)

    monkeypatch.setattr(upkeep, "without_waste", without_waste)
    with query.turn:
        query._upkeep.work()
    beside.join(20)
    assert is_filled.is_set()
    query.redeclare("view 'prices'", setup(tmp_path, *WITH_PRICES), (), None, fills[0].computed)
    fills[0].end()
    assert verify(query.store).faults == ()
    assert held(shops(list(WITH_PRICES), retained=True).declared, query.store)["prices"] == COUNTS


def test_a_fill_goes_on_while_another_declaration_is_being_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds a commit of a plan that the query has not noted yet."""
    query = begun(tmp_path)
    own, ends = MicroBatches._opened, list[Any]()
    fill = query.filling("view 'prices'", setup(tmp_path, *WITH_PRICES), ())

    def run() -> None:
        try:
            ends.append(list(fill.pieces(1)))
        except Exception as error:
            ends.append(error)

    beside = threading.Thread(target=run)

    def opened(self: MicroBatches, *arguments: Any) -> Epochs:
        epochs = own(self, *arguments)
        if not beside.ident:
            beside.start()
            beside.join(0.5)
        return epochs

    monkeypatch.setattr(MicroBatches, "_opened", opened)
    query.redeclare("view 'firsts'", setup(tmp_path, "totals", "firsts"), (), None)
    beside.join(20)
    assert isinstance(ends[0], list), ends
    every = ("totals", "firsts", "prices")
    query.redeclare("view 'prices'", setup(tmp_path, *every), (), None, fill.computed)
    assert held(shops(list(every), retained=True).declared, query.store)["prices"] == COUNTS
