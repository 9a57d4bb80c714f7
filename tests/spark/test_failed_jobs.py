"""A job of Spark that has lost a worker, an executor or a file ends its query with one sentence of cause and way out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import evercurrent as ec
from evercurrent.spark_bridge.execution.failed_jobs import FailedJobError, as_sentence
from evercurrent.spark_bridge.execution.micro_batches import MicroBatches

ABORTED = (
    "An error occurred while calling o262.getResult.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org."
    "apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)\nCaused by: org.apache.spark.SparkException: Job aborted "
    "due to stage failure: Task 0 in stage 5.0 failed 1 times, most recent failure: Lost task 0.0 in stage 5.0 (TID 6) (host executor "
    "driver): "
)
"""How Spark's errors of a job begin."""

AFTERWARDS = "\n\t... 24 more\n\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler\nCaused by: java.io.EOFException: other"

CASES = {
    "a worker": (
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'spark.python.worker.faulthandler."
        "enabled'\n\tat org.apache.spark.api.python.BasePythonRunner\nCaused by: java.io.EOFException",
        r"^a Python worker of Spark has ended within a task, killed or out of memory, .*: start the query again, which repeats it$",
    ),
    "an executor": (
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137",
        r"^an executor of Spark has ended within a task \(Command exited with code 137\), .*: start the query again",
    ),
    "a file that is cut off": (
        "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///hits/00004.parquet.  "
        "SQLSTATE: KD001\n\tat org.apache.spark.sql.errors\nCaused by: java.lang.RuntimeException: file:/hits/00004.parquet is not a "
        "Parquet file. Expected magic number at tail",
        r"^file:///hits/00004\.parquet, a file of a source, could not be read \(.* is not a Parquet file\. Expected magic number at "
        r"tail\); .*: put the whole file there, and start the query again, which repeats it$",
    ),
    "a file that is gone": (
        "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///hits/1.json. "
        "File does not exist. SQLSTATE: KD001\n\tat org.apache",
        r"^file:///hits/1\.json, a file of a source, could not be read; .*: put the whole file there",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_job_has_lost_is_named(name: str) -> None:
    text, sentence = CASES[name]
    error = RuntimeError(ABORTED + text + AFTERWARDS)
    with pytest.raises(FailedJobError, match=sentence):
        raise as_sentence(error)


def test_other_errors_stay_as_they_are() -> None:
    for error in (
        RuntimeError(f"{ABORTED}java.lang.OutOfMemoryError"),
        ec.InputError("Python worker exited unexpectedly"),
    ):
        assert as_sentence(error) is error


def test_a_micro_batch_ends_its_query_with_it_and_spark_s_error_is_the_cause() -> None:
    error = RuntimeError(ABORTED + CASES["a worker"][0])
    batches: Any = object.__new__(MicroBatches)
    batches.error = None
    batches.log = SimpleNamespace(failed=lambda error, batch: None)

    def run() -> Any:
        raise error

    batches.while_running = run
    with pytest.raises(FailedJobError) as raised:
        batches(None, 3)
    assert batches.error is raised.value
    assert raised.value.__cause__ is error
