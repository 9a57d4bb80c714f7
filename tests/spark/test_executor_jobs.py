"""Jobs on executors change nothing that other threads of a program use of its session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evercurrent.spark_bridge.execution.executor_jobs import SIMPLIFIED, workers_of_queries


def test_a_thread_that_iterates_over_the_environment_goes_on() -> None:
    """As PySpark does where a function is sent to Spark."""
    context = SimpleNamespace(environment={"A": "1", "B": "2"})
    spark: Any = SimpleNamespace(
        sparkContext=context, conf={"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true"}
    )
    names = iter(context.environment)
    assert next(names) == "A"
    with workers_of_queries(spark):
        assert context.environment == {"A": "1", "B": "2", SIMPLIFIED: "1"}
        within = iter(context.environment)
        assert next(within) == "A"
        assert next(names) == "B"
        context.environment["C"] = "3"
        within = iter(context.environment)
        assert next(within) == "A"
    assert next(within) == "B"
    assert context.environment == {"A": "1", "B": "2", "C": "3"}
