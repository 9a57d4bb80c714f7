"""PySpark collects garbage after each task: what a worker has loaded is no part of it."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution.jobs import Setup
from evercurrent.spark_bridge.runtime.worker_garbage import freeze_what_is_loaded
from spark.test_query import ONCE, assert_same, chain, declared, events, pushed


def looked_at() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that yields how many objects a collection looks at in its worker, and how many it leaves out.

    It is pickled with its code, as workers do not find this file.
    """

    def in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import time

        import pyarrow as pa

        for _ in batches:
            time.sleep(0.5)  # Another task meanwhile takes another worker.
            columns = [pa.array([len(gc.get_objects())]), pa.array([gc.get_freeze_count()])]
            yield pa.RecordBatch.from_arrays(columns, ["looked", "frozen"])

    return in_worker


def test_workers_that_have_run_a_stage_leave_out_what_they_have_loaded(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    epochs = events()
    stream = feed([rows["events"] for rows in epochs])
    query = run(
        declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, driver_rows=0
    )
    query.await_termination()
    assert_same(query, pushed(chain, epochs))
    workers = (
        spark.range(0, 2, 1, 2).mapInArrow(looked_at(), "looked long, frozen long").toArrow().to_pylist()
    )
    ran = [worker for worker in workers if worker["frozen"]]
    assert ran, workers
    for worker in ran:
        assert worker["frozen"] > 50_000, "modules of polars, pyarrow, numpy and this package"
        assert worker["looked"] < worker["frozen"] / 4, "what came after the first stage was compiled"


def test_a_plan_that_is_no_longer_used_is_freed(store_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker lives as long as the application, with one query after the other."""
    from pyspark import TaskContext

    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: object()))
    plan = pickle.dumps(declared(chain)._plan)
    first = Setup(plan, store_folder, 1, 1000).runner()
    freed = weakref.ref(first)
    first.__dict__["refers to itself"] = first  # As what functions of a user hold may.
    del first
    for buckets in range(2, 7):
        Setup(plan, store_folder, buckets, 1000).runner()
    assert freed() is None


@pytest.fixture
def store_folder(tmp_path: Path) -> str:
    from evercurrent.views.store import LocalStore

    return LocalStore(tmp_path).url


def test_a_process_that_is_no_worker_stays_as_it_is() -> None:
    assert gc.get_freeze_count() == 0
    freeze_what_is_loaded()
    assert gc.get_freeze_count() == 0


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """This process, which is no worker, keeps nothing frozen of a test in which it is one."""
    yield
    gc.unfreeze()
