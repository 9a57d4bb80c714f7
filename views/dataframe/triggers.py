"""Triggers, which decide when a pane of a window is emitted; combined by any, all, sequence, repeat and until."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

import polars as pl

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.instants import instant_of
from evercurrent.core.data.schema import listed
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.triggers.custom import Custom
from evercurrent.core.eventtime.triggers.delay import AfterProcessingTime
from evercurrent.core.eventtime.triggers.kinds import (
    AfterCount,
    AfterPercentile,
    AfterSum,
    AfterWatermark,
    AllOf,
    AnyOf,
    AtPeriod,
    EveryEpoch,
    Pattern,
    Punctuation,
    Repeat,
    Sequence,
    Signal,
    Trigger,
    Until,
)

__all__ = [
    "after_bytes",
    "after_count",
    "after_percentile",
    "after_processing_time",
    "after_watermark",
    "all_of",
    "any_of",
    "at_period",
    "custom_trigger",
    "each_row",
    "every",
    "every_epoch",
    "pattern",
    "punctuation",
    "repeat",
    "sequence",
    "signal",
    "until",
]
"""What users call by its name in the package."""

Length = str | timedelta

KNOWN_TO_HOOKS = ("rows", "end", "watermark", "processing_time")
"""The columns that the hooks of a user's trigger get beside its state."""


@tagged("views.triggers:every_epoch")
def every_epoch() -> Trigger:
    """Fire at the end of every epoch that brought rows, as a view without a trigger does.

    >>> in_words(every_epoch())
    'every epoch'
    """
    return EveryEpoch()


@tagged("views.triggers:WithDefaultLate")
class WithDefaultLate(AfterWatermark):
    """``after_watermark`` without a word about late rows. In a plan it is an ``AfterWatermark`` with or without a late part."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return it as what it is without late rows."""
        return repr(AfterWatermark(self.early))


def with_late_part(trigger: Trigger, lateness: int | None) -> Trigger:
    """Return the trigger of a window with its default late part: where late rows are accepted, they fire at every epoch."""
    if not isinstance(trigger, WithDefaultLate):
        return trigger
    return AfterWatermark(trigger.early, None if lateness == 0 else EveryEpoch())


@tagged("views.triggers:after_watermark")
def after_watermark(
    early: Trigger | None = None, late: Trigger | Literal["default"] | None = "default"
) -> Trigger:
    """Fire once when the watermark passes the end of the window; ``early`` before that, ``late`` after it.

    ``early`` and ``late`` begin again when they have finished. By default, panes with late rows are emitted at every epoch
    that brings any. With ``late=None``, and inside of another trigger by default too, the trigger finishes with the on-time
    pane, so it needs an allowed lateness of zero, or has to be inside ``repeat``. (Dataflow Model, section 2.3.)

    >>> after_watermark(early=every("1m"), late=each_row())  # doctest: +ELLIPSIS
    AfterWatermark(early=Repeat(...), late=Repeat(...))
    """
    before = None if early is None else _trigger("after_watermark: early=", early)
    if late == "default":
        return WithDefaultLate(before)
    return AfterWatermark(before, None if late is None else _trigger("after_watermark: late=", late))


@tagged("views.triggers:at_period")
def at_period(period: Length, *, aligned_to: datetime | None = None) -> Trigger:
    """Fire once, when processing time reaches the first multiple of a period after rows came.

    Multiples count from 1970-01-01 UTC, or from ``aligned_to``.

    Raises:
        PlanError: the period is not above zero.

    >>> in_words(at_period("1 hour"))
    'at_period 1h'
    """
    return _multiples("at_period", period, aligned_to)


def _multiples(where: str, period: Length, aligned_to: datetime | None) -> AtPeriod:
    """Return the trigger at multiples of a period; ``where`` is the function that was called."""
    length = microseconds(f"{where}: the period", period, zero=False)
    start = 0
    if aligned_to is not None:
        if not isinstance(aligned_to, datetime) or aligned_to.tzinfo is None:
            raise PlanError(f"{where}: aligned_to={aligned_to!r} must be a time with its zone")
        start = instant_of(f"{where}: aligned_to", aligned_to, pl.Datetime("us", "UTC"))
    return AtPeriod(length, start % length)


@tagged("views.triggers:every")
def every(period: Length, *, aligned_to: datetime | None = None) -> Trigger:
    """Fire at every multiple of a period of processing time, if rows came since the last one.

    >>> in_words(every("90s"))
    'every 1m30s'
    """
    return Repeat(_multiples("every", period, aligned_to))


