"""Triggers: when a window emits a pane. What they are, which of them end, and which of them would lose rows.

An algebra in the sense of the Dataflow Model, section 2.3: leaves that wait for the watermark, for processing
time, for rows or for a word from outside, composed by any, all, sequence, repeat and until. A trigger that
*finishes* fires once and never again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from ...data.tags import tagged


@tagged("core.eventtime.triggers:Trigger")
class Trigger:
    """What all triggers are.

    A new one is a frozen dataclass under this class, beside the ``Leaf`` that keeps its state (``leaves.state_of``).
    What is known of triggers here holds of one that waits for something other than the watermark, and then finishes.
    """

    __slots__ = ()

    def waits_for(self, state: Mapping[str, int]) -> str:
        """What a window waits for whose trigger has these state columns, in words; each is called as its leaf calls it."""
        return f"for {self}"


@tagged("core.eventtime.triggers:EveryEpoch")
@dataclass(frozen=True, slots=True)
class EveryEpoch(Trigger):
    """Speak at the end of every epoch that brought rows. Never finishes."""


@tagged("core.eventtime.triggers:AfterWatermark")
@dataclass(frozen=True, slots=True)
class AfterWatermark(Trigger):
    """Speak when the watermark passes the end of the window; with ``early`` also before, with ``late`` also after.

    ``early`` and ``late`` start again whenever they have finished. Without ``late`` it finishes on time.
    """

    early: Trigger | None = None
    late: Trigger | None = None


@tagged("core.eventtime.triggers:AtPeriod")
@dataclass(frozen=True, slots=True)
class AtPeriod(Trigger):
    """Speak when processing time reaches the first multiple of a period after rows came. Finishes.

    Multiples count from ``aligned_to``; both in microseconds.
    """

    period: int
    aligned_to: int = 0


@tagged("core.eventtime.triggers:AfterCount")
@dataclass(frozen=True, slots=True)
class AfterCount(Trigger):
    """Speak after at least so many rows since the last time. Finishes."""

    count: int


@tagged("core.eventtime.triggers:AfterSum")
@dataclass(frozen=True, slots=True)
class AfterSum(Trigger):
    """Speak when a column of the rows since the last time adds up to a limit: bytes, say. Finishes."""

    input: str
    limit: int


@tagged("core.eventtime.triggers:Punctuation")
@dataclass(frozen=True, slots=True)
class Punctuation(Trigger):
    """Speak when a row comes in which a Boolean column is true. Finishes."""

    input: str


@tagged("core.eventtime.triggers:Pattern")
@dataclass(frozen=True, slots=True)
class Pattern(Trigger):
    """Speak when a row with ``start`` has come and after it one with ``stop``, in order of arrival. Finishes."""

    start: str
    stop: str


@tagged("core.eventtime.triggers:AfterPercentile")
@dataclass(frozen=True, slots=True)
class AfterPercentile(Trigger):
    """Speak when a watermark that waits for this share of the rows only passes the end of the window. Finishes."""

    share: float


@tagged("core.eventtime.triggers:Signal")
@dataclass(frozen=True, slots=True)
class Signal(Trigger):
    """Speak when told to from outside. Finishes."""


@tagged("core.eventtime.triggers:Custom")
@dataclass(frozen=True, slots=True)
class Custom(Trigger):
    """A user's trigger: four hooks over frames with a row per window that something has happened to.

    The frame has the columns of ``state`` (Int64, 0 at first) and ``rows``, ``end``, ``watermark`` and
    ``processing_time``. ``on_rows``, ``on_fire`` and ``on_merge`` return new state columns, ``should_fire`` a
    Boolean column. With a state column ``wake_at``, the window is looked at again when processing time reaches it.
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
    """Speak when one of the parts would; that finishes it."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:AllOf")
@dataclass(frozen=True, slots=True)
class AllOf(Trigger):
    """Speak when each of the parts would or would have; that finishes it."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:Sequence")
@dataclass(frozen=True, slots=True)
class Sequence(Trigger):
    """The parts one after the other, each until it finishes."""

    parts: tuple[Trigger, ...]


@tagged("core.eventtime.triggers:Repeat")
@dataclass(frozen=True, slots=True)
class Repeat(Trigger):
    """The part again and again. Never finishes."""

    part: Trigger


@tagged("core.eventtime.triggers:Until")
@dataclass(frozen=True, slots=True)
class Until(Trigger):
    """Fires as the part does until ``end`` would fire; then ``end`` fires, and both have finished."""

    part: Trigger
    end: Trigger


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """The triggers that this one is directly composed of."""
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
    """The trigger and all that it is composed of, each before its parts."""
    yield trigger
    for part in parts_of(trigger):
        yield from every_part(part)


def heeds_order(trigger: Trigger) -> bool:
    """Whether a part of it goes by the order in which rows come: a pattern, or the lags of a share of the rows."""
    return any(isinstance(part, AfterPercentile | Pattern) for part in every_part(trigger))


def finishes(trigger: Trigger) -> bool:
    """Whether the trigger may come to an end, after which it never fires again."""
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
    """Whether the trigger ends when the watermark passes the end of the window, and not before."""
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
    """Whether it comes to a point at which nothing but the watermark passing the end of the window makes it fire."""
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
