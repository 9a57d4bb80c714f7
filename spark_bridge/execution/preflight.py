"""Checks before a query starts: the plan can be pickled, and every executor can run it."""

from __future__ import annotations

import functools
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from evercurrent.core.data.errors import CheckpointError, EvercurrentError, PlanError, first_line
from evercurrent.views.store import Store, store_at
from evercurrent.views.store.repeated_puts import put_own

from . import executor_facts
from .executor_facts import PROBES, gathered, version_of
from .executor_faults import SHIP, UNSET, sentence_of
from .executor_jobs import failure_of, probed, remedy_of, runs_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEEPEST = 12
"""The depth to which an object is searched for a part that cannot be pickled."""

ROUNDS = 8
"""Jobs until every executor has run a task; one that is busy with other work is not waited for longer."""


class PreflightError(EvercurrentError):
    """Executors cannot run a query: lists each fault with the hosts that have it, and the remedy.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.session(master="spark://host:7077")  # doctest: +SKIP
    >>> try:  # doctest: +SKIP
    ...     query = spark_bridge.run(engine, {"hits": spark.readStream.table("hits")}, checkpoint="/shared/hits")
    ... except spark_bridge.PreflightError as error:
    ...     print(error)
    """


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a query on executors: the store that they share, and memory for the states of a bucket, in bytes."""

    url: str
    bucket_bytes: int = 0


def check_executors(spark: SparkSession, needs: Needs) -> None:
    """Check on every executor its Python, its libraries, its clock and memory, and that it shares the store with the driver.

    Cost: a job of some 0.1 s; on a cluster some seconds, in which the executors start their first workers.

    Raises:
        PreflightError: an executor cannot run the query; names each fault, the hosts, and the remedy.
        CheckpointError: they do not share the store.
    """
    store, token = store_at(needs.url), uuid4().hex
    remedy = UNSET if runs_locally(spark) else SHIP
    put_own(store, f"{PROBES}/{token}", [token.encode()])
    try:
        try:
            executors = _all_executors(spark, needs.url, token)
        except Exception as error:
            raise PreflightError(
                f"executors cannot run this query: {failure_of(error)}: {remedy_of(error, remedy)}"
            ) from error
        if faults := sentence_of(own_facts(), executors, needs.bucket_bytes, remedy):
            raise PreflightError(faults)
        _require_shared(store, token, executors)
    finally:
        store.delete_all([file.name for file in store.list(f"{PROBES}/{token}")])


def own_facts() -> dict[str, Any]:
    """Return the facts of the driver that executors have to share."""
    names = ("evercurrent", *executor_facts.LIBRARIES)
    return {
        "python_version": "{}.{}.{}".format(*sys.version_info[:3]),
        "libraries": {name: version_of(name) for name in names},
    }


def _all_executors(spark: SparkSession, url: str, token: str) -> list[dict[str, Any]]:
    """Return the facts of every executor that is registered, gathered in rounds of tasks until each has run one."""
    by_executor: dict[str, dict[str, Any]] = {}
    for number in range(ROUNDS):
        begun = time.time()
        # The first round does not wait: it mostly finds all.
        probe = probed(
            spark, functools.partial(gathered, url, token), number, pause=0.0 if number == 0 else 0.3
        )
        ended = time.time()
        for facts in probe.facts:
            clock = facts["clock"]
            ahead = max(0.0, clock - ended) - max(0.0, begun - clock)
            by_executor.setdefault(facts["executor"], {**facts, "ahead": ahead})
        if len(by_executor) >= probe.registered:
            break
    return list(by_executor.values())


def _require_shared(store: Store, token: str, executors: Sequence[Mapping[str, Any]]) -> None:
    written = [file.name for file in store.list(f"{PROBES}/{token}-")]
    for facts in executors:
        problem = facts["store"]
        if not problem and not any(
            name.startswith(f"{PROBES}/{token}-{facts['place']}-") for name in written
        ):
            problem = "the file that it wrote is not here"
        if problem:
            raise CheckpointError(
                f"executors do not share the checkpoint {store.url} with the driver: on {facts['host']}, {problem}; use a "
                "store that every machine reaches under this name, such as a network file system or s3://..."
            )


def check_picklable(thing: Any, what: str) -> bytes:
    """Return the pickle of an object that Spark would send to its workers.

    Raises:
        PlanError: it cannot be pickled; names the part that cannot, and the remedy.
    """
    try:
        return _sent(thing)
    except Exception as error:
        path, culprit, reason = _culprit(what, thing, error)
        raise PlanError(
            f"{what} cannot be sent to Spark's workers: {path} is a {type(culprit).__module__}."
            f"{type(culprit).__qualname__}, {reason}; make it inside the function, or give plain data in its place"
        ) from error


def _sent(thing: Any) -> bytes:
    from pyspark import cloudpickle

    dumps: Callable[..., bytes] = cloudpickle.dumps
    return dumps(thing, pickle.HIGHEST_PROTOCOL)


def _culprit(path: str, thing: Any, error: Exception, depth: int = 0) -> tuple[str, Any, str]:
    """Return the deepest part that cannot be pickled, how it is reached, and why."""
    for name, part in _parts(thing) if depth < DEEPEST else ():
        try:
            _sent(part)
        except Exception as deeper:
            return _culprit(f"{path}{name}", part, deeper, depth + 1)
    return path, thing, first_line(error)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object, each with the path to it."""
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"[{place}]", value) for place, value in enumerate(thing))
    elif isinstance(thing, functools.partial):
        yield from ((f".{name}", getattr(thing, name)) for name in ("func", "args", "keywords"))
    elif hasattr(thing, "__self__") and hasattr(thing, "__func__"):
        yield ".__self__", thing.__self__
    elif code := getattr(thing, "__code__", None):
        cells = zip(code.co_freevars, thing.__closure__ or (), strict=True)
        yield from ((f": its variable {name!r}", cell.cell_contents) for name, cell in cells)
        global_names = thing.__globals__
        yield from (
            (f": the global {name!r}", global_names[name]) for name in code.co_names if name in global_names
        )
        yield from ((f": default {place}", value) for place, value in enumerate(thing.__defaults__ or ()))
    else:
        yield from ((f".{name}", value) for name, value in getattr(thing, "__dict__", {}).items())
        slots = getattr(type(thing), "__slots__", ())
        yield from ((f".{name}", getattr(thing, name)) for name in slots if hasattr(thing, name))
