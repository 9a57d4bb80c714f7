"""The watermarks that a source can have.

A watermark W states that no more rows with an event time below W are expected. It never moves back. A wrong one changes
when panes are emitted, and never the final results within the allowed lateness.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.by_partition import ByPartition
from evercurrent.core.eventtime.watermarks.custom import Custom, WatermarkFunction
from evercurrent.core.eventtime.watermarks.kinds import (
    BehindProcessingTime,
    BoundedDelay,
    ByHand,
    IngressTime,
    Perfect,
    Punctuated,
    Watermark,
)
from evercurrent.core.eventtime.watermarks.percentile import Percentile

Duration = str | timedelta
"""A length of time: text as polars spells it ("10m", "1h30m"), or a ``timedelta``."""

CONSTRUCTORS = (
    "ascending(), bounded_delay('10m'), perfect(), behind_processing_time('10s'), ingress_time(), "
    "by_partition('column', ...), percentile_watermark(0.9), punctuated('column') and custom_watermark(function)"
)

BY_HAND = ByHand()
"""The watermark of a source that declares none: moved by ``push(..., watermark=...)`` and ``advance`` only."""


@tagged("views.watermarks:ascending")
def ascending(*, future_limit: Duration | None = None) -> Watermark:
    """Return the watermark of rows that come in order: the highest event time so far. A row behind it is late.

        W = highest event time

    A row that is retracted, or replaced by another of its key, in the epoch in which it comes does not count. One that is
    retracted later has counted, as a watermark never moves back.

    Args:
        future_limit: rows dated more than this after the processing time of their batch do not move the watermark, as
            one wrong clock would make all other rows late. Such rows are kept, and counted.

    >>> ascending() == bounded_delay("0s")
    True
    """
    return BoundedDelay(0, future_limit=_limit("ascending", future_limit))


@tagged("views.watermarks:bounded_delay")
def bounded_delay(delay: Duration, *, future_limit: Duration | None = None) -> Watermark:
    """Return the watermark of rows that come at most ``delay`` out of order.

        W = highest event time - delay

    Args:
        delay: how far the watermark stays behind the highest event time.
        future_limit: see ``ascending``.

    Raises:
        PlanError: the delay is not a length of time, or negative.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=bounded_delay("10m"))
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"at": ["2026-01-01 12:00", "2026-01-01 11:55"]})
    >>> print(engine.watermarks["hits"])
    2026-01-01 11:50:00+00:00
    """
    return BoundedDelay(
        microseconds("bounded_delay()", delay), future_limit=_limit("bounded_delay", future_limit)
    )


@tagged("views.watermarks:perfect")
def perfect(*, future_limit: Duration | None = None) -> Watermark:
    """Return ``ascending`` as a guarantee: a batch with a row behind the watermark is refused as a whole.

    Retractions may be behind it. Rows are compared with the watermark before their batch, so within a batch they may
    come in any order.

    Args:
        future_limit: see ``ascending``.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=perfect())
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"at": ["2026-01-01 12:00"]})
    >>> print(engine.watermarks["hits"])
    2026-01-01 12:00:00+00:00
    """
    return Perfect(future_limit=_limit("perfect", future_limit))


@tagged("views.watermarks:behind_processing_time")
def behind_processing_time(delay: Duration) -> Watermark:
    """Return a watermark that follows processing time, whatever the event times of rows; it moves in every epoch.

        W = processing time of the epoch - delay

    Raises:
        PlanError: the delay is not a length of time, or negative.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=behind_processing_time("1h"))
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"at": ["2026-01-01 12:00"]}, at="2026-01-01T14:00:00Z")
    >>> print(engine.watermarks["hits"])
    2026-01-01 13:00:00+00:00
    """
    return BehindProcessingTime(microseconds("behind_processing_time()", delay))


@tagged("views.watermarks:ingress_time")
def ingress_time() -> Watermark:
    """Return the watermark of rows dated by their arrival: event time is the processing time of the batch.

        W = processing time of the epoch, and no row is ever late

    Pushed rows need not have the column. The source must be of kind "append".

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"path": pl.String, "at": pl.Datetime("us")}, event_time="at", watermark=ingress_time())
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"path": ["/"]}, at="2026-01-01T14:00:00Z")
    >>> print(engine.watermarks["hits"])
    2026-01-01 14:00:00+00:00
    """
    return IngressTime()


@tagged("views.watermarks:by_partition")
def by_partition(
    column: str,
    inner: Watermark | None = None,
    *,
    idle_after: Duration | None = "5m",
    at_least: int = 1,
    limit: int = 10_000,
    future_limit: Duration | None = None,
) -> Watermark:
    """Return a watermark kept for each value of a column, of which the least is that of the source.

        W = least watermark of the partitions that are not idle

    A partition is idle when no row of it came for ``idle_after`` of processing time. It counts again from its next row
    on, and its rows that are then behind W are late. While all are idle, those that had rows last hold W back.

    Args:
        column: the column that names the partition; null is a partition too.
        inner: the watermark of each: ``bounded_delay(...)``, ``ascending()`` (by default) or ``punctuated(...)``.
        idle_after: None: a partition is never idle, and one that stops holds W back for ever.
        at_least: W stays where it is until rows of this many partitions have come. Otherwise W follows the partitions of
            the first batch, and the first rows of other partitions may be late.
        limit: with more partitions that are not idle, the batch is refused. Cost of an epoch: its rows and all
            partitions.
        future_limit: see ``ascending``. Such rows neither add a partition nor end its idleness.

    Raises:
        PlanError: the inner watermark is of another kind, or an idle time or number is not above 0.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"p": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=by_partition("p"))
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"p": [1, 2], "at": ["2026-01-01 12:00", "2026-01-01 11:55"]})
    >>> print(engine.watermarks["hits"])
    2026-01-01 11:55:00+00:00
    """
    where = "by_partition()"
    if not isinstance(column, str):
        raise PlanError(f"{where}: column= is {column!r}; give the name of a column")
    within = ascending() if inner is None else inner
    if not (isinstance(within, Watermark) and within.has_marks):
        raise PlanError(
            f"{where}: inner= is {inner!r}; each partition can have bounded_delay(...), ascending() or punctuated(...), "
            "as these follow from the highest event time of its rows"
        )
    if within.future_limit is not None:
        raise PlanError(f"{where}: give future_limit= to by_partition(), not to the inner watermark")
    return ByPartition(
        column,
        within,
        None if idle_after is None else microseconds(f"{where}: idle_after", idle_after, zero=False),
        _count(f"{where}: at_least", at_least),
        _count(f"{where}: limit", limit),
        future_limit=_limit("by_partition", future_limit),
    )


@tagged("views.watermarks:percentile_watermark")
def percentile_watermark(
    share: float, *, window: int = 1000, at_least: int = 1, future_limit: Duration | None = None
) -> Watermark:
    """Return a watermark with the least delay at which a share of the last rows is on time; stragglers are late.

        lag of a row = highest event time up to and with this row - its own event time
        W = highest event time - the least lag that ``share`` of the last ``window`` rows did not exceed

    For abuse detection and the like, where an early result for 90 % of the rows is better than a later one for all
    (Dataflow Model, section 2.3). Rows count in the order of their batch. The estimate is made once per epoch and W never
    moves back, so that with small batches W is further ahead.

    Args:
        share: above 0, at most 1; with 1.0 no row of the last ``window`` would have been late.
        window: the number of last rows that the estimate is made from.
        at_least: W stays where it is until this many rows have come, as an estimate from a few is poor.
        future_limit: see ``ascending``.

    Raises:
        PlanError: the share or a number is out of range.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=percentile_watermark(0.5))
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"at": ["2026-01-01 12:00", "2026-01-01 11:00"]})
    >>> print(engine.watermarks["hits"])
    2026-01-01 12:00:00+00:00
    """
    where = "percentile_watermark()"
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise PlanError(
            f"{where}: {share!r} is not a share of rows; give more than 0 and at most 1, as in 0.9"
        )
    window, at_least = _count(f"{where}: window", window), _count(f"{where}: at_least", at_least)
    if at_least > window:
        raise PlanError(
            f"{where}: at_least={at_least} is more than the {window} rows of the window; raise window="
        )
    return Percentile(
        float(share), window, at_least, future_limit=_limit("percentile_watermark", future_limit)
    )


@tagged("views.watermarks:punctuated")
def punctuated(column: str, *, future_limit: Duration | None = None) -> Watermark:
    """Return a watermark that follows marked rows: after one, no earlier event time comes any more.

        W = highest event time of the rows in which the column is true

    Args:
        column: a Boolean column of the source; null is false.
        future_limit: see ``ascending``.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"at": pl.Datetime("us"), "is_last": pl.Boolean}, event_time="at", watermark=punctuated("is_last"))
    >>> _ = engine.view("all", hits)
    >>> _ = hits.push({"at": ["2026-01-01 12:00"], "is_last": [True]})
    >>> print(engine.watermarks["hits"])
    2026-01-01 12:00:00+00:00
    """
    if not isinstance(column, str):
        raise PlanError(f"punctuated(): column= is {column!r}; give the name of a Boolean column")
    return Punctuated(column, future_limit=_limit("punctuated", future_limit))


@tagged("views.watermarks:custom_watermark")
def custom_watermark(
    function: WatermarkFunction, *, state: Any = None, future_limit: Duration | None = None
) -> Watermark:
    """Return a watermark that a function of yours computes.

        function(state, rows, processing_time) -> (new state, watermark)

    It is called once in every epoch, with or without rows. ``rows`` are the rows added, without retractions and
    without those beyond ``future_limit``; the watermark is a datetime, ``END_OF_TIME``, or None if it stays. It must
    not move back, and the function must depend on its arguments alone, not on a clock or random numbers, as a replay
    calls it again.

    Args:
        function: the function. Two such watermarks are never equal.
        state: the state of the first call. The state is copied before each call, so keep it small.
        future_limit: see ``ascending``.

    Raises:
        PlanError: it is not a function. At push ``InputError``, if the function raises or moves the watermark back.

    >>> from datetime import datetime, timedelta
    >>> def hour_behind(state: None, rows: pl.DataFrame, processing_time: datetime) -> tuple[None, datetime | None]:
    ...     last = rows["at"].max()
    ...     return state, last - timedelta(hours=1) if isinstance(last, datetime) else None
    >>> watermark = custom_watermark(hour_behind)  # for engine.source(..., watermark=watermark)
    """
    if not callable(function):
        raise PlanError(
            f"custom_watermark(): {function!r} is not a function; give one of (state, rows, processing time)"
        )
    return Custom(function, state, future_limit=_limit("custom_watermark", future_limit))


def declared_watermark(
    where: str, watermark: Any, schema: pl.Schema, event_time: str | None, *, appends: bool
) -> Watermark | None:
    """Return the watermark that a source is declared with; None for a source without event time.

    Raises:
        PlanError: it is not a watermark, it needs a column of event time, or the columns do not fit it.
    """
    if watermark is None:
        return None if event_time is None else BY_HAND
    if not isinstance(watermark, Watermark):
        hint = ""
        if isinstance(watermark, str | timedelta):
            hint = f"; for a delay: bounded_delay({watermark!r})"
        raise PlanError(
            f"{where}: watermark={watermark!r} is not a watermark; there are {CONSTRUCTORS}{hint}"
        )
    if event_time is None:
        raise PlanError(
            f"{where}: a watermark states how far event time is complete, and the source has no event time; "
            "name its column with event_time="
        )
    watermark.require(where, schema, appends=appends)
    return watermark


def _limit(name: str, limit: Duration | None) -> int | None:
    return None if limit is None else microseconds(f"{name}(): future_limit", limit)


def _count(where: str, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PlanError(f"{where}={count!r}; give a whole number above 0")
    if count >= 2**63:
        raise PlanError(f"{where}={count!r}; give a whole number below 2 ** 63")
    return count
