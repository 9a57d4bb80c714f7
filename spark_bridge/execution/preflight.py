"""Checks before a query starts: executors and driver share a store, and the plan can be pickled."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from evercurrent.core.data.errors import CheckpointError, PlanError, first_line
from evercurrent.views.store import store_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROBES = "probes"
"""Folder of the store in which driver and executors leave each other a file, for seconds."""

DEEPEST = 12
"""The depth to which an object is searched for the part that cannot be pickled."""


def check_shared(spark: SparkSession, url: str, *, tasks: int = 4) -> None:
    """Check that executors see the files of the driver in the store, and the driver theirs: a Spark job of some 0.1 s.

    Raises:
        CheckpointError: they do not; names the store, the host and the remedy.
    """
    store = store_at(url)
    token = uuid4().hex
    folder = f"{PROBES}/{token}"
    store.put(folder, [token.encode()])
    try:
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(
            functools.partial(_answered, url, token), "place bigint, host string, problem string"
        )
        for place, host, problem in sorted(map(tuple, answers.collect())):
            if not problem and not store.list(f"{PROBES}/{token}-{place}-"):
                problem = "the file that it wrote is not here"
            if problem:
                raise CheckpointError(
                    f"executors do not share the checkpoint {store.url} with the driver: on {host}, {problem}; use a "
                    "store that every machine reaches under this name, such as a network file system or s3://..."
                )
    finally:
        store.delete_all([file.name for file in store.list(folder)])


def _answered(url: str, token: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check in a task for the driver's file, and leave one of the task's own."""
    import socket

    for batch in batches:
        places = batch.column(0).to_pylist()
        problems = [_problem(url, token, place) for place in places]
        hosts = [socket.gethostname()] * len(places)
        yield pa.RecordBatch.from_pydict(
            {"place": places, "host": hosts, "problem": problems},
            pa.schema([("place", pa.int64()), ("host", pa.string()), ("problem", pa.string())]),
        )


def _problem(url: str, token: str, place: int) -> str:
    try:
        store = store_at(url)
        if bytes(store.read(f"{PROBES}/{token}")) != token.encode():
            return "the driver's file has other bytes"
        # A task may run twice: each attempt has a name of its own.
        store.put(f"{PROBES}/{token}-{place}-{uuid4().hex}", [b"seen"])
    except CheckpointError as error:
        return first_line(error)
    return ""


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
