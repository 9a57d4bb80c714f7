"""The measures of a query's epochs, for Spark's listeners too, and where micro-batches run in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from evercurrent.core.data.errors import InputError
from evercurrent.views.checkpoint import Commit
from evercurrent.views.partitioned.progress import PROGRESS, EpochProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress


class Measured(Protocol):
    """A query of this process."""

    def recent_progress(self) -> list[EpochProgress]:
        """Return the measures of the last epochs."""
        ...

    def end_deliveries(self) -> None:
        """End the deliveries to sinks."""
        ...


_queries: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The queries that were started in this process, by their id in Spark."""


def remember(query_id: str, query: Measured) -> None:
    """Note a query that was started; one that is started again takes the place of the one before.

    The sinks of that one would go on with the epochs of this one, beside its own.
    """
    earlier = _queries.get(query_id)
    if earlier is not None:
        earlier.end_deliveries()
    _queries[query_id] = query


def in_record(commit: Commit) -> EpochProgress | None:
    """Return the measures in the record of a commit; None if there are none, as of an epoch of no query."""
    record = commit.facts.get(PROGRESS)
    if record is None or record["epoch"] != commit.epoch:
        return None
    return EpochProgress.of_record(record)


def progress_of(event: QueryProgressEvent | StreamingQueryProgress) -> EpochProgress | None:
    """Return the measures of the epoch that an event of Spark's ``StreamingQueryListener`` reports.

    Those of the same micro-batch, and not of an earlier one: an event comes after the commit of its epoch. None if the query was
    not started by ``run`` in this process, or its last hundred epochs are later ones. They are not among the event's
    ``observedMetrics``: these are computed from the rows of the last job in a micro-batch, which need not read all of them, and
    nothing that is known only after the jobs can be added to them.

    >>> from evercurrent import spark_bridge
    >>> from pyspark.sql.streaming.listener import (
    ...     QueryIdleEvent, QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent, StreamingQueryListener
    ... )
    >>> class Metrics(StreamingQueryListener):
    ...     def onQueryStarted(self, event: QueryStartedEvent) -> None: ...
    ...     def onQueryIdle(self, event: QueryIdleEvent) -> None: ...
    ...     def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...
    ...     def onQueryProgress(self, event: QueryProgressEvent) -> None:
    ...         progress = spark_bridge.progress_of(event)
    ...         if progress is not None:
    ...             print(progress.epoch, progress.rows, progress.refused, progress.state_bytes)
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> spark.streams.addListener(Metrics())  # doctest: +SKIP

    Raises:
        InputError: it is no such event, or is of another kind.
    """
    reported: Any = getattr(event, "progress", event)
    if not hasattr(reported, "batchId") or not hasattr(reported, "id"):
        raise InputError(
            f"{type(event).__name__} reports no micro-batch; give the event of onQueryProgress, or its progress"
        )
    query = _queries.get(str(reported.id))
    if query is None:
        return None
    return next((one for one in reversed(query.recent_progress()) if one.batch == reported.batchId), None)