@tagged("views.triggers:after_processing_time")
def after_processing_time(delay: Length) -> Trigger:
    """Fire once, when this length of processing time has passed since the first row that no pane has yet.

    With ``repeat`` each pane waits so long from its own first row on; ``every`` fires at multiples of a period instead.

    Raises:
        PlanError: the delay is not above zero.

    >>> in_words(repeat(after_processing_time("10 seconds")))
    'repeat(after_processing_time 10s)'
    """
    return AfterProcessingTime(microseconds("after_processing_time: the delay", delay, zero=False))


@tagged("views.triggers:after_count")
def after_count(rows: int) -> Trigger:
    """Fire once, when at least this many rows came since it last fired. Rows of one epoch count together.

    A row that is retracted counts as one that came: the pane changes by it, too.

    Raises:
        PlanError: the number is below 1.

    >>> in_words(after_count(100))
    'after_count(100)'
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise PlanError(f"after_count: the number of rows is {rows!r}; give a whole number from 1")
    return AfterCount(rows)


@tagged("views.triggers:each_row")
def each_row() -> Trigger:
    """Fire whenever rows came: ``repeat(after_count(1))``.

    >>> in_words(each_row())
    'each row'
    """
    return Repeat(AfterCount(1))


@tagged("views.triggers:after_bytes")
def after_bytes(limit: int, column: str) -> Trigger:
    """Fire once, when the bytes since it last fired reach a limit: the sum of an integer column, or the length of texts.

    Raises:
        PlanError: the limit is below 1.

    >>> in_words(after_bytes(1_000_000, "body"))
    'after_bytes(1000000, body)'
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise PlanError(f"after_bytes: the limit is {limit!r}; give a whole number from 1")
    return AfterSum(_column("after_bytes", column), limit)


@tagged("views.triggers:punctuation")
def punctuation(column: str) -> Trigger:
    """Fire once, when a row comes in which a Boolean column is true: a flush, the end of a file.

    >>> in_words(punctuation("is_last"))
    'punctuation(is_last)'
    """
    return Punctuation(_column("punctuation", column))


@tagged("views.triggers:pattern")
def pattern(start: str, stop: str) -> Trigger:
    """Fire once, when a row with ``stop`` true comes after a row with ``start`` true, in order of arrival.

    >>> in_words(pattern("begins", "ends"))
    'pattern(begins, ends)'
    """
    return Pattern(_column("pattern", start), _column("pattern", stop))


@tagged("views.triggers:after_percentile")
def after_percentile(share: float) -> Trigger:
    """Fire once, when this share of a window's rows can be expected to have come; the others come late.

    It waits for a watermark of its own: the highest event time less the lag that this share of the recent rows
    did not exceed, and never behind the watermark of the source. (Dataflow Model, section 3.3.)

    Raises:
        PlanError: the share is not between 0 and 1.

    >>> in_words(after_percentile(0.9))
    'after_percentile(0.9)'
    """
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise PlanError(
            f"after_percentile: the share is {share!r}; give a number above 0 and up to 1, as in 0.9"
        )
    return AfterPercentile(float(share))


@tagged("views.triggers:signal")
def signal() -> Trigger:
    """Fire once, when ``view.fire(...)`` is called.

    >>> in_words(any_of(each_row(), signal()))
    'any_of(each row, signal())'
    """
    return Signal()


