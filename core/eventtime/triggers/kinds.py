"""The kinds of triggers, which decide when a window emits a pane; which of them finish, and which would lose rows.

An algebra in the sense of the Dataflow Model, section 2.3: leaves that wait for the watermark, for processing
time, for rows or for a signal from outside, composed by any, all, sequence, repeat and until. A trigger that
*finishes* fires once and never again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from ...data.tags import tagged


@tagged("core.eventtime.triggers:Trigger")
class Trigger:
    """The base class of triggers.

    A new kind is a frozen dataclass derived from this class, beside the ``Leaf`` that keeps its state
    (``leaves.state_of``). The functions in this file treat an unknown kind as one that waits for something other than the
    watermark, and then finishes.

    >>> import evercurrent as ec
    >>> trigger: ec.Trigger = ec.after_count(3)
    >>> trigger == ec.after_count(3), trigger == ec.after_count(4)
    (True, False)
    """

    __slots__ = ()

    def waits_for(self, state: Mapping[str, int]) -> str:
        """Return in words what a window waits for, given the state columns of its trigger by the names that its leaf uses."""
        return f"for {self}"


@tagged("core.eventtime.triggers:EveryEpoch")
@dataclass(frozen=True, slots=True)
class EveryEpoch(Trigger):
    """Fires at the end of every epoch that brought rows. Never finishes."""


@tagged("core.eventtime.triggers:AfterWatermark")
@dataclass(frozen=True, slots=True)
class AfterWatermark(Trigger):
    """Fires when the watermark passes the end of the window; with ``early`` also before, with ``late`` also after.

    ``early`` and ``late`` start again whenever they have finished. Without ``late`` it finishes on time.
    """

    early: Trigger | None = None
    late: Trigger | None = None


@tagged("core.eventtime.triggers:AtPeriod")
@dataclass(frozen=True, slots=True)
class AtPeriod(Trigger):
    """Fires when processing time reaches the first multiple of a period after rows came. Finishes.

    Multiples count from ``aligned_to``; both in microseconds.
    """

    period: int
    aligned_to: int = 0


@tagged("core.eventtime.triggers:AfterCount")
@dataclass(frozen=True, slots=True)
class AfterCount(Trigger):
    """Fires after at least this many rows since the last time. Finishes."""

    count: int


@tagged("core.eventtime.triggers:AfterSum")
@dataclass(frozen=True, slots=True)
class AfterSum(Trigger):
    """Fires when a column of the rows since the last time, such as bytes, adds up to a limit. Finishes."""

    input: str
    limit: int


@tagged("core.eventtime.triggers:Punctuation")
@dataclass(frozen=True, slots=True)
class Punctuation(Trigger):
    """Fires when a row comes in which a Boolean column is true. Finishes."""

    input: str


@tagged("core.eventtime.triggers:Pattern")
@dataclass(frozen=True, slots=True)
class Pattern(Trigger):
    """Fires when a row with ``stop`` comes after a row with ``start``, in order of arrival. Finishes."""

    start: str
    stop: str


@tagged("core.eventtime.triggers:AfterPercentile")
@dataclass(frozen=True, slots=True)
class AfterPercentile(Trigger):
    """Fires when a watermark that waits only for this share of the rows passes the end of the window. Finishes."""

    share: float


@tagged("core.eventtime.triggers:Signal")
@dataclass(frozen=True, slots=True)
class Signal(Trigger):
    """Fires on a signal from outside. Finishes."""


@tagged("core.eventtime.triggers:Custom")
@dataclass(frozen=True, slots=True)
class Custom(Trigger):
    """A user's trigger: four hooks over frames with a row per window that has changed.

    The frame has the columns of ``state`` (Int64, 0 at first) and ``rows``, ``end``, ``watermark`` and
    ``processing_time``. ``on_rows``, ``on_fire`` and ``on_merge`` return new state columns, ``should_fire`` a
    Boolean column. With a state column ``wake_at``, the hooks are called again when processing time reaches it.
    """

    name: str
    state: tuple[str, ...]
    on_rows: Callable[[pl.DataFrame], pl.DataFrame]
    should_fire: Callable[[pl.DataFrame], pl.Series]
    on_fire: Callable[[pl.DataFrame], pl.DataFrame]
    on_merge: Callable[[pl.DataFrame], pl.DataFrame] | None = None


@tagged("core.eventtime.triggers:AnyOf")
@dataclass(frozen=True, slots=True)
class AnyOf(Trigger):
    """Fires when one of the parts would; that finishes it."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:AllOf")
@dataclass(frozen=True, slots=True)
class AllOf(Trigger):
    """Fires when each of the parts would fire or would have fired; that finishes it."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:Sequence")
@dataclass(frozen=True, slots=True)
class Sequence(Trigger):
    """Fires as the parts do, one after the other, each until it finishes."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:Repeat")
@dataclass(frozen=True, slots=True)
class Repeat(Trigger):
    """Fires as the part does, which begins again whenever it finishes. Never finishes."""

    part: Trigger


@tagged("core.eventtime.triggers:Until")
@dataclass(frozen=True, slots=True)
class Until(Trigger):
    """Fires as the part does until ``end`` would fire; then ``end`` fires, and both have finished."""

    part: Trigger
    end: Trigger


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the triggers of which this one is directly composed."""
    match trigger:
        case AnyOf(parts) | AllOf(parts) | Sequence(parts):
            return parts
        case Repeat(part):
            return (part,)
        case Until(part, end):
            return (part, end)
        case AfterWatermark(early, late):
            return tuple(part for part in (early, late) if part is not None)
        case _:
            return ()


def every_part(trigger: Trigger) -> Iterator[Trigger]:
    """Yield the trigger and all of which it is composed, each before its parts."""
    yield trigger
    for part in parts_of(trigger):
        yield from every_part(part)


def depends_on_order(trigger: Trigger) -> bool:
    """Whether a part of it goes by the order in which rows come: a pattern, or the lags of a share of the rows."""
    return any(isinstance(part, AfterPercentile | Pattern) for part in every_part(trigger))


def finishes(trigger: Trigger) -> bool:
    """Return whether the trigger may finish, after which it never fires again."""
    match trigger:
        case EveryEpoch() | Repeat():
            return False
        case AfterWatermark(late=late):
            return late is None
        case Sequence(parts):
            return all(finishes(part) for part in parts)
        case AllOf(parts):
            return all(finishes(part) for part in parts)
        case _:
            return True


def finishes_on_time(trigger: Trigger) -> bool:
    """Return whether the trigger finishes when the watermark passes the end of the window, and not before."""
    match trigger:
        case AfterWatermark(late=late):
            return late is None
        case Until(part, end):
            return not finishes(part) and finishes_on_time(end)
        case Sequence(parts):
            return finishes_on_time(parts[-1])
        case AllOf(parts):
            return any(finishes_on_time(part) for part in parts)
        case AnyOf(parts):
            return all(finishes_on_time(part) for part in parts)
        case _:
            return False


def waits_for_watermark_only(trigger: Trigger) -> bool:
    """Return whether it may reach a state in which only the watermark passing the end of the window makes it fire."""
    match trigger:
        case AfterWatermark(early=early):
            return early is None or waits_for_watermark_only(early)
        case AfterPercentile():
            return True
        case Repeat(part):
            return waits_for_watermark_only(part)
        case AllOf(parts) | Sequence(parts):
            return any(waits_for_watermark_only(part) for part in parts)
        case AnyOf(parts):
            return all(waits_for_watermark_only(part) for part in parts)
        case Until(part, end):
            return waits_for_watermark_only(part) and waits_for_watermark_only(end)
        case _:
            return False
