"""What a query reports of its epochs, and of the row with which one fails."""

from __future__ import annotations

import logging
import time
import traceback
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import InputError
from evercurrent.spark_bridge import progress_of, run
from evercurrent.spark_bridge.execution.task_failures import TaskFailure, user_trace
from evercurrent.spark_bridge.output.query_progress import in_record
from spark.test_query import ONCE, pushed

EPOCHS = [pl.DataFrame({"n": [1, 2, 2]}), pl.DataFrame({"n": [2, 0]}), pl.DataFrame({"n": [5]})]


def fractions(engine: ec.Engine) -> None:
    """A view of a user's function, after a grouping, and a second grouping of its rows."""
    numbers = engine.source("numbers", {"n": pl.Int64})
    counts = engine.view("counts", numbers.group_by("n").agg(times=pl.len()))

    def inverse(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select("n", part=pl.Series([100 // n for n in rows["n"]], dtype=pl.Int64))

    schema = {"n": pl.Int64, "part": pl.Int64}
    inverted = counts.map_batches(inverse, schema=schema, version=1)
    engine.view("parts", inverted.group_by("part").agg(n=pl.len()))


def repaired(engine: ec.Engine) -> None:
    """The same views, of a function that takes a zero."""
    numbers = engine.source("numbers", {"n": pl.Int64})
    counts = engine.view("counts", numbers.group_by("n").agg(times=pl.len()))

    def inverse(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select("n", part=pl.Series([100 // (n or 1) for n in rows["n"]], dtype=pl.Int64))

    schema = {"n": pl.Int64, "part": pl.Int64}
    inverted = counts.map_batches(inverse, schema=schema, version=1)
    engine.view("parts", inverted.group_by("part").agg(n=pl.len()))


def test_progress_and_a_function_that_fails_and_is_repaired(
    spark: Any, feed: Any, checkpoint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Stages run in executors, as ``driver_rows=0`` has it; the last attempt of the failing task returns its error."""
    stream = feed(EPOCHS)
    engine = ec.Engine()
    fractions(engine)
    with caplog.at_level(logging.INFO, "evercurrent"):
        query = run(
            engine, {"numbers": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, driver_rows=0
        )
        with pytest.raises(InputError, match=r"of view 'counts': the function raised ZeroDivision") as failed:
            query.await_termination()
    sentence = str(failed.value)
    assert "for the row {'n': 0" in sentence
    assert "; nothing has changed (stage " in sentence
    assert "bucket" in sentence
    shown = "".join(traceback.format_exception(failed.value))
    assert "part=pl.Series([100 // n for n in rows" in shown
    assert "java" not in shown

    progress = query.progress()
    assert progress is not None
    assert (progress.epoch, progress.batch, progress.rows) == (1, 0, 3)
    assert {stage.ran_in for stage in progress.stages if stage.tasks} == {"executors"}
    assert {name: (one.rows_in, one.rows_out) for name, one in progress.views.items()} == {
        "counts": (2, 2), "parts": (2, 2),
    }  # fmt: skip
    assert progress.state_rows > 0
    assert progress.slowest is not None
    assert progress.watermarks == {}
    assert progress.as_dict()["stages"][1]["ran_in"] == "executors"
    lines = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "epoch"]
    assert lines[-1] == str(progress)
    assert lines[-1].startswith("epoch 1: 3 rows, 24 bytes, ")
    explained = query.explain()
    assert "makes view 'counts'" in explained
    assert "rows are cut into buckets by part" in explained
    assert "last ran in executors: 2 rows" in explained

    engine = ec.Engine()
    repaired(engine)
    query = run(engine, {"numbers": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    query.await_termination()
    embedded = pushed(repaired, [{"numbers": frame} for frame in EPOCHS])
    for name in ("counts", "parts"):
        assert sorted(query.view(name).read().rows()) == sorted(embedded.views[name].read().rows())
    assert [progress.epoch for progress in query.recent_progress()] == [2, 3]
    assert {stage.ran_in for stage in query.recent_progress()[-1].stages} == {"driver"}


def test_a_failure_without_a_function_has_no_traceback() -> None:
    error = InputError("source 'rows': column 'key' has values that are not UInt8")
    assert user_trace(error) == ""
    mended = TaskFailure.of(error, "partition 3 as it arrives").error()
    assert str(mended) == f"{error} (partition 3 as it arrives)"
    assert not hasattr(mended, "__notes__")


def test_a_listener_of_spark_gets_the_measures_of_its_epoch(spark: Any, feed: Any, checkpoint: Any) -> None:
    from pyspark.sql.streaming import StreamingQueryListener

    seen: list[tuple[int, Any]] = []

    class Metrics(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802
        def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802
        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802
        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            seen.append((event.progress.batchId, progress_of(event)))

    engine = ec.Engine()
    repaired(engine)
    listener = Metrics()
    spark.streams.addListener(listener)
    try:
        query = run(engine, {"numbers": feed(EPOCHS)}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
        query.await_termination()
        until = time.monotonic() + 20
        while len(seen) < len(EPOCHS) and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert [batch for batch, _ in seen] == [0, 1, 2]
    assert [progress for _, progress in seen] == query.recent_progress()
    assert [progress.rows for _, progress in seen] == [3, 2, 1]
    record = in_record(query._reader.last())
    own = query.progress()
    assert record is not None
    assert own is not None
    assert record == replace(own, seconds=record.seconds, commit_seconds=record.commit_seconds)
    with pytest.raises(InputError, match="str reports no micro-batch; give the event of onQueryProgress"):
        progress_of("event")  # type: ignore[arg-type]
