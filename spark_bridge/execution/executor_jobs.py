"""A job that needs only Python on an executor: its function is sent by value, in an RDD, without Arrow."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import first_line

from ..runtime.session import is_local
from . import executor_facts
from .parallelism import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Gather = Callable[[int, float], dict[str, Any]]

MOST_TASKS = 256
"""Tasks of a round, at most: on a larger cluster several rounds reach all executors."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The facts that tasks have gathered, each with its ``place``, and how many executors are registered."""

    facts: list[dict[str, Any]]
    registered: int


def probed(spark: SparkSession, gather: Gather, round_number: int, pause: float) -> Probed:
    """Return the facts from tasks on all cores, each of which takes at least ``pause`` seconds."""
    count = min(MOST_TASKS, max(2, cores(spark)))
    first = round_number * MOST_TASKS
    with _by_value():
        if not hasattr(spark, "_jsc"):
            return Probed(_in_arrow(spark, gather, first, count, pause), 1)
        context = spark.sparkContext
        places = context.parallelize(range(first, first + count), count)
        with workers_of_queries(spark):
            facts = places.map(lambda place: {**gather(place, pause), "place": place}).collect()
        registered = int(context._jsc.sc().getExecutorMemoryStatus().size())
    # The driver is registered beside the executors.
    return Probed(list(facts), 1 if runs_locally(spark) else max(1, registered - 1))


def runs_locally(spark: SparkSession) -> bool:
    """Return whether the only executor is the driver; where Spark Connect hides the cluster it is taken for one."""
    return hasattr(spark, "_jsc") and is_local(spark.sparkContext.master)


SIMPLIFIED = "SPARK_SIMPLIFIED_TRACEBACK"
"""The variable that workers of DataFrames have beside those of RDDs, by a setting of Spark."""


@contextmanager
def workers_of_queries(spark: SparkSession) -> Iterator[None]:
    """Let tasks of RDDs start in the environment of those of DataFrames, which then take over their workers.

    Spark reuses a worker where all variables are the same; another one takes a second or two to import what it needs.
    """
    context = spark.sparkContext
    setting = spark.conf.get("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled")
    if setting != "true" or SIMPLIFIED in context.environment:
        yield
        return
    # Another one each time: threads that send functions to Spark iterate over the one that they see.
    context.environment = {**context.environment, SIMPLIFIED: "1"}
    try:
        yield
    finally:
        context.environment = {
            name: value for name, value in context.environment.items() if name != SIMPLIFIED
        }


def _in_arrow(
    spark: SparkSession, gather: Gather, first: int, count: int, pause: float
) -> list[dict[str, Any]]:
    """Return the facts by a job of DataFrames, as Spark Connect has no RDDs."""

    def gathered(batches: Iterable[Any]) -> Iterator[Any]:
        import json

        import pyarrow as pa

        for batch in batches:
            facts = [
                json.dumps({**gather(place, pause), "place": place}) for place in batch.column(0).to_pylist()
            ]
            yield pa.RecordBatch.from_pydict({"facts": pa.array(facts, pa.string())})

    rows = spark.range(first, first + count, 1, count).mapInArrow(gathered, "facts string").collect()
    return [json.loads(row[0]) for row in rows]


_ONE_AT_A_TIME = Lock()


class _by_value:  # noqa: N801 (it is used as a function)
    """A context in which functions of these modules are pickled with their code, so that executors do not need this package.

    The modules are registered for the whole process, so one thread at a time is in it.
    """

    def __enter__(self) -> None:
        from pyspark import cloudpickle

        _ONE_AT_A_TIME.acquire()
        register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
        for module in _modules():
            register(module)

    def __exit__(self, *_: object) -> None:
        from pyspark import cloudpickle

        unregister: Callable[[ModuleType], None] = cloudpickle.unregister_pickle_by_value
        try:
            for module in _modules():
                unregister(module)
        finally:
            _ONE_AT_A_TIME.release()


def _modules() -> tuple[ModuleType, ...]:
    return executor_facts, sys.modules[__name__]


KNOWN_FAILURES = (
    (
        r'Cannot run program "([^"]+)"',
        "there is no {0} on them, which is the Python that PYSPARK_PYTHON names",
    ),
    (
        r"worker has different version: (\S+) than that in driver: (\S+),",
        "their Python is {0}, and the driver's is {1}",
    ),
    (r"No module named '?(pyspark|py4j)", "their Python does not find {0}, which the cluster's Spark brings"),
    (r"ModuleNotFoundError: No module named '([^'.]+)", "{0} is not installed in their Python"),
)
"""The texts that Spark reports when a worker does not start, with their meaning."""

RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(\w[^\n]*)")
"""The error at the end of a traceback of Python."""


def failure_of(error: Exception) -> str:
    """Return in a sentence why tasks failed, of an error that may be a page of Java."""
    if isinstance(error, ConnectionError):
        return f"Spark's Java has ended ({error})"
    text = str(error)
    for pattern, meaning in KNOWN_FAILURES:
        if match := re.search(pattern, text, re.DOTALL):
            return meaning.format(*match.groups())
    if match := RAISED.search(text):
        return match[1]
    # The first line of an error of Java names which of its functions was called, and the second what has failed.
    failed = re.match(r"An error occurred while calling [^\n]*\n:?\s*([^\n]+)", text)
    return failed[1] if failed else first_line(error)


def remedy_of(error: Exception, of_another_python: str) -> str:
    """Return what to do about tasks that failed: ``of_another_python`` where workers run an unsuitable one."""
    if any(re.search(pattern, str(error), re.DOTALL) for pattern, _ in KNOWN_FAILURES):
        return of_another_python
    return f"start the query again, in a new session of Spark if this one has ended; where it fails each time, {of_another_python}"
