"""The arguments of a query are checked before anything starts, as Spark's later errors would not name the remedy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import InputError, PlanError, first_line
from evercurrent.core.data.schema import require_characters
from evercurrent.core.state.partitioning import MOST_BUCKETS
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.engine.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIGGERS = (
    "give {'availableNow': True} to process all rows that are there, {'once': True} to do so in one micro-batch, {'processingTime': "
    "'5 seconds'} for a micro-batch at this interval, or leave it out to run one after the other"
)


def require_engine(engine: object) -> None:
    """Check that an engine is given.

    Raises:
        PlanError: it is something else, such as the function that makes it.
    """
    if not isinstance(engine, Engine):
        raise PlanError(
            f"expected an engine with sources and views, got {type(engine).__name__}; make it first"
        )


def require_declarations(engine: Engine) -> None:
    """Check that an engine declares sources and views, and does not maintain them itself.

    Raises:
        PlanError: it is not an engine, has no source or no view, rows were pushed into it, or it has a checkpoint or workers of
            its own.
    """
    require_engine(engine)
    for what, declared in (("source", engine.sources), ("view", engine.views)):
        if not declared:
            raise PlanError(
                f"the engine declares no {what}, so there is nothing to keep current; declare one with "
                f"engine.{what}(...)"
            )
    if engine.is_durable or engine.epoch_number:
        raise PlanError(
            "the engine maintains views itself: it has been pushed into, or has a checkpoint= of its own; give Spark one that "
            "only declares sources and views"
        )
    if engine.workers > 1:
        raise PlanError(
            f"Engine(workers={engine.workers}) is for an engine that maintains views itself; leave it out, and give the query "
            "buckets= in its place"
        )


def as_checkpoint(checkpoint: str | Path | Checkpoint) -> Checkpoint:
    """Return a checkpoint from a path or url; a ``Checkpoint`` is returned as it is.

    Raises:
        PlanError: it is neither.
    """
    return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


def checkpoint_in_spark(checkpoint: str | Path | Checkpoint) -> Checkpoint:
    """Return a checkpoint as ``as_checkpoint``, for a query that writes it.

    Raises:
        PlanError: it is not a checkpoint, or has options that a query in Spark does not support.
    """
    options = as_checkpoint(checkpoint)
    if options.every != 1:
        raise PlanError(
            f"Checkpoint(every={options.every}) is for an engine in one process, and in Spark every micro-batch is committed; "
            "leave it out; for fewer commits give trigger={'processingTime': '1 minute'}"
        )
    if options.resident_bytes is not None:
        raise PlanError(
            f"Checkpoint(resident_bytes={options.resident_bytes}) is for an engine in one process, and in Spark tasks take "
            "states from files, bucket by bucket; leave it out; for smaller states give more buckets="
        )
    return options


def require_sizes(buckets: object, driver_rows: object) -> None:
    """Check the numbers of a query.

    Raises:
        PlanError: one is out of range, which is named.
    """
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 0 < buckets <= MOST_BUCKETS:
        raise PlanError(f"buckets={buckets!r}; give a whole number from 1 to {MOST_BUCKETS}")
    if isinstance(driver_rows, bool) or not isinstance(driver_rows, int) or driver_rows < 0:
        raise PlanError(f"driver_rows={driver_rows!r}; give a whole number from 0")


def require_driver_bytes(driver_bytes: object) -> None:
    """Check the limit in bytes on what runs in the driver.

    Raises:
        PlanError: it is out of range.
    """
    if isinstance(driver_bytes, bool) or not isinstance(driver_bytes, int) or driver_bytes < 0:
        raise PlanError(f"driver_bytes={driver_bytes!r}; give a whole number from 0")


def require_trigger(trigger: object) -> None:
    """Check that a trigger is one of micro-batches; its length of time is checked by Spark in ``require_start``.

    Raises:
        PlanError: it is not; names the triggers that are.
    """
    if trigger is None:
        return
    if not isinstance(trigger, Mapping):
        raise PlanError(f"trigger={trigger!r} is not a dictionary; {TRIGGERS}")
    match list(trigger.items()):
        case [("availableNow" | "once", True)]:
            return
        case [("processingTime", str())]:
            return
    raise PlanError(f"trigger={dict(trigger)!r} is not a trigger of micro-batches; {TRIGGERS}")


def require_name(name: object) -> None:
    """Check that a query can have this name.

    Raises:
        PlanError: it is not a text, or is empty.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise PlanError(f"name={name!r}; give a text that is not empty, or leave it out")
    if name is not None:
        require_characters("the query", name)


def require_on_epoch(on_epoch: object) -> None:
    """Check that a function can be called with (view, delta, epoch).

    Raises:
        PlanError: it cannot; names the reason.
    """
    if on_epoch is None:
        return
    remedy = "give a function of (view, delta, epoch)"
    if not callable(on_epoch):
        raise PlanError(f"on_epoch={on_epoch!r} cannot be called; {remedy}")
    try:
        signature = inspect.signature(on_epoch)
    except ValueError:  # Some functions that are not written in Python have no signature.
        return
    try:
        signature.bind("view", None, 0)
    except TypeError as error:
        raise PlanError(f"on_epoch={on_epoch!r} takes {signature} ({error}); {remedy}") from error


def require_flag(what: str, value: object) -> None:
    """Check that an argument is True or False.

    Raises:
        PlanError: it is not.
    """
    if not isinstance(value, bool):
        raise PlanError(f"{what}={value!r}; give True or False")


def require_timeout(timeout: object) -> None:
    """Check that a timeout is a time that a process can wait.

    Raises:
        InputError: it is not a number of seconds, or more than a process can wait.
    """
    if timeout is None:
        return
    # NaN is not between any two numbers.
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= TIMEOUT_MAX:
        raise InputError(
            f"timeout={timeout!r}; give a number of seconds from 0, or leave it out to wait for the end of the query"
        )


def require_start(rows: DataFrame, trigger: Mapping[str, Any] | None, name: str | None) -> None:
    """Check with Spark, before anything is written, that it accepts such a query; Spark Connect checks less.

    Raises:
        PlanError: it would not; names the reason.
    """
    if trigger is not None:
        try:
            rows.writeStream.trigger(**trigger)
        except Exception as error:
            raise PlanError(f"trigger={dict(trigger)!r}: {first_line(error)}; {TRIGGERS}") from error
    if name is not None and any(query.name == name for query in rows.sparkSession.streams.active):
        raise PlanError(f"name={name!r}: a query of this name is running; stop it, or give another name")