@tagged("views.triggers:custom_trigger")
def custom_trigger(
    *,
    state: Iterable[str],
    on_rows: Callable[[pl.DataFrame], pl.DataFrame],
    should_fire: Callable[[pl.DataFrame], pl.Series],
    on_fire: Callable[[pl.DataFrame], pl.DataFrame],
    on_merge: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
    name: str = "custom",
) -> Trigger:
    """Return a trigger of your own: four hooks over frames with a row for each window that changed.

    Frames have the columns of ``state`` (Int64, 0 for a new window), ``rows`` (how many were added or retracted in
    this epoch), ``end``, ``watermark`` and ``processing_time`` (Int64, microseconds since 1970 UTC). The hooks must be
    deterministic.

    Args:
        state: names of the columns that are kept for every window. With a column ``wake_at``, the hooks are called
            for the window again when processing time reaches it; 0 stands for never.
        on_rows: called when rows came; returns the frame with new state.
        should_fire: returns a Boolean column: whether the trigger fires.
        on_fire: called after it has fired; returns the frame with new state. The trigger then finishes: put it into
            ``repeat`` to have it fire again.
        on_merge: called when sessions have merged, with the sum of their states; returns the frame with new state.
        name: the name in messages.

    >>> def add(windows: pl.DataFrame) -> pl.DataFrame:
    ...     return windows.with_columns(seen=pl.col("seen") + pl.col("rows"))
    >>> in_words(
    ...     custom_trigger(
    ...         state=["seen"],
    ...         on_rows=add,
    ...         should_fire=lambda windows: windows["seen"] >= 3,
    ...         on_fire=lambda windows: windows.with_columns(seen=pl.lit(0)),
    ...         name="three rows",
    ...     )
    ... )
    'custom_trigger three rows'
    """
    names = [state] if isinstance(state, str) else list(state)
    if isinstance(state, str) or not all(isinstance(name, str) for name in names):
        raise PlanError(f"custom_trigger: state={state!r}; give the names of columns in a list")
    if reserved := [name for name in names if name in KNOWN_TO_HOOKS]:
        raise PlanError(
            f"custom_trigger: state {listed(reserved)} is given to the hooks anyway; choose another name"
        )
    hooks = {"on_rows": on_rows, "should_fire": should_fire, "on_fire": on_fire, "on_merge": on_merge}
    for hook, function in hooks.items():
        if not callable(function) and not (hook == "on_merge" and function is None):
            raise PlanError(
                f"custom_trigger: {hook}={function!r} cannot be called; give a function of one frame"
            )
    return Custom(name, tuple(names), on_rows, should_fire, on_fire, on_merge)


@tagged("views.triggers:any_of")
def any_of(*parts: Trigger) -> Trigger:
    """Fire once, as soon as one of the parts would fire.

    >>> in_words(any_of(after_count(100), at_period("1m")))
    'any_of(after_count(100), at_period 1m)'
    """
    return AnyOf(_parts("any_of", parts))


@tagged("views.triggers:all_of")
def all_of(*parts: Trigger) -> Trigger:
    """Fire once, as soon as each of the parts would fire or would have fired before.

    >>> in_words(all_of(after_count(100), at_period("1m")))
    'all_of(after_count(100), at_period 1m)'
    """
    return AllOf(_parts("all_of", parts))


@tagged("views.triggers:sequence")
def sequence(*parts: Trigger) -> Trigger:
    """Fire as the parts do, one after the other, each until it finishes.

    Raises:
        PlanError: a part that is not the last never finishes.

    >>> in_words(sequence(after_count(1), every("1m")))
    'sequence(after_count(1), every 1m)'
    """
    triggers = _parts("sequence", parts)
    for number, part in enumerate(triggers[:-1]):
        if not part.finishes:
            raise PlanError(
                f"sequence: part {number + 1}, {part}, never finishes, so that the parts after it never begin; "
                "end it with until(...), or leave out repeat(...)"
            )
    return Sequence(triggers)


@tagged("views.triggers:repeat")
def repeat(part: Trigger) -> Trigger:
    """Fire as the part does, and begin it again whenever it finishes.

    >>> in_words(repeat(after_count(100)))
    'repeat(after_count(100))'
    """
    return Repeat(_trigger("repeat", part))


@tagged("views.triggers:until")
def until(part: Trigger, end: Trigger) -> Trigger:
    """Fire as the part does, until ``end`` fires once and finishes both.

    >>> in_words(until(every("1m"), signal()))
    'until(every 1m, signal())'
    """
    return Until(_trigger("until", part), _trigger("until", end))


def in_words(trigger: Trigger) -> str:
    """Return a trigger as it is written, for plans.

    >>> in_words(after_watermark(early=every("1m"), late=each_row()))
    'after_watermark(early=every 1m, late=each row)'
    """
    return str(trigger)


def _column(where: str, column: Any) -> str:
    if not isinstance(column, str):
        raise PlanError(
            f"{where}: {column!r} is not the name of a column; compute the column first with .with_columns(...)"
        )
    return column


def _parts(where: str, parts: tuple[Any, ...]) -> tuple[Trigger, ...]:
    if not parts:
        raise PlanError(f"{where}: there is no part; give at least one trigger")
    return tuple(_trigger(where, part) for part in parts)


def _trigger(where: str, part: Any) -> Trigger:
    if not isinstance(part, Trigger):
        raise PlanError(
            f"{where}: {part!r} is not a trigger; there are every, after_watermark, after_count and others"
        )
    return AfterWatermark(part.early) if isinstance(part, WithDefaultLate) else part
