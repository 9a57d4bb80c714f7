"""A query of views has the members by which users of Spark look at a query."""

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge import run
from spark.test_query import ONCE


def test_a_query_has_the_names_of_spark(feed, checkpoint, capsys):
    engine = ec.Engine()
    engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
    stream = feed([pl.DataFrame({"ip": ["a", "b", "a"]})])
    query = run(engine, {"log": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, name="traffic")
    assert query.awaitTermination() is True
    query.processAllAvailable()
    assert (query.isActive, query.name, query.exception()) == (False, "traffic", None)
    assert query.id == query.streaming_query.id
    assert query.runId == query.streaming_query.runId
    assert query.status["isDataAvailable"] is False
    assert query.lastProgress["numInputRows"] == query.recentProgress[-1]["numInputRows"]
    view = query.view("hits")
    assert (len(view), view.head(1).height, view.to_arrow().num_rows, view.to_pandas().shape) == (
        2,
        1,
        2,
        (2, 2),
    )
    assert repr(query) == "Query 'traffic', ended, at epoch 1; views: hits"
    assert "stage 0" in query.explain(True)
    assert "== Physical Plan ==" in capsys.readouterr().out


def test_columns_of_spark_in_a_definition_are_named(spark):
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

    log = ec.Engine().source("log", {"ip": pl.String, "n": pl.Int64})
    for define in (
        lambda: log.filter(F.col("n") > 1),
        lambda: log.with_columns(F.lit(1)),
        lambda: log.with_columns(one=F.lit(1)),
        lambda: log.group_by(F.col("ip")),
        lambda: log.group_by("ip").agg(F.sum("n")),
        lambda: log.unique(F.col("n")),
    ):
        with pytest.raises(ec.PlanError, match=r"source 'log': Column<.*> is of Spark; .*pl\.col\("):
            define()
