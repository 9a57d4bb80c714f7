"""A bad row in a stream: in the ledger, where all others count, or the sentence that ends the query. On a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.spark_bridge import run
from spark.test_query import ONCE, assert_same
from spark.twins import entered

SCHEMA = {"id": pl.Int64, "text": pl.String, "n": pl.Int64, "_diff": pl.Int64}
EPOCHS = [
    pl.DataFrame(rows, SCHEMA, orient="row")
    for rows in (
        [(1, "1", 5, 1), (2, "2", 6, 1), (3, "3", 300, 1)],
        [(1, "x", 5, 1), (None, "4", 1, 1), (2, "2", 1, None), (4, "4", 7, 1)],
        [(5, "5", 1, 1), (1, None, None, -1), (9, "9", 2, -1)],
        [(6, "60", 1, 1)],
    )
]
"""Of the first epoch a value that does not fit, of the second one that cannot be cast, a null key and a null diff; of the third
a deletion of nothing, and of the last a total that does not fit."""


def declare(engine: ec.Engine) -> None:
    rows = engine.source("rows", {"id": pl.Int64, "text": pl.String, "n": pl.Int8}, kind="upsert", key="id")
    numbers = engine.view("numbers", rows.with_columns(number=pl.col("text").cast(pl.Int64)))
    totals = numbers.group_by().agg(total=pl.col("number").sum())
    engine.view("totals", totals.with_columns(small=(pl.col("total") * 2).cast(pl.Int8)))


@pytest.mark.parametrize("driver_rows", [200_000, 0])
def test_bad_rows_are_in_the_ledger_and_all_others_count(
    spark: Any, feed: Any, checkpoint: Path, driver_rows: int
) -> None:
    """In the driver and in workers the same rows as in an engine; the query is started again in between."""
    embedded = ec.Engine(on_bad_rows="ledger")
    declare(embedded)
    for frame in EPOCHS:
        embedded.push("rows", frame)
    refused = []
    stream = feed(EPOCHS[:2])
    for more in (EPOCHS[2:], []):
        engine = ec.Engine()
        declare(engine)
        query = run(
            engine, {"rows": stream}, checkpoint=checkpoint, buckets=3, trigger=ONCE, driver_rows=driver_rows,
            on_bad_rows="ledger",
        )  # fmt: skip
        query.await_termination()
        refused += [one.refused for one in query.recent_progress() if one.epoch]
        if more:
            feed(more)
    assert_same(query, embedded)
    assert refused == [1, 3, 1, 1]
    assert sorted(query.ledger().rows()) == sorted(embedded.ledger().rows())
    ledger = query._batches.opened().clocks.ledger
    assert entered(ledger.refused) == entered(embedded._running.current().ledger.refused)
    progress = query.progress()
    assert progress is not None
    assert progress.ledger_rows == 6


@contextmanager
def log_of(spark: Any) -> Iterator[Any]:
    """What Spark's Java writes to its log meanwhile."""
    log4j = spark._jvm.org.apache.logging.log4j
    text = spark._jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, text, "test", False, True)
    appender.start()
    root = log4j.core.LoggerContext.getContext(False).getRootLogger()
    root.addAppender(appender)
    try:
        yield text
    finally:
        root.removeAppender(appender)


@pytest.mark.parametrize("driver_rows", [200_000, 0])
def test_a_row_that_ends_the_query_is_a_sentence_and_a_few_lines_of_log(
    spark: Any, feed: Any, checkpoint: Path, driver_rows: int
) -> None:
    """Again each time that the query is started, until the ledger takes the row; then Spark logs as before."""
    stream = feed(EPOCHS[:2])
    for _ in range(2):
        engine = ec.Engine()
        declare(engine)
        with log_of(spark) as log:
            query = run(
                engine,
                {"rows": stream},
                checkpoint=checkpoint,
                buckets=3,
                trigger=ONCE,
                driver_rows=driver_rows,
            )
            with pytest.raises(
                InputError, match="column 'n' has values that are not Int8: 300 in row 2"
            ) as failed:
                query.await_termination()
        assert "java" not in str(failed.value).lower()
        lines = log.toString().splitlines()
        assert len(lines) <= 10, log.toString()
        assert lines[0].startswith("micro-batch 0 ends its query: source 'rows': column 'n'")
    name = query._batches.log._logger
    assert name is not None
    assert name.endswith("MicroBatchExecution")
    level = spark._jvm.org.apache.logging.log4j.LogManager.getLogger(name).getLevel().toString()
    assert level == "ERROR"

    with pytest.raises(PlanError, match="on_bad_rows='stop'; give 'fail' or 'ledger'"):
        run(ec_declared(), {"rows": stream}, checkpoint=checkpoint, buckets=3, on_bad_rows="stop")  # type: ignore[arg-type]
    query = run(ec_declared("ledger"), {"rows": stream}, checkpoint=checkpoint, buckets=3, trigger=ONCE)
    query.await_termination()
    assert query.ledger().height == 4


def ec_declared(on_bad_rows: Any = "fail") -> ec.Engine:
    engine = ec.Engine(on_bad_rows=on_bad_rows)
    declare(engine)
    return engine
