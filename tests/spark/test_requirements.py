"""What is found out before a query starts."""

from __future__ import annotations

import functools
import os
import threading
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pyspark")

from evercurrent.core.data.errors import CheckpointError, PlanError
from evercurrent.spark_bridge.execution.executor_jobs import SIMPLIFIED, probed
from evercurrent.spark_bridge.execution.preflight import Needs, check_executors, check_picklable
from evercurrent.spark_bridge.execution.spark_checkpoint import location_in_spark
from evercurrent.views.store import store_at


def test_a_folder_of_this_machine_is_shared_and_left_as_it_was(spark, checkpoint):
    check_executors(spark, Needs(str(checkpoint)))
    assert store_at(str(checkpoint)).list("") == []


def test_a_query_takes_over_the_workers_that_were_started_to_check_them(spark):
    def parents(batches):
        import os

        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"parent": [os.getppid()] * batch.num_rows})

    checked = {
        fact["executor"]
        for fact in probed(spark, lambda _place, _pause: {"executor": os.getppid()}, 0, 0.0).facts
    }
    assert {row.parent for row in spark.range(8).mapInArrow(parents, "parent long").collect()} == checked
    assert SIMPLIFIED not in spark.sparkContext.environment


def test_a_store_of_the_driver_alone_is_found_out(spark):
    pytest.importorskip("fsspec")
    with pytest.raises(CheckpointError, match="executors do not share the checkpoint memory://alone"):
        check_executors(spark, Needs("memory://alone"))


def test_what_can_be_sent_is():
    assert check_picklable(lambda x: x + 1, "the function of view 'v'")


@dataclass(frozen=True, slots=True)
class Holder:
    held: Any


class Opened:
    def __init__(self) -> None:
        self.settings = {"name": "x", "lock": threading.Lock()}

    def run(self) -> None: ...


def a_closure():
    lock = threading.Lock()
    return lambda x: (lock, x)


def with_a_default():
    lock = threading.Lock()

    def function(x, lock=lock):
        return x

    return function


@pytest.mark.parametrize(
    ("thing", "path"),
    [
        (threading.Lock(), "the sink is a _thread.lock"),
        (a_closure(), "the sink: its variable 'lock' is a _thread.lock"),
        (functools.partial(print, threading.Lock()), "the sink.args[0] is a _thread.lock"),
        (Holder({"a": [1, threading.Lock()]}), "the sink.held['a'][1] is a _thread.lock"),
        (Opened().run, "the sink.__self__.settings['lock'] is a _thread.lock"),
        (with_a_default(), "the sink: default 0 is a _thread.lock"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_named_to_the_part(thing, path):
    with pytest.raises(PlanError) as refused:
        check_picklable(thing, "the sink")
    assert path in str(refused.value)
    assert "cannot be sent to Spark's workers" in str(refused.value)
    assert "cannot pickle" in str(refused.value)


def test_a_global_of_a_notebook_is_named():
    scope: dict[str, Any] = {"LOCK": threading.Lock(), "__name__": "__main__"}
    exec("def f(x):\n    return LOCK and x", scope)
    with pytest.raises(PlanError, match=r"the sink: the global 'LOCK' is a _thread.lock"):
        check_picklable(scope["f"], "the sink")


def test_what_is_in_a_circle_is_named_all_the_same():
    ring: dict[str, Any] = {"lock": threading.Lock()}
    ring = {"self": ring, **ring}
    ring["again"] = ring
    with pytest.raises(PlanError, match=r"the sink(\['\w+'\])*\['lock'\] is a _thread.lock"):
        check_picklable(ring, "the sink")


def test_where_spark_has_no_file_system_its_checkpoint_is_refused_before_anything_is_written(spark):
    with pytest.raises(
        CheckpointError,
        match=r"no file system for s3a://; .*jars.packages=org.apache.hadoop:hadoop-aws:VERSION",
    ):
        location_in_spark(spark, "s3://bucket/hits")
    with pytest.raises(
        CheckpointError, match=r"no file system for memory://; .* with spark.hadoop.fs.memory.impl, or choose"
    ):
        location_in_spark(spark, "memory://hits")


def test_spark_has_its_checkpoint_in_ours_by_a_name_of_its_own_scheme(spark):
    assert location_in_spark(spark, "/data/hits") == "/data/hits/spark"
    assert location_in_spark(spark, "file:///data/hits/") == "file:///data/hits/spark"
    hadoop, local = spark._jsc.hadoopConfiguration(), "org.apache.hadoop.fs.LocalFileSystem"
    for scheme in ("s3a", "s3"):  # What a platform has set for the same name comes first.
        hadoop.set(f"fs.{scheme}.impl", local)
        try:
            assert location_in_spark(spark, "s3://bucket/hits") == f"{scheme}://bucket/hits/spark"
        finally:
            hadoop.unset(f"fs.{scheme}.impl")
